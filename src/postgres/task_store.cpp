#include "tasks/task_store.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "postgres/append_call.hpp"
#include "postgres/call.hpp"
#include "postgres/inbox_transaction.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "postgres/task_rows.hpp"
#include "tasks/task_refusal.hpp"

namespace sealane::postgres {
namespace {

std::int64_t Bounded(std::size_t limit) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(limit, kMax));
}

std::optional<std::int64_t> CountOf(const std::optional<std::chrono::milliseconds>& duration) {
  return duration ? std::optional(static_cast<std::int64_t>(duration->count())) : std::nullopt;
}

/// How an attempt went, as the arguments of task_finish() and task_close_attempt() end.
void AddReport(const AttemptReport& report, Call& call) {
  call.Text(ToString(report.verdict))
      .Int4(report.status)
      .Text(ColumnOf(report.code))
      .Text(ColumnOf(report.message))
      .Bytes(report.response.empty() ? std::nullopt : std::optional<std::string_view>(report.response))
      .Bool(report.response_cut)
      .Text(ColumnOf(report.response_type))
      .Int8(CountOf(report.retry_after))
      .Int8(std::int64_t{report.took.count()});
}

Call AppendOf(const std::string& quoted_schema, const NewEntry& entry) {
  if (AsksForUniqueness(entry)) return {AppendSql(quoted_schema), AppendTypes(), EncodeAppendBinary({&entry, 1})};
  return {AppendOneSql(quoted_schema), AppendOneTypes(), EncodeAppendOne(entry)};
}

Result<ClaimedTask> ReadClaimed(const PgResult& result, int number) {
  FieldReader row(result, number);
  ClaimedTask claimed;
  SEALANE_ASSIGN_OR_RETURN(claimed.id, ReadTaskId(row.Text()));
  claimed.claim = row.Int();
  claimed.attempt = static_cast<std::int32_t>(row.Int());
  claimed.tries = static_cast<std::int32_t>(row.Int());
  claimed.in_doubt = row.Truth();
  claimed.created_at = row.Time();
  claimed.request_hash = row.Text();
  SEALANE_ASSIGN_OR_RETURN(claimed.task, ReadTask(row));
  return claimed;
}

class PostgresTaskStore final : public TaskStore {
 public:
  PostgresTaskStore(Connection connection, std::string quoted_schema)
      : connection_(std::move(connection)), schema_(std::move(quoted_schema)) {}

  Result<std::vector<ClaimedTask>> Claim(const TaskClaim& claim) override;
  Status Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) override;
  Status Release(std::span<const ClaimedTask> claimed) override;
  Result<std::vector<TargetOutlook>> Outlook(std::span<const std::string> targets) override;
  Status ReportOutage(std::string_view owner, std::string_view target,
                      const std::optional<TargetOutage>& outage) override;
  Result<TaskCounts> Count() override;
  Result<std::int64_t> Prune(std::span<const std::string> targets, std::chrono::milliseconds age,
                             std::size_t limit) override;

 private:
  Call Function(std::string_view name) const { return {schema_, name}; }
  /// Runs calls in a transaction of their own, in one round trip; returns the result of the first.
  Result<PgResult> Commit(std::vector<Call> calls);

  Connection connection_;
  std::string schema_;
};

Result<PgResult> PostgresTaskStore::Commit(std::vector<Call> calls) {
  // The functions look again after they waited for somebody, whatever the server's default is.
  calls.insert(calls.begin(), Call("BEGIN ISOLATION LEVEL READ COMMITTED"));
  calls.emplace_back("COMMIT");
  PipelineReport report = RunTogether(connection_.get(), calls);
  if (!report.error) return std::move(report.results.at(1));
  // Best effort: a broken connection has rolled back by itself.
  if (PQstatus(connection_.get()) != CONNECTION_BAD && PQtransactionStatus(connection_.get()) != PQTRANS_IDLE) {
    (void)Execute(connection_.get(), "ROLLBACK");
  }
  return *std::move(report.error);
}

