#include "postgres/message_query.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/time_text.hpp"
#include "core/fingerprint.hpp"
#include "core/headers_json.hpp"
#include "core/lane.hpp"
#include "postgres/connection.hpp"

namespace sealane::postgres {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// How far back each step looks. Rows of a step are sorted by seq, which two concurrent writers may draw in another
// order than their times; a second of overlap covers that.
constexpr std::array kSteps = {seconds{10},
                               seconds{80},
                               seconds{600},
                               seconds{hours{2}},
                               seconds{hours{12}},
                               seconds{hours{24 * 4}},
                               seconds{hours{24 * 30}}};
constexpr seconds kOverlap{1};

// In two parts: before PostgreSQL 14 the server extracts a double, which has no room for the microseconds of year
// 9999.
constexpr std::string_view kMicroseconds =
    "(extract(epoch FROM date_trunc('second', {0}))::int8 * 1000000 + extract(microseconds FROM {0})::int8 % "
    "1000000)";
std::string Micros(std::string_view column) {
  return fmt::format(fmt::runtime(kMicroseconds), column);
}

enum Column {
  kSeq,
  kEventId,
  kRoute,
  kStatus,
  kAttempts,
  kNextAttempt,
  kPublished,
  kErrorCode,
  kErrorMessage,
  kAppended,
  kOccurred,
  kAvailable,
  kLane,
  kKind,
  kTenant,
  kTopic,
  kKey,
  kType,
  kSchemaVersion,
  kAggregateType,
  kAggregateId,
  kAggregateVersion,
  kCorrelation,
  kCausation,
  kTraceparent,
  kTracestate,
  kProducer,
  kSchemaId,
  kContentType,
  kHeaders,
  kPayloadSize,
  kPayloadHash,
  kReroutedTo
};

std::string SelectList() {
  return fmt::format(
      "seq, event_id, route, status, attempts, {}, {}, last_error_code, last_error_message, {}, {}, {}, lane, kind, "
      "tenant, "
      "topic, key, type, schema_version, aggregate_type, aggregate_id, aggregate_version, correlation_id, "
      "causation_id, "
      "traceparent, tracestate, producer, schema_id, content_type, headers, payload_size, encode(payload_hash, "
      "'hex'), rerouted_to",
      Micros("next_attempt_at"), Micros("published_at"), Micros("appended_at"), Micros("occurred_at"),
      Micros("available_at"));
}

std::string Text(const PgResult& result, int row, int column) {
  return std::string(TextAt(result, row, column));
}

std::optional<Timestamp> OptionalTime(const PgResult& result, int row, int column) {
  if (IsNull(result, row, column)) return std::nullopt;
  return TimeAt(result, row, column);
}

RouteStatus ReadRoute(const PgResult& result, int row) {
  return {.route = Text(result, row, kRoute),
          .state = ParseDeliveryState(TextAt(result, row, kStatus)).value_or(DeliveryState::kPending),
          .attempts = static_cast<std::int32_t>(IntAt(result, row, kAttempts)),
          .next_attempt_at = OptionalTime(result, row, kNextAttempt),
          .published_at = OptionalTime(result, row, kPublished),
          .last_error_code = Text(result, row, kErrorCode),
          .last_error_message = Text(result, row, kErrorMessage),
          .rerouted_to = Text(result, row, kReroutedTo)};
}

Result<StoredMessage> ReadMessage(const PgResult& result, int row) {
  const auto id = EventId::Parse(TextAt(result, row, kEventId));
  const auto hash = FromHex(TextAt(result, row, kPayloadHash));
  StoredMessage message;
  Envelope& envelope = message.envelope;
  if (!id || !hash || hash->size() != envelope.payload_hash.size()) {
    return Error(ErrorKind::kCorrupt, "row_corrupt",
                 fmt::format("row {} has no payload hash", TextAt(result, row, kSeq)))
        .WithHint("somebody wrote the table without the functions: look for who can");
  }
  envelope.id = *id;
  envelope.kind = ParseEventKind(TextAt(result, row, kKind)).value_or(EventKind::kEvent);
  envelope.type = Text(result, row, kType);
  envelope.schema_version = static_cast<std::int32_t>(IntAt(result, row, kSchemaVersion));
  envelope.tenant = Text(result, row, kTenant);
  envelope.topic = Text(result, row, kTopic);
  envelope.key = Text(result, row, kKey);
  envelope.aggregate = {Text(result, row, kAggregateType), Text(result, row, kAggregateId), std::nullopt};
  if (!IsNull(result, row, kAggregateVersion)) envelope.aggregate.version = IntAt(result, row, kAggregateVersion);
  envelope.correlation_id = Text(result, row, kCorrelation);
  envelope.causation_id = Text(result, row, kCausation);
  envelope.traceparent = Text(result, row, kTraceparent);
  envelope.tracestate = Text(result, row, kTracestate);
  envelope.producer = Text(result, row, kProducer);
  envelope.schema_id = Text(result, row, kSchemaId);
  envelope.content_type = Text(result, row, kContentType);
  SEALANE_ASSIGN_OR_RETURN(envelope.headers, HeadersFromJson(TextAt(result, row, kHeaders)));
  envelope.occurred_at = TimeAt(result, row, kOccurred);
  envelope.available_at = OptionalTime(result, row, kAvailable);
  std::ranges::copy(*hash, reinterpret_cast<char*>(envelope.payload_hash.data()));
  message.seq = IntAt(result, row, kSeq);
  message.lane = static_cast<std::int32_t>(IntAt(result, row, kLane));
  message.appended_at = TimeAt(result, row, kAppended);
  message.payload_size = static_cast<std::size_t>(IntAt(result, row, kPayloadSize));
  message.payload_loaded = false;
  return message;
}

}  // namespace

