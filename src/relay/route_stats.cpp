#include "relay/route_stats.hpp"

#include <array>

namespace sealane {
namespace {

constexpr std::array<std::string_view, 6> kStateNames = {"starting", "running",  "holding",
                                                         "paused",   "draining", "stopped"};

}  // namespace

std::string_view ToString(RelayState state) {
  return kStateNames.at(static_cast<std::size_t>(state));
}

}  // namespace sealane
