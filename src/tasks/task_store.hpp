#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

/// How many tasks of a target may be claimed.
struct TargetQuota {
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  TargetQuota(std::string name, std::size_t most = kNoLimit) : target(std::move(name)), limit(most) {}
  TargetQuota(const char* name) : target(name) {}

  std::string target;
  std::size_t limit = kNoLimit;
};

struct TaskClaim {
  std::string owner;                  ///< who claims, for people
  std::vector<TargetQuota> targets;   ///< only tasks for these, and of each not more than its quota; each named once
  std::size_t limit = 1;              ///< of all together
  std::chrono::milliseconds lease{};  ///< by the store's clock; longer than an attempt can take
};

/// What an attempt leads to.
struct TaskStep {
  TaskState state = TaskState::kSucceeded;                    ///< kSucceeded, kFailed, kDead
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< with kFailed: from now, by the store's clock
  std::optional<NewEntry> event = {};                         ///< for the store's outbox, committed with it
  bool counts = true;  ///< with kFailed, false: the target was down, and the policy does not count this try
};

/// What a target's tasks wait for.
struct TargetOutlook {
  /// Until the next task is due; zero: now; empty: none waits. Paused or not.
  std::optional<std::chrono::milliseconds> due_in = {};
  bool paused = false;  ///< by an operator: none of its tasks is claimed

  friend bool operator==(const TargetOutlook&, const TargetOutlook&) = default;
};

/// A target that a dispatcher found to be down, for operators.
struct TargetOutage {
  std::chrono::milliseconds next_probe_in{};  ///< from now, by the store's clock
  std::int32_t failures = 0;                  ///< since its last answer
  std::string code = {};                      ///< of the last failure
  std::string message = {};
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
  /// the same tenant and target has that is not over (SUCCEEDED or DISCARDED) is not due. Tasks of a target that is
  /// paused are not claimed. Dispatchers side by side never get the same one, and do not wait for each other. The
  /// attempt of a lease that ended is closed as `interrupted`.
  virtual Result<std::vector<ClaimedTask>> Claim(const TaskClaim& claim) = 0;

  /// Closes the attempt, moves the task on and appends the event, in one transaction. kFenced (`task_fenced`) when
  /// somebody has claimed it since or a person has decided: nothing is written then but the end of this
  /// attempt, for the record.
  virtual Status Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) = 0;

  /// Gives back what was claimed and not begun, as if it had never been claimed. Those that are fenced are passed
  /// over, so whoever does not know whether it worked says it again.
  virtual Status Release(std::span<const ClaimedTask> claimed) = 0;

  /// What the tasks of these targets wait for, in the order of the names. Writes nothing, and reads one task of each.
  virtual Result<std::vector<TargetOutlook>> Outlook(std::span<const std::string> targets) = 0;

  /// Tells operators that this dispatcher finds a target down; empty: not any more. What a dispatcher that died has
  /// said is forgotten kOutageKept after the probe that it announced.
  virtual Status ReportOutage(std::string_view owner, std::string_view target,
                              const std::optional<TargetOutage>& outage) = 0;
  static constexpr std::chrono::minutes kOutageKept{15};

  virtual Result<TaskCounts> Count() = 0;

  /// Forgets SUCCEEDED and DISCARDED tasks for these targets that ended more than `age` ago by the store's clock,
  /// with their attempts; at most `limit`. No targets: nothing. A task enqueued again after that is a new one, so the
  /// time is never the caller's: a caller whose clock is ahead would have the same call sent twice.
  virtual Result<std::int64_t> Prune(std::span<const std::string> targets, std::chrono::milliseconds age,
                                     std::size_t limit) = 0;
};

/// When the first of them is due, paused ones left out; empty: none waits.
std::optional<std::chrono::milliseconds> FirstDue(std::span<const TargetOutlook> outlooks);

using OpenTaskStore = std::function<Result<std::unique_ptr<TaskStore>>()>;

}  // namespace sealane
