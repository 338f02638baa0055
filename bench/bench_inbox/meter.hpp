#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "common/lap.hpp"
#include "common/stopwatch.hpp"

namespace sealane::bench {

/// Measures from the first effect to the last commit: connecting and joining a group are not what is compared.
class Meter {
 public:
  /// At the start of every effect; only the first one counts.
  void Begin() {
    if (begun_.exchange(true)) return;
    watch_.emplace();
    cpu_ = CpuSeconds();
    ready_ = true;
  }
  Lap End(std::size_t events) const {
    while (!ready_) continue;
    const double cpu_us = (CpuSeconds() - cpu_) * 1e6 / static_cast<double>(events);
    return {watch_->RateOf(events), cpu_us, PeakMemoryMib()};
  }

 private:
  std::atomic<bool> begun_ = false;
  std::atomic<bool> ready_ = false;
  std::optional<Stopwatch> watch_;
  double cpu_ = 0;
};

}  // namespace sealane::bench
