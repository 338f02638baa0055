#include "sqlite/outbox_log.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "sqlite/migrated_connection.hpp"
#include "sqlite/outbox_log_page.hpp"
#include "sqlite/outbox_log_position.hpp"
#include "sqlite/sqlite_error.hpp"
#include "sqlite/write_transaction.hpp"

namespace sealane::sqlite {
namespace {

constexpr Lane kLane = 0;

/// How many seq numbers one page looks at when it wants some tenants alone, so that a rare tenant in a long backlog
/// costs many short reads instead of an endless one.
constexpr std::int64_t kScanMax = 100'000;

std::int64_t Microseconds(std::chrono::milliseconds duration) {
  return std::chrono::microseconds(duration).count();
}

/// Ends the read transaction that a statement holds open, so that checkpoints can go on.
class ResetAtEnd {
 public:
  explicit ResetAtEnd(sqlite3_stmt* statement) : statement_(statement) {}
  ~ResetAtEnd() {
    sqlite3_reset(statement_);  // repeats the error of the last step, which its caller has seen
    sqlite3_clear_bindings(statement_);
  }
  ResetAtEnd(const ResetAtEnd&) = delete;
  ResetAtEnd& operator=(const ResetAtEnd&) = delete;

 private:
  sqlite3_stmt* statement_;
};

Result<std::string> ReadBirth(const Connection& connection) {
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Statement::Prepare(connection.get(), "SELECT birth FROM sealane_identity WHERE id = 1"));
  SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (found) return select.Text(0);
  return Error(ErrorKind::kCorrupt, "store_corrupt",
               fmt::format("{} has lost its row in sealane_identity", EscapeForTerminal(connection.path())))
      .WithHint("restore the file from a backup");
}

Status AddRoute(const Connection& connection, const std::string& route) {
  SEALANE_ASSIGN_OR_RETURN(Statement known,
                           Statement::Prepare(connection.get(), "SELECT 1 FROM sealane_cursor WHERE route = ?"));
  known.Bind(route);
  SEALANE_ASSIGN_OR_RETURN(const bool found, known.Step());
  known.Reset();
  if (found) return Ok();
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection.get()));
  SEALANE_ASSIGN_OR_RETURN(
      Statement add,
      Statement::Prepare(connection.get(), "INSERT INTO sealane_route (name) VALUES (?) ON CONFLICT DO NOTHING"));
  add.Bind(route);
  if (auto added = add.Run(); !added && added.error().kind() == ErrorKind::kRejected) {
    return Error(ErrorKind::kMisconfigured, "invalid_route_name",
                 fmt::format("\"{}\" cannot be the name of a route", EscapeForTerminal(route)))
        .WithHint("use lower-case letters, digits, - and _, beginning with a letter, at most 63");
  } else if (!added) {
    return added;
  }
  SEALANE_ASSIGN_OR_RETURN(
      Statement start,
      Statement::Prepare(connection.get(), "INSERT INTO sealane_cursor (route) VALUES (?) ON CONFLICT DO NOTHING"));
  start.Bind(route);
  SEALANE_RETURN_IF_ERROR(start.Run());
  return transaction.Commit();
}

}  // namespace

SqliteOutboxLog::SqliteOutboxLog(Connection connection, Options options, std::string route, std::string owner,
                                 std::shared_ptr<LeaseMemory> memory)
    : connection_(std::move(connection)),
      options_(std::move(options)),
      route_(std::move(route)),
      owner_(std::move(owner)),
      memory_(std::move(memory)) {}

// ---- leases
// ---------------------------------------------------------------------------------------------------------

Result<SqliteOutboxLog::Lease> SqliteOutboxLog::ReadLease() {
  static const std::string sql =
      fmt::format("SELECT owner IS ?, expires_at > {}, epoch, writes FROM sealane_cursor WHERE route = ?", kNowSql);
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  select.Bind(owner_).Bind(route_);
  SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) {
    return Error(ErrorKind::kMisconfigured, "unknown_route",
                 fmt::format("route {} was removed from the store", EscapeForTerminal(route_)))
        .WithHint("restart the relay to add it again");
  }
  RowReader row(select);
  Lease lease;
  lease.ours = row.Int() != 0;
  lease.alive = row.Int() != 0;
  lease.epoch = row.Int();
  lease.writes = row.Int();
  return lease;
}

