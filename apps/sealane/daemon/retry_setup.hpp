#pragma once

#include "config/settings.hpp"
#include "core/retry_policy.hpp"

namespace sealane::cli {

/// Where a section keeps how it tries again.
struct RetryKeys {
  Key preset;
  Key first;
  Key factor;
  Key max;
  Key jitter;
  Key attempts;
};

/// The preset, with what the section sets besides.
RetryPolicy RetryOf(const Settings& section, const RetryKeys& keys);

}  // namespace sealane::cli
