#include "sealane/admission.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/time_text.hpp"
#include "core/content_type.hpp"
#include "core/json_scan.hpp"
#include "core/wire.hpp"

namespace sealane {
namespace {

Error Refused(std::string code, std::string_view field, std::string message, std::string hint) {
  return Error(ErrorKind::kRejected, std::move(code), std::move(message))
      .WithField(std::string(field))
      .WithHint(std::move(hint));
}

Status CheckText(std::string_view field, std::string_view text, std::size_t max) {
  if (text.size() > max) {
    return Refused("field_too_long", field,
                   fmt::format("{} has {} bytes, at most {} are taken", field, text.size(), max),
                   "shorten it, or put the long text into the payload");
  }
  if (const auto bad = FirstInvalidUtf8(text)) {
    return Refused("invalid_utf8", field, fmt::format("{} is not UTF-8 at byte {}", field, *bad),
                   "convert the text to UTF-8, or put the bytes into the payload");
  }
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    return Refused("nul_in_text", field, fmt::format("{} has a NUL at byte {}", field, nul),
                   "no database text can hold a NUL; put such bytes into the payload");
  }
  return Ok();
}

Status CheckRequired(std::string_view field, std::string_view text, std::size_t max) {
  if (text.empty()) {
    return Refused("field_missing", field, fmt::format("{} is empty", field),
                   fmt::format("give the event a {}", field));
  }
  return CheckText(field, text, max);
}

bool IsTopicCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

Status CheckTopic(std::string_view topic, std::size_t max) {
  SEALANE_RETURN_IF_ERROR(CheckRequired("topic", topic, max));
  constexpr std::string_view kHint = "a topic consists of A-Z a-z 0-9 . _ - and is neither \".\" nor \"..\"";
  const auto bad = std::find_if_not(topic.begin(), topic.end(), IsTopicCharacter);
  if (bad != topic.end()) {
    const auto at = static_cast<std::size_t>(bad - topic.begin());
    return Refused(
        "invalid_topic", "topic",
        fmt::format("topic \"{}\" has a character at byte {} that no broker takes", EscapeForTerminal(topic), at),
        std::string(kHint));
  }
  if (topic == "." || topic == "..") {
    return Refused("invalid_topic", "topic", fmt::format("topic \"{}\" is a name no broker takes", topic),
                   std::string(kHint));
  }
  return Ok();
}

Error VersionBelowOne(std::string_view field, std::int64_t version) {
  return Refused("invalid_version", field, fmt::format("{} is {}, versions start at 1", field, version),
                 "count from 1");
}

Error IncompleteAggregate(std::string_view missing, std::string_view given) {
  return Refused("field_missing", missing, fmt::format("{} is empty although {} is given", missing, given),
                 "name the aggregate by type and id, or leave it out");
}

Status CheckAggregate(const Aggregate& aggregate, const Limits& limits) {
  SEALANE_RETURN_IF_ERROR(CheckText("aggregate_type", aggregate.type, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckText("aggregate_id", aggregate.id, limits.key_max));
  if (!aggregate.id.empty() && aggregate.type.empty()) return IncompleteAggregate("aggregate_type", "aggregate_id");
  if (!aggregate.type.empty() && aggregate.id.empty()) return IncompleteAggregate("aggregate_id", "aggregate_type");
  if (!aggregate.version) return Ok();
  if (aggregate.id.empty()) return IncompleteAggregate("aggregate_id", "aggregate_version");
  if (*aggregate.version < 1) return VersionBelowOne("aggregate_version", *aggregate.version);
  return Ok();
}

Status CheckTime(std::string_view field, const std::optional<Timestamp>& time) {
  if (!time || (*time >= kTimestampMin && *time <= kTimestampMax)) return Ok();
  return Refused("invalid_time", field, fmt::format("{} lies outside the years 1970 to 9999", field),
                 "check the unit: times are microseconds since 1970");
}

Status CheckHeader(const Header& header, const Limits& limits) {
  SEALANE_RETURN_IF_ERROR(CheckRequired("headers", header.name, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckText("headers", header.value, limits.header_bytes_max));
  if (!IsReservedHeader(header.name)) return Ok();
  return Refused("reserved_header", "headers",
                 fmt::format("header name \"{}\" is reserved", EscapeForTerminal(header.name)),
                 "our own headers have that name; choose another, for example with the service's name before it");
}

Status CheckHeaders(const Headers& headers, const Limits& limits) {
  if (headers.size() > limits.headers_max) {
    return Refused("too_many_headers", "headers",
                   fmt::format("headers has {} entries, at most {} are taken", headers.size(), limits.headers_max),
                   "put data into the payload; headers are for routing");
  }
  std::size_t bytes = 0;
  std::vector<std::string_view> names;
  for (const Header& header : headers) {
    bytes += header.name.size() + header.value.size();
    names.push_back(header.name);
  }
  if (bytes > limits.header_bytes_max) {
    return Refused("headers_too_large", "headers",
                   fmt::format("headers has {} bytes, at most {} are taken", bytes, limits.header_bytes_max),
                   "put data into the payload; headers are for routing");
  }
  for (const Header& header : headers) SEALANE_RETURN_IF_ERROR(CheckHeader(header, limits));
  std::sort(names.begin(), names.end());
  const auto doubled = std::adjacent_find(names.begin(), names.end());
  if (doubled == names.end()) return Ok();
  return Refused("duplicate_header", "headers",
                 fmt::format("header name \"{}\" stands twice", EscapeForTerminal(*doubled)),
                 "give each header once; join several values into one");
}

Status CheckPayload(const Envelope& envelope, const Limits& limits) {
  const std::size_t size = envelope.payload.size();
  if (size > limits.payload_max) {
    return Refused("payload_too_large", "payload",
                   fmt::format("payload has {} bytes, at most {} are taken", size, limits.payload_max),
                   "store the data elsewhere and send a reference, or raise the limit on broker and outbox");
  }
  if (!IsJsonContentType(envelope.content_type)) return Ok();
  const auto json = ScanJson(envelope.payload);
  if (json) return Ok();
  return Refused("invalid_json", "payload", fmt::format("payload is not JSON: {}", json.error().message()),
                 "correct the payload, or say what it is in content_type (application/octet-stream for plain bytes)");
}

Status CheckNames(const Envelope& envelope, const Limits& limits) {
  SEALANE_RETURN_IF_ERROR(CheckTopic(envelope.topic, limits.topic_max));
  SEALANE_RETURN_IF_ERROR(CheckRequired("key", envelope.key, limits.key_max));
  SEALANE_RETURN_IF_ERROR(CheckRequired("type", envelope.type, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckRequired("content_type", envelope.content_type, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckText("tenant", envelope.tenant, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckText("producer", envelope.producer, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckText("schema_id", envelope.schema_id, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckText("correlation_id", envelope.correlation_id, limits.trace_max));
  SEALANE_RETURN_IF_ERROR(CheckText("causation_id", envelope.causation_id, limits.trace_max));
  SEALANE_RETURN_IF_ERROR(CheckText("traceparent", envelope.traceparent, limits.trace_max));
  return CheckText("tracestate", envelope.tracestate, limits.trace_max);
}

Status CheckDuration(std::string_view field, std::chrono::seconds duration) {
  // An end beyond what a stored time can say would be an error of the database, with a worse message.
  constexpr std::chrono::seconds kMax = std::chrono::hours{24 * 3660};
  if (duration > std::chrono::seconds{0} && duration <= kMax) return Ok();
  return Refused("invalid_duration", field,
                 fmt::format("{} is {} s, expected 1 to {} s", field, duration.count(), kMax.count()),
                 "give a duration above zero and below ten years");
}

}  // namespace

Status CheckAdmission(const Envelope& envelope, const Limits& limits) {
  if (envelope.id.is_nil()) {
    return Refused("nil_event_id", "id", "id is the nil UUID", "leave the id out to get a fresh one");
  }
  SEALANE_RETURN_IF_ERROR(CheckNames(envelope, limits));
  if (envelope.schema_version < 1) return VersionBelowOne("schema_version", envelope.schema_version);
  SEALANE_RETURN_IF_ERROR(CheckAggregate(envelope.aggregate, limits));
  SEALANE_RETURN_IF_ERROR(CheckTime("occurred_at", envelope.occurred_at));
  SEALANE_RETURN_IF_ERROR(CheckTime("available_at", envelope.available_at));
  SEALANE_RETURN_IF_ERROR(CheckHeaders(envelope.headers, limits));
  return CheckPayload(envelope, limits);
}

Status CheckDedupKey(const std::optional<std::string>& dedup_key, const Limits& limits) {
  if (!dedup_key) return Ok();
  return CheckRequired("dedup_key", *dedup_key, limits.key_max);
}

Status CheckAggregateName(const AggregateName& aggregate, const Limits& limits) {
  SEALANE_RETURN_IF_ERROR(CheckText("tenant", aggregate.tenant, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckRequired("aggregate_type", aggregate.type, limits.name_max));
  return CheckRequired("aggregate_id", aggregate.id, limits.key_max);
}

Status CheckClaim(const IdempotencyClaim& claim, const Limits& limits) {
  SEALANE_RETURN_IF_ERROR(CheckText("tenant", claim.tenant, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckRequired("key", claim.key, limits.key_max));
  SEALANE_RETURN_IF_ERROR(CheckRequired("request_hash", claim.request_hash, limits.name_max));
  SEALANE_RETURN_IF_ERROR(CheckDuration("remember", claim.remember));
  return CheckDuration("patience", claim.patience);
}

}  // namespace sealane