Status SqliteOutboxLog::GiveUpLease() {
  LogWarning("the outbox was restored from an earlier copy: its lane is claimed again from the position in the file",
             {{"file", options_.path}, {"route", route_}, {"owner", owner_}});
  memory_->Lose();
  SEALANE_ASSIGN_OR_RETURN(Statement release,
                           Statement::Prepare(connection_.get(),
                                              "UPDATE sealane_cursor SET owner = NULL, expires_at = 0, window_seq = 0"
                                              " WHERE route = ? AND owner = ?"));
  release.Bind(route_).Bind(owner_);
  return release.Run();
}

Error SqliteOutboxLog::WentBack() {
  memory_->Lose();
  return Error(ErrorKind::kUnavailable, "file_replaced",
               fmt::format("{} was restored from an earlier copy: events that this relay saw are gone from it",
                           EscapeForTerminal(options_.path)))
      .WithHint("nothing to do: the relay goes on from the position in the file");
}

Status SqliteOutboxLog::CheckMemory() {
  if (!memory_->Covers(*connection_.file())) return WentBack();
  if (!lease_writes_) {
    SEALANE_ASSIGN_OR_RETURN(
        Statement select, Statement::Prepare(connection_.get(),
                                             "SELECT owner IS ?, epoch, writes FROM sealane_cursor WHERE route = ?"));
    lease_writes_ = std::move(select);
  }
  lease_writes_->Bind(owner_).Bind(route_);
  SEALANE_ASSIGN_OR_RETURN(const bool found, lease_writes_->Step());
  const bool ours = found && lease_writes_->Int(0) != 0;
  const bool trusted = !ours || memory_->Trusts(lease_writes_->Int(1), lease_writes_->Int(2), *connection_.file());
  lease_writes_->Reset();
  return trusted ? Ok() : Status(WentBack());
}

Result<LanePositions> SqliteOutboxLog::ReadPositions() {
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(connection_.get(), "SELECT published_seq, apart FROM sealane_cursor WHERE route = ?"));
  select.Bind(route_);
  SEALANE_RETURN_IF_ERROR(select.Step());
  LanePositions positions;
  positions.main = PositionAt(select.Int(0));
  const std::string apart = select.Text(1);
  if (!apart.empty()) {
    SEALANE_ASSIGN_OR_RETURN(positions.apart, ApartFromJson(connection_.get(), apart));
  }
  return positions;
}

Status SqliteOutboxLog::ReadMembership(Membership& membership) {
  static const std::string sql = fmt::format(
      "SELECT (SELECT count(*) FROM sealane_relay_member m WHERE m.route = r.name AND m.expires_at > {}), r.paused,"
      " EXISTS (SELECT 1 FROM sealane_parked_change c WHERE c.route = r.name)"
      " FROM sealane_route r WHERE r.name = ?",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
  select.Bind(route_);
  SEALANE_RETURN_IF_ERROR(select.Step());
  RowReader row(select);
  membership.live_relays = static_cast<std::int32_t>(row.Int());
  membership.paused = row.Int() != 0;
  membership.changes = row.Int() != 0;

  SEALANE_ASSIGN_OR_RETURN(Statement rules,
                           Statement::Prepare(connection_.get(),
                                              "SELECT tenant, paused, rate_max, weight FROM sealane_tenant_rule"
                                              " WHERE route = ? ORDER BY tenant"));
  rules.Bind(route_);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, rules.Step());
    if (!found) return Ok();
    RowReader rule(rules);
    TenantRule& tenant = membership.tenants.emplace_back();
    tenant.tenant = rule.Text();
    tenant.paused = rule.Int() != 0;
    tenant.rate_max = rule.Int();
    tenant.weight = static_cast<std::int32_t>(rule.Int());
  }
}

