#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ops/operator_action.hpp"
#include "sqlite/audit.hpp"
#include "sqlite/conditions.hpp"
#include "sqlite/inbox_rows.hpp"
#include "sqlite/migrated_connection.hpp"
#include "sqlite/sqlite_store.hpp"
#include "sqlite/statement.hpp"
#include "sqlite/write_transaction.hpp"

namespace sealane::sqlite {
namespace {

/// Every index begins with the consumer: who looks for an event without naming one looks under each.
void AddUnderEveryConsumer(Conditions& conditions, std::string_view table) {
  conditions.AddFixed(fmt::format("{}.consumer IN (SELECT consumer FROM sealane_inbox_consumer)", table));
}

Conditions ConditionsOf(const ReceiptFilter& filter) {
  Conditions conditions;
  conditions.AddIf("r.consumer = ?", filter.consumer);
  if (filter.event_id && !filter.consumer) AddUnderEveryConsumer(conditions, "r");
  if (filter.state) conditions.Add("r.state = ?", std::string(ToString(*filter.state)));
  if (filter.event_id) conditions.Add("r.event_id = ?", filter.event_id->ToString());
  conditions.AddIf("r.topic = ?", filter.topic);
  conditions.AddIf("r.aggregate_type = ?", filter.aggregate_type);
  conditions.AddIf("r.aggregate_id = ?", filter.aggregate_id);
  return conditions;
}

Conditions ConditionsOf(const ParkedFilter& filter) {
  Conditions conditions;
  conditions.AddIf("p.consumer = ?", filter.consumer);
  conditions.AddIf("p.unit = CAST(? AS BLOB)", filter.unit);
  conditions.AddIf("p.error_code = ?", filter.error_code);
  conditions.AddIf("p.topic = ?", filter.topic);
  if (filter.state) {
    conditions.Add("p.state = ?", std::string(ToString(*filter.state)));
  } else {
    conditions.AddFixed("p.state IN ('GAP', 'FAILED', 'DEAD')");
  }
  return conditions;
}

constexpr std::string_view kCanBeDue = "p.state IN ('FAILED', 'DEAD', 'GAP')";

Conditions ConditionsOf(const std::optional<std::string>& consumer, const EventId& id) {
  Conditions conditions;
  conditions.AddIf("p.consumer = ?", consumer);
  if (!consumer) AddUnderEveryConsumer(conditions, "p");
  conditions.Add("p.event_id = ?", id.ToString());
  return conditions;
}

/// Both at once, because they stand next to each other in every row.
struct Identity {
  EventId id;
  InboxState state;
};
Result<Identity> ReadIdentity(const std::string& id, const std::string& state) {
  const auto parsed_id = EventId::Parse(id);
  const auto parsed_state = ParseInboxState(state);
  if (parsed_id && parsed_state) return Identity{*parsed_id, *parsed_state};
  return Error(ErrorKind::kCorrupt, "store_corrupt", fmt::format("{} with state {} is no event", id, state))
      .WithHint("look at sealane_inbox and sealane_inbox_parked");
}

PartitionOffset ReadSource(RowReader& row) {
  PartitionOffset source;
  source.partition.topic = row.Text();
  source.partition.number = static_cast<std::int32_t>(row.Int());
  source.offset = row.Int();
  return source;
}

Result<InboxReceipt> ReadReceipt(const Statement& statement) {
  RowReader row(statement);
  InboxReceipt receipt;
  receipt.consumer = row.Text();
  const std::string id = row.Text();
  SEALANE_ASSIGN_OR_RETURN(const Identity identity, ReadIdentity(id, row.Text()));
  receipt.id = identity.id;
  receipt.state = identity.state;
  receipt.source = ReadSource(row);
  receipt.type = row.Text();
  receipt.tenant = row.Text();
  receipt.aggregate_type = row.Text();
  receipt.aggregate_id = row.Text();
  receipt.aggregate_version = row.OptionalInt();
  receipt.filed_at = row.Time();
  receipt.received_at = row.Time();
  receipt.finished_at = row.OptionalTime();
  receipt.code = row.Text();
  receipt.message = row.Text();
  return receipt;
}

/// With what a change needs besides.
struct ParkedRow {
  std::int64_t place = 0;
  std::string payload_hash;
  ParkedEvent event;
};

Result<ParkedRow> ReadParked(const Statement& statement) {
  RowReader row(statement);
  ParkedRow parked;
  parked.place = row.Int();
  parked.payload_hash = row.Blob();
  ParkedEvent& event = parked.event;
  event.consumer = row.Text();
  const std::string id = row.Text();
  SEALANE_ASSIGN_OR_RETURN(const Identity identity, ReadIdentity(id, row.Text()));
  event.id = identity.id;
  event.state = identity.state;
  event.unit = row.Blob();
  event.attempts = static_cast<std::int32_t>(row.Int());
  event.is_claimed = row.Int() != 0;
  event.parked_at = row.Time();
  event.next_attempt_at = row.OptionalTime();
  event.gap_until = row.OptionalTime();
  event.first_failed_at = row.OptionalTime();
  event.last_failed_at = row.OptionalTime();
  event.error_code = row.Text();
  event.error_message = row.Text();
  event.source = ReadSource(row);
  event.type = row.Text();
  event.tenant = row.Text();
  event.aggregate_type = row.Text();
  event.aggregate_id = row.Text();
  event.aggregate_version = row.OptionalInt();
  event.followers = row.Int();
  return parked;
}

/// What can become due and is not.
std::string NotYetDueSql() {
  return fmt::format("{} AND (p.state = 'DEAD' OR p.attempts > 0 OR p.next_attempt_at > {})", kCanBeDue, kNowSql);
}

class SqliteInboxDesk final : public InboxDesk {
 public:
  explicit SqliteInboxDesk(Connection connection) : connection_(std::move(connection)) {}

