#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sealane {

/// Writes a JSON object member by member, in the order of the calls. Names and text are escaped; raw values are not
/// looked at.
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
  void Name(std::string_view name);
  void Quoted(std::string_view text);

  std::string text_;
};

}  // namespace sealane
