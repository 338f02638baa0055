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

/// What holds back its followers; the partial index sealane_parked_unit has the same condition.
constexpr std::string_view kHoldsBack = "state <> 'DISCARDED' AND skipped = 0 AND waits_for IS NULL";

/// Whether the position, or that of its tenant, has passed the row `p` of the route ?1.
std::string PassedSql(std::string_view row) {
  return fmt::format(
      "{0}.seq <= coalesce((SELECT coalesce((SELECT json_extract(f.value, '$.seq') FROM json_each(c.apart) f,"
      " json_each(f.value, '$.tenants') t WHERE t.value = {0}.tenant LIMIT 1), c.published_seq)"
      " FROM sealane_cursor c WHERE c.route = ?1), 0)",
      row);
}

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
  if (!request.delay.empty()) {
    // Not one that was read again after a crash and given up by an operator meanwhile.
    SEALANE_ASSIGN_OR_RETURN(
        Statement insert,
        Statement::Prepare(connection_.get(),
                           "INSERT INTO sealane_delayed (route, seq, due_at, tenant) SELECT ?1, ?2, ?3, ?4"
                           " WHERE NOT EXISTS (SELECT 1 FROM sealane_parked WHERE route = ?1 AND seq = ?2)"
                           " ON CONFLICT DO NOTHING"));
    for (const DelayChange& change : request.delay) {
      if (!holds(change.lease)) continue;
      insert.Bind(route_).Bind(change.seq).Bind(change.due_at).Bind(change.tenant);
      SEALANE_RETURN_IF_ERROR(insert.Run());
    }
  }
  if (!request.undelay.empty()) {
    SEALANE_ASSIGN_OR_RETURN(
        Statement remove,
        Statement::Prepare(connection_.get(), "DELETE FROM sealane_delayed WHERE route = ? AND seq = ?"));
    for (const Undelay& gone : request.undelay) {
      if (holds(gone.lease)) SEALANE_RETURN_IF_ERROR(remove.Bind(route_).Bind(gone.seq).Run());
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
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, {0} + ?10, ?11, ?12,"
      " CASE WHEN ?11 IS NOT NULL AND ?14 IS NULL THEN {0} END,"
      " CASE WHEN ?11 IS NOT NULL AND ?14 IS NULL THEN {0} END, ?13, ?14)"
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
      .Bind(std::int64_t{change.attempts});
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

// unit, tenant, seq, state, milliseconds until it is due, events of the unit
Status SqliteOutboxLog::AddUnits(Statement& select, const LaneLease& lease, std::vector<BlockedUnit>& units) {
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return Ok();
    RowReader row(select);
    BlockedUnit& unit = units.emplace_back();
    unit.lease = lease;
    unit.unit = row.Text();
    unit.tenant = row.Text();
    unit.seq = row.Int();
    unit.dead = row.Text() == "DEAD";
    unit.due_in = std::chrono::milliseconds{std::max<std::int64_t>(row.Int(), 0)};
    unit.events = row.Int();
  }
}

namespace {

// Beside min(), SQLite takes the other columns from the row that has the minimum: the first event of the unit.
std::string SelectUnits(std::string_view condition) {
  return fmt::format(
      "SELECT unit, tenant, min(seq), state, (coalesce(next_attempt_at, 0) - {} + 999) / 1000, count(*)"
      " FROM sealane_parked WHERE route = ?1 AND {} AND {} GROUP BY unit",
      kNowSql, kHoldsBack, condition);
}

}  // namespace

Result<std::vector<BlockedUnit>> SqliteOutboxLog::BlockedUnits(std::span<const LaneLease> leases) {
  static const std::string sql = SelectUnits("1") + " LIMIT ?2";
  std::vector<BlockedUnit> units;
  const LaneLease* const lease = LeaseOfLane(leases);
  if (lease == nullptr) return units;
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  select.Bind(route_).Bind(Membership::kBlockedUnitsMax + 1);
  SEALANE_RETURN_IF_ERROR(AddUnits(select, *lease, units));
  return units;
}

Result<std::vector<BlockedUnit>> SqliteOutboxLog::BlockedUnits(std::span<const DueUnit> units) {
  static const std::string sql = SelectUnits("unit = ?2");
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  std::vector<BlockedUnit> found;
  for (const DueUnit& unit : units) {
    select.Reset();
    select.Bind(route_).Bind(unit.unit);
    SEALANE_RETURN_IF_ERROR(AddUnits(select, unit.lease, found));
  }
  return found;
}

Result<std::vector<DueUnit>> SqliteOutboxLog::TakeChanges(std::span<const LaneLease> leases, std::size_t limit) {
  std::vector<DueUnit> units;
  const LaneLease* const lease = LeaseOfLane(leases);
  if (lease == nullptr) return units;
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  {
    SEALANE_ASSIGN_OR_RETURN(
        Statement take,
        Statement::Prepare(connection_.get(),
                           "DELETE FROM sealane_parked_change WHERE id IN (SELECT id FROM sealane_parked_change"
                           " WHERE route = ? ORDER BY id LIMIT ?) RETURNING unit"));
    take.Bind(route_).Bind(static_cast<std::int64_t>(limit));
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool found, take.Step());
      if (!found) break;
      units.push_back({*lease, take.Text(0)});
    }
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  const auto by_name = [](const DueUnit& a, const DueUnit& b) { return a.unit < b.unit; };
  std::ranges::sort(units, by_name);
  const auto same = [](const DueUnit& a, const DueUnit& b) { return a.unit == b.unit; };
  units.erase(std::unique(units.begin(), units.end(), same), units.end());
  return units;
}

