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
constexpr std::string_view kHoldsBack = "state <> 'DISCARDED' AND skipped = 0 AND waits_for IS NULL";

const LaneLease* LeaseOfLane(std::span<const LaneLease> leases) {
  const auto found = std::ranges::find(leases, kLane, &LaneLease::lane);
  return found == leases.end() ? nullptr : &*found;
}

}  // namespace

Result<SettleReport> SqliteOutboxLog::Settle(const SettleRequest& request) {
  SettleReport report;
  if (request.empty()) return report;
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const Lease lease, ReadLease());
  SEALANE_ASSIGN_OR_RETURN(const bool fits, FitsTheFile(request, lease));
  const auto holds = [&](const LaneLease& claimed) {
    if (claimed.lane == kLane && lease.ours && claimed.epoch == lease.epoch && fits) return true;
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
    SEALANE_ASSIGN_OR_RETURN(Statement remove,
                             Statement::Prepare(connection_.get(),
                                                "DELETE FROM sealane_parked WHERE route = ?1 AND seq = ?2"
                                                " AND (?3 = '' OR waits_for = ?3)"));
    for (const Unpark& unpark : request.unpark) {
      if (holds(unpark.lease))
        SEALANE_RETURN_IF_ERROR(remove.Bind(route_).Bind(unpark.seq).Bind(unpark.waits_for).Run());
    }
  }
  for (const SettleRequest::Progress& progress : request.progress) {
    if (holds(progress.lease)) SEALANE_RETURN_IF_ERROR(WriteProgress(progress));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  if (report.fenced.empty() && !request.progress.empty()) memory_->Wrote(lease.epoch, lease.writes + 1);
  return report;
}

// Progress about events of an earlier life of the file would skip those that have their numbers now.
Result<bool> SqliteOutboxLog::FitsTheFile(const SettleRequest& request, const Lease& lease) {
  if (!lease.ours) return true;  // fenced anyway
  bool fits = memory_->Trusts(lease.epoch, lease.writes, *connection_.file());
  if (fits && !request.progress.empty()) {
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq_high, SeqHigh());
    for (const SettleRequest::Progress& progress : request.progress) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq, SeqOf(progress.positions.main.cursor));
      fits = fits && seq <= seq_high;
    }
  }
  if (!fits) memory_->Lose();
  return fits;
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
      "UPDATE sealane_cursor SET published_seq = ?, window_seq = ?, apart = ?, updated_at = {}, writes = writes + 1"
      " WHERE route = ?",
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
      " next_attempt_at, error_code, error_message, first_failed_at, last_failed_at, skipped, waits_for)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?10, {0} + ?11), ?12, ?13,"
      " CASE WHEN ?12 IS NOT NULL AND ?15 IS NULL THEN {0} END,"
      " CASE WHEN ?12 IS NOT NULL AND ?15 IS NULL THEN {0} END, ?14, ?15)"
      " ON CONFLICT (route, seq) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,"
      " next_attempt_at = excluded.next_attempt_at, skipped = excluded.skipped,"
      " error_code = coalesce(excluded.error_code, p.error_code),"
      " error_message = CASE WHEN excluded.error_code IS NULL THEN p.error_message ELSE excluded.error_message END,"
      " first_failed_at = coalesce(p.first_failed_at, excluded.first_failed_at),"
      " last_failed_at = coalesce(excluded.last_failed_at, p.last_failed_at),"
      // A topic that an operator chose in the meantime has the last word.
      " waits_for = CASE WHEN excluded.waits_for IS NOT NULL THEN coalesce(p.destination, excluded.waits_for) END,"
      " unit = CASE WHEN p.destination IS NULL THEN excluded.unit ELSE p.unit END"
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
  upsert.BindOptional(std::string_view(change.waits_for));
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
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  select.Bind(route_).Bind(TenantsJson(but_tenants)).Bind(static_cast<std::int64_t>(limit));
  return UnitsOf(select, *lease);
}

Result<Page> SqliteOutboxLog::ReadParked(const DueUnit& unit, std::size_t limit, std::vector<ParkedEntry>& entries) {
  entries.clear();
  static const std::string sql = fmt::format(
      "SELECT p.seq, p.event_id, p.state, p.attempts, coalesce(p.next_attempt_at, 0) <= {},"
      " coalesce(p.destination, ''), {}"
      " FROM sealane_parked p LEFT JOIN sealane_outbox o ON o.seq = p.seq"
      " WHERE p.route = ?1 AND p.unit = ?2 AND p.state <> 'DISCARDED' AND p.skipped = 0"
      " AND p.waits_for IS NULL ORDER BY p.seq LIMIT ?3",
      kNowSql, kEntryColumns);
  enum { kSeq, kEventId, kState, kAttempts, kTimeHasCome, kDestination, kEntry };
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
    entries.push_back({builder.size() - 1, *state, static_cast<std::int32_t>(sqlite3_column_int64(handle, kAttempts)),
                       reinterpret_cast<const char*>(sqlite3_column_text(handle, kDestination))});
  }
  return std::move(builder).Finish();
}

