#include "core/wire_reader.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

#include "sealane/admission.hpp"

#include "base/sha256.hpp"
#include "core/cloud_event_reader.hpp"
#include "core/field_text.hpp"
#include "core/header_reader.hpp"

namespace sealane {
namespace {

// Without its parameters, in lower case.
std::string MediaType(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return type;
}

// A structured CloudEvent may repeat its attributes as headers, and a binary one may have a CloudEvent as its
// payload. The hash tells whose attributes those in the headers are.
bool ValueIsItsData(HeaderReader& headers, std::string_view value) {
  const auto text = headers.Take("ce_payloadsha256");
  if (!text || text->empty()) return false;
  const auto hash = ReadFieldHash("payloadsha256", *text);
  return hash && *hash == Sha256(value);
}

// The JSON scanner knows bytes only, not what they are.
Result<Envelope> NamingTheValue(Result<Envelope> read) {
  if (read || !read.error().field().empty()) return read;
  return std::move(read).error().WithField("value");
}

Result<Envelope> ReadDebezium(const WireInput& input) {
  HeaderReader headers(input.headers);
  Envelope envelope;
  SEALANE_ASSIGN_OR_RETURN(const std::string id, headers.Take("id"));
  if (id.empty()) return MessageError("event_id_missing", "id", "the message has no header `id`");
  const auto uuid = EventId::Parse(id);
  if (!uuid) return MessageError("field_invalid", "id", "expected a UUID of 36 characters");
  if (uuid->is_nil()) return MessageError("nil_event_id", "id", "no event has the nil UUID");
  envelope.id = *uuid;
  SEALANE_ASSIGN_OR_RETURN(envelope.type, headers.Take("eventType"));
  if (envelope.type.empty()) {
    return MessageError("field_missing", "eventType", "the message does not say what type of event it is")
        .WithHint("let the router place it: table.fields.additional.placement=type:header:eventType");
  }
  for (const auto& [name, field] : {std::pair{"traceparent", &Envelope::traceparent},
                                    {"tracestate", &Envelope::tracestate},
                                    {"tenant-id", &Envelope::tenant},
                                    {"correlation-id", &Envelope::correlation_id},
                                    {"causation-id", &Envelope::causation_id},
                                    {"schema-id", &Envelope::schema_id},
                                    {"producer", &Envelope::producer},
                                    {"content-type", &Envelope::content_type}}) {
    SEALANE_ASSIGN_OR_RETURN(envelope.*field, headers.Take(name));
  }
  SEALANE_ASSIGN_OR_RETURN(const std::string version, headers.Take("event-version"));
  if (!version.empty()) {
    SEALANE_ASSIGN_OR_RETURN(envelope.schema_version, ReadSchemaVersion("event-version", version));
  }
  SEALANE_ASSIGN_OR_RETURN(envelope.topic, ReadFieldText("topic", input.topic));
  envelope.key = ReadRecordKey(input.key);
  envelope.occurred_at = input.published_at;
  envelope.headers = headers.Rest();
  const std::array<std::string_view, 1> candidates = {input.value};
  SEALANE_RETURN_IF_ERROR(SettlePayload(envelope, candidates, std::nullopt));
  return envelope;
}

}  // namespace

Result<std::optional<WireProfile>> DetectProfile(const WireInput& input) {
  using Detected = std::optional<WireProfile>;
  HeaderReader headers(input.headers);
  SEALANE_ASSIGN_OR_RETURN(const std::string content_type, headers.Take("content-type"));
  const std::string type = MediaType(content_type);
  const bool has_attributes = headers.Has("ce_specversion") || headers.Has("ce_id");
  if (type.starts_with("application/cloudevents") && !(has_attributes && ValueIsItsData(headers, input.value))) {
    if (type == "application/cloudevents+json") return Detected(WireProfile::kCloudEventsStructured);
    return MessageError("unreadable_message", "content-type", "this format of CloudEvents is not read here")
        .WithHint("let the producer write application/cloudevents+json, one event per message, or the binary mode");
  }
  if (has_attributes) return Detected(WireProfile::kCloudEvents);
  if (type == kEnvelopeContentType) return Detected(WireProfile::kEnvelope);
  if (headers.Has("id")) {
    SEALANE_ASSIGN_OR_RETURN(const std::string id, headers.Take("id"));
    if (EventId::Parse(id)) return Detected(WireProfile::kDebezium);
  }
  return Detected{};
}

namespace {

Result<Envelope> Read(const WireInput& input, std::optional<WireProfile> expected) {
  if (!expected) {
    SEALANE_ASSIGN_OR_RETURN(expected, DetectProfile(input));
  }
  if (!expected) {
    return MessageError("unreadable_message", "headers", "they do not say which form the message has")
        .WithHint(
            "events are told by content-type, ce_id or id; name the profile if the headers are lost on the way");
  }
  switch (*expected) {
    case WireProfile::kEnvelope:
      return NamingTheValue(EnvelopeFromJson(input.value));
    case WireProfile::kCloudEvents:
      return ReadBinaryCloudEvent(input);
    case WireProfile::kCloudEventsStructured:
      return NamingTheValue(ReadStructuredCloudEvent(input));
    case WireProfile::kDebezium:
      return ReadDebezium(input);
    case WireProfile::kRaw:
      break;
  }
  return MessageError("event_id_missing", "id", "a raw message has no event id")
      .WithHint("let the relay write another profile, for example envelope or cloudevents");
}

}  // namespace

Result<Envelope> FromWire(const WireInput& input, std::optional<WireProfile> expected) {
  // Every name is compared with the others; and nobody means so many.
  if (input.headers.size() > kWireHeadersMax) {
    return MessageError("too_many_headers", "headers", "a message may have 1000 of them");
  }
  SEALANE_ASSIGN_OR_RETURN(Envelope envelope, Read(input, expected));
  // What databases have in their indexes. Events that Sealane appended keep these limits anyway.
  const Limits limits;
  for (const auto& [field, text, max] : {std::tuple{"tenant", &envelope.tenant, limits.name_max},
                                         {"aggregate_type", &envelope.aggregate.type, limits.name_max},
                                         {"aggregate_id", &envelope.aggregate.id, limits.key_max}}) {
    if (text->size() > max) return MessageError("field_too_long", field, "it is longer than events may have it");
  }
  return envelope;
}

}  // namespace sealane