  Result<std::vector<InboxSummary>> Summaries() override;
  Result<std::vector<InboxReceipt>> List(const ReceiptFilter& filter) override;
  Result<std::vector<ParkedEvent>> Parked(const ParkedFilter& filter) override;
  Result<InboxFindings> Find(const std::optional<std::string>& consumer, const EventId& id) override;
  Result<std::int64_t> Retry(const ParkedFilter& which, const OperatorAction& why) override {
    return MakeDue(which.consumer, ConditionsOf(which), NotYetDueSql(), DeskLimit(which.limit), why);
  }
  Result<std::int64_t> Retry(const std::string& consumer, const EventId& id, const OperatorAction& why,
                             bool may_apply_twice) override;
  Result<std::int64_t> Skip(const std::string& consumer, const EventId& id, const OperatorAction& why) override;
  Result<std::int64_t> Resume(const std::string& consumer, const std::string& topic,
                              std::optional<std::int32_t> partition, const ResumePoint& from,
                              const OperatorAction& why) override;
  Result<AcceptedGap> AcceptGap(const std::string& consumer, const GapChoice& which,
                                const OperatorAction& why) override;
  Result<bool> Pause(const std::string& consumer, const OperatorAction& why) override;
  Result<bool> Unpause(const std::string& consumer, const OperatorAction& why) override;
  Result<RemoveReport> Remove(const std::string& consumer, bool although_attached, std::size_t limit,
                              const OperatorAction& why) override;

 private:
  Result<Statement> Prepare(std::string_view sql) { return Statement::Prepare(connection_.get(), sql); }
  Status RequireConsumer(const std::optional<std::string>& consumer);
  Status CountReceipts(InboxSummary& summary);
  Status CountParked(InboxSummary& summary);
  Result<std::vector<InboxPosition>> ReadPositions(const std::string& consumer);
  Result<std::vector<ParkedRow>> SelectParked(const Conditions& conditions, std::size_t limit);
  /// `states`: which of them may become due, as SQL.
  Result<std::int64_t> MakeDue(const std::optional<std::string>& consumer, Conditions conditions,
                               std::string_view states, std::size_t limit, const OperatorAction& why);
  Result<std::int64_t> DeleteSome(std::string_view table, const std::string& consumer, std::int64_t limit);
  /// The receipt is about these bytes, or left alone.
  Status SetReceipt(const ParkedRow& row, std::string_view set);
  Result<std::int64_t> VersionSeen(const std::string& consumer, const AggregateName& name);
  Status PassVersion(const ParkedEvent& event);
  Status Record(std::string_view action, const ParkedEvent& event, const OperatorAction& why);

