#include "core/lane.hpp"

#include "base/sha256.hpp"

namespace sealane {

std::uint16_t LaneHash(std::string_view key) {
  const Sha256Digest digest = Sha256(key);
  return static_cast<std::uint16_t>(digest[0] << 8 | digest[1]);
}

}  // namespace sealane
