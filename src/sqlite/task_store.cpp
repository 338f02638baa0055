#include "tasks/task_store.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "sqlite/migrated_connection.hpp"
#include "sqlite/sqlite_store.hpp"
#include "sqlite/sqlite_transaction.hpp"
#include "sqlite/statement_book.hpp"
#include "sqlite/task_rows.hpp"
#include "sqlite/write_transaction.hpp"
#include "tasks/task_refusal.hpp"

namespace sealane::sqlite {
namespace {

using std::chrono::milliseconds;

std::int64_t Bounded(std::size_t limit) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(limit, kMax));
}

/// A task that may be claimed, as the index knows it.
struct Candidate {
  Timestamp due{};
  std::int64_t place = 0;
  bool was_sending = false;
  std::int64_t claims = 0;
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

class SqliteTaskStore final : public TaskStore {
 public:
  explicit SqliteTaskStore(Connection connection) : connection_(std::move(connection)) {}

  Result<std::vector<ClaimedTask>> Claim(const TaskClaim& claim) override;
  Status Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) override;
  Status Release(std::span<const ClaimedTask> claimed) override;
  Result<std::vector<TargetOutlook>> Outlook(std::span<const std::string> targets) override;
  Status ReportOutage(std::string_view owner, std::string_view target,
                      const std::optional<TargetOutage>& outage) override;
  Result<TaskCounts> Count() override;
  Result<std::int64_t> Prune(std::span<const std::string> targets, milliseconds age, std::size_t limit) override;

 private:
  Result<Timestamp> Now();
  Result<bool> IsPaused(const std::string& target);
  Result<std::vector<Candidate>> FindDue(const TaskClaim& claim, Timestamp now);
  Result<ClaimedTask> Begin(const Candidate& candidate, const TaskClaim& claim, Timestamp now);
  /// Writes down how an attempt went. One that somebody has said something about is left alone.
  Status CloseAttempt(std::int64_t place, std::int64_t claim, const AttemptReport& report, Timestamp now);
  /// The place of the task when this claim is the one that counts.
  Result<std::optional<std::int64_t>> FindOurs(const ClaimedTask& claimed);
  Result<std::optional<std::int64_t>> FindPlace(const EventId& id);
  Status MoveOn(std::int64_t place, const AttemptReport& report, const TaskStep& step, Timestamp now);
  /// The reporter's own, and those of dispatchers that have died.
  Status ForgetOutages(std::string_view owner, std::string_view target, bool own, Timestamp now);

  static constexpr std::size_t kStatementsMax = 100;

  Connection connection_;
  StatementBook statements_{connection_.get(), kStatementsMax};  // ends before its connection
};

Result<Timestamp> SqliteTaskStore::Now() {
  static const std::string sql = fmt::format("SELECT {}", kNowSql);
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement now, statements_.Take(sql));
  SEALANE_RETURN_IF_ERROR(now->Step());
  return RowReader(*now).Time();
}

Result<bool> SqliteTaskStore::IsPaused(const std::string& target) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           statements_.Take("SELECT 1 FROM sealane_task_pause WHERE target = ?"));
  select->Bind(target);
  return select->Step();
}

// ---- claiming

Result<std::vector<Candidate>> SqliteTaskStore::FindDue(const TaskClaim& claim, Timestamp now) {
  // One descent into the index per target, whatever else is there.
  std::vector<Candidate> due;
  for (const TargetQuota& quota : claim.targets) {
    SEALANE_ASSIGN_OR_RETURN(const bool paused, IsPaused(quota.target));
    if (paused) continue;
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement select,
        statements_.Take("SELECT coalesce(claimed_until, due_at), place, state = 'SENDING', claims"
                         " FROM sealane_task INDEXED BY sealane_task_due WHERE target = ? AND NOT waits"
                         " AND state IN ('PENDING', 'SENDING', 'FAILED') AND coalesce(claimed_until, due_at) <= ?"
                         " ORDER BY coalesce(claimed_until, due_at), place LIMIT ?"));
    select->Bind(quota.target).Bind(now).Bind(Bounded(std::min(quota.limit, claim.limit)));
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
      if (!found) break;
      RowReader row(*select);
      Candidate& candidate = due.emplace_back();
      candidate.due = row.Time();
      candidate.place = row.Int();
      candidate.was_sending = row.Int() != 0;
      candidate.claims = row.Int();
    }
  }
  std::ranges::sort(due);
  if (due.size() > claim.limit) due.resize(claim.limit);
  return due;
}