Result<ParkedBatch> SqliteOutboxLog::ReadParked(std::span<const DueUnit> units, std::size_t limit,
                                                std::size_t bytes_max) {
  static const std::string sql = fmt::format(
      "SELECT p.event_id, p.state, p.attempts, (coalesce(p.next_attempt_at, 0) - {} + 999) / 1000,"
      " coalesce(p.destination, ''), {}, {}"
      " FROM sealane_parked p LEFT JOIN sealane_outbox o ON o.seq = p.seq"
      " WHERE p.route = ?1 AND p.unit = ?2 AND p.state <> 'DISCARDED' AND p.skipped = 0"
      " AND p.waits_for IS NULL ORDER BY p.seq LIMIT ?3",
      kNowSql, PassedSql("p"), kEntryColumns);
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v2(connection_.get(), sql.c_str(), static_cast<int>(sql.size()), &handle, nullptr) !=
      SQLITE_OK) {
    return LastError(connection_.get());
  }
  const RawStatement select(handle);
  ParkedBatch batch;
  PageBuilder builder(bytes_max);
  for (const DueUnit& wanted : units) {
    ParkedUnit unit;
    SEALANE_ASSIGN_OR_RETURN(const bool added, ReadUnit(handle, wanted, limit, builder, unit));
    if (!added) break;
    batch.units.push_back(std::move(unit));
  }
  batch.page = std::move(builder).Finish();
  return batch;
}

Result<bool> SqliteOutboxLog::ReadUnit(sqlite3_stmt* select, const DueUnit& wanted, std::size_t limit,
                                       PageBuilder& builder, ParkedUnit& unit) {
  using Rest = ParkedUnit::Rest;
  enum { kEventId, kState, kAttempts, kDueIn, kDestination, kPassed, kEntry };
  const auto text = [&](int column) { return reinterpret_cast<const char*>(sqlite3_column_text(select, column)); };
  sqlite3_reset(select);
  sqlite3_bind_text64(select, 1, route_.data(), route_.size(), SQLITE_STATIC, SQLITE_UTF8);
  sqlite3_bind_text64(select, 2, wanted.unit.data(), wanted.unit.size(), SQLITE_STATIC, SQLITE_UTF8);
  sqlite3_bind_int64(select, 3, static_cast<std::int64_t>(limit) + 1);
  while (true) {
    const int stepped = sqlite3_step(select);
    if (stepped == SQLITE_DONE) return true;
    if (stepped != SQLITE_ROW) return LastError(connection_.get());
    const auto state = ParseParkedState(text(kState));
    const std::chrono::milliseconds due_in{sqlite3_column_int64(select, kDueIn)};
    if (!state || *state == ParkedState::kDead) {
      unit.rest = Rest::kDead;
      return true;
    }
    if (due_in.count() > 0 || sqlite3_column_int64(select, kPassed) == 0) {
      unit.rest = Rest::kLater;
      unit.due_in = due_in.count() > 0 ? due_in : kBehindPosition;
      return true;
    }
    if (sqlite3_column_type(select, kEntry) == SQLITE_NULL) {
      unit.rest = Rest::kGone;
      unit.gone = EventId::Parse(text(kEventId)).value_or(EventId{});
      return true;
    }
    unit.rest = Rest::kMore;
    if (unit.entries.size() == limit) return true;
    SEALANE_ASSIGN_OR_RETURN(const bool added, builder.Add(select, kEntry));
    if (!added) return !unit.entries.empty();
    unit.rest = Rest::kNothing;
    unit.entries.push_back({builder.size() - 1, *state,
                            static_cast<std::int32_t>(sqlite3_column_int64(select, kAttempts)), text(kDestination)});
  }
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
      "SELECT {}, {} FROM sealane_parked p JOIN sealane_outbox o ON o.seq = p.seq"
      " WHERE p.route = ?1 AND p.waits_for = ?2 AND p.waits_for IS NOT NULL AND p.state = 'WAITING'"
      " AND p.tenant NOT IN (SELECT value FROM json_each(?4)) ORDER BY p.seq LIMIT ?3",
      PassedSql("p"), kEntryColumns);
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
      more = builder.size() == limit || sqlite3_column_int64(handle, 0) == 0;
      if (more) break;
      SEALANE_ASSIGN_OR_RETURN(const bool added, builder.Add(handle, 1));
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

