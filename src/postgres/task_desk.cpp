#include "ops/task_desk.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "ops/inbox_desk.hpp"
#include "postgres/conditions.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "postgres/short_transaction.hpp"
#include "postgres/task_rows.hpp"

namespace sealane::postgres {
namespace {

Conditions ConditionsOf(const TaskFilter& filter) {
  Conditions conditions;
  if (filter.state) {
    // As a constant, so that the planner sees which index has it.
    conditions.sql += fmt::format(" AND t.state = '{}'", ToString(*filter.state));
  }
  conditions.AddIf("t.target", filter.target);
  conditions.AddIf("t.operation", filter.operation);
  conditions.AddIf("t.tenant", filter.tenant);
  conditions.AddIf("t.idempotency_key", filter.idempotency_key);
  conditions.AddIf("coalesce(t.code, '')", filter.error_code);
  return conditions;
}

std::string SummaryFields() {
  return fmt::format(
      "t.id, t.state, t.tenant, t.target, t.operation, t.idempotency_key, t.attempts, {}, {}, {}, t.status, t.code,"
      " t.message",
      Micros("t.created_at"),
      Micros("CASE WHEN t.state IN ('PENDING', 'SENDING', 'FAILED') THEN coalesce(t.claimed_until, t.due_at) END"),
      Micros("t.ended_at"));
}

std::optional<std::int32_t> StatusOf(std::optional<std::int64_t> number) {
  return number ? std::optional(static_cast<std::int32_t>(*number)) : std::nullopt;
}

Result<TaskSummary> ReadSummary(FieldReader& row) {
  TaskSummary summary;
  SEALANE_ASSIGN_OR_RETURN(summary.id, ReadTaskId(row.Text()));
  const std::string text = row.Text();
  const auto state = ParseTaskState(text);
  if (!state) {
    return Error(ErrorKind::kCorrupt, "row_corrupt", fmt::format("{} is no state of a task", text))
        .WithHint("look at the row in the table task");
  }
  summary.state = *state;
  summary.tenant = row.Text();
  summary.target = row.Text();
  summary.operation = row.Text();
  summary.idempotency_key = row.Text();
  summary.attempts = static_cast<std::int32_t>(row.Int());
  summary.created_at = row.Time();
  summary.next_attempt_at = row.OptionalTime();
  summary.ended_at = row.OptionalTime();
  summary.status = StatusOf(row.OptionalInt());
  summary.error_code = row.Text();
  summary.error_message = row.Text();
  return summary;
}

TaskAttempt ReadAttempt(FieldReader row) {
  TaskAttempt attempt;
  attempt.number = static_cast<std::int32_t>(row.Int());
  attempt.owner = row.Text();
  attempt.started_at = row.Time();
  attempt.ended_at = row.OptionalTime();
  const auto verdict = ParseAttemptVerdict(row.Text());
  if (!attempt.ended_at || !verdict) return attempt;
  AttemptReport report;
  report.verdict = *verdict;
  report.status = StatusOf(row.OptionalInt());
  report.code = row.Text();
  report.message = row.Text();
  report.response = row.Bytes();
  report.response_cut = row.Truth();
  report.response_type = row.Text();
  if (const auto wait = row.OptionalInt()) report.retry_after = std::chrono::milliseconds{*wait};
  report.took = std::chrono::microseconds{row.OptionalInt().value_or(0)};
  attempt.report = std::move(report);
  return attempt;
}

class PostgresTaskDesk final : public TaskDesk {
 public:
  PostgresTaskDesk(Connection connection, std::string quoted_schema)
      : connection_(std::move(connection)), schema_(std::move(quoted_schema)) {}

