#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ops/operator_action.hpp"
#include "postgres/conditions.hpp"
#include "postgres/connection.hpp"
#include "postgres/inbox_session.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "postgres/row_text.hpp"
#include "postgres/short_transaction.hpp"

namespace sealane::postgres {
namespace {

/// Every index begins with the consumer: who looks for an event without naming one looks under each.
std::string UnderEveryConsumer(std::string_view table) {
  return fmt::format(" AND {}.consumer = ANY (ARRAY(SELECT name FROM {{0}}.inbox_consumer))", table);
}

Conditions ConditionsOf(const ReceiptFilter& filter) {
  Conditions conditions;
  conditions.AddIf("r.consumer", filter.consumer);
  if (filter.event_id && !filter.consumer) conditions.sql += UnderEveryConsumer("r");
  if (filter.state) conditions.Add("r.state", std::string(ToString(*filter.state)));
  if (filter.event_id) conditions.Add("r.event_id", filter.event_id->ToString());
  conditions.AddIf("r.topic", filter.topic);
  conditions.AddIf("r.aggregate_type", filter.aggregate_type);
  conditions.AddIf("r.aggregate_id", filter.aggregate_id);
  return conditions;
}

Conditions ConditionsOf(const ParkedFilter& filter) {
  Conditions conditions;
  conditions.AddIf("p.consumer", filter.consumer);
  if (filter.unit) conditions.Add("p.unit", UnitToText(*filter.unit));
  conditions.AddIf("p.error_code", filter.error_code);
  conditions.AddIf("p.topic", filter.topic);
  if (filter.state) {
    conditions.Add("p.state", std::string(ToString(*filter.state)));
  } else {
    conditions.sql += " AND p.state IN ('GAP', 'FAILED', 'DEAD')";
  }
  return conditions;
}

Conditions ConditionsOf(const std::optional<std::string>& consumer, const EventId& id) {
  Conditions conditions;
  conditions.AddIf("p.consumer", consumer);
  if (!consumer) conditions.sql += UnderEveryConsumer("p");
  conditions.Add("p.event_id", id.ToString());
  return conditions;
}

struct Identity {
  EventId id;
  InboxState state;
};
Result<Identity> ReadIdentity(std::string_view id, std::string_view state) {
  const auto parsed_id = EventId::Parse(id);
  const auto parsed_state = ParseInboxState(state);
  if (parsed_id && parsed_state) return Identity{*parsed_id, *parsed_state};
  return Error(ErrorKind::kCorrupt, "row_corrupt", fmt::format("{} with state {} is no event", id, state))
      .WithHint("look at the row in the tables inbox and inbox_parked");
}

PartitionOffset ReadSource(FieldReader& row) {
  PartitionOffset source;
  source.partition.topic = row.Text();
  source.partition.number = static_cast<std::int32_t>(row.Int());
  source.offset = row.Int();
  return source;
}

Result<InboxReceipt> ReadReceipt(const PgResult& result, int number) {
  FieldReader row(result, number);
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

struct ParkedRow {
  std::int64_t place = 0;
  ParkedEvent event;
};

Result<ParkedRow> ReadParked(const PgResult& result, int number) {
  FieldReader row(result, number);
  ParkedRow parked;
  parked.place = row.Int();
  ParkedEvent& event = parked.event;
  event.consumer = row.Text();
  const std::string id = row.Text();
  SEALANE_ASSIGN_OR_RETURN(const Identity identity, ReadIdentity(id, row.Text()));
  event.id = identity.id;
  event.state = identity.state;
  event.unit = UnitFromText(row.Text());
  event.attempts = static_cast<std::int32_t>(row.Int());
  event.is_claimed = row.Truth();
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

class PostgresInboxDesk final : public InboxDesk {
 public:
  PostgresInboxDesk(Connection connection, std::string quoted_schema)
      : connection_(std::move(connection)), schema_(std::move(quoted_schema)) {}

  Result<std::vector<InboxSummary>> Summaries() override;
  Result<std::vector<InboxReceipt>> List(const ReceiptFilter& filter) override;
  Result<std::vector<ParkedEvent>> Parked(const ParkedFilter& filter) override;
  Result<InboxFindings> Find(const std::optional<std::string>& consumer, const EventId& id) override;
  Result<std::int64_t> Retry(const ParkedFilter& which, const OperatorAction& why) override {
    return MakeDue(which, std::nullopt, false, why);
  }
  Result<std::int64_t> Retry(const std::string& consumer, const EventId& id, const OperatorAction& why,
                             bool may_apply_twice) override;
  Result<std::int64_t> Skip(const std::string& consumer, const EventId& id, const OperatorAction& why) override;
  Result<std::int64_t> Resume(const std::string& consumer, const std::string& topic,
                              std::optional<std::int32_t> partition, const ResumePoint& from,
                              const OperatorAction& why) override;
  Result<AcceptedGap> AcceptGap(const std::string& consumer, const GapChoice& which,
                                const OperatorAction& why) override;
  Result<bool> Pause(const std::string& consumer, const OperatorAction& why) override {
    return SetPause("operator_inbox_pause", consumer, why);
  }
  Result<bool> Unpause(const std::string& consumer, const OperatorAction& why) override {
    return SetPause("operator_inbox_unpause", consumer, why);
  }
  Result<RemoveReport> Remove(const std::string& consumer, bool although_attached, std::size_t limit,
                              const OperatorAction& why) override;

 private:
  /// {0} is the schema.
  Result<PgResult> Run(std::string_view sql, std::span<const TextParameter> parameters = {}) {
    return Execute(connection_.get(), fmt::format(fmt::runtime(sql), schema_), parameters);
  }
  Status RequireConsumer(const std::optional<std::string>& consumer);
  Status CountReceipts(InboxSummary& summary);
  Status CountParked(InboxSummary& summary);
  Result<std::vector<InboxPosition>> ReadPositions(const std::string& consumer);
  /// Of events filed within a span, which is SQL.
  Status SelectReceipts(const ReceiptFilter& filter, std::string_view span, std::vector<InboxReceipt>& receipts);
  Result<std::vector<ParkedRow>> SelectParked(Conditions conditions, std::size_t limit);
  Result<std::int64_t> MakeDue(const ParkedFilter& which, const std::optional<EventId>& id, bool may_apply_twice,
                               const OperatorAction& why);
  Result<bool> SetPause(std::string_view function, const std::string& consumer, const OperatorAction& why);
  /// A change and its audit records, which are one statement; returns how many events.
  Result<std::int64_t> Change(std::string_view sql, std::span<const TextParameter> parameters);

  Connection connection_;
  std::string schema_;
};

// ---- looking

Status PostgresInboxDesk::RequireConsumer(const std::optional<std::string>& consumer) {
  if (!consumer) return Ok();
  const std::array<TextParameter, 1> parameters = {*consumer};
  SEALANE_ASSIGN_OR_RETURN(const PgResult found, Run("SELECT 1 FROM {0}.inbox_consumer WHERE name = $1", parameters));
  if (PQntuples(found.get()) > 0) return Ok();
  return UnknownConsumer(*consumer);
}

Result<std::vector<InboxSummary>> PostgresInboxDesk::Summaries() {
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Run(fmt::format("SELECT name, mode, {}, pause_actor, pause_reason, {}, hold_code, hold_message"
                      " FROM {{0}}.inbox_consumer ORDER BY name",
                      Micros("paused_at"), Micros("held_at"))));
  std::vector<InboxSummary> summaries;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    InboxSummary& summary = summaries.emplace_back();
    summary.consumer = Text(result, row, 0);
    const auto mode = ParseInboxMode(TextAt(result, row, 1));
    if (!mode) {
      return Error(ErrorKind::kCorrupt, "row_corrupt",
                   fmt::format("{} is no mode of an inbox", TextAt(result, row, 1)))
          .WithHint("look at the row in the table inbox_consumer");
    }
    summary.mode = *mode;
    if (const auto at = OptionalTime(result, row, 2)) {
      summary.pause = ConsumerPause{*at, Text(result, row, 3), Text(result, row, 4)};
    }
    summary.held_at = OptionalTime(result, row, 5);
    if (!IsNull(result, row, 6)) summary.hold = ConsumerHold{Text(result, row, 6), Text(result, row, 7)};
    SEALANE_RETURN_IF_ERROR(CountReceipts(summary));
    SEALANE_RETURN_IF_ERROR(CountParked(summary));
    SEALANE_ASSIGN_OR_RETURN(summary.partitions, ReadPositions(summary.consumer));
  }
  return summaries;
}

Status PostgresInboxDesk::CountReceipts(InboxSummary& summary) {
  // One more than are told, to see that there are more.
  const std::array<TextParameter, 2> parameters = {summary.consumer, std::to_string(InboxCounts::kCountMax + 1)};
  SEALANE_ASSIGN_OR_RETURN(const PgResult counts,
                           Run("SELECT r.state, count(*) FROM (SELECT state FROM {0}.inbox WHERE consumer = $1"
                               " LIMIT $2::int8) r GROUP BY r.state",
                               parameters));
  std::int64_t all = 0;
  for (int row = 0; row < PQntuples(counts.get()); ++row) {
    all += IntAt(counts, row, 1);
    if (const auto state = ParseInboxState(TextAt(counts, row, 0))) summary.receipts[*state] = IntAt(counts, row, 1);
  }
  summary.more_receipts = all > InboxCounts::kCountMax;
  return Ok();
}

Status PostgresInboxDesk::CountParked(InboxSummary& summary) {
  const std::array<TextParameter, 2> parameters = {summary.consumer, std::to_string(InboxCounts::kCountMax)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult counts,
      Run(fmt::format("SELECT count(*), count(*) FILTER (WHERE w.state = 'DEAD'), count(*) FILTER"
                      " (WHERE w.state = 'GAP'), (SELECT {} FROM {{0}}.inbox_parked p WHERE p.consumer = $1"
                      " AND p.state <> 'SKIPPED' ORDER BY p.place LIMIT 1) FROM (SELECT state FROM {{0}}.inbox_parked"
                      " WHERE consumer = $1 AND state <> 'SKIPPED' LIMIT $2::int8) w",
                      Micros("p.parked_at")),
          parameters));
  summary.waiting = {.parked = IntAt(counts, 0, 0), .dead = IntAt(counts, 0, 1), .gaps = IntAt(counts, 0, 2)};
  summary.oldest_parked_at = OptionalTime(counts, 0, 3);
  return Ok();
}

Result<std::vector<InboxPosition>> PostgresInboxDesk::ReadPositions(const std::string& consumer) {
  const std::array<TextParameter, 1> parameters = {consumer};
  // Byte order, as the other stores have it.
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Run(fmt::format("SELECT topic, partition, epoch, next_offset, topic_id, clean, stop_code, stop_message, {},"
                      " resume_from FROM {{0}}.inbox_progress WHERE consumer = $1"
                      " ORDER BY topic COLLATE \"C\", partition",
                      Micros("stopped_at")),
          parameters));
  std::vector<InboxPosition> positions;
  for (int number = 0; number < PQntuples(result.get()); ++number) {
    FieldReader row(result, number);
    InboxPosition& position = positions.emplace_back();
    position.partition.topic = row.Text();
    position.partition.number = static_cast<std::int32_t>(row.Int());
    position.epoch = row.Int();
    position.next_offset = row.OptionalInt();
    position.topic_id = row.Text();
    position.attached = !row.Truth();
    const std::string code = row.Text();
    const std::string message = row.Text();
    if (!code.empty()) position.stop = PartitionStop{code, message};
    position.stopped_at = row.OptionalTime();
    position.resume = ParseResumePoint(row.Text());
  }
  return positions;
}

Status PostgresInboxDesk::SelectReceipts(const ReceiptFilter& filter, std::string_view span,
                                         std::vector<InboxReceipt>& receipts) {
  const std::size_t limit = DeskLimit(filter.limit);
  if (receipts.size() == limit) return Ok();
  Conditions conditions = ConditionsOf(filter);
  const std::string limit_parameter = conditions.Bind(std::to_string(limit - receipts.size()));
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Run(fmt::format("SELECT r.consumer, r.event_id, r.state, r.topic, r.partition, r.\"offset\", r.event_type,"
                      " r.tenant, r.aggregate_type, r.aggregate_id, r.aggregate_version, {}, {}, {}, r.code,"
                      " r.message FROM {{0}}.inbox r WHERE {} AND {}"
                      " ORDER BY r.filed_at DESC, r.event_id DESC, r.consumer LIMIT {}::int8",
                      Micros("r.filed_at"), Micros("r.received_at"), Micros("r.finished_at"), conditions.sql, span,
                      limit_parameter),
          conditions.parameters));
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    SEALANE_ASSIGN_OR_RETURN(InboxReceipt receipt, ReadReceipt(result, row));
    receipts.push_back(std::move(receipt));
  }
  return Ok();
}

