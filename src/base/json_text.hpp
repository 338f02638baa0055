#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sealane {

/// `text` as a JSON string, quotes included: valid JSON whatever the bytes are.
///
/// Control characters, DEL and the line separators U+2028/2029 are escaped; each byte that is not part of valid UTF-8
/// becomes U+FFFD. Bytes that must survive are shipped as base64 instead.
std::string JsonString(std::string_view text);
/// The same at the end of `out`. Text that needs no escape is copied whole.
void AppendJsonString(std::string& out, std::string_view text);

/// Appends `text` as a JSON string of at most `budget` bytes, quotes included. Returns false when it had to be cut;
/// what was appended is a complete JSON string all the same. `budget` must be 2 or more.
bool AppendJsonString(std::string& out, std::string_view text, std::size_t budget);

}  // namespace sealane
