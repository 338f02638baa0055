#include "core/retry_policy.hpp"

#include <algorithm>
#include <cmath>

namespace sealane {

using std::chrono::milliseconds;

std::optional<milliseconds> RetryPolicy::DelayAfter(std::int32_t attempts, Random& random) const {
  if (attempts_max > 0 && attempts >= attempts_max) return std::nullopt;
  // In doubles, because 2^n overflows long before anybody stops trying.
  const double grown = static_cast<double>(first.count()) * std::pow(factor, std::max(attempts, 1) - 1);
  const double capped = std::min(grown, static_cast<double>(max.count()));
  constexpr std::uint64_t kSteps = 1'000'000;
  const double share = static_cast<double>(random.Below(kSteps)) / static_cast<double>(kSteps);
  return milliseconds{std::max<milliseconds::rep>(1, std::llround(capped * (1.0 - jitter * share)))};
}

std::optional<RetryPolicy> RetryPreset(std::string_view name) {
  if (name == "patient") return RetryPolicy{};
  if (name == "brief") {
    return RetryPolicy{
        .first = milliseconds{100}, .factor = 2.0, .max = milliseconds{1'600}, .jitter = 0.0, .attempts_max = 5};
  }
  if (name == "payments") {
    return RetryPolicy{.first = milliseconds{1'000},
                       .factor = 2.0,
                       .max = milliseconds{3'600'000},
                       .jitter = 0.5,
                       .attempts_max = 12};
  }
  return std::nullopt;
}

}  // namespace sealane
