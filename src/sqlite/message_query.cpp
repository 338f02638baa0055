#include "sqlite/message_query.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/sha256.hpp"
#include "base/text.hpp"
#include "core/headers_json.hpp"
#include "sqlite/statement.hpp"

namespace sealane::sqlite {
namespace {

// Events that came by plain SQL have no hash; for them the payload is read even when only the hash is wanted.
// Walks the log backwards by seq and stops at the limit; conditions on other columns are tested row by row.
constexpr std::string_view kSelectSql =
    "SELECT o.seq, o.appended_at, o.event_id, o.kind, o.type, o.schema_version, o.tenant, o.topic, o.key,"
    " o.aggregate_type, o.aggregate_id, o.aggregate_version, o.correlation_id, o.causation_id, o.traceparent,"
    " o.tracestate, o.producer, o.schema_id, o.content_type, o.headers, o.occurred_at, o.available_at, "
    "o.payload_hash,"
    " length(o.payload), CASE WHEN ? OR o.payload_hash IS NULL THEN o.payload END"
    " FROM sealane_outbox o WHERE 1";
constexpr std::string_view kStatusSql =
    "SELECT route, status, attempts, next_attempt_at, published_at, last_error_code, last_error_message,"
    " (SELECT r.topic FROM sealane_rerouted r WHERE r.route = s.route AND r.seq = s.seq)"
    " FROM sealane_outbox_status s WHERE seq = ? ORDER BY route";

Error Corrupt(std::int64_t seq, std::string_view what) {
  return Error(ErrorKind::kCorrupt, "store_corrupt", fmt::format("event with seq {} has {}", seq, what))
      .WithHint("look at the row in sealane_outbox and restore it from a backup");
}

Error HashMismatch(const EventId& id) {
  return Error(ErrorKind::kCorrupt, "payload_hash_mismatch",
               fmt::format("the payload of event {} is not the one that was appended", id.ToString()))
      .WithHint("the stored bytes changed after the append: restore the file from a backup");
}

bool SetHash(PayloadHash& hash, std::string_view bytes) {
  if (bytes.size() != hash.size()) return false;
  std::ranges::copy(bytes, hash.begin());
  return true;
}

Result<StoredMessage> ReadMessage(const Statement& statement, bool with_payload) {
  RowReader row(statement);
  StoredMessage message;
  Envelope& envelope = message.envelope;
  message.seq = row.Int();
  message.appended_at = row.Time();
  const auto id = EventId::Parse(row.Text());
  const auto kind = ParseEventKind(row.Text());
  if (!id || !kind) return Corrupt(message.seq, "an id or a kind that is none");
  envelope.id = *id;
  envelope.kind = *kind;
  envelope.type = row.Text();
  envelope.schema_version = static_cast<std::int32_t>(row.Int());
  envelope.tenant = row.Text();
  envelope.topic = row.Text();
  envelope.key = row.Text();
  envelope.aggregate.type = row.Text();
  envelope.aggregate.id = row.Text();
  envelope.aggregate.version = row.OptionalInt();
  envelope.correlation_id = row.Text();
  envelope.causation_id = row.Text();
  envelope.traceparent = row.Text();
  envelope.tracestate = row.Text();
  envelope.producer = row.Text();
  envelope.schema_id = row.Text();
  envelope.content_type = row.Text();
  auto headers = HeadersFromJson(row.Text());
  if (!headers) return Corrupt(message.seq, "headers that are no JSON object of texts");
  envelope.headers = *std::move(headers);
  envelope.occurred_at = row.Time();
  envelope.available_at = row.OptionalTime();
  const auto hash = row.OptionalBlob();
  message.payload_size = static_cast<std::size_t>(row.Int());
  message.payload_loaded = with_payload;
  std::string payload = row.Blob();
  if (!hash) {
    envelope.payload_hash = Sha256(payload);
  } else if (!SetHash(envelope.payload_hash, *hash)) {
    return Corrupt(message.seq, "a payload hash of the wrong size");
  }
  if (with_payload && hash && Sha256(payload) != envelope.payload_hash) return HashMismatch(envelope.id);
  if (with_payload) envelope.payload = std::move(payload);
  return message;
}

Status ReadRoutes(Statement& statement, StoredMessage& message) {
  statement.Reset();
  statement.Bind(message.seq);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, statement.Step());
    if (!found) return Ok();
    RowReader row(statement);
    RouteStatus status;
    status.route = row.Text();
    const auto state = ParseDeliveryState(row.Text());
    if (!state) return Corrupt(message.seq, "a delivery state that is none");
    status.state = *state;
    status.attempts = static_cast<std::int32_t>(row.Int());
    status.next_attempt_at = row.OptionalTime();
    status.published_at = row.OptionalTime();
    status.last_error_code = row.Text();
    status.last_error_message = row.Text();
    status.rerouted_to = row.Text();
    message.routes.push_back(std::move(status));
  }
}

