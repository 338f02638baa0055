#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "sqlite/inbox_batch.hpp"
#include "sqlite/inbox_bytes.hpp"
#include "sqlite/migrated_connection.hpp"
#include "sqlite/sqlite_store.hpp"

namespace sealane::sqlite {
namespace {

std::int64_t Bounded(std::size_t limit) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(limit, kMax));
}

class SqliteInboxStore final : public InboxStore {
 public:
  explicit SqliteInboxStore(std::shared_ptr<InboxSession> session) : session_(std::move(session)), rows_(*session_) {}

  std::string life() const override {
    const FileId& file = session_->connection.file()->id();
    return fmt::format("{}.{}.{}", file.device, file.number, session_->restores);
  }
  Result<std::unique_ptr<InboxBatch>> Open(const BatchRequest& request) override;
  Result<std::optional<StatementFault>> Examine(const std::string& sql, std::span<const SqlValue> values) override;
  Result<InboxLook> Look(bool by_version, std::size_t limit) override;
  Result<std::optional<RetryBatch>> OpenRetry(const std::string& unit, bool by_version,
                                              std::chrono::milliseconds patience) override;
  Result<RetryGroup> OpenRetries(std::span<const std::string> units, bool by_version,
                                 std::chrono::milliseconds patience) override;
  Status SetHold(const std::optional<ConsumerHold>& hold) override;
  Result<std::vector<AttachedPartition>> Attach(std::span<const Partition> partitions,
                                                std::size_t recent_max) override;
  Status Detach(std::span<const AttachedPartition> partitions) override;
  Result<std::vector<std::size_t>> SavePositions(std::span<const PositionSave> saves) override;
  Status Place(const AttachedPartition& partition, std::int64_t next_offset, const std::string& topic_id) override;
  Status Stop(const AttachedPartition& partition, const PartitionStop& stop) override;
  Status Suspect(const AttachedPartition& partition, std::int64_t offset) override;
  Status Calm(const AttachedPartition& partition) override;
  Result<InboxCounts> Count(std::int64_t count_max) override;
  /// Rows are not kept by time here.
  Status Tend() override { return Ok(); }
  Result<InboxTimes> Times() override;
  Result<PruneReport> Prune(Timestamp before, std::size_t limit) override;

 private:
  /// There is one transaction per connection.
  Status RequireIdle() const;
  Result<WriteTransaction> Begin() const;
  /// The file goes to whoever asks in the right moment, so that a single wait for it can be in vain.
  Result<WriteTransaction> BeginWithin(std::chrono::milliseconds patience) const;
  Result<RetryGroup> OpenSome(std::span<const std::string> units, bool by_version, std::chrono::milliseconds patience,
                              bool untried_only);
  Result<AttachedPartition> AttachOne(const Partition& partition, std::size_t recent_max);
  Status ReadRecent(AttachedPartition& attached, std::size_t recent_max);
  Status PruneReceipts(Timestamp before, std::size_t limit, PruneReport& report);
  /// kFenced when the statement, about the consumer, topic, partition and epoch, changes nothing. `bind` adds what
  /// else it needs.
  Status ChangeOurs(const AttachedPartition& partition, std::string_view sql,
                    const std::function<void(Statement&)>& bind = {});

  std::shared_ptr<InboxSession> session_;
  InboxRows rows_;
  std::vector<Attempt> owed_;  // were counted and could not be made
};

Result<std::optional<StatementFault>> SqliteInboxStore::Examine(const std::string& sql, std::span<const SqlValue>) {
  sqlite3* const connection = session_->connection.get();
  const auto prepared = Statement::Prepare(connection, sql);
  if (prepared) return std::optional<StatementFault>();
  // Everything else, for example that the file is locked, is not about the statement.
  if (sqlite3_errcode(connection) != SQLITE_ERROR) return prepared.error();
  StatementFault fault{.error = prepared.error()};
#if SQLITE_VERSION_NUMBER >= 3038000
  if (const int offset = sqlite3_error_offset(connection); offset >= 0) {
    fault.offset = static_cast<std::size_t>(offset);
  }
#endif
  // SQLite has one code for all of them.
  const std::string_view words = sqlite3_errmsg(connection);
  for (const std::string_view sign : {"syntax error", "unrecognized token", "incomplete input"}) {
    fault.is_syntax = fault.is_syntax || words.find(sign) != std::string_view::npos;
  }
  return std::optional(std::move(fault));
}