Status SqliteOutboxLog::WriteMember(std::chrono::milliseconds ttl) {
  static const std::string live = fmt::format(
      "INSERT INTO sealane_relay_member (route, owner, expires_at) VALUES (?, ?, {} + ?)"
      " ON CONFLICT DO UPDATE SET expires_at = excluded.expires_at",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(Statement join, Statement::Prepare(connection_.get(), live));
  return join.Bind(route_).Bind(owner_).Bind(Microseconds(ttl)).Run();
}

Result<Membership> SqliteOutboxLog::Beat(std::chrono::milliseconds ttl) {
  static const std::string bury =
      fmt::format("DELETE FROM sealane_relay_member WHERE route = ? AND expires_at <= {}", kNowSql);
  static const std::string extend =
      fmt::format("UPDATE sealane_cursor SET expires_at = {} + ?, writes = writes + 1 WHERE route = ?", kNowSql);
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const Lease lease, ReadLease());
  SEALANE_RETURN_IF_ERROR(WriteMember(ttl));
  SEALANE_ASSIGN_OR_RETURN(Statement forget, Statement::Prepare(connection_.get(), bury));
  forget.Bind(route_);
  SEALANE_RETURN_IF_ERROR(forget.Run());

  Membership membership;
  membership.lanes = 1;
  if (lease.ours && !memory_->Trusts(lease.epoch, lease.writes, *connection_.file())) {
    SEALANE_RETURN_IF_ERROR(GiveUpLease());
  } else if (lease.ours && lease.alive) {
    SEALANE_ASSIGN_OR_RETURN(Statement longer, Statement::Prepare(connection_.get(), extend));
    longer.Bind(Microseconds(ttl)).Bind(route_);
    SEALANE_RETURN_IF_ERROR(longer.Run());
    membership.held.push_back({kLane, lease.epoch});
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  if (!membership.held.empty()) memory_->Wrote(lease.epoch, lease.writes + 1);
  // After the commit: writers of the application need the lock.
  SEALANE_RETURN_IF_ERROR(ReadMembership(membership));
  return membership;
}

Result<std::vector<LaneGrant>> SqliteOutboxLog::Claim(std::int32_t max, std::chrono::milliseconds ttl) {
  std::vector<LaneGrant> grants;
  if (max < 1) return grants;
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  // Looked at without the write lock first: most claims find nothing to take.
  SEALANE_ASSIGN_OR_RETURN(const Lease before, ReadLease());
  if (before.alive) return grants;

  static const std::string take = fmt::format(
      "UPDATE sealane_cursor SET owner = ?, epoch = max(epoch, ?) + 1, writes = writes + 1, expires_at = {0} + ?,"
      " window_seq = 0 WHERE route = ? AND expires_at <= {0} RETURNING epoch, writes",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(Statement claim, Statement::Prepare(connection_.get(), take));
  claim.Bind(owner_).Bind(memory_->highest_epoch()).Bind(Microseconds(ttl)).Bind(route_);
  SEALANE_ASSIGN_OR_RETURN(const bool taken, claim.Step());
  if (!taken) return grants;
  const std::int64_t epoch = claim.Int(0);
  const std::int64_t writes = claim.Int(1);
  SEALANE_RETURN_IF_ERROR(claim.Run());
  SEALANE_RETURN_IF_ERROR(WriteMember(ttl));
  SEALANE_ASSIGN_OR_RETURN(LanePositions positions, ReadPositions());
  SEALANE_RETURN_IF_ERROR(RefusePositionAhead(positions));
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  memory_->Granted(epoch, writes, connection_.file());
  grants.push_back({{kLane, epoch}, std::move(positions)});
  return grants;
}

// Published is what the file has up to the cursor. A cursor beyond the end of the log comes from other events, and
// new ones that get these numbers would be taken for published.
Status SqliteOutboxLog::RefusePositionAhead(const LanePositions& positions) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq_high, SeqHigh());
  std::int64_t furthest = 0;
  SEALANE_ASSIGN_OR_RETURN(furthest, SeqOf(positions.main.cursor));
  for (const ApartFlow& flow : positions.apart) {
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq, SeqOf(flow.position.cursor));
    furthest = std::max(furthest, seq);
  }
  if (furthest <= seq_high) return Ok();
  return Error(ErrorKind::kMisconfigured, "cursor_ahead_of_log",
               fmt::format("route {} is published up to seq {}, and the log of {} ends at {}",
                           EscapeForTerminal(route_), furthest, EscapeForTerminal(options_.path), seq_high))
      .WithHint("restore the whole file from one backup; rows of the outbox and their cursor belong together");
}

