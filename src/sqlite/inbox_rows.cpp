#include "sqlite/inbox_rows.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sqlite/inbox_bytes.hpp"

namespace sealane::sqlite {
namespace {

std::string_view BytesOf(const PayloadHash& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

bool IsFinished(InboxState state) {
  return state == InboxState::kProcessed || state == InboxState::kIgnored || state == InboxState::kSkipped;
}

Result<InboxState> StateOf(std::string_view text) {
  if (const auto state = ParseInboxState(text)) return *state;
  return Error(ErrorKind::kCorrupt, "store_corrupt", fmt::format("{} is no state of an event", text))
      .WithHint("look at sealane_inbox and sealane_inbox_parked");
}

/// When a note lets its message be tried again; empty: at once, or never.
std::optional<Timestamp> NextAttempt(const ParkNote& note, Timestamp now) {
  const bool waits = note.state == InboxState::kFailed || note.state == InboxState::kGap;
  return waits && note.retry_after ? std::optional<Timestamp>(now + *note.retry_after) : std::nullopt;
}
std::optional<Timestamp> GapEnd(const ParkNote& note, Timestamp now) {
  return note.state == InboxState::kGap ? NextAttempt(note, now) : std::nullopt;
}

std::string HeadSql(std::string_view columns, bool by_version) {
  return fmt::format("SELECT {} FROM sealane_inbox_parked WHERE consumer = ?1 AND place = {}", columns,
                     HeadPlaceSql("?2", by_version));
}

/// What a row with state and hash of the payload says about an event, if there is one.
Result<std::optional<Standing::Known>> Judge(const BookedStatement& select, const InboxItem& item) {
  SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
  if (!found) return std::optional<Standing::Known>();
  RowReader row(*select);
  SEALANE_ASSIGN_OR_RETURN(const InboxState state, StateOf(row.Text()));
  if (row.Blob() != BytesOf(item.hash)) return std::optional(Standing::Known::kOtherBytes);
  return std::optional(IsFinished(state) ? Standing::Known::kDone : Standing::Known::kParked);
}

}  // namespace

std::string HeadPlaceSql(std::string_view unit, bool by_version) {
  constexpr std::string_view kLowest =
      "coalesce((SELECT v.place FROM sealane_inbox_parked v WHERE f.aggregate_version IS NOT NULL"
      " AND v.consumer = f.consumer AND v.unit = f.unit AND v.state <> 'SKIPPED' AND v.tenant = f.tenant"
      " AND v.aggregate_type = f.aggregate_type AND v.aggregate_id = f.aggregate_id AND v.aggregate_version IS NOT "
      "NULL"
      " ORDER BY v.aggregate_version, v.place LIMIT 1), f.place)";
  return fmt::format(
      "(SELECT {} FROM sealane_inbox_parked f WHERE f.consumer = ?1 AND f.unit = {} AND f.state <> 'SKIPPED'"
      " ORDER BY f.place LIMIT 1)",
      by_version ? kLowest : "f.place", unit);
}

const std::string& DueNowSql() {
  static const std::string sql = fmt::format(
      "UPDATE sealane_inbox_parked SET next_attempt_at = {0} WHERE place IN (SELECT place FROM sealane_inbox_parked"
      " WHERE consumer = ?1 AND state = 'FAILED' AND next_attempt_at > {0} AND claimed_until IS NULL"
      " ORDER BY next_attempt_at LIMIT 10000)",
      kNowSql);
  return sql;
}

InboxItem InboxItem::Of(const Arrival& arrival) {
  InboxItem item;
  item.id = arrival.id;
  item.hash = arrival.hash;
  item.filed_at = arrival.filed_at;
  item.unit = arrival.unit;
  item.partition = arrival.message->partition;
  item.offset = arrival.message->offset;
  item.message = arrival.message;
  item.envelope = arrival.envelope;
  if (arrival.envelope != nullptr) {
    const Envelope& envelope = *arrival.envelope;
    item.aggregate = {envelope.tenant, envelope.aggregate.type, envelope.aggregate.id};
    item.version = envelope.aggregate.version;
  }
  return item;
}

// ---- looking
// --------------------------------------------------------------------------------------------------------

Result<bool> InboxRows::AnythingParked() {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           session_.Take("SELECT EXISTS (SELECT 1 FROM sealane_inbox_parked WHERE consumer = ?)"));
  SEALANE_RETURN_IF_ERROR(select->Step());
  return select->Int(0) != 0;
}

Result<Timestamp> InboxRows::ForgottenBefore() {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select,
                           session_.Take("SELECT forgotten_before FROM sealane_inbox_consumer WHERE consumer = ?"));
  SEALANE_RETURN_IF_ERROR(select->Step());
  return RowReader(*select).Time();
}

