#include "ops/task_desk.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "ops/inbox_desk.hpp"
#include "sqlite/audit.hpp"
#include "sqlite/conditions.hpp"
#include "sqlite/migrated_connection.hpp"
#include "sqlite/sqlite_store.hpp"
#include "sqlite/task_rows.hpp"
#include "sqlite/write_transaction.hpp"

namespace sealane::sqlite {
namespace {

constexpr std::string_view kSummaryFields =
    "id, state, tenant, target, operation, idempotency_key, attempts, created_at,"
    " CASE WHEN state IN ('PENDING', 'SENDING', 'FAILED') THEN coalesce(claimed_until, due_at) END, ended_at, status,"
    " code, message";

/// What the index sealane_task_open has.
constexpr std::string_view kNotOver = "state NOT IN ('SUCCEEDED', 'DISCARDED')";

Conditions ConditionsOf(const TaskFilter& filter) {
  Conditions conditions;
  if (filter.state) {
    // As a constant, and what the index is for said again, so that SQLite sees that it has it.
    conditions.AddFixed(fmt::format("state = '{}'", ToString(*filter.state)));
    const bool over = *filter.state == TaskState::kSucceeded || *filter.state == TaskState::kDiscarded;
    if (!over) conditions.AddFixed(kNotOver);
  }
  conditions.AddIf("target = ?", filter.target);
  conditions.AddIf("operation = ?", filter.operation);
  conditions.AddIf("tenant = ?", filter.tenant);
  conditions.AddIf("idempotency_key = ?", filter.idempotency_key);
  conditions.AddIf("coalesce(code, '') = ?", filter.error_code);
  return conditions;
}

Conditions ConditionsOf(const EventId& id) {
  Conditions conditions;
  conditions.Add("id = ?", id.ToString());
  return conditions;
}

std::optional<std::int32_t> StatusOf(std::optional<std::int64_t> number) {
  return number ? std::optional(static_cast<std::int32_t>(*number)) : std::nullopt;
}

Result<TaskSummary> ReadSummary(RowReader& row) {
  TaskSummary summary;
  SEALANE_ASSIGN_OR_RETURN(summary.id, ReadTaskId(row.Text()));
  const auto state = ParseTaskState(row.Text());
  if (!state) return Error(ErrorKind::kCorrupt, "store_corrupt", "a task has no state");
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

TaskAttempt ReadAttempt(RowReader row) {
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
  report.response = row.Blob();
  report.response_cut = row.Int() != 0;
  report.response_type = row.Text();
  if (const auto wait = row.OptionalInt()) report.retry_after = std::chrono::milliseconds{*wait};
  report.took = std::chrono::microseconds{row.OptionalInt().value_or(0)};
  attempt.report = std::move(report);
  return attempt;
}

/// A task that a person decides about.
struct Chosen {
  std::int64_t place = 0;
  std::string id;
  std::string target;
};

class SqliteTaskDesk final : public TaskDesk {
 public:
  explicit SqliteTaskDesk(Connection connection) : connection_(std::move(connection)) {}

  Result<std::vector<TaskSummary>> List(const TaskFilter& filter) override;
  Result<std::optional<TaskDetails>> Find(const EventId& id) override;
  Result<std::int64_t> Retry(const TaskFilter& which, const OperatorAction& why) override {
    return MakeDue(ConditionsOf(which), DeskLimit(which.limit), why);
  }
  Result<std::int64_t> Retry(const EventId& id, const OperatorAction& why) override {
    return MakeDue(ConditionsOf(id), 1, why);
  }
  Result<std::int64_t> Discard(const EventId& id, const OperatorAction& why) override;
  Result<std::vector<TargetSummary>> Targets() override;
  Result<PauseOutcome> Pause(const std::string& target, bool is_known, const OperatorAction& why) override;
  Result<bool> Resume(const std::string& target, const OperatorAction& why) override;

 private:
  Result<std::set<std::string>> TargetNames();
  Result<TargetSummary> Describe(const std::string& target);
  Result<bool> Exists(const std::string& sql, const std::string& target);
  Result<Statement> Prepare(const std::string& sql) { return Statement::Prepare(connection_.get(), sql); }
  Result<std::vector<TaskAttempt>> ReadAttempts(const EventId& id);
  Result<std::int64_t> MakeDue(const Conditions& conditions, std::size_t limit, const OperatorAction& why);
  Result<std::int64_t> Apply(std::string_view action, std::string_view set, const Conditions& conditions,
                             std::size_t limit, const OperatorAction& why);
  Result<std::vector<Chosen>> Choose(const Conditions& conditions, std::size_t limit);

  Connection connection_;
};

Result<std::vector<TaskSummary>> SqliteTaskDesk::List(const TaskFilter& filter) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  const Conditions conditions = ConditionsOf(filter);
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Prepare(fmt::format("SELECT {} FROM sealane_task WHERE 1{} ORDER BY place DESC LIMIT ?",
                                               kSummaryFields, conditions.sql())));
  conditions.BindTo(select);
  select.Bind(static_cast<std::int64_t>(DeskLimit(filter.limit)));
  std::vector<TaskSummary> summaries;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return summaries;
    RowReader row(select);
    SEALANE_ASSIGN_OR_RETURN(TaskSummary summary, ReadSummary(row));
    summaries.push_back(std::move(summary));
  }
}

