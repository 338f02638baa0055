#include "core/wire_encoder.hpp"

#include "core/content_type.hpp"
#include "core/json_object.hpp"
#include "core/json_scan.hpp"

namespace sealane {
namespace {

// A JSON payload is checked although admission did it: rows written with SQL have not passed there, and one payload
// that is no JSON would make the whole document unreadable.
bool IsJsonPayload(const EnvelopeView& event) {
  const bool says_so = event.content_type == "application/json" || IsJsonContentType(event.content_type);
  return says_so && ScanJson(event.payload).has_value();
}

void WritePayload(JsonAppender& json, const EnvelopeView& event, std::string_view name,
                  std::string_view name_of_base64) {
  if (IsJsonPayload(event)) {
    json.Raw(name, event.payload);
  } else {
    json.Base64(name_of_base64, event.payload);
  }
}

void WriteAggregate(JsonAppender& json, const EnvelopeView& event) {
  if (event.aggregate_type.empty() && event.aggregate_id.empty() && !event.aggregate_version) return;
  json.OpenInside("aggregate");
  json.TextIfAny("type", event.aggregate_type);
  json.TextIfAny("id", event.aggregate_id);
  if (event.aggregate_version) json.Integer("version", *event.aggregate_version);
  json.Close();
}

void WriteHeaders(JsonAppender& json, std::span<const HeaderView> headers) {
  if (headers.empty()) return;
  json.OpenInside("headers");
  for (const HeaderView& header : headers) json.AnyText(header.name, header.value);
  json.Close();
}

// Texts that the profiles write into the arena besides the attributes of a CloudEvent. The event's headers may stand
// there twice, decoded and with `own-` before their name; the shortest one is `"":"",`.
std::size_t TextsSizeMax(const EnvelopeView& event) {
  return CloudAttributesSizeMax(event) + 3 * event.headers_json.size();
}

}  // namespace

WireEncoder::WireEncoder(WireProfile profile, WireOptions options)
    : profile_(profile), options_(std::move(options)) {}

WireView WireEncoder::Encode(const EnvelopeView& event, std::span<const UnknownField> unknown) {
  texts_.Clear(TextsSizeMax(event));
  headers_.clear();
  own_headers_.clear();
  if (event.headers_json != "{}") ReadOwnHeaders(event.headers_json);
  WireView view{.key = event.key, .value = event.payload, .headers = {}};
  switch (profile_) {
    case WireProfile::kEnvelope:
      view = AsEnvelope(event, unknown);
      break;
    case WireProfile::kCloudEvents:
      view = AsCloudEvent(event);
      break;
    case WireProfile::kCloudEventsStructured:
      view = AsStructuredCloudEvent(event);
      break;
    case WireProfile::kDebezium:
      view = AsDebezium(event);
      break;
    case WireProfile::kRaw:
      break;
  }
  AddOwnHeaders();
  view.headers = headers_;
  return view;
}

WireView WireEncoder::AsEnvelope(const EnvelopeView& event, std::span<const UnknownField> unknown) {
  const std::string_view id = texts_.Id(event.id);
  const std::string_view hash = texts_.Hex(event.payload_hash);
  AddIfAny("event-id", id);
  AddIfAny("event-type", event.type);
  AddIfAny("event-version", texts_.Number(event.schema_version));
  AddIfAny("tenant-id", event.tenant);
  AddIfAny("correlation-id", event.correlation_id);
  AddIfAny("causation-id", event.causation_id);
  AddTrace(event);
  AddIfAny("schema-id", event.schema_id);
  AddIfAny("producer", event.producer);
  AddIfAny("content-hash", hash);
  AddIfAny("content-type", kEnvelopeContentType);

  value_.clear();
  JsonAppender json(value_);
  json.Open();
  json.Integer("sealane", 1);
  json.Text("id", id);
  json.Text("kind", ToString(event.kind));
  json.Text("type", event.type);
  json.Integer("schema_version", event.schema_version);
  json.TextIfAny("tenant", event.tenant);
  json.Text("topic", event.topic);
  json.Text("key", event.key);
  WriteAggregate(json, event);
  json.TextIfAny("correlation_id", event.correlation_id);
  json.TextIfAny("causation_id", event.causation_id);
  json.TextIfAny("traceparent", event.traceparent);
  json.TextIfAny("tracestate", event.tracestate);
  json.TextIfAny("producer", event.producer);
  json.TextIfAny("schema_id", event.schema_id);
  json.TextIfAny("content_type", event.content_type);
  WriteHeaders(json, own_headers_);
  json.Text("occurred_at", texts_.Time(event.occurred_at));
  if (event.available_at) json.Text("available_at", texts_.Time(*event.available_at));
  // The hash stands before the payload, so that a reader who streams can check as it goes.
  json.Text("payload_sha256", hash);
  for (const auto& [name, value] : unknown) {
    SEALANE_ASSERT(ScanJson(value).has_value(), "a field that is passed on unread holds a JSON value");
    json.AnyRaw(name, value);
  }
  WritePayload(json, event, "payload", "payload_base64");
  json.Close();
  return {.key = event.key, .value = value_, .headers = {}};
}

WireView WireEncoder::AsCloudEvent(const EnvelopeView& event) {
  attributes_.clear();
  AppendCloudAttributes(attributes_, texts_, event, options_.source);
  for (const CloudAttribute& attribute : attributes_) AddIfAny(attribute.header_name, attribute.value);
  AddIfAny("content-type", event.content_type);
  AddTrace(event);
  return {.key = event.key, .value = event.payload, .headers = {}};
}

WireView WireEncoder::AsStructuredCloudEvent(const EnvelopeView& event) {
  attributes_.clear();
  AppendCloudAttributes(attributes_, texts_, event, options_.source);
  value_.clear();
  JsonAppender json(value_);
  json.Open();
  for (const CloudAttribute& attribute : attributes_) {
    if (attribute.is_integer) {
      json.Raw(attribute.name(), attribute.value);
    } else {
      json.Text(attribute.name(), attribute.value);
    }
  }
  json.TextIfAny("traceparent", event.traceparent);
  json.TextIfAny("tracestate", event.tracestate);
  json.TextIfAny("datacontenttype", event.content_type);
  WritePayload(json, event, "data", "data_base64");
  json.Close();
  AddIfAny("content-type", "application/cloudevents+json; charset=UTF-8");
  AddTrace(event);
  return {.key = event.key, .value = value_, .headers = {}};
}

// The router's defaults put the event's id into the header `id` and drop its type. The type goes where the router's
// documentation shows how to keep it, the header `eventType`.
WireView WireEncoder::AsDebezium(const EnvelopeView& event) {
  AddIfAny("id", texts_.Id(event.id));
  AddIfAny("eventType", event.type);
  AddTrace(event);
  return {.key = event.aggregate_id.empty() ? event.key : event.aggregate_id, .value = event.payload, .headers = {}};
}

void WireEncoder::ReadOwnHeaders(std::string_view headers_json) {
  // The store has checked that this is an object of texts, so every string here is a name or a value, in turn. A
  // string that a quote opens ends at the next quote that no backslash stands before.
  std::string_view name;
  bool have_name = false;
  for (std::size_t at = headers_json.find('"'); at != std::string_view::npos; at = headers_json.find('"', at)) {
    std::size_t end = at + 1;
    while (end < headers_json.size() && headers_json[end] != '"') end += headers_json[end] == '\\' ? 2 : 1;
    SEALANE_ASSERT(end < headers_json.size(), "the headers of a stored event are a JSON object of texts");
    const std::string_view text = DecodedText(headers_json.substr(at, end + 1 - at));
    at = end + 1;
    if (have_name) {
      own_headers_.push_back({.name = name, .value = text});
    } else {
      name = text;
    }
    have_name = !have_name;
  }
  SEALANE_ASSERT(!have_name, "the headers of a stored event are a JSON object of texts");
}

// Points into the headers as stored, unless there are escapes in it.
std::string_view WireEncoder::DecodedText(std::string_view json_string) {
  const std::string_view inside = json_string.substr(1, json_string.size() - 2);
  if (inside.find('\\') == std::string_view::npos) return inside;
  const auto decoded = DecodeJsonString({.bytes = json_string, .offset = 0, .type = JsonType::kString});
  SEALANE_ASSERT(decoded.has_value(), "the headers of a stored event are a JSON object of texts");
  return texts_.Joined(*decoded, {});
}

void WireEncoder::AddIfAny(std::string_view name, std::string_view value) {
  if (!value.empty()) headers_.push_back({.name = name, .value = value});
}

void WireEncoder::AddTrace(const EnvelopeView& event) {
  AddIfAny("traceparent", event.traceparent);
  AddIfAny("tracestate", event.tracestate);
}

void WireEncoder::AddOwnHeaders() {
  for (const HeaderView& own : own_headers_) {
    const std::string_view name = IsReservedHeader(own.name) ? texts_.Joined("own-", own.name) : own.name;
    headers_.push_back({.name = name, .value = own.value});
  }
}

}  // namespace sealane