  Result<std::vector<TaskSummary>> List(const TaskFilter& filter) override;
  Result<std::optional<TaskDetails>> Find(const EventId& id) override;
  Result<std::int64_t> Retry(const TaskFilter& which, const OperatorAction& why) override {
    return MakeDue(std::nullopt, which, why);
  }
  Result<std::int64_t> Retry(const EventId& id, const OperatorAction& why) override {
    return MakeDue(id, {.limit = 1}, why);
  }
  Result<std::int64_t> Discard(const EventId& id, const OperatorAction& why) override;
  Result<std::vector<TargetSummary>> Targets() override;
  Result<PauseOutcome> Pause(const std::string& target, bool is_known, const OperatorAction& why) override;
  Result<bool> Resume(const std::string& target, const OperatorAction& why) override;

 private:
  /// {0} is the schema.
  Result<PgResult> Run(std::string_view sql, std::span<const TextParameter> parameters = {}) {
    return Execute(connection_.get(), fmt::format(fmt::runtime(sql), schema_), parameters);
  }
  Result<std::vector<TaskAttempt>> ReadAttempts(const EventId& id);
  Result<std::int64_t> MakeDue(const std::optional<EventId>& id, const TaskFilter& which, const OperatorAction& why);
  /// A change and its audit records, which are one statement; returns how many tasks.
  Result<std::int64_t> Change(std::string_view sql, std::span<const TextParameter> parameters);

  Connection connection_;
  std::string schema_;
};

Result<std::vector<TaskSummary>> PostgresTaskDesk::List(const TaskFilter& filter) {
  Conditions conditions = ConditionsOf(filter);
  const std::string limit = conditions.Bind(std::to_string(DeskLimit(filter.limit)));
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Run(fmt::format("SELECT {} FROM {{0}}.task t WHERE {} ORDER BY t.place DESC LIMIT {}::int8", SummaryFields(),
                      conditions.sql, limit),
          conditions.parameters));
  std::vector<TaskSummary> summaries;
  for (int number = 0; number < PQntuples(result.get()); ++number) {
    FieldReader row(result, number);
    SEALANE_ASSIGN_OR_RETURN(TaskSummary summary, ReadSummary(row));
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

Result<std::optional<TaskDetails>> PostgresTaskDesk::Find(const EventId& id) {
  const std::array<TextParameter, 1> parameters = {id.ToString()};
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           Run(fmt::format("SELECT {}, {}, t.request_hash FROM {{0}}.task t WHERE t.id = $1::uuid",
                                           SummaryFields(), TaskFields()),
                               parameters));
  if (PQntuples(result.get()) == 0) return std::optional<TaskDetails>();
  FieldReader row(result, 0);
  TaskDetails details;
  SEALANE_ASSIGN_OR_RETURN(details.summary, ReadSummary(row));
  SEALANE_ASSIGN_OR_RETURN(details.task, ReadTask(row));
  details.request_hash = row.Text();
  SEALANE_ASSIGN_OR_RETURN(details.attempts, ReadAttempts(id));
  return std::optional(std::move(details));
}

Result<std::vector<TaskAttempt>> PostgresTaskDesk::ReadAttempts(const EventId& id) {
  const std::array<TextParameter, 1> parameters = {id.ToString()};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Run(fmt::format("SELECT a.number, a.owner, {}, {}, a.verdict, a.status, a.code, a.message, a.response,"
                      " a.response_cut, a.response_type, a.retry_after_ms, a.took_us FROM {{0}}.task t"
                      " JOIN {{0}}.task_attempt a ON a.task = t.place WHERE t.id = $1::uuid"
                      " ORDER BY a.number DESC LIMIT {}",
                      Micros("a.started_at"), Micros("a.ended_at"), TaskDetails::kAttemptsMax),
          parameters));
  std::vector<TaskAttempt> attempts;
  for (int row = PQntuples(result.get()) - 1; row >= 0; --row) attempts.push_back(ReadAttempt({result, row}));
  return attempts;
}

Result<std::int64_t> PostgresTaskDesk::Change(std::string_view sql, std::span<const TextParameter> parameters) {
  const auto changed = Run(sql, parameters);
  if (changed) return IntAt(*changed, 0, 0);
  return ChangeFailed(connection_.get(), changed.error());
}

Result<std::int64_t> PostgresTaskDesk::MakeDue(const std::optional<EventId>& id, const TaskFilter& which,
                                               const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  const std::array<TextParameter, 10> parameters = {
      id ? TextParameter(id->ToString()) : std::nullopt,
      which.state ? TextParameter(ToString(*which.state)) : std::nullopt,
      which.target,
      which.operation,
      which.tenant,
      which.idempotency_key,
      which.error_code,
      std::to_string(DeskLimit(which.limit)),
      why.actor,
      why.reason};
  return Change("SELECT {0}.operator_task_retry($1::uuid, $2, $3, $4, $5, $6, $7, $8::int8, $9, $10)", parameters);
}

Result<std::int64_t> PostgresTaskDesk::Discard(const EventId& id, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  const std::array<TextParameter, 3> parameters = {id.ToString(), why.actor, why.reason};
  return Change("SELECT {0}.operator_task_discard($1::uuid, $2, $3)", parameters);
}

TargetSummary ReadTarget(FieldReader row) {
  TargetSummary summary;
  summary.target = row.Text();
  const auto paused_at = row.OptionalTime();
  TargetPause pause;
  pause.actor = row.Text();
  pause.reason = row.Text();
  if (paused_at) {
    pause.at = *paused_at;
    summary.pause = std::move(pause);
  }
  summary.due = row.Int();
  summary.oldest_due_at = row.OptionalTime();
  summary.next_due_at = row.OptionalTime();
  summary.in_flight = row.Int();
  TargetDown down;
  down.dispatchers = row.Int();
  if (down.dispatchers == 0) return summary;
  down.since = row.Time();
  down.next_probe_at = row.Time();
  down.probing = row.Truth();
  down.error_code = row.Text();
  down.error_message = row.Text();
  summary.down = std::move(down);
  return summary;
}

Result<std::vector<TargetSummary>> PostgresTaskDesk::Targets() {
  const std::array<TextParameter, 2> parameters = {
      std::to_string(TaskCounts::kCountMax),
      std::to_string(std::chrono::milliseconds{TaskStore::kOutageKept}.count())};
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           Run("SELECT * FROM {0}.task_targets($1::int8, $2::int8)", parameters));
  std::vector<TargetSummary> targets;
  for (int row = 0; row < PQntuples(result.get()); ++row) targets.push_back(ReadTarget({result, row}));
  return targets;
}