Status SqliteInboxStore::RequireIdle() const {
  if (!session_->connection.in_transaction()) return session_->connection.RequireCurrent();
  return Error(ErrorKind::kMisuse, "transaction_open", "a batch of this store is open")
      .WithHint("finish or destroy it first, or open a second store");
}

Result<WriteTransaction> SqliteInboxStore::Begin() const {
  SEALANE_RETURN_IF_ERROR(RequireIdle());
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction begun, WriteTransaction::Begin(session_->connection.get()));
  SEALANE_RETURN_IF_ERROR(session_->RequireSameLife());
  return begun;
}

Result<WriteTransaction> SqliteInboxStore::BeginWithin(std::chrono::milliseconds patience) const {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    auto begun = Begin();
    if (begun || begun.error().code() != "store_busy" || std::chrono::steady_clock::now() >= end) return begun;
    sqlite3_sleep(10);
  }
}

// ---- applying
// -------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<InboxBatch>> SqliteInboxStore::Open(const BatchRequest& request) {
  if (request.progress.has_value() != (session_->mode == InboxMode::kOffsets)) {
    return Error(ErrorKind::kMisuse, "progress_differs",
                 fmt::format("a batch in mode {} comes {} progress", ToString(session_->mode),
                             session_->mode == InboxMode::kOffsets ? "with" : "without"));
  }
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, Begin());
  auto batch = std::make_unique<SqliteInboxBatch>(session_, std::move(transaction));
  SEALANE_RETURN_IF_ERROR(batch->File(request));
  return std::unique_ptr<InboxBatch>(std::move(batch));
}

// ---- what was set aside
// ---------------------------------------------------------------------------------------------

Result<InboxLook> SqliteInboxStore::Look(bool by_version, std::size_t limit) {
  static const auto due_text = [](std::string_view column) {
    return fmt::format(
        "SELECT unit FROM sealane_inbox_order_key WHERE consumer = ?1 AND {0} IS NOT NULL AND {0} <= {1}"
        " ORDER BY {0} LIMIT ?2",
        column, kNowSql);
  };
  static const auto state_text = [](std::string_view column) {
    return fmt::format(
        "SELECT (SELECT max(0, k.{0} - {1}) FROM sealane_inbox_order_key k WHERE k.consumer = ?1"
        " AND k.{0} IS NOT NULL ORDER BY k.{0} LIMIT 1), paused_at IS NOT NULL, pause_reason, hold_code, hold_message"
        " FROM sealane_inbox_consumer WHERE consumer = ?1",
        column, kNowSql);
  };
  static const std::string due_by_place = due_text("due_at");
  static const std::string due_by_version = due_text("due_by_version_at");
  static const std::string state_by_place = state_text("due_at");
  static const std::string state_by_version = state_text("due_by_version_at");
  SEALANE_RETURN_IF_ERROR(RequireIdle());
  InboxLook look;
  {
    SEALANE_ASSIGN_OR_RETURN(const BookedStatement state,
                             session_->Take(by_version ? state_by_version : state_by_place));
    SEALANE_ASSIGN_OR_RETURN(const bool found, state->Step());
    if (found) {
      RowReader row(*state);
      if (const auto micros = row.OptionalInt()) {
        look.next_due = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::microseconds{*micros});
      }
      const bool paused = row.Int() != 0;
      std::string reason = row.Text();
      if (paused) look.pause = std::move(reason);
      ConsumerHold hold{row.Text(), row.Text()};
      if (!hold.code.empty()) look.hold = std::move(hold);
    }
  }
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select, session_->Take(by_version ? due_by_version : due_by_place));
  select->Bind(Bounded(limit));
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
    if (!found) return look;
    look.due.push_back(select->Blob(0));
  }
}

Status SqliteInboxStore::SetHold(const std::optional<ConsumerHold>& hold) {
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, Begin());
  SEALANE_RETURN_IF_ERROR(rows_.SetHold(hold));
  return transaction.Commit();
}