Status SqliteOutboxLog::Release(std::span<const LaneLease> leases) {
  for (const LaneLease& lease : leases) {
    if (lease.lane != kLane) continue;
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
    SEALANE_ASSIGN_OR_RETURN(
        Statement release, Statement::Prepare(connection_.get(),
                                              "UPDATE sealane_cursor SET owner = NULL, expires_at = 0, window_seq = 0"
                                              " WHERE route = ? AND owner = ? AND epoch = ?"));
    release.Bind(route_).Bind(owner_).Bind(lease.epoch);
    SEALANE_RETURN_IF_ERROR(release.Run());
    SEALANE_RETURN_IF_ERROR(transaction.Commit());
  }
  return Ok();
}

Status SqliteOutboxLog::Leave() {
  LeaseMemory::Forget(options_.path, route_, owner_);
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  for (const char* const sql : {"UPDATE sealane_cursor SET owner = NULL, expires_at = 0, window_seq = 0"
                                " WHERE route = ? AND owner = ?",
                                "DELETE FROM sealane_relay_member WHERE route = ? AND owner = ?"}) {
    SEALANE_ASSIGN_OR_RETURN(Statement leave, Statement::Prepare(connection_.get(), sql));
    leave.Bind(route_).Bind(owner_);
    SEALANE_RETURN_IF_ERROR(leave.Run());
  }
  return transaction.Commit();
}

// ---- the log
// --------------------------------------------------------------------------------------------------------

Result<std::int64_t> SqliteOutboxLog::SeqHigh() {
  // The sequence remembers the highest number also when retention has deleted its row. Both are tiny lookups.
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(connection_.get(),
                         "SELECT max(coalesce((SELECT max(seq) FROM sealane_outbox), 0),"
                         " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'sealane_outbox'), 0))"));
  SEALANE_RETURN_IF_ERROR(select.Step());
  return select.Int(0);
}

Result<Horizon> SqliteOutboxLog::Look() {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  if (!data_version_) {
    SEALANE_ASSIGN_OR_RETURN(Statement pragma, Statement::Prepare(connection_.get(), "PRAGMA data_version"));
    data_version_ = std::move(pragma);
  }
  // Moves with every commit of somebody else. Our own do not move it, but they never append.
  SEALANE_RETURN_IF_ERROR(data_version_->Step());
  const std::int64_t version = data_version_->Int(0);
  data_version_->Reset();

  if (version != version_seen_) {
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq, SeqHigh());
    if (!memory_->SawSeq(seq, *connection_.file())) return WentBack();
    if (seq != seq_seen_) SEALANE_RETURN_IF_ERROR(MakeDurable());
    seq_seen_ = seq;
    version_seen_ = version;
  }
  if (!now_) {
    SEALANE_ASSIGN_OR_RETURN(Statement select,
                             Statement::Prepare(connection_.get(), fmt::format("SELECT {}", kNowSql)));
    now_ = std::move(select);
  }
  SEALANE_RETURN_IF_ERROR(now_->Step());
  const Timestamp now = RowReader(*now_).Time();
  now_->Reset();
  return Horizon{std::to_string(seq_seen_), seq_seen_, now};
}

/// An application may commit with synchronous NORMAL, whose last transactions a power failure can undo. Syncing the
/// write-ahead log makes everything that was seen in it permanent; where every writer uses FULL there is nothing left
/// to write.
Status SqliteOutboxLog::MakeDurable() {
  sqlite3_file* wal = nullptr;
  const int found = sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
  if (found != SQLITE_OK) return ErrorFromSqlite(found, sqlite3_errstr(found));
  if (wal == nullptr || wal->pMethods == nullptr) return Ok();  // a read-only file has no log of its own
  const int synced = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
  if (synced != SQLITE_OK) {
    return ErrorFromSqlite(synced, sqlite3_errstr(synced)).WithContext("while making what was committed permanent");
  }
  return Ok();
}