Result<std::vector<InboxReceipt>> PostgresInboxDesk::List(const ReceiptFilter& filter) {
  SEALANE_RETURN_IF_ERROR(RequireConsumer(filter.consumer));
  std::vector<InboxReceipt> receipts;
  if (filter.event_id) {
    SEALANE_RETURN_IF_ERROR(SelectReceipts(filter, "true", receipts));
    return receipts;
  }
  // No index has receipts in the order of time. Their partitions have, so the newest are looked through first, and
  // most of the table not at all. now() stands still within a transaction only.
  ShortTransaction transaction(connection_.get());
  SEALANE_RETURN_IF_ERROR(transaction.Begin());
  for (const std::string_view span :
       {"r.filed_at >= now() - interval '1 day'",
        "r.filed_at < now() - interval '1 day' AND r.filed_at >= now() - interval '8 days'",
        "r.filed_at < now() - interval '8 days'"}) {
    SEALANE_RETURN_IF_ERROR(SelectReceipts(filter, span, receipts));
  }
  return receipts;
}

Result<std::vector<ParkedRow>> PostgresInboxDesk::SelectParked(Conditions conditions, std::size_t limit) {
  const std::string limit_parameter = conditions.Bind(std::to_string(limit));
  // A gap that waits until it is woken is due in the infinite, which is no time to show.
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Run(fmt::format(
              "SELECT p.place, p.consumer, p.event_id, p.state, p.unit, p.attempts,"
              " coalesce(p.claimed_until > clock_timestamp(), false), {}, {}, {}, {}, {}, p.error_code,"
              " p.error_message, p.topic, p.partition, p.\"offset\", p.event_type, p.tenant, p.aggregate_type,"
              " p.aggregate_id, p.aggregate_version, CASE WHEN p.state = 'SKIPPED' THEN 0 ELSE (SELECT count(*) FROM"
              " (SELECT FROM {{0}}.inbox_parked f WHERE f.consumer = p.consumer AND f.unit = p.unit"
              " AND f.place > p.place AND f.state <> 'SKIPPED' LIMIT {}) w) END"
              " FROM {{0}}.inbox_parked p WHERE {} ORDER BY p.parked_at, p.place LIMIT {}::int8",
              Micros("p.parked_at"), Micros("nullif(p.next_attempt_at, 'infinity')"), Micros("p.gap_until"),
              Micros("p.first_failed_at"), Micros("p.last_failed_at"), kFollowersMax, conditions.sql,
              limit_parameter),
          conditions.parameters));
  std::vector<ParkedRow> rows;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    SEALANE_ASSIGN_OR_RETURN(ParkedRow parked, ReadParked(result, row));
    rows.push_back(std::move(parked));
  }
  return rows;
}