Result<std::optional<RetryBatch>> SqliteInboxStore::OpenRetry(const std::string& unit, bool by_version,
                                                              std::chrono::milliseconds patience) {
  SEALANE_ASSIGN_OR_RETURN(RetryGroup group, OpenSome({&unit, 1}, by_version, patience, false));
  if (group.messages.empty()) return std::optional<RetryBatch>();
  RetryBatch retry;
  static_cast<RetryMessage&>(retry) = std::move(group.messages.front());
  retry.batch = std::move(group.batch);
  return std::optional<RetryBatch>(std::move(retry));
}

Result<RetryGroup> SqliteInboxStore::OpenRetries(std::span<const std::string> units, bool by_version,
                                                 std::chrono::milliseconds patience) {
  return OpenSome(units, by_version, patience, true);
}

Result<RetryGroup> SqliteInboxStore::OpenSome(std::span<const std::string> units, bool by_version,
                                              std::chrono::milliseconds patience, bool untried_only) {
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction counting, Begin());
  for (const Attempt& owed : owed_) SEALANE_RETURN_IF_ERROR(rows_.GiveBack(owed));
  SEALANE_ASSIGN_OR_RETURN(const Timestamp now, session_->Now());
  std::vector<ParkedHead> claimed;
  std::vector<Attempt> attempts;
  for (const std::string& unit : std::set<std::string>(units.begin(), units.end())) {
    SEALANE_ASSIGN_OR_RETURN(auto first, rows_.HeadOf(unit, by_version));
    if (!first || !first->is_due || (untried_only && first->attempts > 0)) continue;
    attempts.push_back({.place = first->item.place, .until = now + patience});
    SEALANE_RETURN_IF_ERROR(rows_.Claim(attempts.back()));
    claimed.push_back(*std::move(first));
  }
  SEALANE_RETURN_IF_ERROR(counting.Commit());
  owed_.clear();
  RetryGroup group;
  if (claimed.empty()) return group;

  auto begun = BeginWithin(patience);
  if (!begun) {
    // Giving it back needs the file too, so that has to wait.
    owed_ = std::move(attempts);
    return std::move(begun).error();
  }
  auto batch = std::make_unique<SqliteInboxBatch>(session_, std::move(begun).value());
  for (const ParkedHead& first : claimed) {
    // Between the two transactions a person may have changed something, or our time may be over.
    SEALANE_ASSIGN_OR_RETURN(const auto head, rows_.HeadOf(first.item.unit, by_version));
    if (!head || head->item.place != first.item.place || head->state != first.state ||
        head->attempts != first.attempts + 1) {
      continue;
    }
    RetryMessage& retry = group.messages.emplace_back();
    SEALANE_ASSIGN_OR_RETURN(retry.message, rows_.MessageAt(head->item.place));
    retry.id = head->item.id;
    retry.unit = head->item.unit;
    retry.state = head->state;
    retry.attempts = head->attempts;
    retry.parked_at = head->parked_at;
    retry.first_failed_at = head->first_failed_at;
    retry.gap_overdue = head->gap_overdue;
    SEALANE_ASSIGN_OR_RETURN(retry.version_seen, rows_.VersionOf(head->item.aggregate));
    SEALANE_RETURN_IF_ERROR(batch->Take(head->item));
  }
  if (!group.messages.empty()) group.batch = std::move(batch);
  return group;
}

// ---- partitions
// -----------------------------------------------------------------------------------------------------