  Connection connection_;
};

// ---- looking

Status SqliteInboxDesk::RequireConsumer(const std::optional<std::string>& consumer) {
  if (!consumer) return Ok();
  SEALANE_ASSIGN_OR_RETURN(Statement select, Prepare("SELECT 1 FROM sealane_inbox_consumer WHERE consumer = ?"));
  select.Bind(*consumer);
  SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (found) return Ok();
  return UnknownConsumer(*consumer);
}

Result<std::vector<InboxSummary>> SqliteInboxDesk::Summaries() {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Prepare("SELECT consumer, mode, paused_at, pause_actor, pause_reason, held_at, hold_code,"
                                   " hold_message FROM sealane_inbox_consumer ORDER BY consumer"));
  std::vector<InboxSummary> summaries;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) break;
    InboxSummary& summary = summaries.emplace_back();
    summary.consumer = select.Text(0);
    const auto mode = ParseInboxMode(select.Text(1));
    if (!mode) {
      return Error(ErrorKind::kCorrupt, "store_corrupt", fmt::format("{} is no mode of an inbox", select.Text(1)))
          .WithHint("look at sealane_inbox_consumer");
    }
    summary.mode = *mode;
    RowReader row(select);
    static_cast<void>(row.Text());
    static_cast<void>(row.Text());
    const auto paused_at = row.OptionalTime();
    ConsumerPause pause{paused_at.value_or(Timestamp{}), row.Text(), row.Text()};
    if (paused_at) summary.pause = std::move(pause);
    summary.held_at = row.OptionalTime();
    ConsumerHold hold{row.Text(), row.Text()};
    if (!hold.code.empty()) summary.hold = std::move(hold);
  }
  for (InboxSummary& summary : summaries) {
    SEALANE_RETURN_IF_ERROR(CountReceipts(summary));
    SEALANE_RETURN_IF_ERROR(CountParked(summary));
    SEALANE_ASSIGN_OR_RETURN(summary.partitions, ReadPositions(summary.consumer));
  }
  return summaries;
}

Status SqliteInboxDesk::CountReceipts(InboxSummary& summary) {
  SEALANE_ASSIGN_OR_RETURN(Statement count,
                           Prepare("SELECT state, count(*) FROM (SELECT state FROM sealane_inbox WHERE consumer = ?"
                                   " LIMIT ?) GROUP BY state"));
  // One more than are told, to see that there are more.
  count.Bind(summary.consumer).Bind(InboxCounts::kCountMax + 1);
  std::int64_t all = 0;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, count.Step());
    if (!found) break;
    all += count.Int(1);
    if (const auto state = ParseInboxState(count.Text(0))) summary.receipts[*state] = count.Int(1);
  }
  summary.more_receipts = all > InboxCounts::kCountMax;
  return Ok();
}

Status SqliteInboxDesk::CountParked(InboxSummary& summary) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement count,
      Prepare("SELECT count(*), coalesce(sum(state = 'DEAD'), 0), coalesce(sum(state = 'GAP'), 0) FROM"
              " (SELECT state FROM sealane_inbox_parked WHERE consumer = ? AND state <> 'SKIPPED' LIMIT ?)"));
  count.Bind(summary.consumer).Bind(InboxCounts::kCountMax);
  SEALANE_RETURN_IF_ERROR(count.Step());
  summary.waiting = {.parked = count.Int(0), .dead = count.Int(1), .gaps = count.Int(2)};
  if (summary.waiting.parked == 0) return Ok();
  SEALANE_ASSIGN_OR_RETURN(Statement oldest, Prepare("SELECT parked_at FROM sealane_inbox_parked WHERE consumer = ?"
                                                     " AND state <> 'SKIPPED' ORDER BY place LIMIT 1"));
  oldest.Bind(summary.consumer);
  SEALANE_ASSIGN_OR_RETURN(const bool found, oldest.Step());
  if (found) summary.oldest_parked_at = RowReader(oldest).Time();
  return Ok();
}

