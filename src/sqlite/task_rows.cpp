#include "sqlite/task_rows.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "core/headers_json.hpp"

namespace sealane::sqlite {

Result<EventId> ReadTaskId(std::string_view text) {
  if (const auto id = EventId::Parse(text)) return *id;
  return Error(ErrorKind::kCorrupt, "store_corrupt", fmt::format("{} is no id of a task", EscapeForTerminal(text)))
      .WithHint("look at the row in the table sealane_task");
}

Result<std::optional<EarlierTask>> FindTask(sqlite3* connection, const NewTask& task) {
  // A task that came by plain SQL has no hash: what the receiver sees is compared itself.
  SEALANE_ASSIGN_OR_RETURN(
      Statement find,
      Statement::Prepare(connection,
                         "SELECT id, coalesce(request_hash = ?, 0) OR (request = ? AND content_type = ?"
                         " AND json(headers) = json(?)) FROM sealane_task"
                         " WHERE tenant = ? AND target = ? AND operation = ? AND idempotency_key = ?"));
  const Task& wish = task.task;
  const std::string headers = HeadersToJson(wish.headers);
  find.Bind(task.request_hash).BindBlob(wish.request).Bind(wish.content_type).Bind(headers);
  find.Bind(wish.tenant).Bind(wish.target).Bind(wish.operation).Bind(wish.idempotency_key);
  SEALANE_ASSIGN_OR_RETURN(const bool found, find.Step());
  if (!found) return std::optional<EarlierTask>();
  EarlierTask earlier;
  SEALANE_ASSIGN_OR_RETURN(earlier.id, ReadTaskId(find.Text(0)));
  earlier.is_same = find.Int(1) != 0;
  return std::optional(earlier);
}

Status InsertTask(sqlite3* connection, const NewTask& task) {
  static const std::string sql = fmt::format(
      "INSERT INTO sealane_task (id, tenant, target, operation, idempotency_key, order_key, waits, created_at,"
      " not_before, due_at, correlation_id, causation_id, traceparent, result_topic, result_key, content_type,"
      " headers, request_hash, request)"
      " SELECT ?1, ?2, ?3, ?4, ?5, ?6, EXISTS (SELECT 1 FROM sealane_task WHERE tenant = ?2 AND target = ?3"
      " AND order_key = ?6 AND order_key IS NOT NULL AND state NOT IN ('SUCCEEDED', 'DISCARDED')), now.at, ?7,"
      " coalesce(?7, now.at), ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16 FROM (SELECT {} AS at) AS now",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(Statement insert, Statement::Prepare(connection, sql));
  const Task& wish = task.task;
  insert.Bind(task.id.ToString())
      .Bind(wish.tenant)
      .Bind(wish.target)
      .Bind(wish.operation)
      .Bind(wish.idempotency_key)
      .BindOptional(wish.order_key)
      .BindOptional(wish.not_before)
      .BindOptional(wish.correlation_id)
      .BindOptional(wish.causation_id)
      .BindOptional(wish.traceparent)
      .BindOptional(wish.result_topic)
      .BindOptional(wish.result_key)
      .Bind(wish.content_type)
      .Bind(HeadersToJson(wish.headers))
      .Bind(task.request_hash)
      .BindBlob(wish.request);
  return insert.Run();
}

Result<Task> ReadTask(RowReader& row) {
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
  task.request = row.Blob();
  return task;
}

}  // namespace sealane::sqlite