Result<AttachedPartition> SqliteInboxStore::AttachOne(const Partition& partition, std::size_t recent_max) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement take,
      session_->Take(
          "INSERT INTO sealane_inbox_partition (consumer, topic, partition, epoch, clean)"
          " VALUES (?, ?, ?, 1, 0) ON CONFLICT DO UPDATE SET epoch = epoch + 1, clean = 0,"
          " deaths = deaths + (clean = 0),"
          " suspect_offset = CASE WHEN clean = 0 AND suspect_epoch = epoch THEN suspect_offset END,"
          " suspect_deaths = CASE WHEN clean = 0 AND suspect_epoch = epoch THEN suspect_deaths + 1 ELSE 0 END"
          " RETURNING epoch, next_offset, deaths, suspect_offset, suspect_deaths, topic_id, witness_offset, witness,"
          " follows_group, stop_code, stop_message, resume_from"));
  take->Bind(partition.topic).Bind(std::int64_t{partition.number});
  SEALANE_RETURN_IF_ERROR(take->Step());
  RowReader row(*take);
  AttachedPartition attached;
  attached.partition = partition;
  attached.epoch = row.Int();
  attached.next_offset = row.OptionalInt();
  attached.deaths = static_cast<std::int32_t>(row.Int());
  attached.suspect_offset = row.OptionalInt();
  attached.suspect_deaths = static_cast<std::int32_t>(row.Int());
  attached.topic_id = row.Text();
  const std::optional<std::int64_t> witness_offset = row.OptionalInt();
  std::string witness = row.Blob();
  if (witness_offset) attached.witness = Witness{*witness_offset, std::move(witness)};
  attached.follows_group = row.Int() != 0;
  PartitionStop stop{row.Text(), row.Text()};
  if (!stop.code.empty()) attached.stop = std::move(stop);
  attached.resume = ParseResumePoint(row.Text());
  SEALANE_RETURN_IF_ERROR(take->Run());
  SEALANE_RETURN_IF_ERROR(ReadRecent(attached, recent_max));
  return attached;
}

Status SqliteInboxStore::ReadRecent(AttachedPartition& attached, std::size_t recent_max) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           session_->Take("SELECT through_offset, ids FROM sealane_inbox_recent"
                                          " WHERE consumer = ? AND topic = ? AND partition = ? ORDER BY id DESC"));
  select->Bind(attached.partition.topic).Bind(std::int64_t{attached.partition.number});
  while (attached.recent.size() < recent_max) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
    if (!found) break;
    std::vector<EventId> ids = IdsFromBytes(select->Blob(1));
    for (auto id = ids.rbegin(); id != ids.rend() && attached.recent.size() < recent_max; ++id) {
      attached.recent.push_back(*id);
      attached.recent_through.push_back(select->Int(0));
    }
  }
  std::ranges::reverse(attached.recent);
  std::ranges::reverse(attached.recent_through);
  return Ok();
}

Result<std::vector<AttachedPartition>> SqliteInboxStore::Attach(std::span<const Partition> partitions,
                                                                std::size_t recent_max) {
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, Begin());
  std::vector<AttachedPartition> attached;
  for (const Partition& partition : partitions) {
    SEALANE_ASSIGN_OR_RETURN(AttachedPartition one, AttachOne(partition, recent_max));
    attached.push_back(std::move(one));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return attached;
}

Status SqliteInboxStore::ChangeOurs(const AttachedPartition& partition, std::string_view sql,
                                    const std::function<void(Statement&)>& bind) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement change, session_->Take(sql));
  change->Bind(partition.partition.topic).Bind(std::int64_t{partition.partition.number}).Bind(partition.epoch);
  if (bind) bind(*change);
  SEALANE_RETURN_IF_ERROR(change->Run());
  if (sqlite3_changes64(session_->connection.get()) == 0) return PartitionFenced(partition.partition);
  return Ok();
}

Status SqliteInboxStore::Detach(std::span<const AttachedPartition> partitions) {
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, Begin());
  for (const AttachedPartition& partition : partitions) {
    const Status detached =
        ChangeOurs(partition,
                   "UPDATE sealane_inbox_partition SET clean = 1, deaths = 0, suspect_offset = NULL,"
                   " suspect_epoch = NULL, suspect_deaths = 0"
                   " WHERE consumer = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4");
    if (!detached && detached.error().kind() != ErrorKind::kFenced) return detached;
  }
  return transaction.Commit();
}

Result<std::vector<std::size_t>> SqliteInboxStore::SavePositions(std::span<const PositionSave> saves) {
  bool moves = false;
  for (const PositionSave& save : saves) {
    SEALANE_RETURN_IF_ERROR(CheckMove({save.partition, save.epoch, save.from.value_or(save.to), save.to}));
    moves = moves || save.from != save.to;
  }
  SEALANE_RETURN_IF_ERROR(RequireIdle());
  std::optional<WriteTransaction> transaction;
  if (moves) {
    // Comparing alone does not wait for other writers.
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction begun, Begin());
    transaction.emplace(std::move(begun));
  }
  std::vector<std::size_t> differ;
  for (std::size_t i = 0; i < saves.size(); ++i) {
    SEALANE_ASSIGN_OR_RETURN(const bool fits, rows_.SavePosition(saves[i]));
    if (!fits) differ.push_back(i);
  }
  if (transaction) SEALANE_RETURN_IF_ERROR(transaction->Commit());
  return differ;
}

