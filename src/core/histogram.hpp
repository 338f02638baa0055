#pragma once

#include <array>
#include <cstdint>

namespace sealane {

/// Counts of seconds in buckets with fixed upper bounds, the last without one.
struct Histogram {
  static constexpr std::array<double, 14> kBounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                     0.1,    0.25,  0.5,    1,     5,    30,    300};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};
  std::uint64_t total = 0;
  double sum = 0;

  void Add(double seconds);
};

}  // namespace sealane
