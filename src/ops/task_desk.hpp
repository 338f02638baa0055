#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/event_id.hpp"
#include "sealane/result.hpp"
#include "sealane/task.hpp"

#include "ops/operator_action.hpp"
#include "tasks/task_store.hpp"

namespace sealane {

/// A task, as an operator sees it. The request and the response are shown by Find() alone.
struct TaskSummary {
  EventId id;
  TaskState state = TaskState::kPending;
  std::string tenant;
  std::string target;
  std::string operation;
  std::string idempotency_key;
  std::int32_t attempts = 0;
  Timestamp created_at{};
  std::optional<Timestamp> next_attempt_at = {};  ///< PENDING and FAILED; SENDING: when its lease ends
  std::optional<Timestamp> ended_at = {};
  std::optional<std::int32_t> status = {};  ///< of the last answer
  std::string error_code = {};              ///< of the last attempt
  std::string error_message = {};
};

struct TaskAttempt {
  std::int32_t number = 0;
  std::string owner;
  Timestamp started_at{};
  std::optional<Timestamp> ended_at = {};  ///< empty: under way, or its dispatcher died
  std::optional<AttemptReport> report = {};
};

struct TaskDetails {
  TaskSummary summary;
  Task task;
  std::string request_hash;
  std::vector<TaskAttempt> attempts;  ///< the newest kAttemptsMax, oldest first
  static constexpr std::size_t kAttemptsMax = 100;
};

struct TaskFilter {
  std::optional<TaskState> state = {};
  std::optional<std::string> target = {};
  std::optional<std::string> operation = {};
  std::optional<std::string> tenant = {};
  std::optional<std::string> idempotency_key = {};
  std::optional<std::string> error_code = {};
  std::size_t limit = 50;
};

/// A target that an operator has paused.
struct TargetPause {
  Timestamp at{};
  std::string actor;
  std::string reason;
};

/// A target that dispatchers find down.
struct TargetDown {
  std::int64_t dispatchers = 0;  ///< how many of them
  Timestamp since{};
  Timestamp next_probe_at{};  ///< the first of any
  bool probing = false;       ///< that time has come: a probe is under way, or waits for a task that is due
  std::string error_code = {};
  std::string error_message = {};
};

/// A target, as an operator sees it.
struct TargetSummary {
  std::string target;
  std::optional<TargetPause> pause = {};
  std::optional<TargetDown> down = {};
  std::int64_t due = 0;                         ///< bounded by TaskCounts::kCountMax
  std::optional<Timestamp> oldest_due_at = {};  ///< of those
  std::optional<Timestamp> next_due_at = {};    ///< when nothing is due: of the first that will be
  std::int64_t in_flight = 0;                   ///< SENDING, at any dispatcher

  /// `paused`, `open`, `half-open` or `closed`: what keeps its tasks from being sent, if anything.
  std::string_view state() const {
    if (pause) return "paused";
    if (!down) return "closed";
    return down->probing ? "half-open" : "open";
  }
};

enum class PauseOutcome : std::uint8_t {
  kPaused,
  kAlready,  ///< it was paused before, and stays as it was
  kUnknown,  ///< no task was ever enqueued for it, and the caller does not know it either
};

/// Port: what operators see of tasks and do about them. Every change and its audit record commit together. One
/// connection, not thread-safe. Limits are at least 1 and at most kDeadLettersMax.
class TaskDesk {
 public:
  virtual ~TaskDesk() = default;

  /// Newest first.
  virtual Result<std::vector<TaskSummary>> List(const TaskFilter& filter) = 0;
  virtual Result<std::optional<TaskDetails>> Find(const EventId& id) = 0;
  /// Makes FAILED and DEAD tasks due now, tries counted from zero again, `task.retry` in the audit trail. Returns how
  /// many.
  virtual Result<std::int64_t> Retry(const TaskFilter& which, const OperatorAction& why) = 0;
  virtual Result<std::int64_t> Retry(const EventId& id, const OperatorAction& why) = 0;
  /// Gives a PENDING, FAILED or DEAD one up, `task.discard` in the audit trail; what is SENDING cannot be called
  /// back: it stays. Returns how many.
  virtual Result<std::int64_t> Discard(const EventId& id, const OperatorAction& why) = 0;

  /// Targets that are paused or down or have tasks that are neither over nor dead, by name.
  virtual Result<std::vector<TargetSummary>> Targets() = 0;
  /// No dispatcher claims tasks of the target until Resume(); attempts under way go on. `task.pause` in the audit
  /// trail. `is_known`: there is such a target, even if no task was enqueued for it.
  virtual Result<PauseOutcome> Pause(const std::string& target, bool is_known, const OperatorAction& why) = 0;
  /// False: it is not paused. `task.resume` in the audit trail.
  virtual Result<bool> Resume(const std::string& target, const OperatorAction& why) = 0;
};

}  // namespace sealane