Result<std::int64_t> InboxRows::CountWrite() {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement count,
                           session_.Take("UPDATE sealane_inbox_consumer SET writes = writes + 1 WHERE consumer = ?"
                                         " RETURNING writes"));
  SEALANE_ASSIGN_OR_RETURN(const bool found, count->Step());
  const std::int64_t writes = found ? count->Int(0) : 0;
  SEALANE_RETURN_IF_ERROR(count->Run());
  return writes;
}

Result<Standing::Known> InboxRows::KnownOf(const InboxItem& item, bool anything_parked) {
  bool other_bytes = false;
  if (session_.mode == InboxMode::kRecord) {
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement select,
        session_.Take("SELECT state, payload_hash FROM sealane_inbox WHERE consumer = ? AND event_id = ?"));
    select->Bind(item.id.ToString());
    SEALANE_ASSIGN_OR_RETURN(const auto known, Judge(select, item));
    other_bytes = known == Standing::Known::kOtherBytes;
    if (known && !other_bytes) return *known;
  }
  if (anything_parked) {
    SEALANE_ASSIGN_OR_RETURN(
        const BookedStatement select,
        session_.Take("SELECT state, payload_hash FROM sealane_inbox_parked WHERE consumer = ? AND event_id = ?"
                      " ORDER BY payload_hash <> ?, place LIMIT 1"));
    select->Bind(item.id.ToString()).BindBlob(BytesOf(item.hash));
    SEALANE_ASSIGN_OR_RETURN(const auto known, Judge(select, item));
    if (known) return *known;
  }
  return other_bytes ? Standing::Known::kOtherBytes : Standing::Known::kNew;
}

Status InboxRows::LookAtUnit(const InboxItem& item, bool by_version, Standing& standing) {
  constexpr std::string_view kColumns =
      "state = 'GAP' AND tenant = ?3 AND coalesce(aggregate_type, '') = ?4 AND coalesce(aggregate_id, '') = ?5";
  static const std::string by_place_sql = HeadSql(kColumns, false);
  static const std::string by_version_sql = HeadSql(kColumns, true);
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select, session_.Take(by_version ? by_version_sql : by_place_sql));
  select->BindBlob(item.unit).Bind(item.aggregate.tenant).Bind(item.aggregate.type).Bind(item.aggregate.id);
  SEALANE_ASSIGN_OR_RETURN(standing.unit_waits, select->Step());
  standing.unit_waits_for_gap = standing.unit_waits && item.version.has_value() && select->Int(0) != 0;
  return Ok();
}

Result<std::int64_t> InboxRows::VersionOf(const AggregateName& aggregate) {
  if (aggregate.id.empty()) return std::int64_t{0};
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement select,
      session_.Take(
          "SELECT version FROM sealane_inbox_version WHERE consumer = ? AND tenant = ? AND type = ? AND id = ?"));
  select->Bind(aggregate.tenant).Bind(aggregate.type).Bind(aggregate.id);
  SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
  return found ? select->Int(0) : std::int64_t{0};
}

