#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sealane {

/// Lower-case hexadecimal.
std::string ToHex(std::span<const std::uint8_t> bytes);
/// Empty for an odd length or a character that is no hex digit.
std::optional<std::string> FromHex(std::string_view hex);

/// Standard base64 with padding.
std::string ToBase64(std::string_view bytes);
/// Empty for anything but canonical, padded base64.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace sealane
