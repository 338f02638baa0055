#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sealane/random.hpp"

namespace sealane {

/// When to try again, and when to give up. A value; the attempt counter is kept by whoever tries.
struct RetryPolicy {
  std::chrono::milliseconds first{1'000};  ///< before the second attempt
  double factor = 2.0;                     ///< each further wait is this much longer
  std::chrono::milliseconds max{300'000};  ///< no wait is longer
  double jitter = 0.5;                     ///< a wait is shortened at random by up to this share
  std::int32_t attempts_max = 10;          ///< 0: without limit

  /// The wait after `attempts` failed attempts (1, 2, ...); empty: give up. Never zero, never above max.
  std::optional<std::chrono::milliseconds> DelayAfter(std::int32_t attempts, Random& random) const;

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

/// `patient` (2^n s up to 5 min, jitter), `brief` (100 ms to 1.6 s, 5 attempts), `payments` (1 s to 1 h, 12 attempts,
/// jitter): ready-made policies by name.
std::optional<RetryPolicy> RetryPreset(std::string_view name);

}  // namespace sealane