Result<std::vector<ParkedEvent>> PostgresInboxDesk::Parked(const ParkedFilter& filter) {
  SEALANE_RETURN_IF_ERROR(RequireConsumer(filter.consumer));
  SEALANE_ASSIGN_OR_RETURN(std::vector<ParkedRow> rows, SelectParked(ConditionsOf(filter), DeskLimit(filter.limit)));
  std::vector<ParkedEvent> events;
  for (ParkedRow& row : rows) events.push_back(std::move(row.event));
  return events;
}

Result<InboxFindings> PostgresInboxDesk::Find(const std::optional<std::string>& consumer, const EventId& id) {
  InboxFindings findings;
  SEALANE_ASSIGN_OR_RETURN(findings.receipts, List({.consumer = consumer, .event_id = id, .limit = kDeadLettersMax}));
  SEALANE_ASSIGN_OR_RETURN(std::vector<ParkedRow> rows, SelectParked(ConditionsOf(consumer, id), kDeadLettersMax));
  for (ParkedRow& row : rows) findings.parked.push_back(std::move(row.event));
  return findings;
}

// ---- deciding

Result<std::int64_t> PostgresInboxDesk::Change(std::string_view sql, std::span<const TextParameter> parameters) {
  const auto changed = Run(sql, parameters);
  if (changed) return IntAt(*changed, 0, 0);
  return ChangeFailed(connection_.get(), changed.error());
}

