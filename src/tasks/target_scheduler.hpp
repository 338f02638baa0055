#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sealane/clock.hpp"

#include "tasks/circuit_breaker.hpp"
#include "tasks/task_executor.hpp"
#include "tasks/task_store.hpp"

namespace sealane {

/// A claimed task, and when its lease is over at the latest by our own clock.
struct HeldTask {
  ClaimedTask task;
  BootTime lease_until{};
  bool probe = false;  ///< of a target whose circuit breaker is half-open
};

/// How a target is doing, as one dispatcher sees it.
struct TargetHealth {
  BreakerState state = BreakerState::kClosed;
  bool paused = false;
  std::size_t in_flight = 0;
  std::uint64_t opened = 0;  ///< how often its breaker opened since the start
  std::string problem = {};  ///< of the last failure, while it is not closed
};

/// Divides the workers of a dispatcher over the targets that have due tasks, and keeps a circuit breaker for each
/// (bulkhead). Thread-safe.
///
/// The fair share of a target is `workers` divided by the number of targets with tasks due or in flight, and at least
/// one. Below its share a target may always begin another attempt, even when others hold all workers: nothing that is
/// under way is cancelled for it, so up to twice `workers` and one per target are in flight in the worst case. Above
/// its share a target may begin one while fewer than `workers` are in flight; so a target alone uses them all. Its
/// own `concurrency` is never exceeded.
class TargetScheduler {
 public:
  TargetScheduler(const TaskTargets& targets, std::size_t workers);

  const std::vector<std::string>& names() const { return names_; }

  /// What to claim now, at most `limit` together: tasks of targets that are known to have due ones, targets with the
  /// fewest attempts in flight first, then those that claimed longest ago.
  std::vector<TargetQuota> Quotas(BootTime now, std::size_t limit) const;
  /// In the order of names().
  void Learn(std::span<const TargetOutlook> outlooks, BootTime now);
  /// Attempts begin. A target that gave less than its quota has no further task that is due.
  std::vector<HeldTask> Claimed(std::span<const TargetQuota> asked, std::vector<ClaimedTask> claimed,
                                BootTime lease_until, BootTime now);
  /// An attempt has left a worker, and its end is written.
  void Left(const std::string& target);
  std::size_t in_flight() const;

  /// How the attempt went, before it is known what the task becomes. Returns when the next probe is, when the target
  /// is down and the attempt does not count.
  std::optional<std::chrono::milliseconds> Ended(const HeldTask& held, const AttemptReport& report, BootTime now);
  /// It was not sent.
  void Withdrawn(const HeldTask& held);

  /// Until something changes by itself: a task becomes due, or a probe. Empty: nothing is known to.
  std::optional<std::chrono::nanoseconds> NextChange(BootTime now) const;

  /// What operators have to be told, by target; empty: it is back. Each is given out once; NotTold() puts it back.
  std::map<std::string, std::optional<TargetOutage>> TakeNews(BootTime now);
  void NotTold(const std::string& target);
  /// Those that operators were told are down.
  std::vector<std::string> KnownDown() const;

  std::map<std::string, TargetHealth> health(BootTime now) const;

 private:
  struct Slot {
    std::size_t concurrency = 0;
    std::int32_t attempts_max = 0;
    CircuitBreaker breaker;
    std::size_t in_flight = 0;
    std::optional<BootTime> due_at = {};  ///< of its next task, as far as is known
    bool paused = false;
    std::uint64_t turn = 0;  ///< when it last claimed
    std::uint64_t opened = 0;
    std::string code = {};
    std::string problem = {};
    bool has_news = false;
    bool known_down = false;  ///< operators were told, or are being told
  };
  bool MayClaim(const Slot& slot, BootTime now) const;
  std::optional<std::chrono::milliseconds> Fail(Slot& slot, const HeldTask& held, const AttemptReport& report,
                                                BootTime now);

  const std::size_t workers_;
  std::vector<std::string> names_;

  mutable std::mutex mutex_;
  std::map<std::string, Slot> slots_;  // guarded by mutex_
  std::uint64_t turns_ = 0;            // guarded by mutex_
};

}  // namespace sealane
