#include "postgres/task_rows.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "core/headers_json.hpp"

namespace sealane::postgres {

std::string TaskFields() {
  return fmt::format(
      "t.tenant, t.target, t.operation, t.idempotency_key, t.order_key, t.content_type, t.headers, t.correlation_id,"
      " t.causation_id, t.traceparent, t.result_topic, t.result_key, {}, t.request",
      Micros("t.not_before"));
}

Result<Task> ReadTask(FieldReader& row) {
  Task task;
  task.tenant = row.Text();
  task.target = row.Text();
  task.operation = row.Text();
  task.idempotency_key = row.Text();
  task.order_key = row.Text();
  task.content_type = row.Text();
  SEALANE_ASSIGN_OR_RETURN(task.headers, HeadersFromJson(row.Text()));
  task.correlation_id = row.Text();
  task.causation_id = row.Text();
  task.traceparent = row.Text();
  task.result_topic = row.Text();
  task.result_key = row.Text();
  task.not_before = row.OptionalTime();
  task.request = row.Bytes();
  return task;
}

Result<EventId> ReadTaskId(std::string_view text) {
  if (const auto id = EventId::Parse(text)) return *id;
  return Error(ErrorKind::kCorrupt, "row_corrupt", fmt::format("{} is no id of a task", EscapeForTerminal(text)))
      .WithHint("look at the row in the table task");
}

}  // namespace sealane::postgres
