#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sealane {

using Sha256Digest = std::array<std::uint8_t, 32>;
Sha256Digest Sha256(std::string_view bytes);

}  // namespace sealane