Result<std::optional<ParkedHead>> InboxRows::HeadOf(std::string_view unit, bool by_version) {
  static const std::string columns = fmt::format(
      "place, event_id, payload_hash, unit, tenant, aggregate_type, aggregate_id, aggregate_version, topic, "
      "partition,"
      " \"offset\", state, attempts, parked_at, first_failed_at, {}, state = 'GAP' AND coalesce(gap_until <= {}, 0)",
      DueSql(), kNowSql);
  static const std::string by_place_sql = HeadSql(columns, false);
  static const std::string by_version_sql = HeadSql(columns, true);
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement select, session_.Take(by_version ? by_version_sql : by_place_sql));
  select->BindBlob(unit);
  SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
  if (!found) return std::optional<ParkedHead>();
  RowReader row(*select);
  ParkedHead head;
  head.item.place = row.Int();
  const auto id = EventId::Parse(row.Text());
  const std::string hash = row.Blob();
  if (!id || hash.size() != head.item.hash.size()) {
    return Error(ErrorKind::kCorrupt, "store_corrupt", "a message is set aside with an id or a hash that is none")
        .WithHint("look at sealane_inbox_parked");
  }
  head.item.id = *id;
  std::ranges::copy(hash, head.item.hash.begin());
  head.item.unit = row.Blob();
  head.item.aggregate.tenant = row.Text();
  head.item.aggregate.type = row.Text();
  head.item.aggregate.id = row.Text();
  head.item.version = row.OptionalInt();
  head.item.partition.topic = row.Text();
  head.item.partition.number = static_cast<std::int32_t>(row.Int());
  head.item.offset = row.Int();
  SEALANE_ASSIGN_OR_RETURN(head.state, StateOf(row.Text()));
  head.attempts = static_cast<std::int32_t>(row.Int());
  head.parked_at = row.Time();
  head.first_failed_at = row.OptionalTime();
  head.is_due = row.Int() != 0;
  head.gap_overdue = row.Int() != 0;
  return std::optional(std::move(head));
}

Result<ReceivedMessage> InboxRows::MessageAt(std::int64_t place) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement select,
      session_.Take("SELECT topic, partition, \"offset\", published_at, key, value, headers FROM sealane_inbox_parked"
                    " WHERE consumer = ? AND place = ?"));
  select->Bind(place);
  SEALANE_ASSIGN_OR_RETURN(const bool found, select->Step());
  SEALANE_ASSERT(found, "the message was looked up in the same transaction");
  RowReader row(*select);
  ReceivedMessage message;
  message.partition.topic = row.Text();
  message.partition.number = static_cast<std::int32_t>(row.Int());
  message.offset = row.Int();
  message.published_at = row.Time();
  message.key = row.Blob();
  message.value = row.Blob();
  SEALANE_ASSIGN_OR_RETURN(message.headers, HeadersFromBytes(row.Blob()));
  return message;
}

// ---- what became of an event
// ----------------------------------------------------------------------------------------

Status InboxRows::WriteReceipt(const InboxItem& item, InboxState state, std::string_view code,
                               std::string_view message, Timestamp now) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement insert,
      session_.Take("INSERT INTO sealane_inbox (consumer, event_id, filed_at, state, tenant, aggregate_type,"
                    " aggregate_id, aggregate_version, topic, partition, \"offset\", payload_hash, received_at,"
                    " finished_at, code, message, type, schema_version, correlation_id)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert->Bind(item.id.ToString())
      .Bind(item.filed_at)
      .Bind(ToString(state))
      .Bind(item.aggregate.tenant)
      .BindOptional(item.aggregate.type)
      .BindOptional(item.aggregate.id)
      .BindOptional(item.version)
      .Bind(item.partition.topic)
      .Bind(std::int64_t{item.partition.number})
      .Bind(item.offset)
      .BindBlob(BytesOf(item.hash))
      .Bind(now)
      .BindOptional(IsFinished(state) ? std::optional(now) : std::nullopt)
      .BindOptional(code)
      .BindOptional(message);
  if (item.envelope != nullptr) {
    insert->Bind(item.envelope->type)
        .Bind(std::int64_t{item.envelope->schema_version})
        .BindOptional(item.envelope->correlation_id);
  }
  return insert->Run();
}

