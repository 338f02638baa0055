// The part of the log that writes progress and keeps what was set aside.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sqlite/outbox_log.hpp"
#include "sqlite/outbox_log_page.hpp"
#include "sqlite/outbox_log_position.hpp"
#include "sqlite/sqlite_error.hpp"
#include "sqlite/write_transaction.hpp"

namespace sealane::sqlite {
namespace {

constexpr Lane kLane = 0;
constexpr std::size_t kParkedPageBytes = 4 * 1024 * 1024;

/// What holds back its followers; the partial index sealane_parked_unit has the same condition.
constexpr std::string_view kHoldsBack = "state <> 'DISCARDED' AND skipped = 0";

const LaneLease* LeaseOfLane(std::span<const LaneLease> leases) {
  const auto found = std::ranges::find(leases, kLane, &LaneLease::lane);
  return found == leases.end() ? nullptr : &*found;
}

}  // namespace

Result<SettleReport> SqliteOutboxLog::Settle(const SettleRequest& request) {
  SettleReport report;
  if (request.empty()) return report;
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const Lease lease, ReadLease());
  const auto holds = [&](const LaneLease& claimed) {
    if (claimed.lane == kLane && lease.ours && claimed.epoch == lease.epoch) return true;
    if (std::ranges::find(report.fenced, claimed.lane) == report.fenced.end()) report.fenced.push_back(claimed.lane);
    return false;
  };
  if (!request.park.empty()) {
    SEALANE_ASSIGN_OR_RETURN(Statement upsert, PrepareWriteParked());
    for (const ParkChange& change : request.park) {
      if (holds(change.lease)) SEALANE_RETURN_IF_ERROR(WriteParked(upsert, change));
    }
  }
  if (!request.unpark.empty()) {
    SEALANE_ASSIGN_OR_RETURN(
        Statement remove,
        Statement::Prepare(connection_.get(), "DELETE FROM sealane_parked WHERE route = ? AND seq = ?"));
    for (const Unpark& unpark : request.unpark) {
      if (holds(unpark.lease)) SEALANE_RETURN_IF_ERROR(remove.Bind(route_).Bind(unpark.seq).Run());
    }
  }
  for (const SettleRequest::Progress& progress : request.progress) {
    if (holds(progress.lease)) SEALANE_RETURN_IF_ERROR(WriteProgress(progress));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return report;
}

Status SqliteOutboxLog::WriteProgress(const SettleRequest::Progress& progress) {
  SEALANE_ASSIGN_OR_RETURN(const LanePositions before, ReadPositions());
  const std::span<const ApartFlow> apart = progress.positions.apart;
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t published_seq, SeqOf(progress.positions.main.cursor));
  SEALANE_ASSIGN_OR_RETURN(const std::string apart_json, ApartToJson(apart));
  std::int64_t window_seq = 0;
  if (!progress.window.empty()) {
    SEALANE_ASSIGN_OR_RETURN(window_seq, SeqOf(progress.window));
  }
  static const std::string sql = fmt::format(
      "UPDATE sealane_cursor SET published_seq = ?, window_seq = ?, apart = ?, updated_at = {} WHERE route = ?",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(Statement update, Statement::Prepare(connection_.get(), sql));
  update.Bind(published_seq).Bind(window_seq);
  if (apart.empty()) {
    update.BindNull();
  } else {
    update.Bind(apart_json);
  }
  update.Bind(route_);
  SEALANE_RETURN_IF_ERROR(update.Run());

  // A tenant that leaves its flow apart is done as far as the main one, so that is news as well.
  const std::string except = TenantsJson(apart);
  if (before.main != progress.positions.main || TenantsJson(before.apart) != except) {
    SEALANE_RETURN_IF_ERROR(WriteSettlement(published_seq, std::nullopt, except));
  }
  for (const ApartFlow& flow : apart) {
    if (std::ranges::find(before.apart, flow) != before.apart.end()) continue;
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq, SeqOf(flow.position.cursor));
    SEALANE_RETURN_IF_ERROR(WriteSettlement(seq, TenantsJson(flow.tenants), "[]"));
  }
  return Ok();
}

Status SqliteOutboxLog::WriteSettlement(std::int64_t seq_to, const std::optional<std::string>& tenants,
                                        const std::string& except_tenants) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement insert,
      Statement::Prepare(
          connection_.get(),
          "INSERT INTO sealane_settlement (route, seq_to, tenants, except_tenants) VALUES (?, ?, ?, ?)"));
  insert.Bind(route_).Bind(seq_to).BindOptional(tenants).Bind(except_tenants);
  return insert.Run();
}

Result<Statement> SqliteOutboxLog::PrepareWriteParked() const {
  // A person who gave the event up while it was being tried has the last word.
  static const std::string sql = fmt::format(
      "INSERT INTO sealane_parked AS p (route, seq, event_id, unit, tenant, topic, key, state, attempts,"
      " next_attempt_at, error_code, error_message, first_failed_at, last_failed_at, skipped)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?10, {0} + ?11), ?12, ?13,"
      " CASE WHEN ?12 IS NOT NULL THEN {0} END, CASE WHEN ?12 IS NOT NULL THEN {0} END, ?14)"
      " ON CONFLICT (route, seq) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,"
      " next_attempt_at = excluded.next_attempt_at, skipped = excluded.skipped,"
      " error_code = coalesce(excluded.error_code, p.error_code),"
      " error_message = CASE WHEN excluded.error_code IS NULL THEN p.error_message ELSE excluded.error_message END,"
      " first_failed_at = coalesce(p.first_failed_at, excluded.first_failed_at),"
      " last_failed_at = coalesce(excluded.last_failed_at, p.last_failed_at)"
      " WHERE p.state <> 'DISCARDED'",
      kNowSql);
  return Statement::Prepare(connection_.get(), sql);
}