/// The conditions of a filter. Values are bound, never part of the text.
class Conditions {
 public:
  using Value = std::variant<std::int64_t, std::string>;

  void Add(std::string_view condition, Value value) {
    sql_ += fmt::format(" AND {}", condition);
    values_.push_back(std::move(value));
  }
  void AddText(std::string_view column, const std::optional<std::string>& value) {
    // The tables hold null for an optional text that was not given.
    if (value) Add(fmt::format("coalesce({}, '') = ?", column), *value);
  }
  /// States belong to routes: the event qualifies when one of its routes fits both conditions.
  void AddStatus(const std::optional<DeliveryState>& state, const std::optional<std::string>& route) {
    if (!state && !route) return;
    sql_ += " AND EXISTS (SELECT 1 FROM sealane_outbox_status s WHERE s.seq = o.seq";
    if (state) Add("s.status = ?", std::string(ToString(*state)));
    if (route) Add("s.route = ?", *route);
    sql_ += ")";
  }
  const std::string& sql() const { return sql_; }
  void BindTo(Statement& statement) const {
    for (const Value& value : values_) std::visit([&](const auto& v) { statement.Bind(v); }, value);
  }

 private:
  std::string sql_;
  std::vector<Value> values_;
};

Conditions ConditionsOf(const MessageFilter& filter) {
  Conditions conditions;
  if (filter.before_seq) conditions.Add("o.seq < ?", *filter.before_seq);
  conditions.AddText("o.tenant", filter.tenant);
  conditions.AddText("o.topic", filter.topic);
  conditions.AddText("o.key", filter.key);
  conditions.AddText("o.type", filter.type);
  conditions.AddText("o.aggregate_type", filter.aggregate_type);
  conditions.AddText("o.aggregate_id", filter.aggregate_id);
  conditions.AddText("o.correlation_id", filter.correlation_id);
  if (filter.since) conditions.Add("o.appended_at >= ?", filter.since->time_since_epoch().count());
  if (filter.until) conditions.Add("o.appended_at < ?", filter.until->time_since_epoch().count());
  conditions.AddStatus(filter.state, filter.route);
  return conditions;
}

Result<std::vector<StoredMessage>> Select(sqlite3* connection, const Conditions& conditions, std::size_t limit,
                                          bool with_payload) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(connection, fmt::format("{}{} ORDER BY o.seq DESC LIMIT ?", kSelectSql, conditions.sql())));
  SEALANE_ASSIGN_OR_RETURN(Statement status, Statement::Prepare(connection, kStatusSql));
  select.Bind(std::int64_t{with_payload});
  conditions.BindTo(select);
  select.Bind(static_cast<std::int64_t>(limit));
  std::vector<StoredMessage> messages;
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return messages;
    SEALANE_ASSIGN_OR_RETURN(StoredMessage message, ReadMessage(select, with_payload));
    SEALANE_RETURN_IF_ERROR(ReadRoutes(status, message));
    messages.push_back(std::move(message));
  }
}

}  // namespace

Result<std::vector<StoredMessage>> QueryMessages(sqlite3* connection, const MessageFilter& filter) {
  const std::size_t limit = std::clamp<std::size_t>(filter.limit, 1, MessageFilter::kListMax);
  return Select(connection, ConditionsOf(filter), limit, filter.with_payload);
}

Result<std::optional<StoredMessage>> QueryMessage(sqlite3* connection, const EventId& id) {
  Conditions conditions;
  conditions.Add("o.event_id = ?", id.ToString());
  SEALANE_ASSIGN_OR_RETURN(std::vector<StoredMessage> found, Select(connection, conditions, 1, true));
  if (found.empty()) return std::optional<StoredMessage>();
  return std::optional(std::move(found.front()));
}

}  // namespace sealane::sqlite