Result<DelayedPage> SqliteOutboxLog::ReadDelayed(const DelayedRequest& request) {
  static const std::string sql = fmt::format(
      "SELECT d.seq, d.due_at, d.tenant IN (SELECT value FROM json_each(?5)), {2}, {1}"
      " FROM sealane_delayed d LEFT JOIN sealane_outbox o ON o.seq = d.seq"
      " WHERE d.route = ?1 AND d.due_at <= {0} AND (d.due_at, d.seq) > (?2, ?3) ORDER BY d.due_at, d.seq LIMIT ?4",
      kNowSql, kEntryColumns, PassedSql("d"));
  enum { kSeq, kDueAt, kUnwanted, kPassed, kEntry };
  DelayedPage read{.page = {}, .next = request.from, .caught_up = true, .gone = {}};
  const LaneLease* const lease = LeaseOfLane(request.leases);
  if (lease == nullptr) return read;
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v2(connection_.get(), sql.c_str(), static_cast<int>(sql.size()), &handle, nullptr) !=
      SQLITE_OK) {
    return LastError(connection_.get());
  }
  const RawStatement select(handle);
  const std::string but_tenants = TenantsJson(request.but_tenants);
  sqlite3_bind_text64(handle, 1, route_.data(), route_.size(), SQLITE_STATIC, SQLITE_UTF8);
  sqlite3_bind_int64(handle, 2, request.from.due_at.time_since_epoch().count());
  sqlite3_bind_int64(handle, 3, request.from.seq);
  sqlite3_bind_int64(handle, 4, static_cast<std::int64_t>(request.rows_max) + 1);
  sqlite3_bind_text64(handle, 5, but_tenants.data(), but_tenants.size(), SQLITE_STATIC, SQLITE_UTF8);
  PageBuilder builder(request.bytes_max);
  for (std::size_t looked = 0;; ++looked) {
    const int stepped = sqlite3_step(handle);
    if (stepped == SQLITE_DONE) break;
    if (stepped != SQLITE_ROW) return LastError(connection_.get());
    read.caught_up = looked < request.rows_max;
    if (!read.caught_up) break;
    const std::int64_t seq = sqlite3_column_int64(handle, kSeq);
    const DelayedPlace place{Timestamp{std::chrono::microseconds{sqlite3_column_int64(handle, kDueAt)}}, seq};
    const bool wanted = sqlite3_column_int64(handle, kUnwanted) == 0;
    if (sqlite3_column_type(handle, kEntry) == SQLITE_NULL) {
      read.gone.push_back({*lease, seq});
    } else if (wanted && sqlite3_column_int64(handle, kPassed) == 0) {
      if (!read.behind) read.behind = place;
    } else if (wanted) {
      SEALANE_ASSIGN_OR_RETURN(const bool added, builder.Add(handle, kEntry));
      read.caught_up = added;
      if (!added) break;
    }
    read.next = place;
  }
  SEALANE_RETURN_IF_ERROR(CheckMemory());
  read.page = std::move(builder).Finish();
  SortByTime(read.page);
  if (!read.caught_up) return read;
  static const std::string next_sql = fmt::format(
      "SELECT (d.due_at - {} + 999) / 1000 FROM sealane_delayed d WHERE d.route = ?"
      " AND (d.due_at, d.seq) > (?, ?) ORDER BY d.due_at, d.seq LIMIT 1",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(Statement next, Statement::Prepare(connection_.get(), next_sql));
  next.Bind(route_).Bind(read.next.due_at).Bind(read.next.seq);
  SEALANE_ASSIGN_OR_RETURN(const bool found, next.Step());
  if (found) read.next_due_in = std::chrono::milliseconds{std::max<std::int64_t>(next.Int(0), 0)};
  return read;
}

}  // namespace sealane::sqlite
