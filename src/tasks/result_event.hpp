#pragma once

#include <cstddef>

#include "sealane/clock.hpp"
#include "sealane/event.hpp"

#include "tasks/task_attempt.hpp"
#include "tasks/task_store.hpp"

namespace sealane {

/// How a task came to its end.
struct TaskEnd {
  TaskState state = TaskState::kSucceeded;  ///< kSucceeded or kDead
  AttemptReport report = {};                ///< of the last attempt
  Timestamp at{};
};

/// The event that tells the end of a task to whoever asked for it with a result topic: `TaskSucceeded` or `TaskDead`,
/// about the aggregate `task` with the task's id, under the task's result key (empty: its idempotency key).
///
/// Tenant, correlation id and traceparent are the task's. Its causation id is the task's as well: the event whose
/// handler enqueued it, because a task is no event; the aggregate id says which task it was.
///
/// The payload is a JSON object with `task_id`, `target`, `operation`, `idempotency_key`, `state`, `attempts`,
/// `verdict`, `status`, `code`, `message`, `response` (text) or `response_base64` (bytes that are no UTF-8),
/// `response_type`, `response_cut` and `ended_at`; what is empty is left out. At most `response_max` bytes of the
/// response are carried; `response_cut` says whether all of them are.
Event ResultEvent(const ClaimedTask& task, const TaskEnd& end, std::size_t response_max);

}  // namespace sealane