Result<ClaimedTask> SqliteTaskStore::Begin(const Candidate& candidate, const TaskClaim& claim, Timestamp now) {
  if (candidate.was_sending) {
    const AttemptReport interrupted = InterruptedAttempt();
    SEALANE_RETURN_IF_ERROR(CloseAttempt(candidate.place, candidate.claims, interrupted, now));
    SEALANE_ASSIGN_OR_RETURN(const BookedStatement note,
                             statements_.Take("UPDATE sealane_task SET in_doubt = 1, status = NULL, code = ?2,"
                                              " message = ?3 WHERE place = ?1"));
    note->Bind(candidate.place).Bind(interrupted.code).Bind(interrupted.message);
    SEALANE_RETURN_IF_ERROR(note->Run());
  }
  static const std::string take_sql = fmt::format(
      "UPDATE sealane_task SET state = 'SENDING', claims = claims + 1, attempts = attempts + 1, tries = tries + 1,"
      " owner = ?2, claimed_until = ?3 WHERE place = ?1 RETURNING id, claims, attempts, tries, in_doubt, created_at, "
      "request_hash, {}",
      kTaskFields);
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement take, statements_.Take(take_sql));
  take->Bind(candidate.place).Bind(EscapeForTerminal(claim.owner)).Bind(now + claim.lease);
  SEALANE_RETURN_IF_ERROR(take->Step());
  RowReader row(*take);
  ClaimedTask claimed;
  SEALANE_ASSIGN_OR_RETURN(claimed.id, ReadTaskId(row.Text()));
  claimed.claim = row.Int();
  claimed.attempt = static_cast<std::int32_t>(row.Int());
  claimed.tries = static_cast<std::int32_t>(row.Int());
  claimed.in_doubt = row.Int() != 0;
  claimed.created_at = row.Time();
  claimed.request_hash = row.Text();
  SEALANE_ASSIGN_OR_RETURN(claimed.task, ReadTask(row));
  SEALANE_RETURN_IF_ERROR(take->Run());

  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement begin,
      statements_.Take("INSERT INTO sealane_task_attempt (task, claim, number, owner, started_at)"
                       " VALUES (?, ?, ?, ?, ?)"));
  begin->Bind(candidate.place).Bind(claimed.claim).Bind(std::int64_t{claimed.attempt});
  begin->Bind(EscapeForTerminal(claim.owner)).Bind(now);
  SEALANE_RETURN_IF_ERROR(begin->Run());
  return claimed;
}

Result<std::vector<ClaimedTask>> SqliteTaskStore::Claim(const TaskClaim& claim) {
  {
    // Whoever finds nothing does not ask for the file's one write lock.
    SEALANE_ASSIGN_OR_RETURN(const Timestamp now, Now());
    SEALANE_ASSIGN_OR_RETURN(const std::vector<Candidate> due, FindDue(claim, now));
    if (due.empty()) return std::vector<ClaimedTask>{};
  }
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const Timestamp now, Now());
  SEALANE_ASSIGN_OR_RETURN(const std::vector<Candidate> due, FindDue(claim, now));
  std::vector<ClaimedTask> claimed;
  for (const Candidate& candidate : due) {
    SEALANE_ASSIGN_OR_RETURN(ClaimedTask one, Begin(candidate, claim, now));
    claimed.push_back(std::move(one));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return claimed;
}

// ---- finishing

Status SqliteTaskStore::CloseAttempt(std::int64_t place, std::int64_t claim, const AttemptReport& report,
                                     Timestamp now) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement close,
      statements_.Take("UPDATE sealane_task_attempt SET ended_at = ?3, verdict = ?4, status = ?5, code = ?6,"
                       " message = ?7, response = ?8, response_cut = ?9, response_type = ?10, retry_after_ms = ?11,"
                       " took_us = ?12 WHERE task = ?1 AND claim = ?2"
                       " AND (ended_at IS NULL OR code = 'interrupted')"));
  close->Bind(place).Bind(claim).Bind(now).Bind(ToString(report.verdict));
  report.status ? close->Bind(std::int64_t{*report.status}) : close->BindNull();
  close->BindOptional(EscapeForTerminal(report.code)).BindOptional(EscapeForTerminal(report.message));
  close->BindBlob(report.response).Bind(std::int64_t{report.response_cut ? 1 : 0});
  close->BindOptional(EscapeForTerminal(report.response_type));
  report.retry_after ? close->Bind(std::int64_t{report.retry_after->count()}) : close->BindNull();
  close->Bind(std::int64_t{report.took.count()});
  return close->Run();
}

