#include "core/json_object.hpp"

#include <algorithm>

#include "base/json_text.hpp"

namespace sealane {

JsonObject::JsonObject(std::size_t expected_size) {
  text_.reserve(expected_size);
  text_.push_back('{');
}

void JsonObject::Text(std::string_view name, std::string_view value) {
  Name(name);
  Quoted(value);
}

void JsonObject::TextIfAny(std::string_view name, std::string_view value) {
  if (!value.empty()) Text(name, value);
}

void JsonObject::Integer(std::string_view name, std::int64_t value) {
  Raw(name, std::to_string(value));
}

void JsonObject::Raw(std::string_view name, std::string_view json) {
  Name(name);
  text_ += json;
}

std::string JsonObject::Close() && {
  text_.push_back('}');
  return std::move(text_);
}

void JsonObject::Name(std::string_view name) {
  if (!empty()) text_.push_back(',');
  Quoted(name);
  text_.push_back(':');
}

void JsonObject::Quoted(std::string_view text) {
  // Nearly all ids, names and times are printable ASCII: those are copied whole.
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (!plain) {
    text_ += JsonString(text);
    return;
  }
  text_.push_back('"');
  text_ += text;
  text_.push_back('"');
}

}  // namespace sealane