Result<PauseOutcome> PostgresTaskDesk::Pause(const std::string& target, bool is_known, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  const std::array<TextParameter, 4> parameters = {target, is_known ? "t" : "f", why.actor, why.reason};
  const auto outcome = Run("SELECT {0}.operator_task_pause($1, $2::bool, $3, $4)", parameters);
  if (!outcome) return ChangeFailed(connection_.get(), outcome.error());
  const std::string word = FieldReader(*outcome, 0).Text();
  if (word == "paused") return PauseOutcome::kPaused;
  return word == "already" ? PauseOutcome::kAlready : PauseOutcome::kUnknown;
}

Result<bool> PostgresTaskDesk::Resume(const std::string& target, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  const std::array<TextParameter, 3> parameters = {target, why.actor, why.reason};
  const auto resumed = Run("SELECT {0}.operator_task_resume($1, $2, $3)", parameters);
  if (!resumed) return ChangeFailed(connection_.get(), resumed.error());
  return FieldReader(*resumed, 0).Truth();
}

}  // namespace

Result<std::unique_ptr<TaskDesk>> OpenTaskDesk(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  return std::unique_ptr<TaskDesk>(
      std::make_unique<PostgresTaskDesk>(std::move(connection), std::move(quoted_schema)));
}

}  // namespace sealane::postgres
