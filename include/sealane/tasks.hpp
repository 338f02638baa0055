#pragma once

#include <cstddef>

#include "sealane/event_id.hpp"
#include "sealane/result.hpp"
#include "sealane/task.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

struct TaskLimits {
  std::size_t request_bytes_max = std::size_t{1} << 20U;
  std::size_t headers_max = 64;
  std::size_t header_bytes_max = std::size_t{16} << 10U;  ///< all names and values together
  std::size_t name_bytes_max = 255;                       ///< target, tenant, result topic
  std::size_t key_bytes_max = 1'024;                      ///< idempotency key, operation, result key
};

/// Enqueues tasks in the caller's own open transaction: they exist exactly when that transaction commits, and are
/// carried out at least once each, with one Idempotency-Key however often that takes.
///
///     sealane::Tasks tasks;
///     handlers.On("OrderCompleted", [&](const sealane::Envelope& event, sealane::HandlerTransaction& tx) {
///       ValueOrThrow(tasks.Enqueue(tx, {.target = "billing", .operation = "/charges",
///                                       .idempotency_key = event.aggregate.id, .request = event.payload}));
///       return sealane::Decision::Done();
///     });
///
/// A task is known by tenant, target, operation and idempotency key. The same again is no error (already_there); with
/// another request it is kConflict (`task_conflict`), because one of the two would silently not happen. Thread-safe.
class Tasks {
 public:
  explicit Tasks(TaskLimits limits = {});
  /// With a seam for tests. The generator must outlive it.
  Tasks(TaskLimits limits, EventIdGenerator& ids);

  /// kRejected (`invalid_task`) names the field that is at fault; nothing is written then.
  Result<EnqueuedTask> Enqueue(TransactionRef transaction, const Task& task) const;
  /// The check that Enqueue makes.
  Result<NewTask> Admit(const Task& task) const;

 private:
  TaskLimits limits_;
  EventIdGenerator& ids_;
};

}  // namespace sealane
