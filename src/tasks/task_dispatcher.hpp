#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "sealane/clock.hpp"
#include "sealane/outbox.hpp"
#include "sealane/random.hpp"
#include "sealane/result.hpp"

#include "core/histogram.hpp"
#include "tasks/target_scheduler.hpp"
#include "tasks/task_executor.hpp"
#include "tasks/task_store.hpp"

namespace sealane {

struct TaskDispatcherOptions {
  std::string name;                                ///< who claims, for people: host and pid
  std::size_t workers = 8;                         ///< attempts side by side, divided over the targets
  std::chrono::milliseconds lease_margin{10'000};  ///< a lease is the longest attempt and this
  std::chrono::milliseconds idle_min{50};          ///< between looks when nothing is due, growing to
  std::chrono::milliseconds idle_max{1'000};       ///< also how long a pause or resume by an operator goes unnoticed
  std::chrono::milliseconds outage_retry{1'000};   ///< between tries to open the store
  std::chrono::milliseconds tend_interval{60'000};
  /// Of ended tasks for its targets, by the store's clock; empty: for ever.
  std::optional<std::chrono::milliseconds> retention = std::chrono::hours{24 * 90};
  std::size_t result_response_max = std::size_t{64} << 10U;  ///< how much of a response a result event carries
};

/// A target's share, since the start.
struct TaskTargetStats {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;   ///< attempts that will be repeated
  std::uint64_t unknown = 0;  ///< attempts that may have taken effect, repeated or not
  std::uint64_t dead = 0;
  Histogram seconds;  ///< of attempts
  TargetHealth health = {};
};

struct TaskDispatcherStats {
  std::map<std::string, TaskTargetStats> targets = {};
  std::uint64_t fenced = 0;  ///< attempts whose end came too late
  std::size_t under_way = 0;
  TaskCounts waiting = {};  ///< as of the last look
  bool store_reached = false;
  std::string problem = {};  ///< what is in the way; empty: nothing
};

struct TaskDispatchReport {
  std::size_t claimed = 0;
  std::size_t finished = 0;
  bool idle() const { return claimed == 0 && finished == 0; }
};

/// Carries out the tasks of a store. Any number of dispatchers work side by side; one may die at any moment, its
/// tasks are taken over when their leases end and are sent again with the same key. No transaction is open during an
/// attempt, and none begins that could last longer than its lease.
///
/// After an attempt: succeeded, or again when the target's policy says so (a wait that the receiver asked for counts
/// at least), or dead: refused, in doubt where the target says so, or the policy's attempts are used up. A task whose
/// last allowed attempt was interrupted is dead without a further one (`attempts_exhausted`). The end of a task with
/// a result topic is told in an event (tasks/result_event.hpp), committed with it.
///
/// The workers are divided over the targets with due tasks (tasks/target_scheduler.hpp), so one that hangs takes no
/// more than its share. A target that is down is left alone but for probes (tasks/circuit_breaker.hpp); attempts that
/// find it down do not count against their tasks. Tasks of a target that an operator has paused are not claimed.
class TaskDispatcher {
 public:
  /// Nothing is opened yet. `clock` and `random` must outlive it.
  TaskDispatcher(TaskDispatcherOptions options, TaskTargets targets, OpenTaskStore open_store, const Outbox& outbox,
                 Clock& clock, Random& random);
  ~TaskDispatcher();

  /// Claims one task and carries it out in the caller's thread. Do not mix with Run().
  Result<TaskDispatchReport> RunOnce();

  /// Works until a stop is requested or, with `until_drained`, until nothing is under way or due but for tasks of
  /// targets that are paused or down. Attempts under way are finished first. An unreachable store does not end it:
  /// stats() says why.
  Status Run(std::stop_token stop, bool until_drained = false);

  /// Thread-safe.
  TaskDispatcherStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sealane
