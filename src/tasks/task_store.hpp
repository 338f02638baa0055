#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"
#include "sealane/task.hpp"
#include "sealane/transaction.hpp"

#include "tasks/task_attempt.hpp"

namespace sealane {

/// Life of a task.
enum class TaskState : std::uint8_t {
  kPending,    ///< waits for its first attempt
  kSending,    ///< an attempt is under way, or its dispatcher died in it
  kFailed,     ///< will be tried again
  kSucceeded,  ///< done
  kDead,       ///< waits for a person
  kDiscarded,  ///< given up by a person
};
/// `PENDING`, `SENDING`, `FAILED`, `SUCCEEDED`, `DEAD`, `DISCARDED`.
std::string_view ToString(TaskState state);
std::optional<TaskState> ParseTaskState(std::string_view text);

/// A task that is ours to carry out until the lease ends. The attempt is counted and written down already: a crash
/// leaves it behind as begun and not finished.
struct ClaimedTask {
  EventId id;
  Task task;
  std::string request_hash;
  std::int64_t claim = 0;    ///< 1, 2, ... over its whole life, never the same again; the fencing token
  std::int32_t attempt = 0;  ///< 1, 2, ... over its whole life; that of a claim that was given back comes again
  std::int32_t tries = 0;    ///< the same since a person last asked for a retry; what the policy counts
  bool in_doubt = false;     ///< an earlier attempt may have taken effect without our knowing
  Timestamp created_at{};
};

struct TaskClaim {
  std::string owner;                 ///< who claims, for people
  std::vector<std::string> targets;  ///< only tasks for these
  std::size_t limit = 1;
  std::chrono::milliseconds lease{};  ///< by the store's clock; longer than an attempt can take
};

/// What an attempt leads to.
struct TaskStep {
  TaskState state = TaskState::kSucceeded;                    ///< kSucceeded, kFailed, kDead
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< with kFailed: from now, by the store's clock
  std::optional<NewEntry> event = {};                         ///< for the store's outbox, committed with it
};

struct TaskCounts {
  std::int64_t pending = 0;  ///< each bounded by kCountMax
  std::int64_t sending = 0;
  std::int64_t failed = 0;
  std::int64_t dead = 0;
  std::optional<Timestamp> oldest_waiting_at = {};  ///< created_at of the oldest that is PENDING or FAILED
  static constexpr std::int64_t kCountMax = 100'000;
};

/// Port: the tasks in one store, for a dispatcher. One connection, not thread-safe. Errors of kind kUnavailable mean:
/// the connection is gone, open a new one.
class TaskStore {
 public:
  virtual ~TaskStore() = default;

  /// Takes tasks that are due (PENDING or FAILED and their time has come, or SENDING with an ended lease), longest
  /// due first, marks them SENDING, begins an attempt for each, and commits. A task whose order key an earlier one of
  /// the same tenant and target has that is not over (SUCCEEDED or DISCARDED) is not due. Dispatchers side by side
  /// never get the same one, and do not wait for each other. The attempt of a lease that ended is closed as
  /// `interrupted`.
  virtual Result<std::vector<ClaimedTask>> Claim(const TaskClaim& claim) = 0;

  /// Closes the attempt, moves the task on and appends the event, in one transaction. kFenced (`task_fenced`) when
  /// somebody has claimed it since or a person has decided: nothing is written then but the end of this
  /// attempt, for the record.
  virtual Status Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) = 0;

  /// Gives back what was claimed and not begun, as if it had never been claimed. Those that are fenced are passed
  /// over, so whoever does not know whether it worked says it again.
  virtual Status Release(std::span<const ClaimedTask> claimed) = 0;

  /// How long until something for these targets is due; zero: now; empty: nothing waits.
  virtual Result<std::optional<std::chrono::milliseconds>> NextDue(std::span<const std::string> targets) = 0;

  virtual Result<TaskCounts> Count() = 0;

  /// Forgets SUCCEEDED and DISCARDED tasks for these targets that ended more than `age` ago by the store's clock,
  /// with their attempts; at most `limit`. No targets: nothing. A task enqueued again after that is a new one, so the
  /// time is never the caller's: a caller whose clock is ahead would have the same call sent twice.
  virtual Result<std::int64_t> Prune(std::span<const std::string> targets, std::chrono::milliseconds age,
                                     std::size_t limit) = 0;
};

using OpenTaskStore = std::function<Result<std::unique_ptr<TaskStore>>()>;

}  // namespace sealane