Status SqliteInboxStore::Place(const AttachedPartition& partition, std::int64_t next_offset,
                               const std::string& topic_id) {
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, Begin());
  SEALANE_RETURN_IF_ERROR(
      ChangeOurs(partition,
                 "UPDATE sealane_inbox_partition SET next_offset = ?5, topic_id = ?6, witness_offset = NULL,"
                 " witness = NULL, follows_group = 0, stop_code = NULL, stop_message = NULL, stopped_at = NULL,"
                 " resume_from = NULL WHERE consumer = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4",
                 [&](Statement& change) { change.Bind(next_offset).BindOptional(topic_id); }));
  return transaction.Commit();
}

Status SqliteInboxStore::Stop(const AttachedPartition& partition, const PartitionStop& stop) {
  static const std::string sql = fmt::format(
      "UPDATE sealane_inbox_partition SET stop_code = coalesce(stop_code, ?5),"
      " stop_message = CASE WHEN stop_code IS NULL THEN ?6 ELSE stop_message END,"
      " stopped_at = CASE WHEN stop_code IS NULL THEN {} ELSE stopped_at END"
      " WHERE consumer = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, Begin());
  SEALANE_RETURN_IF_ERROR(
      ChangeOurs(partition, sql, [&](Statement& change) { change.Bind(stop.code).Bind(stop.message); }));
  return transaction.Commit();
}

Status SqliteInboxStore::Suspect(const AttachedPartition& partition, std::int64_t offset) {
  SEALANE_RETURN_IF_ERROR(RequireIdle());
  return ChangeOurs(partition,
                    "UPDATE sealane_inbox_partition SET suspect_offset = ?5, suspect_epoch = epoch,"
                    " suspect_deaths = CASE WHEN suspect_offset IS ?5 THEN suspect_deaths ELSE 0 END"
                    " WHERE consumer = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4",
                    [&](Statement& change) { change.Bind(offset); });
}

Status SqliteInboxStore::Calm(const AttachedPartition& partition) {
  SEALANE_RETURN_IF_ERROR(RequireIdle());
  return ChangeOurs(partition,
                    "UPDATE sealane_inbox_partition SET deaths = 0, suspect_offset = NULL, suspect_epoch = NULL,"
                    " suspect_deaths = 0"
                    " WHERE consumer = ?1 AND topic = ?2 AND partition = ?3 AND epoch = ?4");
}

// ---- keeping
// --------------------------------------------------------------------------------------------------------

Result<InboxCounts> SqliteInboxStore::Count(std::int64_t count_max) {
  SEALANE_RETURN_IF_ERROR(RequireIdle());
  // Each from an index that has nothing else.
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement select,
      session_->Take("SELECT (SELECT count(*) FROM (SELECT 1 FROM sealane_inbox_parked"
                     " INDEXED BY sealane_inbox_parked_unit WHERE consumer = ?1 AND state <> 'SKIPPED' LIMIT ?2)),"
                     " (SELECT count(*) FROM (SELECT 1 FROM sealane_inbox_parked"
                     " INDEXED BY sealane_inbox_parked_dead WHERE consumer = ?1 AND state = 'DEAD' LIMIT ?2)),"
                     " (SELECT count(*) FROM (SELECT 1 FROM sealane_inbox_parked"
                     " INDEXED BY sealane_inbox_parked_gap WHERE consumer = ?1 AND state = 'GAP' LIMIT ?2))"));
  select->Bind(count_max);
  SEALANE_RETURN_IF_ERROR(select->Step());
  RowReader row(*select);
  InboxCounts counts;
  counts.parked = row.Int();
  counts.dead = row.Int();
  counts.gaps = row.Int();
  return counts;
}