Result<std::vector<ClaimedTask>> PostgresTaskStore::Claim(const TaskClaim& claim) {
  Call call = Function("task_claim");
  call.Text(FitForColumn(claim.owner))
      .Texts(claim.targets, [](const TargetQuota& quota) { return std::string_view(quota.target); })
      .Int8s(claim.targets, [](const TargetQuota& quota) { return Bounded(quota.limit); })
      .Int8(Bounded(claim.limit))
      .Int8(std::int64_t{claim.lease.count()});
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, Commit({std::move(call)}));
  std::vector<ClaimedTask> claimed;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    SEALANE_ASSIGN_OR_RETURN(ClaimedTask one, ReadClaimed(result, row));
    claimed.push_back(std::move(one));
  }
  return claimed;
}

Status PostgresTaskStore::Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) {
  std::vector<Call> calls;
  calls.push_back(Function("task_finish"));
  calls.back()
      .Uuid(claimed.id)
      .Int8(claimed.claim)
      .Text(ToString(step.state))
      .Int8(CountOf(step.retry_after))
      .Bool(step.counts);
  AddReport(report, calls.back());
  if (step.event) calls.push_back(AppendOf(schema_, *step.event));
  const auto finished = Commit(std::move(calls));
  if (finished) return Ok();
  if (finished.error().kind() != ErrorKind::kFenced) return finished.error();
  Call close = Function("task_close_attempt");
  close.Uuid(claimed.id).Int8(claimed.claim);
  AddReport(report, close);
  SEALANE_RETURN_IF_ERROR(Commit({std::move(close)}));
  return TaskFenced(claimed);
}

Status PostgresTaskStore::Release(std::span<const ClaimedTask> claimed) {
  Call call = Function("task_release");
  call.Uuids(claimed, [](const ClaimedTask& one) { return one.id; }).Int8s(claimed, [](const ClaimedTask& one) {
    return one.claim;
  });
  SEALANE_RETURN_IF_ERROR(Commit({std::move(call)}));
  return Ok();
}

Result<std::vector<TargetOutlook>> PostgresTaskStore::Outlook(std::span<const std::string> targets) {
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           Function("task_outlook").Texts(targets, std::identity{}).Run(connection_.get()));
  std::vector<TargetOutlook> outlooks;
  for (int number = 0; number < PQntuples(result.get()); ++number) {
    FieldReader row(result, number);
    TargetOutlook& outlook = outlooks.emplace_back();
    if (const auto wait = row.OptionalInt()) outlook.due_in = std::chrono::milliseconds{*wait};
    outlook.paused = row.Truth();
  }
  return outlooks;
}

Status PostgresTaskStore::ReportOutage(std::string_view owner, std::string_view target,
                                       const std::optional<TargetOutage>& outage) {
  const TargetOutage known = outage.value_or(TargetOutage{});
  Call call = Function("task_report_outage");
  call.Text(FitForColumn(owner)).Text(target);
  call.Int8(outage ? std::optional(std::int64_t{known.next_probe_in.count()}) : std::nullopt).Int4(known.failures);
  call.Text(ColumnOf(known.code)).Text(ColumnOf(known.message));
  call.Int8(std::int64_t{std::chrono::milliseconds{kOutageKept}.count()});
  SEALANE_RETURN_IF_ERROR(Commit({std::move(call)}));
  return Ok();
}

Result<TaskCounts> PostgresTaskStore::Count() {
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           Function("task_count").Int8(TaskCounts::kCountMax).Run(connection_.get()));
  FieldReader row(result, 0);
  TaskCounts counts;
  counts.pending = row.Int();
  counts.sending = row.Int();
  counts.failed = row.Int();
  counts.dead = row.Int();
  counts.oldest_waiting_at = row.OptionalTime();
  return counts;
}

Result<std::int64_t> PostgresTaskStore::Prune(std::span<const std::string> targets, std::chrono::milliseconds age,
                                              std::size_t limit) {
  // The function takes no targets for all of them.
  if (targets.empty()) return std::int64_t{0};
  Call call(
      fmt::format("select * from {}.task_prune($1, clock_timestamp() - $2 * interval '1 millisecond', $3)", schema_));
  call.Texts(targets, std::identity{}).Int8(std::int64_t{age.count()}).Int8(Bounded(limit));
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, Commit({std::move(call)}));
  return IntAt(result, 0, 0);
}

}  // namespace

Result<std::unique_ptr<TaskStore>> OpenTaskStore(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  return std::unique_ptr<TaskStore>(
      std::make_unique<PostgresTaskStore>(std::move(connection), std::move(quoted_schema)));
}

}  // namespace sealane::postgres