Result<std::optional<std::int64_t>> SqliteTaskStore::FindOurs(const ClaimedTask& claimed) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           statements_.Take("SELECT place FROM sealane_task"
                                            " WHERE id = ? AND state = 'SENDING' AND claims = ?"));
  select->Bind(claimed.id.ToString()).Bind(claimed.claim);
  SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
  return found ? std::optional(select->Int(0)) : std::nullopt;
}

Result<std::optional<std::int64_t>> SqliteTaskStore::FindPlace(const EventId& id) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           statements_.Take("SELECT place FROM sealane_task WHERE id = ?"));
  select->Bind(id.ToString());
  SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
  return found ? std::optional(select->Int(0)) : std::nullopt;
}

Status SqliteTaskStore::MoveOn(std::int64_t place, const AttemptReport& report, const TaskStep& step, Timestamp now) {
  const bool failed = step.state == TaskState::kFailed;
  // When it is over, a trigger lets the next of its order take its turn.
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement move,
      statements_.Take("UPDATE sealane_task SET state = ?2, claimed_until = NULL, status = ?3, code = ?4,"
                       " message = ?5, in_doubt = max(in_doubt, ?6), due_at = coalesce(?7, due_at), ended_at = ?8,"
                       " tries = max(tries - ?9, 0) WHERE place = ?1"));
  move->Bind(place).Bind(ToString(step.state));
  report.status ? move->Bind(std::int64_t{*report.status}) : move->BindNull();
  move->BindOptional(EscapeForTerminal(report.code)).BindOptional(EscapeForTerminal(report.message));
  move->Bind(std::int64_t{report.verdict == AttemptVerdict::kUnknown ? 1 : 0});
  failed ? move->Bind(now + step.retry_after.value_or(milliseconds{0})) : move->BindNull();
  failed ? move->BindNull() : move->Bind(now);
  move->Bind(std::int64_t{step.counts ? 0 : 1});
  return move->Run();
}

Status SqliteTaskStore::Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) {
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const Timestamp now, Now());
  SEALANE_ASSIGN_OR_RETURN(const auto ours, FindOurs(claimed));
  if (!ours) {
    SEALANE_ASSIGN_OR_RETURN(const auto place, FindPlace(claimed.id));
    if (place) {
      SEALANE_RETURN_IF_ERROR(CloseAttempt(*place, claimed.claim, report, now));
      SEALANE_RETURN_IF_ERROR(transaction.Commit());
    }
    return TaskFenced(claimed);
  }
  SEALANE_RETURN_IF_ERROR(CloseAttempt(*ours, claimed.claim, report, now));
  SEALANE_RETURN_IF_ERROR(MoveOn(*ours, report, step, now));
  if (step.event) SEALANE_RETURN_IF_ERROR(SqliteTransaction(connection_.get()).Append({&*step.event, 1}));
  return transaction.Commit();
}

Status SqliteTaskStore::Release(std::span<const ClaimedTask> claimed) {
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  for (const ClaimedTask& one : claimed) {
    SEALANE_ASSIGN_OR_RETURN(const auto ours, FindOurs(one));
    if (!ours) continue;
    SEALANE_ASSIGN_OR_RETURN(const BookedStatement forget,
                             statements_.Take("DELETE FROM sealane_task_attempt WHERE task = ? AND claim = ?"));
    forget->Bind(*ours).Bind(one.claim);
    SEALANE_RETURN_IF_ERROR(forget->Run());
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement release,
        statements_.Take("UPDATE sealane_task SET state = CASE attempts WHEN 1 THEN 'PENDING' ELSE 'FAILED' END,"
                         " attempts = attempts - 1, tries = tries - 1, claimed_until = NULL WHERE place = ?"));
    release->Bind(*ours);
    SEALANE_RETURN_IF_ERROR(release->Run());
  }
  return transaction.Commit();
}

// ---- looking and keeping

Result<std::vector<TargetOutlook>> SqliteTaskStore::Outlook(std::span<const std::string> targets) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(const Timestamp now, Now());
  std::vector<TargetOutlook> outlooks;
  for (const std::string& target : targets) {
    TargetOutlook& outlook = outlooks.emplace_back();
    SEALANE_ASSIGN_OR_RETURN(outlook.paused, IsPaused(target));
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement select,
        statements_.Take("SELECT coalesce(claimed_until, due_at) FROM sealane_task INDEXED BY sealane_task_due"
                         " WHERE target = ? AND NOT waits AND state IN ('PENDING', 'SENDING', 'FAILED')"
                         " ORDER BY coalesce(claimed_until, due_at), place LIMIT 1"));
    select->Bind(target);
    SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
    if (!found) continue;
    // Rounded up: whoever looks again after this time finds it due.
    outlook.due_in = std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(RowReader(*select).Time() - now));
  }
  return outlooks;
}