Result<InboxTimes> SqliteInboxStore::Times() {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           session_->Take("SELECT created_at FROM sealane_inbox_consumer WHERE consumer = ?1"));
  SEALANE_RETURN_IF_ERROR(select->Step());
  const Timestamp added_at{std::chrono::microseconds{select->Int(0)}};
  SEALANE_ASSIGN_OR_RETURN(const Timestamp now, session_->Now());
  return InboxTimes{.now = now, .added_at = added_at};
}

Result<PruneReport> SqliteInboxStore::Prune(Timestamp before, std::size_t limit) {
  PruneReport report;
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, Begin());
  if (session_->mode == InboxMode::kRecord) SEALANE_RETURN_IF_ERROR(PruneReceipts(before, limit, report));
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement clear,
      session_->Take("DELETE FROM sealane_inbox_parked WHERE place IN (SELECT place FROM sealane_inbox_parked"
                     " WHERE consumer = ?1 AND state = 'SKIPPED' AND parked_at < ?2 LIMIT ?3)"));
  clear->Bind(before).Bind(Bounded(limit) - report.receipts);
  SEALANE_RETURN_IF_ERROR(clear->Run());
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return report;
}

Status SqliteInboxStore::PruneReceipts(Timestamp before, std::size_t limit, PruneReport& report) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement forget,
                           session_->Take("UPDATE sealane_inbox_consumer"
                                          " SET forgotten_before = max(forgotten_before, ?2) WHERE consumer = ?1"));
  forget->Bind(before);
  SEALANE_RETURN_IF_ERROR(forget->Run());
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement remove,
                           session_->Take("DELETE FROM sealane_inbox WHERE consumer = ?1 AND event_id IN"
                                          " (SELECT event_id FROM sealane_inbox WHERE consumer = ?1 AND filed_at < ?2"
                                          " AND state IN ('PROCESSED', 'IGNORED') ORDER BY filed_at LIMIT ?3)"));
  remove->Bind(before).Bind(Bounded(limit));
  SEALANE_RETURN_IF_ERROR(remove->Run());
  report.receipts = sqlite3_changes64(session_->connection.get());
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement more,
      session_->Take("SELECT EXISTS (SELECT 1 FROM sealane_inbox WHERE consumer = ?1 AND filed_at < ?2"
                     " AND state IN ('PROCESSED', 'IGNORED'))"));
  more->Bind(before);
  SEALANE_RETURN_IF_ERROR(more->Step());
  report.more = more->Int(0) != 0;
  return Ok();
}

Status RegisterConsumer(const Connection& connection, const std::string& consumer, InboxMode mode) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(connection.get(), "SELECT mode FROM sealane_inbox_consumer WHERE consumer = ?"));
  select.Bind(consumer);
  SEALANE_ASSIGN_OR_RETURN(bool found, select.Step());
  if (!found) {
    select.Reset();
    SEALANE_ASSIGN_OR_RETURN(Statement insert,
                             Statement::Prepare(connection.get(),
                                                "INSERT INTO sealane_inbox_consumer (consumer, mode) VALUES (?, ?)"
                                                " ON CONFLICT DO NOTHING"));
    insert.Bind(consumer).Bind(ToString(mode));
    SEALANE_RETURN_IF_ERROR(insert.Run());
    select.Bind(consumer);
    SEALANE_ASSIGN_OR_RETURN(found, select.Step());
  }
  const std::string known = select.Text(0);
  if (known == ToString(mode)) return Ok();
  return Error(
             ErrorKind::kMisconfigured, "inbox_mode_differs",
             fmt::format("consumer {} works in mode {}, not {}", EscapeForTerminal(consumer), known, ToString(mode)))
      .WithHint("a consumer keeps its mode: use it, or begin with a new consumer name");
}

}  // namespace

Result<std::unique_ptr<InboxStore>> OpenInboxStore(const Options& options, std::string consumer, InboxMode mode) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, OpenMigrated(options));
  SEALANE_RETURN_IF_ERROR(RegisterConsumer(connection, consumer, mode));
  auto session = std::make_shared<InboxSession>(std::move(connection), std::move(consumer), mode);
  return std::unique_ptr<InboxStore>(std::make_unique<SqliteInboxStore>(std::move(session)));
}

}  // namespace sealane::sqlite