Status InboxRows::UpdateReceipt(const InboxItem& item, InboxState state, std::string_view code,
                                std::string_view message, Timestamp now) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement update,
      session_.Take("UPDATE sealane_inbox SET state = ?3, finished_at = ?4, code = ?5, message = ?6"
                    " WHERE consumer = ?1 AND event_id = ?2 AND payload_hash = ?7"));
  update->Bind(item.id.ToString())
      .Bind(ToString(state))
      .BindOptional(IsFinished(state) ? std::optional(now) : std::nullopt)
      .BindOptional(code)
      .BindOptional(message)
      .BindBlob(BytesOf(item.hash));
  return update->Run();
}

Status InboxRows::Park(const InboxItem& item, const ParkNote& note, Timestamp now) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement there,
      session_.Take("SELECT 1 FROM sealane_inbox_parked WHERE consumer = ? AND event_id = ? AND topic = ?"
                    " AND partition = ? AND \"offset\" = ?"));
  there->Bind(item.id.ToString())
      .Bind(item.partition.topic)
      .Bind(std::int64_t{item.partition.number})
      .Bind(item.offset);
  SEALANE_ASSIGN_OR_RETURN(const bool is_there, there->Step());
  if (is_there) return Ok();
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement insert,
      session_.Take("INSERT INTO sealane_inbox_parked (consumer, event_id, unit, state, attempts, next_attempt_at,"
                    " gap_until, parked_at, first_failed_at, last_failed_at, error_code, error_message, tenant,"
                    " aggregate_type, aggregate_id, aggregate_version, filed_at, payload_hash, topic, partition,"
                    " \"offset\", published_at, key, value, headers, type)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  const std::string headers = HeadersToBytes(item.message->headers);
  const std::optional<Timestamp> failed = note.error_code.empty() ? std::nullopt : std::optional(now);
  insert->Bind(item.id.ToString())
      .BindBlob(note.unit.empty() ? item.unit : note.unit)
      .Bind(ToString(note.state))
      .Bind(std::int64_t{note.attempts})
      .BindOptional(NextAttempt(note, now))
      .BindOptional(GapEnd(note, now))
      .Bind(now)
      .BindOptional(failed)
      .BindOptional(failed)
      .BindOptional(note.error_code)
      .BindOptional(note.error_message)
      .Bind(item.aggregate.tenant)
      .BindOptional(item.aggregate.type)
      .BindOptional(item.aggregate.id)
      .BindOptional(item.version)
      .Bind(item.filed_at)
      .BindBlob(BytesOf(item.hash))
      .Bind(item.partition.topic)
      .Bind(std::int64_t{item.partition.number})
      .Bind(item.offset)
      .Bind(item.message->published_at)
      .BindBlob(item.message->key)
      .BindBlob(item.message->value)
      .BindBlob(headers);
  if (item.envelope != nullptr) insert->Bind(item.envelope->type);
  return insert->Run();
}

