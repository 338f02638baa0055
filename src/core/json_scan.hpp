#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane {

/// How deep objects and arrays may nest. A bound of our own, because many readers down the line have none and crash.
inline constexpr int kJsonDepthMax = 64;

enum class JsonType : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
/// `null`, `boolean`, `number`, ...: for messages.
std::string_view ToString(JsonType type);

/// One value inside a JSON text, as the bytes it was written with. Points into that text.
struct JsonSlice {
  std::string_view bytes;  ///< without the whitespace around it
  std::size_t offset = 0;  ///< of the first byte in the whole text, for messages
  JsonType type = JsonType::kNull;
};

/// Checks that `text` is one JSON value (RFC 8259) with nothing but whitespace around it, and finds that value.
///
/// Nothing is converted: numbers of any length, doubled names and their order stay as they are, in the bytes. Strict
/// where the RFC is: UTF-8 only, no byte order mark, no comments, no control characters in strings. A `\u` escape of
/// half a surrogate pair is well-formed by the RFC's grammar and is accepted here; DecodeJsonString() refuses it.
///
/// Errors are kRejected (`invalid_json`) and say at which byte what was expected.
Result<JsonSlice> ScanJson(std::string_view text, int depth_max = kJsonDepthMax);

/// One `"name": value` of an object.
struct JsonMember {
  std::string name;  ///< decoded
  std::size_t name_offset = 0;
  JsonSlice value;
  std::string_view
      span;  ///< everything between the colon and the comma or brace after the value, whitespace included
};

/// Walks over the members of an object in the order they are written. A doubled name comes twice.
///
///     JsonMembers members(object);
///     while (true) {
///       SEALANE_ASSIGN_OR_RETURN(auto member, members.Next());
///       if (!member) break;
///       ...
///     }
class JsonMembers {
 public:
  /// `object` is a slice of type kObject that ScanJson() or another walk produced.
  explicit JsonMembers(const JsonSlice& object);
  /// Empty after the last one. Fails only for a name that is not text (half a surrogate pair).
  Result<std::optional<JsonMember>> Next();

 private:
  JsonSlice object_;
  std::size_t at_ = 1;
};

/// The UTF-8 text that a string slice stands for. NUL (`\u0000`) is decoded; half a surrogate pair is an error.
Result<std::string> DecodeJsonString(const JsonSlice& slice);
/// The number that a slice stands for. A fraction, an exponent or more than 64 bits is an error: nothing is rounded.
Result<std::int64_t> DecodeJsonInteger(const JsonSlice& slice);

}  // namespace sealane