Result<sqlite3_stmt*> SqliteOutboxLog::PrepareRead(bool all_tenants, bool all_but) {
  RawStatement& statement = all_tenants ? read_all_ : all_but ? read_all_but_ : read_these_;
  if (statement != nullptr) return statement.get();
  std::string_view tenants = "";
  if (!all_tenants) {
    tenants = all_but ? " AND o.tenant NOT IN (SELECT value FROM json_each(?4))"
                      : " AND o.tenant IN (SELECT value FROM json_each(?4))";
  }
  // Walks the table itself, which is ordered by seq.
  const std::string sql =
      fmt::format("SELECT {} FROM sealane_outbox o WHERE o.seq > ?1 AND o.seq <= ?2{} ORDER BY o.seq LIMIT ?3",
                  kEntryColumns, tenants);
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v3(connection_.get(), sql.c_str(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &handle, nullptr) != SQLITE_OK) {
    return LastError(connection_.get());
  }
  statement.reset(handle);
  return handle;
}

Result<bool> SqliteOutboxLog::OthersDone(std::span<const LaneLease> mine, const Horizon& horizon) {
  if (!mine.empty()) return true;  // there is one lane
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t until, SeqOf(horizon.cursor));
  SEALANE_ASSIGN_OR_RETURN(const LanePositions positions, ReadPositions());
  SEALANE_ASSIGN_OR_RETURN(std::int64_t lowest, SeqOf(positions.main.cursor));
  for (const ApartFlow& flow : positions.apart) {
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq, SeqOf(flow.position.cursor));
    lowest = std::min(lowest, seq);
  }
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(
          connection_.get(),
          "SELECT EXISTS (SELECT 1 FROM sealane_outbox o JOIN sealane_cursor c ON c.route = ?1"
          " WHERE o.seq > ?2 AND o.seq <= ?3 AND o.seq > coalesce((SELECT json_extract(f.value, '$.seq')"
          "   FROM json_each(c.apart) f, json_each(f.value, '$.tenants') t WHERE t.value = o.tenant LIMIT 1),"
          "   c.published_seq)"
          " AND NOT EXISTS (SELECT 1 FROM sealane_parked p WHERE p.route = ?1 AND p.seq = o.seq))"
          " OR EXISTS (SELECT 1 FROM sealane_parked w WHERE w.route = ?1 AND w.waits_for IS NOT NULL"
          "   AND w.state = 'WAITING')"
          " OR EXISTS (SELECT 1 FROM sealane_delayed d WHERE d.route = ?1 AND d.due_at <= " +
              std::string(kNowSql) + ")"));
  select.Bind(route_).Bind(lowest).Bind(until);
  SEALANE_RETURN_IF_ERROR(select.Step());
  return select.Int(0) == 0;
}