Result<std::vector<InboxPosition>> SqliteInboxDesk::ReadPositions(const std::string& consumer) {
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Prepare("SELECT topic, partition, epoch, next_offset, topic_id, clean, stop_code,"
                                   " stop_message, stopped_at, resume_from FROM sealane_inbox_partition"
                                   " WHERE consumer = ? ORDER BY topic, partition"));
  select.Bind(consumer);
  std::vector<InboxPosition> positions;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return positions;
    RowReader row(select);
    InboxPosition& position = positions.emplace_back();
    position.partition.topic = row.Text();
    position.partition.number = static_cast<std::int32_t>(row.Int());
    position.epoch = row.Int();
    position.next_offset = row.OptionalInt();
    position.topic_id = row.Text();
    position.attached = row.Int() == 0;
    const std::string code = row.Text();
    const std::string message = row.Text();
    if (!code.empty()) position.stop = PartitionStop{code, message};
    position.stopped_at = row.OptionalTime();
    position.resume = ParseResumePoint(row.Text());
  }
}

Result<std::vector<InboxReceipt>> SqliteInboxDesk::List(const ReceiptFilter& filter) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_RETURN_IF_ERROR(RequireConsumer(filter.consumer));
  const Conditions conditions = ConditionsOf(filter);
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Prepare(fmt::format("SELECT r.consumer, r.event_id, r.state, r.topic, r.partition, r.\"offset\", r.type,"
                          " r.tenant, r.aggregate_type, r.aggregate_id, r.aggregate_version, r.filed_at,"
                          " r.received_at, r.finished_at, r.code, r.message FROM sealane_inbox r WHERE 1{}"
                          " ORDER BY r.filed_at DESC, r.event_id DESC, r.consumer LIMIT ?",
                          conditions.sql())));
  conditions.BindTo(select);
  select.Bind(static_cast<std::int64_t>(DeskLimit(filter.limit)));
  std::vector<InboxReceipt> receipts;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return receipts;
    SEALANE_ASSIGN_OR_RETURN(InboxReceipt receipt, ReadReceipt(select));
    receipts.push_back(std::move(receipt));
  }
}

Result<std::vector<ParkedRow>> SqliteInboxDesk::SelectParked(const Conditions& conditions, std::size_t limit) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Prepare(fmt::format(
          "SELECT p.place, p.payload_hash, p.consumer, p.event_id, p.state, p.unit, p.attempts,"
          " coalesce(p.claimed_until > {}, 0), p.parked_at, p.next_attempt_at, p.gap_until, p.first_failed_at,"
          " p.last_failed_at, p.error_code, p.error_message, p.topic, p.partition, p.\"offset\", p.type, p.tenant,"
          " p.aggregate_type, p.aggregate_id, p.aggregate_version,"
          " CASE WHEN p.state = 'SKIPPED' THEN 0 ELSE (SELECT count(*) FROM (SELECT 1 FROM sealane_inbox_parked f"
          " WHERE f.consumer = p.consumer AND f.unit = p.unit AND f.place > p.place AND f.state <> 'SKIPPED'"
          " LIMIT {})) END FROM sealane_inbox_parked p WHERE 1{} ORDER BY p.parked_at, p.place LIMIT ?",
          kNowSql, kFollowersMax, conditions.sql())));
  conditions.BindTo(select);
  select.Bind(static_cast<std::int64_t>(limit));
  std::vector<ParkedRow> rows;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return rows;
    SEALANE_ASSIGN_OR_RETURN(ParkedRow row, ReadParked(select));
    rows.push_back(std::move(row));
  }
}

Result<std::vector<ParkedEvent>> SqliteInboxDesk::Parked(const ParkedFilter& filter) {
  SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
  SEALANE_RETURN_IF_ERROR(RequireConsumer(filter.consumer));
  SEALANE_ASSIGN_OR_RETURN(std::vector<ParkedRow> rows, SelectParked(ConditionsOf(filter), DeskLimit(filter.limit)));
  std::vector<ParkedEvent> events;
  for (ParkedRow& row : rows) events.push_back(std::move(row.event));
  return events;
}

