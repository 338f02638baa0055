#include "daemon/retry_setup.hpp"

namespace sealane::cli {

RetryPolicy RetryOf(const Settings& section, const RetryKeys& keys) {
  RetryPolicy policy = *RetryPreset(section.Text(keys.preset));
  if (section.Has(keys.first)) policy.first = section.Duration(keys.first);
  if (section.Has(keys.factor)) policy.factor = section.Decimal(keys.factor);
  if (section.Has(keys.max)) policy.max = section.Duration(keys.max);
  if (section.Has(keys.jitter)) policy.jitter = section.Decimal(keys.jitter);
  if (section.Has(keys.attempts)) policy.attempts_max = static_cast<std::int32_t>(section.Integer(keys.attempts));
  return policy;
}

}  // namespace sealane::cli