Result<std::optional<TaskDetails>> SqliteTaskDesk::Find(const EventId& id) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Prepare(fmt::format("SELECT {}, {}, request_hash FROM sealane_task WHERE id = ?",
                                               kSummaryFields, kTaskFields)));
  select.Bind(id.ToString());
  SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) return std::optional<TaskDetails>();
  RowReader row(select);
  TaskDetails details;
  SEALANE_ASSIGN_OR_RETURN(details.summary, ReadSummary(row));
  SEALANE_ASSIGN_OR_RETURN(details.task, ReadTask(row));
  details.request_hash = row.Text();
  SEALANE_ASSIGN_OR_RETURN(details.attempts, ReadAttempts(id));
  return std::optional(std::move(details));
}

Result<std::vector<TaskAttempt>> SqliteTaskDesk::ReadAttempts(const EventId& id) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Prepare(fmt::format("SELECT number, owner, started_at, ended_at, verdict, status, code, message, response,"
                          " response_cut, response_type, retry_after_ms, took_us FROM sealane_task_attempt"
                          " WHERE task = (SELECT place FROM sealane_task WHERE id = ?) ORDER BY number DESC LIMIT {}",
                          TaskDetails::kAttemptsMax)));
  select.Bind(id.ToString());
  std::vector<TaskAttempt> attempts;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) break;
    attempts.push_back(ReadAttempt(RowReader(select)));
  }
  std::ranges::reverse(attempts);
  return attempts;
}

Result<std::vector<Chosen>> SqliteTaskDesk::Choose(const Conditions& conditions, std::size_t limit) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Prepare(fmt::format("SELECT place, id, target FROM sealane_task WHERE 1{} ORDER BY place LIMIT ?",
                          conditions.sql())));
  conditions.BindTo(select);
  select.Bind(static_cast<std::int64_t>(limit));
  std::vector<Chosen> chosen;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return chosen;
    RowReader row(select);
    Chosen& one = chosen.emplace_back();
    one.place = row.Int();
    one.id = row.Text();
    one.target = row.Text();
  }
}

Result<std::int64_t> SqliteTaskDesk::Apply(std::string_view action, std::string_view set,
                                           const Conditions& conditions, std::size_t limit,
                                           const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<Chosen> chosen, Choose(conditions, limit));
  SEALANE_ASSIGN_OR_RETURN(Statement update, Prepare(fmt::format("UPDATE sealane_task SET {} WHERE place = ?", set)));
  for (const Chosen& one : chosen) {
    update.Bind(one.place);
    SEALANE_RETURN_IF_ERROR(update.Run());
    SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), action, AuditTarget(one.id, one.target), why));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return static_cast<std::int64_t>(chosen.size());
}