Result<std::int64_t> PostgresInboxDesk::MakeDue(const ParkedFilter& which, const std::optional<EventId>& id,
                                                bool may_apply_twice, const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(which.consumer));
  const std::array<TextParameter, 10> parameters = {
      which.consumer,
      id ? TextParameter(id->ToString()) : std::nullopt,
      which.unit ? TextParameter(UnitToText(*which.unit)) : std::nullopt,
      which.topic,
      which.error_code,
      which.state ? TextParameter(ToString(*which.state)) : std::nullopt,
      std::to_string(DeskLimit(which.limit)),
      may_apply_twice ? "true" : "false",
      why.actor,
      why.reason};
  return Change("SELECT {0}.operator_inbox_retry($1, $2::uuid, $3, $4, $5, $6, $7::int8, $8::bool, $9, $10)",
                parameters);
}

Result<std::int64_t> PostgresInboxDesk::Retry(const std::string& consumer, const EventId& id,
                                              const OperatorAction& why, bool may_apply_twice) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t count,
                           MakeDue({.consumer = consumer, .limit = kDeadLettersMax}, id, may_apply_twice, why));
  if (count > 0) return count;
  Conditions too_old = ConditionsOf(consumer, id);
  too_old.Add("p.state", std::string(ToString(InboxState::kSkipped)));
  too_old.Add("p.error_code", std::string(kTooOldCode));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<ParkedRow> rows, SelectParked(std::move(too_old), 1));
  if (rows.empty()) return count;
  return TooOldToRetry(consumer, id);
}