Result<InboxFindings> SqliteInboxDesk::Find(const std::optional<std::string>& consumer, const EventId& id) {
  InboxFindings findings;
  SEALANE_ASSIGN_OR_RETURN(findings.receipts, List({.consumer = consumer, .event_id = id, .limit = kDeadLettersMax}));
  SEALANE_ASSIGN_OR_RETURN(std::vector<ParkedRow> rows, SelectParked(ConditionsOf(consumer, id), kDeadLettersMax));
  for (ParkedRow& row : rows) findings.parked.push_back(std::move(row.event));
  return findings;
}

// ---- deciding

Result<std::int64_t> SqliteInboxDesk::MakeDue(const std::optional<std::string>& consumer, Conditions conditions,
                                              std::string_view states, std::size_t limit, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  conditions.AddFixed(std::string(states));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<ParkedRow> rows, SelectParked(conditions, limit));
  SEALANE_ASSIGN_OR_RETURN(
      Statement update,
      Prepare(
          fmt::format("UPDATE sealane_inbox_parked SET state = CASE state WHEN 'GAP' THEN 'GAP' ELSE 'FAILED' END,"
                      " attempts = 0, next_attempt_at = {}, claimed_until = NULL WHERE place = ?",
                      kNowSql)));
  for (const ParkedRow& row : rows) {
    update.Bind(row.place);
    SEALANE_RETURN_IF_ERROR(update.Run());
    if (row.event.state == InboxState::kDead || row.event.state == InboxState::kSkipped) {
      SEALANE_RETURN_IF_ERROR(SetReceipt(row, "state = 'FAILED', finished_at = NULL"));
    }
    SEALANE_RETURN_IF_ERROR(Record("inbox.retry", row.event, why));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return static_cast<std::int64_t>(rows.size());
}

Result<std::int64_t> SqliteInboxDesk::Skip(const std::string& consumer, const EventId& id,
                                           const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  Conditions conditions = ConditionsOf(consumer, id);
  conditions.AddFixed("p.state <> 'SKIPPED'");
  SEALANE_ASSIGN_OR_RETURN(const std::vector<ParkedRow> rows, SelectParked(conditions, kDeadLettersMax));
  for (const ParkedRow& row : rows) {
    SEALANE_ASSIGN_OR_RETURN(Statement update,
                             Prepare("UPDATE sealane_inbox_parked SET state = 'SKIPPED', next_attempt_at = NULL,"
                                     " gap_until = NULL, claimed_until = NULL WHERE place = ?"));
    update.Bind(row.place);
    SEALANE_RETURN_IF_ERROR(update.Run());
    SEALANE_RETURN_IF_ERROR(SetReceipt(row, fmt::format("state = 'SKIPPED', finished_at = {}", kNowSql)));
    SEALANE_RETURN_IF_ERROR(PassVersion(row.event));
    // What waits for a gap may have waited for this one. The last condition follows from the one before it, but
    // SQLite needs it to see that the index of units fits.
    SEALANE_ASSIGN_OR_RETURN(
        Statement wake,
        Prepare(fmt::format("UPDATE sealane_inbox_parked SET next_attempt_at = {}"
                            " WHERE consumer = ? AND unit = ? AND state = 'GAP' AND state <> 'SKIPPED'",
                            kNowSql)));
    wake.Bind(consumer).BindBlob(row.event.unit);
    SEALANE_RETURN_IF_ERROR(wake.Run());
    SEALANE_RETURN_IF_ERROR(Record("inbox.skip", row.event, why));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return static_cast<std::int64_t>(rows.size());
}

Result<std::int64_t> SqliteInboxDesk::Retry(const std::string& consumer, const EventId& id, const OperatorAction& why,
                                            bool may_apply_twice) {
  const std::string too_old = fmt::format("p.state = 'SKIPPED' AND p.error_code = '{}'", kTooOldCode);
  const std::string states = may_apply_twice ? fmt::format("({} OR {})", kCanBeDue, too_old) : std::string(kCanBeDue);
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t count,
                           MakeDue(consumer, ConditionsOf(consumer, id), states, kDeadLettersMax, why));
  if (count > 0) return count;
  Conditions conditions = ConditionsOf(consumer, id);
  conditions.AddFixed(too_old);
  SEALANE_ASSIGN_OR_RETURN(const std::vector<ParkedRow> rows, SelectParked(conditions, 1));
  if (rows.empty()) return count;
  return TooOldToRetry(consumer, id);
}

