#include "relay/judge.hpp"

namespace sealane {

Verdict Judge(const Delivery& delivery, std::int32_t attempts, const FailurePolicy& policy, Random& random) {
  using enum Verdict::Kind;
  if (delivery.status == DeliveryStatus::kPersisted) return {.kind = kDone};
  switch (delivery.failure) {
    case FailureClass::kOutage:
    case FailureClass::kMisconfigured:
      return {.kind = kResend};
    case FailureClass::kForbidden:
    case FailureClass::kRetry: {
      const RetryPolicy& retry = delivery.failure == FailureClass::kRetry ? policy.retry : policy.forbidden;
      const auto wait = retry.DelayAfter(attempts, random);
      if (!wait) return {.kind = kPark, .state = ParkedState::kDead};
      return {.kind = kPark, .state = ParkedState::kFailed, .retry_after = wait};
    }
    case FailureClass::kTopicMissing:
      return {.kind = kWait};
    case FailureClass::kRejected:
      break;
  }
  return {.kind = kPark, .state = ParkedState::kDead};
}

}  // namespace sealane
