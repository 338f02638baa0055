#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sealane {

/// Writes the members of a JSON object at the end of a buffer that others own, in the order of the calls. Text is
/// escaped; raw values are not looked at. Between Open() and Close() the buffer changes by these calls only.
///
/// Names are ours: printable ASCII without quote and backslash, written as they are. The two members with `Any` in
/// their name take names from outside, which are escaped.
class JsonAppender {
 public:
  explicit JsonAppender(std::string& out) : out_(out) {}

  void Open() { out_.push_back('{'); }
  void Text(std::string_view name, std::string_view value);
  /// Leaves the member out when the value is empty.
  void TextIfAny(std::string_view name, std::string_view value) {
    if (!value.empty()) Text(name, value);
  }
  void Integer(std::string_view name, std::int64_t value);
  /// `json` must be valid JSON; it is written byte for byte.
  void Raw(std::string_view name, std::string_view json);
  void AnyText(std::string_view any_name, std::string_view value);
  void AnyRaw(std::string_view any_name, std::string_view json);
  void Base64(std::string_view name, std::string_view bytes);
  /// An object as value: its members follow, then its own Close().
  void OpenInside(std::string_view name);
  void Close() { out_.push_back('}'); }

 private:
  void Name(std::string_view name) {
    // No value ends with an opening brace: behind one, this is the object's first member.
    out_ += out_.back() == '{' ? "\"" : ",\"";
    out_ += name;
    out_ += "\":";
  }
  void AnyName(std::string_view any_name);

  std::string& out_;
};

/// The same with a buffer of its own.
class JsonObject {
 public:
  explicit JsonObject(std::size_t expected_size = 256);

  void Text(std::string_view name, std::string_view value);
  /// Leaves the member out when the value is empty.
  void TextIfAny(std::string_view name, std::string_view value);
  void Integer(std::string_view name, std::int64_t value);
  /// `json` must be valid JSON; it is written byte for byte.
  void Raw(std::string_view name, std::string_view json);

  bool empty() const { return text_.size() == 1; }
  std::string Close() &&;

 private:
  std::string text_;
};

}  // namespace sealane
