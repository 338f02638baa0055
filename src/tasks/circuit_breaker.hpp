#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sealane/clock.hpp"

namespace sealane {

struct BreakerOptions {
  std::int32_t failures = 5;               ///< consecutive failures that open it; 0: it never opens
  std::chrono::milliseconds first{1'000};  ///< from opening to the first probe; doubles with every probe that fails
  std::chrono::milliseconds max{60'000};   ///< no backoff is longer, unless the target asks for it
};

enum class BreakerState : std::uint8_t {
  kClosed,    ///< attempts are made
  kOpen,      ///< the target is down: none is made
  kHalfOpen,  ///< one probe is made, or waits for a task that is due
};
/// `closed`, `open`, `half-open`.
std::string_view ToString(BreakerState state);

/// Stops attempts at one target while it is down, and finds out when it is back. Any answer that does not say that
/// the target is down closes it. Not thread-safe.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(BreakerOptions options = {}) : options_(options) {}

  BreakerState state(BootTime now) const;
  /// Whether an attempt may begin: always when closed, one at a time when half-open.
  bool MayBegin(BootTime now) const;
  /// Notes that an attempt begins. True: it is the probe.
  bool Begin(BootTime now);
  /// The probe was not sent: another one may begin.
  void WithdrawProbe() { probing_ = false; }

  /// True when this closed it.
  bool Succeeded();

  struct Failure {
    bool probe = false;
    std::int32_t tries = 1;                                     ///< of the task, with this one
    bool last_try = false;                                      ///< its policy allows no further one
    std::optional<std::chrono::milliseconds> retry_after = {};  ///< the target asked for this wait
  };
  struct Effect {
    bool counts = true;   ///< against the task; false: it is the target's failure
    bool opened = false;  ///< this one opened it
  };
  /// The target was down. Opens after so many in a row, and earlier when the task has used up its tries and the
  /// target has answered to none of them: a task does not die because its target is away.
  Effect Failed(const Failure& failure, BootTime now);

  /// When the next probe may begin; of no meaning when closed.
  BootTime next_probe() const { return open_until_.value_or(BootTime{}); }
  /// Failures since the last answer.
  std::int32_t failures() const { return run_; }

 private:
  std::chrono::milliseconds Backoff(const std::optional<std::chrono::milliseconds>& retry_after);

  BreakerOptions options_;
  std::int32_t run_ = 0;
  std::int32_t probes_failed_ = 0;
  bool probing_ = false;
  std::optional<BootTime> open_until_ = {};
};

}  // namespace sealane