Result<std::int64_t> PostgresInboxDesk::Skip(const std::string& consumer, const EventId& id,
                                             const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  const std::array<TextParameter, 4> parameters = {consumer, id.ToString(), why.actor, why.reason};
  return Change("SELECT {0}.operator_inbox_skip($1, $2::uuid, $3, $4)", parameters);
}

Result<AcceptedGap> PostgresInboxDesk::AcceptGap(const std::string& consumer, const GapChoice& which,
                                                 const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  const std::array<TextParameter, 7> parameters = {
      consumer,
      which.event_id ? TextParameter(which.event_id->ToString()) : std::nullopt,
      which.aggregate.tenant,
      which.aggregate.type,
      which.aggregate.id,
      why.actor,
      why.reason};
  const auto changed =
      Run("SELECT outcome, event, version, seen FROM {0}.operator_inbox_accept_gap($1, $2::uuid, $3, $4, $5, $6, $7)",
          parameters);
  if (!changed) return ChangeFailed(connection_.get(), changed.error());
  if (PQntuples(changed->get()) == 0) return NoParkedVersion(consumer, which);
  const std::string_view outcome = TextAt(*changed, 0, 0);
  const auto id = EventId::Parse(TextAt(*changed, 0, 1));
  SEALANE_ASSERT(id.has_value(), "an id column holds an id");
  const std::optional<std::int64_t> version =
      IsNull(*changed, 0, 2) ? std::nullopt : std::optional(IntAt(*changed, 0, 2));
  if (outcome == "not_first") return NotFirstGap(consumer, *id, version.value_or(0));
  if (outcome == "no_gap") return NoGap(consumer, *id, version, IntAt(*changed, 0, 3));
  return AcceptedGap{*id, version.value_or(0), IntAt(*changed, 0, 3)};
}

