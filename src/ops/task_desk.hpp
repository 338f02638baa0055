#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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
};

}  // namespace sealane