Result<std::int64_t> SqliteTaskDesk::MakeDue(const Conditions& conditions, std::size_t limit,
                                             const OperatorAction& why) {
  // Who asks for another attempt has found out about the earlier ones, or takes it upon himself.
  static const std::string set =
      fmt::format("state = 'FAILED', tries = 0, in_doubt = 0, due_at = {}, ended_at = NULL", kNowSql);
  Conditions retriable = conditions;
  retriable.AddFixed("state IN ('FAILED', 'DEAD')");
  retriable.AddFixed(kNotOver);
  return Apply("task.retry", set, retriable, limit, why);
}

Result<std::int64_t> SqliteTaskDesk::Discard(const EventId& id, const OperatorAction& why) {
  // A trigger lets the next of its order take its turn.
  static const std::string set = fmt::format("state = 'DISCARDED', ended_at = {}", kNowSql);
  Conditions conditions = ConditionsOf(id);
  conditions.AddFixed("state IN ('PENDING', 'FAILED', 'DEAD')");
  return Apply("task.discard", set, conditions, 1, why);
}

/// What the index sealane_task_due has.
constexpr std::string_view kMayBecomeDue =
    "sealane_task INDEXED BY sealane_task_due WHERE NOT waits AND state IN ('PENDING', 'SENDING', 'FAILED')";
const std::string kOutageIsRecent =
    fmt::format("next_probe_at >= {} - {}", kNowSql,
                std::chrono::duration_cast<std::chrono::microseconds>(TaskStore::kOutageKept).count());

Result<std::set<std::string>> SqliteTaskDesk::TargetNames() {
  // One descent into the index per target that has tasks.
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Prepare(fmt::format("WITH RECURSIVE waiting (target) AS (SELECT min(target) FROM {0} UNION ALL"
                          " SELECT (SELECT min(t.target) FROM {1} AND t.target > w.target) FROM waiting w"
                          " WHERE w.target IS NOT NULL)"
                          " SELECT target FROM waiting WHERE target IS NOT NULL"
                          " UNION SELECT target FROM sealane_task_pause"
                          " UNION SELECT target FROM sealane_task_outage WHERE {2}",
                          kMayBecomeDue,
                          "sealane_task t INDEXED BY sealane_task_due WHERE NOT t.waits"
                          " AND t.state IN ('PENDING', 'SENDING', 'FAILED')",
                          kOutageIsRecent)));
  std::set<std::string> names;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return names;
    names.insert(RowReader(select).Text());
  }
}