Result<AcceptedGap> SqliteInboxDesk::AcceptGap(const std::string& consumer, const GapChoice& which,
                                               const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  AggregateName name = which.aggregate;
  if (which.event_id) {
    Conditions conditions = ConditionsOf(consumer, *which.event_id);
    conditions.AddFixed("p.state <> 'SKIPPED'");
    SEALANE_ASSIGN_OR_RETURN(const std::vector<ParkedRow> rows, SelectParked(conditions, 1));
    if (rows.empty()) return NoParkedVersion(consumer, which);
    const ParkedEvent& event = rows.front().event;
    if (!event.aggregate_version || event.aggregate_id.empty()) return NoGap(consumer, event.id, std::nullopt, 0);
    name = {event.tenant, event.aggregate_type, event.aggregate_id};
  }
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t seen, VersionSeen(consumer, name));
  SEALANE_ASSIGN_OR_RETURN(
      Statement lowest,
      Prepare(
          "SELECT place, event_id, aggregate_version FROM sealane_inbox_parked WHERE consumer = ?1 AND tenant = ?2"
          " AND coalesce(aggregate_type, '') = ?3 AND aggregate_id = ?4 AND state <> 'SKIPPED'"
          " AND aggregate_version IS NOT NULL"
          " ORDER BY aggregate_version <= ?5, aggregate_version, place LIMIT 1"));
  lowest.Bind(consumer).Bind(name.tenant).Bind(name.type).Bind(name.id).Bind(seen);
  SEALANE_ASSIGN_OR_RETURN(const bool found, lowest.Step());
  if (!found) return NoParkedVersion(consumer, which);
  const std::int64_t place = lowest.Int(0);
  const auto first_id = EventId::Parse(lowest.Text(1));
  const AcceptedGap gap{first_id.value_or(EventId()), lowest.Int(2), seen};
  if (gap.version > seen && which.event_id && *which.event_id != gap.id) {
    return NotFirstGap(consumer, gap.id, gap.version);
  }
  Conditions conditions = ConditionsOf(consumer, gap.id);
  conditions.AddFixed(fmt::format("p.place = {}", place));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<ParkedRow> rows, SelectParked(conditions, 1));
  if (rows.empty() || !WaitsForGap(rows.front().event, seen)) {
    return NoGap(consumer, which.event_id.value_or(gap.id), gap.version, seen);
  }
  SEALANE_ASSIGN_OR_RETURN(Statement pass,
                           Prepare("INSERT INTO sealane_inbox_version (consumer, tenant, type, id, version)"
                                   " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version"));
  pass.Bind(consumer).Bind(name.tenant).Bind(name.type).Bind(name.id).Bind(gap.version - 1);
  SEALANE_RETURN_IF_ERROR(pass.Run());
  SEALANE_ASSIGN_OR_RETURN(
      Statement update,
      Prepare(
          fmt::format("UPDATE sealane_inbox_parked SET state = CASE state WHEN 'RECEIVED' THEN state ELSE 'FAILED'"
                      " END, attempts = 0, next_attempt_at = {}, gap_until = NULL, claimed_until = NULL"
                      " WHERE place = ?",
                      kNowSql)));
  update.Bind(place);
  SEALANE_RETURN_IF_ERROR(update.Run());
  const InboxState state = rows.front().event.state;
  if (state == InboxState::kGap || state == InboxState::kDead) {
    SEALANE_RETURN_IF_ERROR(SetReceipt(rows.front(), "state = 'FAILED', finished_at = NULL"));
  }
  SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "inbox.accept_gap", AcceptGapTarget(consumer, gap), why));
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return gap;
}

