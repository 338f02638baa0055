#include "relay/relay_stats.hpp"

#include <algorithm>
#include <array>

namespace sealane {
namespace {

constexpr std::array<std::string_view, 6> kStateNames = {"starting", "running",  "holding",
                                                         "paused",   "draining", "stopped"};

}  // namespace

std::string_view ToString(RelayState state) {
  return kStateNames.at(static_cast<std::size_t>(state));
}

void Histogram::Add(double seconds) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++counts[static_cast<std::size_t>(bucket)];
  ++total;
  sum += seconds;
}

}  // namespace sealane