Result<bool> PostgresInboxDesk::SetPause(std::string_view function, const std::string& consumer,
                                         const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  const std::array<TextParameter, 3> parameters = {consumer, why.actor, why.reason};
  const auto changed = Run(fmt::format("SELECT {{0}}.{}($1, $2, $3)", function), parameters);
  if (!changed) return ChangeFailed(connection_.get(), changed.error());
  return IsTrue(*changed, 0, 0);
}

// ---- positions

Result<std::int64_t> PostgresInboxDesk::Resume(const std::string& consumer, const std::string& topic,
                                               std::optional<std::int32_t> partition, const ResumePoint& from,
                                               const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
  const std::array<TextParameter, 6> parameters = {
      consumer,       topic,     partition ? TextParameter(std::to_string(*partition)) : std::nullopt,
      ToString(from), why.actor, why.reason};
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t count,
                           Change("SELECT {0}.operator_inbox_resume($1, $2, $3::int4, $4, $5, $6)", parameters));
  if (count > 0) return count;
  SEALANE_ASSIGN_OR_RETURN(const std::vector<InboxPosition> known, ReadPositions(consumer));
  return UnknownPartition(consumer, topic, partition, known);
}

Result<RemoveReport> PostgresInboxDesk::Remove(const std::string& consumer, bool although_attached, std::size_t limit,
                                               const OperatorAction& why) {
  SEALANE_RETURN_IF_ERROR(CheckAction(why));
  const std::array<TextParameter, 5> parameters = {consumer, although_attached ? "true" : "false",
                                                   std::to_string(DeskLimit(limit)), why.actor, why.reason};
  const auto removed =
      Run("SELECT rows_gone, more, attached_topic, attached_partition"
          " FROM {0}.operator_inbox_remove($1, $2::bool, $3::int8, $4, $5)",
          parameters);
  if (!removed) return ChangeFailed(connection_.get(), removed.error());
  if (PQntuples(removed->get()) == 0) return UnknownConsumer(consumer);
  if (!IsNull(*removed, 0, 2)) {
    return ConsumerAttached(consumer, {Text(*removed, 0, 2), static_cast<std::int32_t>(IntAt(*removed, 0, 3))});
  }
  return RemoveReport{.rows = IntAt(*removed, 0, 0), .more = IsTrue(*removed, 0, 1)};
}

}  // namespace

Result<std::unique_ptr<InboxDesk>> OpenInboxDesk(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  return std::unique_ptr<InboxDesk>(
      std::make_unique<PostgresInboxDesk>(std::move(connection), std::move(quoted_schema)));
}

}  // namespace sealane::postgres
