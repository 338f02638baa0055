#include "inbox/sql_parameter.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "sealane/assert.hpp"

#include "base/hex.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"
#include "core/headers_json.hpp"

namespace sealane {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 25> kNames = {"event_id",       "tenant",
                                                     "kind",           "type",
                                                     "version",        "key",
                                                     "topic",          "aggregate_type",
                                                     "aggregate_id",   "aggregate_version",
                                                     "correlation_id", "causation_id",
                                                     "traceparent",    "tracestate",
                                                     "producer",       "schema_id",
                                                     "content_type",   "payload",
                                                     "payload_bytes",  "payload_hash",
                                                     "headers",        "occurred_at",
                                                     "partition",      "offset",
                                                     "consumer"};
static_assert(kNames.size() == static_cast<std::size_t>(SqlParameter::kConsumer) + 1);

SqlValue TextOrNull(const std::string& text) {
  return text.empty() ? SqlValue{} : SqlValue{text};
}

// No database's text holds anything else.
SqlValue TextOrBytes(const std::string& payload) {
  const bool text = IsUtf8(payload) && payload.find('\0') == std::string::npos;
  return text ? SqlValue{payload} : SqlValue{SqlBytes{payload}};
}

}  // namespace

std::string_view ToString(SqlParameter parameter) {
  return kNames.at(static_cast<std::size_t>(parameter));
}

std::optional<SqlParameter> ParseSqlParameter(std::string_view name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<SqlParameter>(found - kNames.begin());
}

std::span<const std::string_view> SqlParameterNames() {
  return kNames;
}

SqlValue ValueOf(SqlParameter parameter, const Envelope& event, const MessageContext& context) {
  switch (parameter) {
    case SqlParameter::kEventId:
      return event.id.ToString();
    case SqlParameter::kTenant:
      return TextOrNull(event.tenant);
    case SqlParameter::kKind:
      return std::string(ToString(event.kind));
    case SqlParameter::kType:
      return event.type;
    case SqlParameter::kVersion:
      return std::int64_t{event.schema_version};
    case SqlParameter::kKey:
      return event.key;
    case SqlParameter::kTopic:
      return context.topic;
    case SqlParameter::kAggregateType:
      return TextOrNull(event.aggregate.type);
    case SqlParameter::kAggregateId:
      return TextOrNull(event.aggregate.id);
    case SqlParameter::kAggregateVersion:
      return event.aggregate.version ? SqlValue{*event.aggregate.version} : SqlValue{};
    case SqlParameter::kCorrelationId:
      return TextOrNull(event.correlation_id);
    case SqlParameter::kCausationId:
      return TextOrNull(event.causation_id);
    case SqlParameter::kTraceparent:
      return TextOrNull(event.traceparent);
    case SqlParameter::kTracestate:
      return TextOrNull(event.tracestate);
    case SqlParameter::kProducer:
      return TextOrNull(event.producer);
    case SqlParameter::kSchemaId:
      return TextOrNull(event.schema_id);
    case SqlParameter::kContentType:
      return TextOrNull(event.content_type);
    case SqlParameter::kPayload:
      return TextOrBytes(event.payload);
    case SqlParameter::kPayloadBytes:
      return SqlBytes{event.payload};
    case SqlParameter::kPayloadHash:
      return ToHex(event.payload_hash);
    case SqlParameter::kHeaders:
      return HeadersToJson(event.headers);
    case SqlParameter::kOccurredAt:
      return ToRfc3339(event.occurred_at);
    case SqlParameter::kPartition:
      return std::int64_t{context.partition};
    case SqlParameter::kOffset:
      return context.offset;
    case SqlParameter::kConsumer:
      return context.consumer;
  }
  SEALANE_ASSERT(false, "every parameter of a script has a value");
  return {};
}

}  // namespace sealane
