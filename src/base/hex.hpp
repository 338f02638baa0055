#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sealane {

/// Lower-case hexadecimal.
std::string ToHex(std::span<const std::uint8_t> bytes);
void AppendHex(std::string& out, std::string_view bytes);
/// Empty for an odd length or a character that is no hex digit.
std::optional<std::string> FromHex(std::string_view hex);

/// The 36-character form of a UUID, lower case.
void AppendUuid(std::string& out, std::span<const std::uint8_t, 16> bytes);

/// Standard base64 with padding.
std::string ToBase64(std::string_view bytes);
void AppendBase64(std::string& out, std::string_view bytes);
/// Empty for anything but canonical, padded base64.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace sealane
