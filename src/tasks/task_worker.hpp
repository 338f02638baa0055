#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

#include "tasks/target_scheduler.hpp"
#include "tasks/task_board.hpp"
#include "tasks/task_dispatcher.hpp"

namespace sealane {

/// Connections of a dispatcher, opened when they are needed. Attempts use none, so that a target that hangs holds no
/// connection. Thread-safe.
class TaskStorePool {
 public:
  /// At most `most` are out at a time: who needs another one waits.
  TaskStorePool(OpenTaskStore open, std::size_t most) : open_(std::move(open)), most_(most) {}

  Result<std::unique_ptr<TaskStore>> Take();
  /// Null: it broke.
  void GiveBack(std::unique_ptr<TaskStore> store);

 private:
  OpenTaskStore open_;
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<TaskStore>> idle_;  // guarded by mutex_
  std::size_t out_ = 0;                           // guarded by mutex_
};

/// What the workers of a dispatcher share.
struct TaskWorkplace {
  TaskWorkplace(TaskDispatcherOptions wanted, TaskTargets served, OpenTaskStore open_store, const Outbox& events,
                Clock& time, Random& chance);

  TaskDispatcherOptions options;
  TaskTargets targets;
  const Outbox& outbox;
  Clock& clock;
  Random& random;
  std::chrono::milliseconds lease = {};  ///< of every claim
  TargetScheduler scheduler;
  TaskStorePool stores;
  TaskBoard board = {};
};

/// An attempt whose end is to be written down.
struct EndedAttempt {
  HeldTask held;
  AttemptReport report;
  TaskStep step;
  bool given_back = false;     ///< nothing was sent: the claim is given back instead
  bool maybe_written = false;  ///< the answer to an earlier try was lost
};

/// What a dispatcher does, step by step. Thread-safe: the state is in the workplace.
class TaskWorker {
 public:
  explicit TaskWorker(TaskWorkplace& place) : place_(place) {}

  /// Asks what waits, for the scheduler.
  Status LookAhead();
  /// Claims what the scheduler says, at most `limit`.
  Result<std::vector<HeldTask>> Claim(std::size_t limit);
  /// Counts what waits, for the board.
  Status Count();
  /// Forgets some of what is long over. Returns whether there is more.
  Result<bool> Prune();
  /// Tells operators which targets went down or came back. What cannot be told now is told later.
  void TellNews();
  /// At the end: what this dispatcher said about targets is over.
  void WithdrawNews();

  /// Makes the attempt, unless the lease could end during it: then the task is given back. No connection is used
  /// meanwhile.
  EndedAttempt CarryOut(HeldTask held, std::stop_token stop);
  /// Writes the end down. kFenced is taken note of and is no error here. After an error that MayPass() it can be
  /// tried again; the other errors stay as they are.
  Status WriteDown(EndedAttempt& ended);
  static bool MayPass(const Error& error);

 private:
  /// Calls `use` with a connection, and forgets one that is of no use any more.
  template <class Use>
  auto With(Use use) -> std::invoke_result_t<Use, TaskStore&>;
  /// Whether an attempt that begins now could go on after the lease.
  bool IsTooLate(const HeldTask& held, const TaskExecutor& executor) const;
  AttemptReport Execute(const HeldTask& held, TaskExecutor& executor, std::stop_token stop) const;
  std::optional<NewEntry> EventOf(const ClaimedTask& task, const AttemptReport& report, TaskState state) const;

  TaskWorkplace& place_;
};

}  // namespace sealane