Result<TargetSummary> SqliteTaskDesk::Describe(const std::string& target) {
  TargetSummary summary;
  summary.target = target;
  SEALANE_ASSIGN_OR_RETURN(
      Statement tasks,
      Prepare(fmt::format("SELECT now.at, (SELECT count(*) FROM (SELECT 1 FROM {0} AND target = ?1"
                          " AND coalesce(claimed_until, due_at) <= now.at LIMIT ?2)),"
                          " (SELECT coalesce(claimed_until, due_at) FROM {0} AND target = ?1"
                          " ORDER BY coalesce(claimed_until, due_at), place LIMIT 1),"
                          " (SELECT count(*) FROM sealane_task INDEXED BY sealane_task_open"
                          " WHERE state NOT IN ('SUCCEEDED', 'DISCARDED') AND state = 'SENDING' AND target = ?1)"
                          " FROM (SELECT {1} AS at) AS now",
                          kMayBecomeDue, kNowSql)));
  tasks.Bind(target).Bind(TaskCounts::kCountMax);
  SEALANE_RETURN_IF_ERROR(tasks.Step());
  RowReader row(tasks);
  const Timestamp now = row.Time();
  summary.due = row.Int();
  if (const auto first = row.OptionalTime()) (*first <= now ? summary.oldest_due_at : summary.next_due_at) = *first;
  summary.in_flight = row.Int();

  SEALANE_ASSIGN_OR_RETURN(Statement paused,
                           Prepare("SELECT paused_at, actor, reason FROM sealane_task_pause WHERE target = ?"));
  paused.Bind(target);
  SEALANE_ASSIGN_OR_RETURN(const bool is_paused, paused.Step());
  if (is_paused) {
    RowReader pause(paused);
    summary.pause.emplace();
    summary.pause->at = pause.Time();
    summary.pause->actor = pause.Text();
    summary.pause->reason = pause.Text();
  }

  SEALANE_ASSIGN_OR_RETURN(Statement outages,
                           Prepare(fmt::format("SELECT since, next_probe_at, code, message FROM sealane_task_outage"
                                               " WHERE target = ? AND {} ORDER BY next_probe_at DESC",
                                               kOutageIsRecent)));
  outages.Bind(target);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, outages.Step());
    if (!found) break;
    RowReader outage(outages);
    const Timestamp since = outage.Time();
    const Timestamp next_probe_at = outage.Time();
    if (!summary.down) {
      summary.down = {.since = since, .error_code = outage.Text(), .error_message = outage.Text()};
    }
    ++summary.down->dispatchers;
    summary.down->since = std::min(summary.down->since, since);
    summary.down->next_probe_at = next_probe_at;
    summary.down->probing = next_probe_at <= now;
  }
  return summary;
}

Result<std::vector<TargetSummary>> SqliteTaskDesk::Targets() {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(const std::set<std::string> names, TargetNames());
  std::vector<TargetSummary> targets;
  for (const std::string& name : names) {
    SEALANE_ASSIGN_OR_RETURN(TargetSummary summary, Describe(name));
    targets.push_back(std::move(summary));
  }
  return targets;
}

Result<bool> SqliteTaskDesk::Exists(const std::string& sql, const std::string& target) {
  SEALANE_ASSIGN_OR_RETURN(Statement select, Prepare(sql));
  select.Bind(target);
  return select.Step();
}

Result<PauseOutcome> SqliteTaskDesk::Pause(const std::string& target, bool is_known, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const bool paused, Exists("SELECT 1 FROM sealane_task_pause WHERE target = ?", target));
  if (paused) return PauseOutcome::kAlready;
  if (!is_known) {
    // Reads tasks one after the other. A name that is misspelt may wait for that.
    SEALANE_ASSIGN_OR_RETURN(is_known, Exists("SELECT 1 FROM sealane_task WHERE target = ? LIMIT 1", target));
    if (!is_known) return PauseOutcome::kUnknown;
  }
  SEALANE_ASSIGN_OR_RETURN(Statement insert,
                           Prepare(fmt::format("INSERT INTO sealane_task_pause (target, paused_at, actor, reason)"
                                               " VALUES (?, {}, ?, ?)",
                                               kNowSql)));
  insert.Bind(target).Bind(why.actor).Bind(why.reason);
  SEALANE_RETURN_IF_ERROR(insert.Run());
  SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "task.pause", target, why));
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return PauseOutcome::kPaused;
}

Result<bool> SqliteTaskDesk::Resume(const std::string& target, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(Statement remove, Prepare("DELETE FROM sealane_task_pause WHERE target = ?"));
  remove.Bind(target);
  SEALANE_RETURN_IF_ERROR(remove.Run());
  if (sqlite3_changes64(connection_.get()) == 0) return false;
  SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "task.resume", target, why));
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return true;
}

}  // namespace

Result<std::unique_ptr<TaskDesk>> OpenTaskDesk(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, OpenMigrated(options));
  return std::unique_ptr<TaskDesk>(std::make_unique<SqliteTaskDesk>(std::move(connection)));
}

}  // namespace sealane::sqlite
