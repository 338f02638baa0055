#pragma once

#include <string_view>

#include "sealane/task.hpp"

#include "postgres/row_text.hpp"

namespace sealane::postgres {

/// Reads what was enqueued, in the order in which task_claim() and TaskFields() have it.
Result<Task> ReadTask(FieldReader& row);
/// The same columns of table `t`, as SQL.
std::string TaskFields();

/// The id of a task; kCorrupt (`row_corrupt`) for anything else.
Result<EventId> ReadTaskId(std::string_view text);

}  // namespace sealane::postgres