Result<bool> SqliteInboxDesk::Pause(const std::string& consumer, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(Statement update,
                           Prepare(fmt::format("UPDATE sealane_inbox_consumer SET paused_at = {}, pause_actor = ?2,"
                                               " pause_reason = ?3 WHERE consumer = ?1 AND paused_at IS NULL",
                                               kNowSql)));
  update.Bind(consumer).Bind(why.actor).Bind(why.reason);
  SEALANE_RETURN_IF_ERROR(update.Run());
  if (sqlite3_changes64(connection_.get()) == 0) return false;
  SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "inbox.pause", consumer, why));
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return true;
}

Result<bool> SqliteInboxDesk::Unpause(const std::string& consumer, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(Statement update,
                           Prepare("UPDATE sealane_inbox_consumer SET paused_at = NULL, pause_actor = NULL,"
                                   " pause_reason = NULL, held_at = NULL, hold_code = NULL, hold_message = NULL"
                                   " WHERE consumer = ?1 AND (paused_at IS NOT NULL OR hold_code IS NOT NULL)"));
  update.Bind(consumer);
  SEALANE_RETURN_IF_ERROR(update.Run());
  if (sqlite3_changes64(connection_.get()) == 0) return false;
  SEALANE_ASSIGN_OR_RETURN(Statement wake, Prepare(DueNowSql()));
  wake.Bind(consumer);
  SEALANE_RETURN_IF_ERROR(wake.Run());
  SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "inbox.unpause", consumer, why));
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return true;
}

// ---- positions

Result<std::int64_t> SqliteInboxDesk::Resume(const std::string& consumer, const std::string& topic,
                                             std::optional<std::int32_t> partition, const ResumePoint& from,
                                             const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<InboxPosition> known, ReadPositions(consumer));
  // Given back cleanly, so that the member that has it is not taken for one that died.
  SEALANE_ASSIGN_OR_RETURN(Statement update,
                           Prepare("UPDATE sealane_inbox_partition SET resume_from = ?, stop_code = NULL,"
                                   " stop_message = NULL, stopped_at = NULL, epoch = epoch + 1, clean = 1"
                                   " WHERE consumer = ? AND topic = ? AND partition = ?"));
  std::int64_t count = 0;
  for (const InboxPosition& position : known) {
    if (position.partition.topic != topic ||
        partition.value_or(position.partition.number) != position.partition.number)
      continue;
    update.Bind(ToString(from)).Bind(consumer).Bind(topic).Bind(std::int64_t{position.partition.number});
    SEALANE_RETURN_IF_ERROR(update.Run());
    SEALANE_RETURN_IF_ERROR(
        NoteAudit(connection_.get(), "inbox.resume", ResumeTarget(consumer, position.partition, from), why));
    ++count;
  }
  if (count == 0) return UnknownPartition(consumer, topic, partition, known);
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return count;
}

Result<std::int64_t> SqliteInboxDesk::DeleteSome(std::string_view table, const std::string& consumer,
                                                 std::int64_t limit) {
  // Tables without row ids are named by their keys.
  std::string_view key = "rowid";
  if (table == "sealane_inbox") key = "event_id";
  if (table == "sealane_inbox_version") key = "tenant, type, id";
  if (table == "sealane_inbox_partition") key = "topic, partition";
  SEALANE_ASSIGN_OR_RETURN(
      Statement remove,
      Prepare(fmt::format("DELETE FROM {0} WHERE consumer = ?1 AND ({1}) IN (SELECT {1} FROM {0} WHERE consumer = ?1"
                          " LIMIT ?2)",
                          table, key)));
  remove.Bind(consumer).Bind(limit);
  SEALANE_RETURN_IF_ERROR(remove.Run());
  return std::int64_t{sqlite3_changes(connection_.get())};
}