/// A WHERE clause that grows by bound conditions.
struct MessageQuery::Conditions {
  std::vector<std::string> clauses;
  std::vector<TextParameter> parameters;

  void Add(std::string_view clause, std::string value) {
    parameters.emplace_back(std::move(value));
    clauses.push_back(fmt::format("{} ${}", clause, parameters.size()));
  }
  void AddIf(std::string_view clause, const std::optional<std::string>& value) {
    if (value) Add(clause, *value);
  }
  std::string Where() const { return clauses.empty() ? "true" : fmt::format("{}", fmt::join(clauses, " AND ")); }
};

Result<std::vector<StoredMessage>> MessageQuery::Run(const Conditions& conditions, std::size_t limit) const {
  std::vector<TextParameter> parameters = conditions.parameters;
  parameters.emplace_back(std::to_string(limit));
  // Each event comes once per route, so a page of events is that many times more rows.
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           Execute(connection_,
                                   fmt::format("SELECT {} FROM {}.outbox_status WHERE {} ORDER BY seq DESC, route "
                                               "LIMIT ${}::int8 * (SELECT count(*) FROM {}.route)",
                                               SelectList(), schema_, conditions.Where(), parameters.size(), schema_),
                                   parameters));
  std::vector<StoredMessage> messages;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    if (messages.empty() || messages.back().seq != IntAt(result, row, kSeq)) {
      if (messages.size() == limit) break;
      SEALANE_ASSIGN_OR_RETURN(StoredMessage message, ReadMessage(result, row));
      messages.push_back(std::move(message));
    }
    messages.back().routes.push_back(ReadRoute(result, row));
  }
  return messages;
}

Result<std::vector<StoredMessage>> MessageQuery::List(const MessageFilter& filter) const {
  const std::size_t limit = std::clamp<std::size_t>(filter.limit, 1, MessageFilter::kListMax);
  Conditions conditions;
  conditions.AddIf("tenant =", filter.tenant);
  conditions.AddIf("topic =", filter.topic);
  conditions.AddIf("type =", filter.type);
  conditions.AddIf("aggregate_type =", filter.aggregate_type);
  conditions.AddIf("aggregate_id =", filter.aggregate_id);
  conditions.AddIf("correlation_id =", filter.correlation_id);
  conditions.AddIf("route =", filter.route);
  if (filter.key) {
    conditions.Add("key =", *filter.key);
    // Implied by the key; lets the planner read one lane of the index instead of the whole log.
    conditions.clauses.push_back(fmt::format("lane = {} % (SELECT value::int FROM {}.setting WHERE name = 'lanes')",
                                             LaneHash(*filter.key), schema_));
  }
  if (filter.state) conditions.Add("status =", std::string(ToString(*filter.state)));
  if (filter.since) conditions.Add("appended_at >=", ToRfc3339(*filter.since));
  if (filter.until) conditions.Add("appended_at <", ToRfc3339(*filter.until));
  if (filter.before_seq) conditions.Add("seq <", std::to_string(*filter.before_seq));

  std::vector<StoredMessage> messages;
  const Timestamp newest = filter.until.value_or(SystemClock::Instance().Now());
  for (std::size_t step = 0; step <= kSteps.size(); ++step) {
    Conditions bounded = conditions;
    const bool last = step == kSteps.size() || (filter.since && newest - kSteps.at(step) <= *filter.since);
    // Epoch zero is before every row; a lower bound in every query keeps the plan the same.
    const Timestamp oldest = last ? Timestamp{} : newest - kSteps.at(step);
    bounded.Add("appended_at >=", ToRfc3339(oldest));
    SEALANE_ASSIGN_OR_RETURN(messages, Run(bounded, limit));
    const bool settled = std::ranges::all_of(
        messages, [&](const StoredMessage& message) { return message.appended_at >= oldest + kOverlap; });
    if (last || (messages.size() == limit && settled)) break;
  }
  if (filter.with_payload) SEALANE_RETURN_IF_ERROR(LoadPayloads(messages));
  return messages;
}