Status InboxRows::ParkAgain(std::int64_t place, const ParkNote& note, Timestamp now) {
  // A gap that is still one keeps its time, however often it was woken.
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement update,
      session_.Take(
          "UPDATE sealane_inbox_parked SET state = ?3, attempts = ?4,"
          " next_attempt_at = CASE WHEN ?3 = 'GAP' THEN coalesce(min(gap_until, ?6), gap_until, ?6) ELSE ?5 END,"
          " gap_until = CASE WHEN ?3 = 'GAP' THEN coalesce(min(gap_until, ?6), gap_until, ?6) END,"
          " claimed_until = NULL, first_failed_at = coalesce(first_failed_at, ?7),"
          " last_failed_at = coalesce(?7, last_failed_at), error_code = coalesce(?8, error_code),"
          " error_message = CASE WHEN ?8 IS NULL THEN error_message ELSE ?9 END"
          " WHERE consumer = ?1 AND place = ?2"));
  update->Bind(place)
      .Bind(ToString(note.state))
      .Bind(std::int64_t{note.attempts})
      .BindOptional(NextAttempt(note, now))
      .BindOptional(GapEnd(note, now))
      .BindOptional(note.error_code.empty() ? std::nullopt : std::optional(now))
      .BindOptional(note.error_code)
      .BindOptional(note.error_message);
  return update->Run();
}

Status InboxRows::Claim(const Attempt& attempt) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement update,
                           session_.Take("UPDATE sealane_inbox_parked SET attempts = attempts + 1, claimed_until = ?3"
                                         " WHERE consumer = ?1 AND place = ?2"));
  update->Bind(attempt.place).Bind(attempt.until);
  return update->Run();
}

Status InboxRows::GiveBack(const Attempt& attempt) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement update,
      session_.Take("UPDATE sealane_inbox_parked SET attempts = attempts - 1, claimed_until = NULL"
                    " WHERE consumer = ?1 AND place = ?2 AND claimed_until = ?3"));
  update->Bind(attempt.place).Bind(attempt.until);
  return update->Run();
}

Status InboxRows::Unclaim(std::int64_t place) {
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement update,
      session_.Take("UPDATE sealane_inbox_parked SET claimed_until = NULL, attempts = max(0, attempts - 1)"
                    " WHERE consumer = ? AND place = ?"));
  update->Bind(place);
  return update->Run();
}

Status InboxRows::Unpark(std::int64_t place) {
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement remove,
                           session_.Take("DELETE FROM sealane_inbox_parked WHERE consumer = ? AND place = ?"));
  remove->Bind(place);
  return remove->Run();
}

Status InboxRows::WakeGaps(std::string_view unit, Timestamp now) {
  // The second condition follows from the first, but SQLite needs it to see that the index of units fits.
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement update,
      session_.Take("UPDATE sealane_inbox_parked SET next_attempt_at = ?3"
                    " WHERE consumer = ?1 AND unit = ?2 AND state = 'GAP' AND state <> 'SKIPPED'"));
  update->BindBlob(unit).Bind(now);
  return update->Run();
}

Status InboxRows::SetHold(const std::optional<ConsumerHold>& hold) {
  static const std::string sql = fmt::format(
      "UPDATE sealane_inbox_consumer SET hold_code = ?2, hold_message = ?3,"
      " held_at = CASE WHEN ?2 IS NOT NULL THEN {} END WHERE consumer = ?1 AND hold_code IS NOT ?2",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement update, session_.Take(sql));
  update->BindOptional(hold ? std::string_view(hold->code) : std::string_view());
  update->BindOptional(hold ? std::string_view(hold->message) : std::string_view());
  SEALANE_RETURN_IF_ERROR(update->Run());
  if (sqlite3_changes64(session_.connection.get()) == 0) return Ok();
  SEALANE_ASSIGN_OR_RETURN(const BookedStatement wake, session_.Take(DueNowSql()));
  return wake->Run();
}

Status InboxRows::SetVersion(const AggregateName& aggregate, std::int64_t version) {
  if (aggregate.id.empty()) return Ok();
  SEALANE_ASSIGN_OR_RETURN(
      const BookedStatement set,
      session_.Take("INSERT INTO sealane_inbox_version (consumer, tenant, type, id, version) VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT DO UPDATE SET version = excluded.version"));
  set->Bind(aggregate.tenant).Bind(aggregate.type).Bind(aggregate.id).Bind(version);
  return set->Run();
}

}  // namespace sealane::sqlite
