#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tasks/task_board.hpp"
#include "tasks/task_dispatcher.hpp"

namespace sealane {

/// What the workers of a dispatcher share.
struct TaskWorkplace {
  TaskDispatcherOptions options;
  TaskTargets targets;
  OpenTaskStore open_store;
  const Outbox& outbox;
  Clock& clock;
  Random& random;
  std::vector<std::string> names = {};   ///< of the targets
  std::chrono::milliseconds lease = {};  ///< of every claim
  TaskBoard board = {};
};

/// A claimed task, and when its lease is over at the latest by our own clock.
struct HeldTask {
  ClaimedTask task;
  BootTime lease_until{};
};

/// An attempt whose end is to be written down.
struct EndedAttempt {
  HeldTask held;
  AttemptReport report;
  TaskStep step;
  bool given_back = false;     ///< nothing was sent: the claim is given back instead
  bool maybe_written = false;  ///< the answer to an earlier try was lost
};

/// One worker with a connection of its own, opened when it is needed and again after it broke. Not thread-safe.
class TaskWorker {
 public:
  explicit TaskWorker(TaskWorkplace& place) : place_(place) {}

  /// Claims one task; empty: nothing is due.
  Result<std::optional<HeldTask>> Claim();
  /// How long until something is due; empty: nothing waits.
  Result<std::optional<std::chrono::milliseconds>> NextDue();
  /// Counts what waits, for the board.
  Status Count();
  /// Forgets some of what is long over. Returns whether there is more.
  Result<bool> Prune();

  /// Makes the attempt, unless the lease could end during it: then the task is given back. No connection is used
  /// meanwhile.
  EndedAttempt CarryOut(HeldTask held, std::stop_token stop);
  /// Writes the end down. kFenced is taken note of and is no error here. After an error that MayPass() it can be
  /// tried again; the other errors stay as they are.
  Status WriteDown(EndedAttempt& ended);
  static bool MayPass(const Error& error);

 private:
  Result<TaskStore*> Store();
  /// Forgets a connection that is of no use any more.
  template <class T>
  Result<T> Noted(Result<T> result);
  /// Whether an attempt that begins now could go on after the lease.
  bool IsTooLate(const HeldTask& held, const TaskExecutor& executor) const;
  AttemptReport Execute(const HeldTask& held, TaskExecutor& executor, std::stop_token stop) const;
  std::optional<NewEntry> EventOf(const ClaimedTask& task, const AttemptReport& report, TaskState state) const;

  TaskWorkplace& place_;
  std::unique_ptr<TaskStore> store_;
};

}  // namespace sealane
