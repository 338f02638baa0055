#pragma once

#include <optional>
#include <string_view>

#include <sqlite3.h>

#include "sealane/task.hpp"

#include "sqlite/statement.hpp"

namespace sealane::sqlite {

/// A task that has the name of one that is being enqueued.
struct EarlierTask {
  EventId id;
  bool is_same = false;  ///< the receiver would see the same
};
Result<std::optional<EarlierTask>> FindTask(sqlite3* connection, const NewTask& task);

/// Writes a task whose name is free. It waits when its order key has one that is not over.
Status InsertTask(sqlite3* connection, const NewTask& task);

/// The columns that ReadTask() reads.
inline constexpr std::string_view kTaskFields =
    "tenant, target, operation, idempotency_key, order_key, content_type, headers, correlation_id, causation_id,"
    " traceparent, result_topic, result_key, not_before, request";
Result<Task> ReadTask(RowReader& row);

/// The id of a task; kCorrupt (`store_corrupt`) for anything else.
Result<EventId> ReadTaskId(std::string_view text);

}  // namespace sealane::sqlite