Result<RemoveReport> SqliteInboxDesk::Remove(const std::string& consumer, bool although_attached, std::size_t limit,
                                             const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<InboxPosition> known, ReadPositions(consumer));
  for (const InboxPosition& position : known) {
    if (position.attached && !although_attached) return ConsumerAttached(consumer, position.partition);
  }
  // A consumer that is started before the last step must not apply again what it has no receipt of any more.
  SEALANE_ASSIGN_OR_RETURN(Statement forget,
                           Prepare(fmt::format("UPDATE sealane_inbox_consumer SET forgotten_before ="
                                               " max(forgotten_before, {}) WHERE consumer = ? AND mode = 'record'",
                                               kNowSql)));
  forget.Bind(consumer);
  SEALANE_RETURN_IF_ERROR(forget.Run());
  const auto most = static_cast<std::int64_t>(DeskLimit(limit));
  RemoveReport report;
  // The positions last, so that such a consumer does not begin anew either.
  for (const std::string_view table : {"sealane_inbox", "sealane_inbox_version", "sealane_inbox_recent",
                                       "sealane_inbox_parked", "sealane_inbox_partition"}) {
    if (report.rows == most) break;
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t rows, DeleteSome(table, consumer, most - report.rows));
    report.rows += rows;
  }
  report.more = report.rows == most;
  if (report.more) {
    // Once, by the first of several calls, so that nothing goes without a record.
    SEALANE_ASSIGN_OR_RETURN(Statement begun,
                             Prepare("SELECT 1 FROM sealane_audit a JOIN sealane_inbox_consumer c ON c.consumer = ?"
                                     " WHERE a.action = 'inbox.remove_begin' AND a.target = c.consumer"
                                     " AND a.at >= c.created_at LIMIT 1"));
    begun.Bind(consumer);
    SEALANE_ASSIGN_OR_RETURN(const bool found, begun.Step());
    if (!found) SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "inbox.remove_begin", consumer, why));
  } else {
    SEALANE_ASSIGN_OR_RETURN(Statement remove, Prepare("DELETE FROM sealane_inbox_consumer WHERE consumer = ?"));
    remove.Bind(consumer);
    SEALANE_RETURN_IF_ERROR(remove.Run());
    SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "inbox.remove", consumer, why));
  }
  SEALANE_RETURN_IF_ERROR(transaction.Commit());
  return report;
}

Status SqliteInboxDesk::SetReceipt(const ParkedRow& row, std::string_view set) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement update,
      Prepare(
          fmt::format("UPDATE sealane_inbox SET {} WHERE consumer = ? AND event_id = ? AND payload_hash = ?", set)));
  update.Bind(row.event.consumer).Bind(row.event.id.ToString()).BindBlob(row.payload_hash);
  return update.Run();
}

Result<std::int64_t> SqliteInboxDesk::VersionSeen(const std::string& consumer, const AggregateName& name) {
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Prepare("SELECT version FROM sealane_inbox_version WHERE consumer = ? AND tenant = ?"
                                   " AND type = ? AND id = ?"));
  select.Bind(consumer).Bind(name.tenant).Bind(name.type).Bind(name.id);
  SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
  return found ? select.Int(0) : 0;
}

Status SqliteInboxDesk::PassVersion(const ParkedEvent& event) {
  if (!event.aggregate_version || event.aggregate_id.empty()) return Ok();
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t seen,
                           VersionSeen(event.consumer, {event.tenant, event.aggregate_type, event.aggregate_id}));
  if (!PassesVersion(event, seen)) return Ok();
  SEALANE_ASSIGN_OR_RETURN(Statement upsert,
                           Prepare("INSERT INTO sealane_inbox_version (consumer, tenant, type, id, version)"
                                   " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version"));
  upsert.Bind(event.consumer).Bind(event.tenant).Bind(event.aggregate_type).Bind(event.aggregate_id);
  upsert.Bind(*event.aggregate_version);
  return upsert.Run();
}

Status SqliteInboxDesk::Record(std::string_view action, const ParkedEvent& event, const OperatorAction& why) {
  return NoteAudit(connection_.get(), action, AuditTarget(event.id.ToString(), event.consumer), why);
}

}  // namespace

Result<std::unique_ptr<InboxDesk>> OpenInboxDesk(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, OpenMigrated(options));
  return std::unique_ptr<InboxDesk>(std::make_unique<SqliteInboxDesk>(std::move(connection)));
}

}  // namespace sealane::sqlite