Result<Page> SqliteOutboxLog::Read(const ReadRequest& request) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t from, SeqOf(request.from->cursor));
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t horizon, SeqOf(request.horizon->cursor));
  const bool nothing = std::ranges::find(request.lanes, kLane) == request.lanes.end() ||
                       (request.tenants.empty() && !request.all_but) || from >= horizon;
  if (from > horizon) {
    // Another relay may have got further than we have looked, but never further than the log.
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq_high, SeqHigh());
    if (from > seq_high) return WentBack();
  }
  if (nothing) {
    Page page;
    page.next = PositionAt(std::max(from, horizon));
    page.caught_up = true;
    return page;
  }
  const bool all_tenants = request.tenants.empty();
  const std::int64_t to = all_tenants ? horizon : std::min(horizon, from + kScanMax);
  const std::string tenants = TenantsJson(request.tenants);
  SEALANE_ASSIGN_OR_RETURN(sqlite3_stmt* const statement, PrepareRead(all_tenants, request.all_but));
  const ResetAtEnd reset(statement);
  const std::size_t entries_max = std::max<std::size_t>(request.entries_max, 1);
  sqlite3_bind_int64(statement, 1, from);
  sqlite3_bind_int64(statement, 2, to);
  sqlite3_bind_int64(statement, 3, static_cast<std::int64_t>(entries_max));
  if (!all_tenants) {
    sqlite3_bind_text64(statement, 4, tenants.data(), tenants.size(), SQLITE_STATIC, SQLITE_UTF8);
  }

  PageBuilder builder(request.bytes_max);
  bool full = false;
  while (!full) {
    const int stepped = sqlite3_step(statement);
    if (stepped == SQLITE_DONE) break;
    if (stepped != SQLITE_ROW) return LastError(connection_.get());
    SEALANE_ASSIGN_OR_RETURN(const bool added, builder.Add(statement, 0));
    full = !added || builder.size() == entries_max;
  }
  // After reading: a file that went back before is found out here, one that goes back later has not been read.
  SEALANE_RETURN_IF_ERROR(CheckMemory());
  const std::int64_t next = full ? builder.last_seq() : to;
  Page page = std::move(builder).Finish();
  page.next = PositionAt(next);
  page.caught_up = next == horizon;
  return page;
}

Result<TendReport> SqliteOutboxLog::Tend() {
  constexpr std::size_t kForgetMax = 1'000;
  constexpr int kSettlementsMax = 5'000;
  constexpr int kReroutedMax = 1'000;
  constexpr int kDaysKept = 7;
  // Looks at the oldest rows alone, so that it costs the same however long the table is.
  static const std::string trim = fmt::format(
      "DELETE FROM sealane_settlement WHERE id IN (SELECT id FROM (SELECT id, at FROM sealane_settlement ORDER BY id"
      " LIMIT {}) WHERE at < {} - {} * 86400000000)",
      kSettlementsMax, kNowSql, kDaysKept);
  static const std::string trim_rerouted = fmt::format(
      "DELETE FROM sealane_rerouted WHERE route = ?1 AND seq IN (SELECT r.seq FROM sealane_rerouted r"
      " WHERE r.route = ?1 AND r.at < {} - {} * 86400000000"
      " AND NOT EXISTS (SELECT 1 FROM sealane_parked p WHERE p.route = r.route AND p.seq = r.seq)"
      " ORDER BY r.at LIMIT {})",
      kNowSql, kDaysKept, kReroutedMax);
  TendReport report;
  SEALANE_ASSIGN_OR_RETURN(Statement forget, Statement::Prepare(connection_.get(), trim));
  SEALANE_RETURN_IF_ERROR(forget.Run());
  report.forgotten = sqlite3_changes64(connection_.get());
  SEALANE_ASSIGN_OR_RETURN(Statement forget_rerouted, Statement::Prepare(connection_.get(), trim_rerouted));
  SEALANE_RETURN_IF_ERROR(forget_rerouted.Bind(route_).Run());
  report.forgotten += sqlite3_changes64(connection_.get());
  SEALANE_ASSIGN_OR_RETURN(const auto store, OpenOutboxStore(options_));
  SEALANE_ASSIGN_OR_RETURN(const SweepReport swept, store->ForgetExpired(kForgetMax));
  report.forgotten += swept.unique_forgotten + swept.idempotency_forgotten;
  return report;
}

Result<std::unique_ptr<OutboxLog>> OpenOutboxLog(const Options& options, std::string route, std::string owner) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, OpenMigrated(options));
  SEALANE_ASSIGN_OR_RETURN(const std::string birth, ReadBirth(connection));
  Options kept = options;
  kept.path = connection.path();
  auto memory = LeaseMemory::Of(kept.path, route, owner);
  SEALANE_RETURN_IF_ERROR(memory->Recognise(birth, kept.path));
  SEALANE_RETURN_IF_ERROR(AddRoute(connection, route));
  return std::unique_ptr<OutboxLog>(std::make_unique<SqliteOutboxLog>(
      std::move(connection), std::move(kept), std::move(route), std::move(owner), std::move(memory)));
}

}  // namespace sealane::sqlite