Status SqliteOutboxLog::WriteParked(Statement& upsert, const ParkChange& change) const {
  upsert.Bind(route_)
      .Bind(change.seq)
      .Bind(change.id.ToString())
      .Bind(change.unit)
      .Bind(change.tenant)
      .Bind(change.topic)
      .Bind(change.key)
      .Bind(ToString(change.state))
      .Bind(std::int64_t{change.attempts})
      .BindOptional(change.not_before);
  if (change.retry_after) {
    upsert.Bind(std::int64_t{std::chrono::microseconds(*change.retry_after).count()});
  } else {
    upsert.BindNull();
  }
  upsert.BindOptional(std::string_view(change.error_code)).BindOptional(std::string_view(change.error_message));
  upsert.Bind(std::int64_t{change.state == ParkedState::kDead && !change.holds_followers});
  return upsert.Run();
}

Result<std::vector<DueUnit>> SqliteOutboxLog::UnitsOf(Statement& select, const LaneLease& lease) {
  std::vector<DueUnit> units;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return units;
    units.push_back({lease, select.Text(0)});
  }
}

Result<std::vector<DueUnit>> SqliteOutboxLog::BlockedUnits(std::span<const LaneLease> leases) {
  static const std::string sql =
      fmt::format("SELECT DISTINCT unit FROM sealane_parked WHERE route = ? AND {} LIMIT ?", kHoldsBack);
  const LaneLease* const lease = LeaseOfLane(leases);
  if (lease == nullptr) return std::vector<DueUnit>();
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  select.Bind(route_).Bind(Membership::kBlockedUnitsMax + 1);
  return UnitsOf(select, *lease);
}

Result<std::vector<DueUnit>> SqliteOutboxLog::DueUnits(std::span<const LaneLease> leases,
                                                       std::span<const std::string> but_tenants, std::size_t limit) {
  // Beside min(), SQLite takes the other columns from the row that has the minimum: the first event of the unit.
  static const std::string sql = fmt::format(
      "SELECT unit FROM (SELECT unit, tenant, state, next_attempt_at, min(seq) AS seq FROM sealane_parked"
      " WHERE route = ? AND {} GROUP BY unit)"
      " WHERE state <> 'DEAD' AND coalesce(next_attempt_at, 0) <= {}"
      " AND tenant NOT IN (SELECT value FROM json_each(?))"
      " ORDER BY coalesce(next_attempt_at, 0), seq LIMIT ?",
      kHoldsBack, kNowSql);
  const LaneLease* const lease = LeaseOfLane(leases);
  if (lease == nullptr) return std::vector<DueUnit>();
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  select.Bind(route_).Bind(TenantsJson(but_tenants)).Bind(static_cast<std::int64_t>(limit));
  return UnitsOf(select, *lease);
}

Result<Page> SqliteOutboxLog::ReadParked(const DueUnit& unit, std::size_t limit, std::vector<ParkedEntry>& entries) {
  entries.clear();
  static const std::string sql = fmt::format(
      "SELECT p.seq, p.event_id, p.state, p.attempts, coalesce(p.next_attempt_at, 0) <= {}, {}"
      " FROM sealane_parked p LEFT JOIN sealane_outbox o ON o.seq = p.seq"
      " WHERE p.route = ?1 AND p.unit = ?2 AND p.state <> 'DISCARDED' AND p.skipped = 0 ORDER BY p.seq LIMIT ?3",
      kNowSql, kEntryColumns);
  enum { kSeq, kEventId, kState, kAttempts, kTimeHasCome, kEntry };
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v2(connection_.get(), sql.c_str(), static_cast<int>(sql.size()), &handle, nullptr) !=
      SQLITE_OK) {
    return LastError(connection_.get());
  }
  const RawStatement select(handle);
  sqlite3_bind_text64(handle, 2, unit.unit.data(), unit.unit.size(), SQLITE_STATIC, SQLITE_UTF8);
  sqlite3_bind_text64(handle, 1, route_.data(), route_.size(), SQLITE_STATIC, SQLITE_UTF8);
  sqlite3_bind_int64(handle, 3, static_cast<std::int64_t>(limit));

  PageBuilder builder(kParkedPageBytes);
  while (true) {
    const int stepped = sqlite3_step(handle);
    if (stepped == SQLITE_DONE) break;
    if (stepped != SQLITE_ROW) return LastError(connection_.get());
    const auto* const name = reinterpret_cast<const char*>(sqlite3_column_text(handle, kState));
    const auto state = ParseParkedState(name);
    if (!state || *state == ParkedState::kDead || sqlite3_column_int64(handle, kTimeHasCome) == 0) break;
    if (sqlite3_column_type(handle, kEntry) == SQLITE_NULL) {
      if (!builder.empty()) break;  // what stands before it can still go
      return Error(ErrorKind::kCorrupt, "parked_row_missing",
                   fmt::format("event {} (seq {}) was set aside, and its row is gone from the log",
                               reinterpret_cast<const char*>(sqlite3_column_text(handle, kEventId)),
                               sqlite3_column_int64(handle, kSeq)))
          .WithHint("give it up with: sealane dead discard ID --reason ...");
    }
    SEALANE_ASSIGN_OR_RETURN(const bool added, builder.Add(handle, kEntry));
    if (!added) break;
    entries.push_back(
        {builder.size() - 1, *state, static_cast<std::int32_t>(sqlite3_column_int64(handle, kAttempts))});
  }
  return std::move(builder).Finish();
}

}  // namespace sealane::sqlite
