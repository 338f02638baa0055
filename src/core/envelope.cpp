#include "sealane/envelope.hpp"

#include "base/hex.hpp"
#include "base/time_text.hpp"
#include "core/content_type.hpp"
#include "core/headers_json.hpp"
#include "core/json_object.hpp"
#include "core/json_scan.hpp"

namespace sealane {
namespace {

std::string AggregateJson(const Aggregate& aggregate) {
  JsonObject json;
  json.TextIfAny("type", aggregate.type);
  json.TextIfAny("id", aggregate.id);
  if (aggregate.version) json.Integer("version", *aggregate.version);
  return std::move(json).Close();
}

// The hash stands before the payload, so that a reader who streams can check as it goes.
void WritePayload(JsonObject& json, const Envelope& envelope) {
  json.Text("payload_sha256", ToHex(envelope.payload_hash));
  for (const auto& [name, value] : envelope.unknown) {
    SEALANE_ASSERT(ScanJson(value).has_value(), "a field that is passed on unread holds a JSON value");
    json.Raw(name, value);
  }
  if (IsJsonContentType(envelope.content_type) && ScanJson(envelope.payload)) {
    json.Raw("payload", envelope.payload);
  } else {
    json.Text("payload_base64", ToBase64(envelope.payload));
  }
}

}  // namespace

std::string ToJson(const Envelope& envelope) {
  constexpr std::size_t kMetadataSize = 1024;
  JsonObject json(envelope.payload.size() + kMetadataSize);
  json.Integer("sealane", 1);
  json.Text("id", envelope.id.ToString());
  json.Text("kind", ToString(envelope.kind));
  json.Text("type", envelope.type);
  json.Integer("schema_version", envelope.schema_version);
  json.TextIfAny("tenant", envelope.tenant);
  json.Text("topic", envelope.topic);
  json.Text("key", envelope.key);
  if (envelope.aggregate != Aggregate{}) json.Raw("aggregate", AggregateJson(envelope.aggregate));
  json.TextIfAny("correlation_id", envelope.correlation_id);
  json.TextIfAny("causation_id", envelope.causation_id);
  json.TextIfAny("traceparent", envelope.traceparent);
  json.TextIfAny("tracestate", envelope.tracestate);
  json.TextIfAny("producer", envelope.producer);
  json.TextIfAny("schema_id", envelope.schema_id);
  json.TextIfAny("content_type", envelope.content_type);
  if (!envelope.headers.empty()) json.Raw("headers", HeadersToJson(envelope.headers));
  json.Text("occurred_at", ToRfc3339(envelope.occurred_at));
  if (envelope.available_at) json.Text("available_at", ToRfc3339(*envelope.available_at));
  WritePayload(json, envelope);
  return std::move(json).Close();
}

}  // namespace sealane