Result<std::optional<Timestamp>> MessageQuery::RememberedAt(const EventId& id) const {
  const Fingerprint fingerprint = FingerprintOfId(id);
  const std::array<TextParameter, 1> parameters = {ToHex(fingerprint)};
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           Execute(connection_,
                                   fmt::format("SELECT {} FROM {}.outbox_unique WHERE fingerprint = $1::uuid",
                                               Micros("created_at"), schema_),
                                   parameters));
  if (PQntuples(result.get()) == 0) return std::optional<Timestamp>{};
  return std::optional(TimeAt(result, 0, 0));
}

Result<std::optional<StoredMessage>> MessageQuery::Find(const EventId& id) const {
  // Where to look first: a version 7 id carries about the time of its append; an id of the caller's own was
  // remembered.
  std::vector<std::pair<Timestamp, Timestamp>> ranges;
  if (const auto created = id.CreatedAt()) ranges.emplace_back(*created - hours{1}, *created + hours{1});
  if (auto remembered = RememberedAt(id); remembered && *remembered) {
    ranges.emplace_back(**remembered - seconds{60}, **remembered + seconds{60});
  }
  ranges.emplace_back(Timestamp{}, *ParseRfc3339("9999-12-31T00:00:00Z"));
  for (const auto& [from, to] : ranges) {
    Conditions conditions;
    conditions.Add("event_id =", id.ToString());
    conditions.Add("appended_at >=", ToRfc3339(std::max(from, Timestamp{})));
    conditions.Add("appended_at <", ToRfc3339(to));
    SEALANE_ASSIGN_OR_RETURN(std::vector<StoredMessage> messages, Run(conditions, 1));
    if (messages.empty()) continue;
    // Operators may see the life of an event and not its payload.
    if (auto loaded = LoadPayloads(messages); !loaded && loaded.error().code() != "not_permitted") {
      return std::move(loaded).error();
    }
    return std::optional(std::move(messages.front()));
  }
  return std::optional<StoredMessage>{};
}

Status MessageQuery::LoadPayloads(std::vector<StoredMessage>& messages) const {
  if (messages.empty()) return Ok();
  const auto [oldest, newest] = std::ranges::minmax_element(messages, {}, &StoredMessage::appended_at);
  std::string places = "{";
  for (const StoredMessage& message : messages)
    places += fmt::format("{}{}", places.size() > 1 ? "," : "", message.seq);
  const std::array<TextParameter, 3> parameters = {places + "}", ToRfc3339(oldest->appended_at),
                                                   ToRfc3339(newest->appended_at)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_,
              fmt::format(
                  "SELECT seq, payload FROM {}.outbox WHERE seq = ANY ($1::int8[]) AND appended_at BETWEEN $2 AND $3",
                  schema_),
              parameters));
  std::unordered_map<std::int64_t, int> rows;
  for (int row = 0; row < PQntuples(result.get()); ++row) rows.emplace(IntAt(result, row, 0), row);
  for (StoredMessage& message : messages) {
    const auto row = rows.find(message.seq);
    if (row == rows.end()) continue;  // dropped by retention in between: the payload stays "not loaded"
    message.envelope.payload = BytesAt(result, row->second, 1);
    message.payload_loaded = true;
    if (Sha256(message.envelope.payload) != message.envelope.payload_hash) {
      return Error(ErrorKind::kCorrupt, "payload_hash_mismatch",
                   fmt::format("the payload of event {} is not the one that was appended",
                               message.envelope.id.ToString()))
          .WithHint(
              "the stored bytes changed after the append: compare with a backup and look for who can write the "
              "table");
    }
  }
  return Ok();
}

}  // namespace sealane::postgres
