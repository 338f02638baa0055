#include "core/json_object.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/hex.hpp"
#include "base/json_text.hpp"

namespace sealane {

void JsonAppender::Text(std::string_view name, std::string_view value) {
  Name(name);
  AppendJsonString(out_, value);
}

void JsonAppender::Integer(std::string_view name, std::int64_t value) {
  Name(name);
  std::array<char, std::numeric_limits<std::int64_t>::digits10 + 2> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out_.append(digits.data(), end);
}

void JsonAppender::Raw(std::string_view name, std::string_view json) {
  Name(name);
  out_ += json;
}

void JsonAppender::Base64(std::string_view name, std::string_view bytes) {
  Name(name);
  out_.push_back('"');
  AppendBase64(out_, bytes);
  out_.push_back('"');
}

void JsonAppender::OpenInside(std::string_view name) {
  Name(name);
  Open();
}

void JsonAppender::AnyText(std::string_view any_name, std::string_view value) {
  AnyName(any_name);
  AppendJsonString(out_, value);
}

void JsonAppender::AnyRaw(std::string_view any_name, std::string_view json) {
  AnyName(any_name);
  out_ += json;
}

void JsonAppender::AnyName(std::string_view any_name) {
  if (out_.back() != '{') out_.push_back(',');
  AppendJsonString(out_, any_name);
  out_.push_back(':');
}

JsonObject::JsonObject(std::size_t expected_size) {
  text_.reserve(expected_size);
  JsonAppender(text_).Open();
}

void JsonObject::Text(std::string_view name, std::string_view value) {
  JsonAppender(text_).AnyText(name, value);
}

void JsonObject::TextIfAny(std::string_view name, std::string_view value) {
  if (!value.empty()) Text(name, value);
}

void JsonObject::Integer(std::string_view name, std::int64_t value) {
  Raw(name, std::to_string(value));
}

void JsonObject::Raw(std::string_view name, std::string_view json) {
  JsonAppender(text_).AnyRaw(name, json);
}

std::string JsonObject::Close() && {
  JsonAppender(text_).Close();
  return std::move(text_);
}

}  // namespace sealane
