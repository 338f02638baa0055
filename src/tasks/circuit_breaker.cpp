#include "tasks/circuit_breaker.hpp"

#include <algorithm>
#include <limits>

namespace sealane {

using std::chrono::milliseconds;

std::string_view ToString(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed:
      return "closed";
    case BreakerState::kOpen:
      return "open";
    case BreakerState::kHalfOpen:
      return "half-open";
  }
  return "?";
}

BreakerState CircuitBreaker::state(BootTime now) const {
  if (!open_until_) return BreakerState::kClosed;
  return now < *open_until_ ? BreakerState::kOpen : BreakerState::kHalfOpen;
}

bool CircuitBreaker::MayBegin(BootTime now) const {
  const BreakerState current = state(now);
  return current == BreakerState::kClosed || (current == BreakerState::kHalfOpen && !probing_);
}

bool CircuitBreaker::Begin(BootTime now) {
  if (state(now) == BreakerState::kClosed) return false;
  probing_ = true;
  return true;
}

bool CircuitBreaker::Succeeded() {
  const bool closed = open_until_.has_value();
  run_ = 0;
  probes_failed_ = 0;
  probing_ = false;
  open_until_.reset();
  return closed;
}

CircuitBreaker::Effect CircuitBreaker::Failed(const Failure& failure, BootTime now) {
  if (options_.failures <= 0) return {};
  run_ = std::min(run_, std::numeric_limits<std::int32_t>::max() - 1) + 1;
  if (open_until_) {
    // One that began before it opened says nothing new about the target.
    if (!failure.probe) return {.counts = false};
    probing_ = false;
    ++probes_failed_;
    open_until_ = now + Backoff(failure.retry_after);
    return {.counts = false};
  }
  const bool unanswered = failure.last_try && run_ >= failure.tries;
  if (run_ < options_.failures && !unanswered) return {};
  probes_failed_ = 0;
  open_until_ = now + Backoff(failure.retry_after);
  return {.counts = false, .opened = true};
}

milliseconds CircuitBreaker::Backoff(const std::optional<milliseconds>& retry_after) {
  milliseconds wait = options_.first;
  for (std::int32_t i = 0; i < probes_failed_ && wait < options_.max; ++i) wait *= 2;
  return std::max(std::min(wait, options_.max), retry_after.value_or(milliseconds{0}));
}

}  // namespace sealane