Status SqliteTaskStore::ForgetOutages(std::string_view owner, std::string_view target, bool own, Timestamp now) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement forget,
                           statements_.Take("DELETE FROM sealane_task_outage WHERE target = ?1"
                                            " AND (next_probe_at < ?2 OR (?3 AND owner = ?4))"));
  forget->Bind(target).Bind(now - kOutageKept).Bind(std::int64_t{own ? 1 : 0}).Bind(owner);
  return forget->Run();
}

Status SqliteTaskStore::ReportOutage(std::string_view owner, std::string_view target,
                                     const std::optional<TargetOutage>& outage) {
  const std::string tidy_owner = EscapeForTerminal(owner);
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const Timestamp now, Now());
  SEALANE_RETURN_IF_ERROR(ForgetOutages(tidy_owner, target, !outage, now));
  if (outage) {
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement note,
        statements_.Take(
            "INSERT INTO sealane_task_outage (target, owner, since, next_probe_at, failures, code, message)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (target, owner) DO UPDATE"
            " SET next_probe_at = ?4, failures = ?5, code = ?6, message = ?7"));
    note->Bind(target).Bind(tidy_owner).Bind(now).Bind(now + outage->next_probe_in);
    note->Bind(std::int64_t{outage->failures});
    note->BindOptional(EscapeForTerminal(outage->code)).BindOptional(EscapeForTerminal(outage->message));
    SEALANE_RETURN_IF_ERROR(note->Run());
  }
  return transaction.Commit();
}

Result<TaskCounts> SqliteTaskStore::Count() {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  // The index is named, and what it is for is said again: SQLite does not conclude it from the state.
  static constexpr std::string_view kOpen =
      "sealane_task INDEXED BY sealane_task_open WHERE state NOT IN ('SUCCEEDED', 'DISCARDED')";
  const auto count = [&](std::string_view state) -> Result<std::int64_t> {
    SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                             statements_.Take(fmt::format(
                                 "SELECT count(*) FROM (SELECT 1 FROM {} AND state = '{}' LIMIT ?)", kOpen, state)));
    select->Bind(TaskCounts::kCountMax);
    SEALANE_RETURN_IF_ERROR(select->Step());
    return select->Int(0);
  };
  TaskCounts counts;
  SEALANE_ASSIGN_OR_RETURN(counts.pending, count(ToString(TaskState::kPending)));
  SEALANE_ASSIGN_OR_RETURN(counts.sending, count(ToString(TaskState::kSending)));
  SEALANE_ASSIGN_OR_RETURN(counts.failed, count(ToString(TaskState::kFailed)));
  SEALANE_ASSIGN_OR_RETURN(counts.dead, count(ToString(TaskState::kDead)));
  for (const TaskState state : {TaskState::kPending, TaskState::kFailed}) {
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement oldest,
        statements_.Take(fmt::format("SELECT created_at FROM {} AND state = '{}' ORDER BY place LIMIT 1", kOpen,
                                     ToString(state))));
    SEALANE_ASSIGN_OR_RETURN(const bool found, oldest->Step());
    if (!found) continue;
    const Timestamp at = RowReader(*oldest).Time();
    counts.oldest_waiting_at = std::min(counts.oldest_waiting_at.value_or(at), at);
  }
  return counts;
}

Result<std::int64_t> SqliteTaskStore::Prune(std::span<const std::string> targets, milliseconds age,
                                            std::size_t limit) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(const Timestamp now, Now());
  std::int64_t forgotten = 0;
  for (const std::string& target : targets) {
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement remove,
        statements_.Take("DELETE FROM sealane_task WHERE place IN (SELECT place FROM sealane_task"
                         " INDEXED BY sealane_task_over WHERE target = ? AND state IN ('SUCCEEDED', 'DISCARDED')"
                         " AND ended_at < ? ORDER BY ended_at LIMIT ?)"));
    remove->Bind(target).Bind(now - age).Bind(Bounded(limit) - forgotten);
    SEALANE_RETURN_IF_ERROR(remove->Run());
    forgotten += sqlite3_changes64(connection_.get());
  }
  return forgotten;
}

}  // namespace

Result<std::unique_ptr<TaskStore>> OpenTaskStore(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, OpenMigrated(options));
  return std::unique_ptr<TaskStore>(std::make_unique<SqliteTaskStore>(std::move(connection)));
}

}  // namespace sealane::sqlite