Result<std::vector<WaitingTopic>> SqliteOutboxLog::WaitingTopics(std::span<const LaneLease> leases,
                                                                 std::size_t limit) {
  std::vector<WaitingTopic> topics;
  if (LeaseOfLane(leases) == nullptr) return topics;
  // From one name to the next through the index, however many rows wait for each.
  static constexpr std::string_view kSql =
      "WITH RECURSIVE t(topic) AS ("
      " SELECT min(waits_for) FROM sealane_parked WHERE route = ?1 AND waits_for IS NOT NULL AND state = 'WAITING'"
      " UNION ALL"
      " SELECT (SELECT min(p.waits_for) FROM sealane_parked p WHERE p.route = ?1 AND p.waits_for > t.topic"
      "   AND p.waits_for IS NOT NULL AND p.state = 'WAITING') FROM t WHERE t.topic IS NOT NULL)"
      " SELECT t.topic, (SELECT count(*) FROM (SELECT 1 FROM sealane_parked p WHERE p.route = ?1"
      "   AND p.waits_for = t.topic AND p.waits_for IS NOT NULL AND p.state = 'WAITING' LIMIT ?3))"
      " FROM t WHERE t.topic IS NOT NULL LIMIT ?2";
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), kSql));
  select.Bind(route_).Bind(static_cast<std::int64_t>(limit)).Bind(WaitingTopic::kCountMax);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return topics;
    topics.push_back({select.Text(0), select.Int(1)});
  }
}

Result<Page> SqliteOutboxLog::ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                                          std::span<const std::string> but_tenants, std::size_t limit,
                                          std::size_t bytes_max) {
  static const std::string sql = fmt::format(
      "SELECT {} FROM sealane_parked p JOIN sealane_outbox o ON o.seq = p.seq"
      " WHERE p.route = ?1 AND p.waits_for = ?2 AND p.waits_for IS NOT NULL AND p.state = 'WAITING'"
      " AND p.tenant NOT IN (SELECT value FROM json_each(?4)) ORDER BY p.seq LIMIT ?3",
      kEntryColumns);
  PageBuilder builder(bytes_max);
  bool more = false;
  if (LeaseOfLane(leases) != nullptr) {
    sqlite3_stmt* handle = nullptr;
    if (sqlite3_prepare_v2(connection_.get(), sql.c_str(), static_cast<int>(sql.size()), &handle, nullptr) !=
        SQLITE_OK) {
      return LastError(connection_.get());
    }
    const RawStatement select(handle);
    sqlite3_bind_text64(handle, 1, route_.data(), route_.size(), SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_text64(handle, 2, topic.data(), topic.size(), SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(handle, 3, static_cast<std::int64_t>(limit) + 1);  // one more tells whether there are more
    const std::string tenants = TenantsJson(but_tenants);
    sqlite3_bind_text64(handle, 4, tenants.data(), tenants.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    while (!more) {
      const int stepped = sqlite3_step(handle);
      if (stepped == SQLITE_DONE) break;
      if (stepped != SQLITE_ROW) return LastError(connection_.get());
      more = builder.size() == limit;
      if (more) break;
      SEALANE_ASSIGN_OR_RETURN(const bool added, builder.Add(handle, 0));
      more = !added;
    }
  }
  Page page = std::move(builder).Finish();
  page.caught_up = !more;
  return page;
}

Status SqliteOutboxLog::KeepOrder(std::string_view order) {
  static const std::string sql = fmt::format(
      "SELECT coalesce(r.order_mode, ''),"
      " (SELECT count(*) FROM sealane_parked p WHERE p.route = ?1 AND p.state <> 'DISCARDED' AND p.waits_for IS "
      "NULL),"
      " (SELECT count(*) FROM sealane_relay_member m WHERE m.route = ?1 AND m.owner <> ?2 AND m.expires_at > {})"
      " FROM sealane_route r WHERE r.name = ?1",
      kNowSql);
  {
    // Mostly nothing changed, and then no writer has to wait.
    SEALANE_ASSIGN_OR_RETURN(
        Statement known,
        Statement::Prepare(connection_.get(), "SELECT 1 FROM sealane_route WHERE name = ?1 AND order_mode = ?2"));
    known.Bind(route_).Bind(order);
    SEALANE_ASSIGN_OR_RETURN(const bool same, known.Step());
    if (same) return Ok();
  }
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  select.Bind(route_).Bind(owner_);
  SEALANE_RETURN_IF_ERROR(select.Step());
  const std::string recorded = select.Text(0);
  const std::int64_t parked = select.Int(1);
  const std::int64_t relays = select.Int(2);
  if (recorded == order) return Ok();
  if (!recorded.empty() && (parked > 0 || relays > 0)) return OrderChanged(route_, recorded, order, parked, relays);
  SEALANE_ASSIGN_OR_RETURN(
      Statement update,
      Statement::Prepare(connection_.get(), "UPDATE sealane_route SET order_mode = ?1 WHERE name = ?2"));
  SEALANE_RETURN_IF_ERROR(update.Bind(order).Bind(route_).Run());
  return transaction.Commit();
}

}  // namespace sealane::sqlite
