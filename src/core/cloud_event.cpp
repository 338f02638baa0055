#include "core/cloud_event.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/time_text.hpp"
#include "core/content_type.hpp"
#include "core/json_object.hpp"
#include "core/json_scan.hpp"

namespace sealane {
namespace {

constexpr bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// A producer's name may be any text; a source is a URI reference.
std::string PercentEncoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (IsLetter(c) || IsDigit(c) || std::string_view("-._~").find(c) != std::string_view::npos) {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

bool IsAbsoluteUri(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size() || !IsLetter(text[0])) return false;
  const auto in_scheme = [](char c) { return IsLetter(c) || IsDigit(c) || c == '+' || c == '-' || c == '.'; };
  const auto in_uri = [](char c) {
    return c > 0x20 && c < 0x7f && std::string_view("\"<>\\^`{|}").find(c) == std::string_view::npos;
  };
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon), in_scheme) &&
         std::all_of(text.begin(), text.end(), in_uri);
}

}  // namespace

std::vector<CloudAttribute> CloudAttributes(const Envelope& envelope, std::string_view source) {
  std::vector<CloudAttribute> attributes;
  const auto add = [&](std::string_view name, std::string value, bool is_integer = false) {
    if (!value.empty()) attributes.push_back({name, std::move(value), is_integer});
  };
  const std::string producer = envelope.producer.empty() ? "unknown" : PercentEncoded(envelope.producer);
  add("specversion", "1.0");
  add("id", envelope.id.ToString());
  add("source", source.empty() ? "/sealane/" + producer : std::string(source));
  add("type", envelope.type);
  // Optional in the specification, but there are SDKs that cannot read an event without it.
  add("time", ToRfc3339(envelope.occurred_at));
  add("subject", envelope.aggregate.id);
  add(IsAbsoluteUri(envelope.schema_id) ? "dataschema" : "schemaid", envelope.schema_id);
  add("partitionkey", envelope.key);
  add("kind", std::string(ToString(envelope.kind)));
  add("schemaversion", std::to_string(envelope.schema_version), true);
  add("tenantid", envelope.tenant);
  add("aggregatetype", envelope.aggregate.type);
  // Text, because a version has 64 bits.
  if (envelope.aggregate.version) add("aggregateversion", std::to_string(*envelope.aggregate.version));
  add("correlationid", envelope.correlation_id);
  add("causationid", envelope.causation_id);
  add("producer", envelope.producer);
  if (envelope.available_at) add("availableat", ToRfc3339(*envelope.available_at));
  add("payloadsha256", ToHex(envelope.payload_hash));
  return attributes;
}

std::string CloudEventJson(const Envelope& envelope, std::string_view source) {
  constexpr std::size_t kMetadataSize = 1024;
  JsonObject json(envelope.payload.size() + kMetadataSize);
  for (const CloudAttribute& attribute : CloudAttributes(envelope, source)) {
    if (attribute.is_integer) {
      json.Raw(attribute.name, attribute.value);
    } else {
      json.Text(attribute.name, attribute.value);
    }
  }
  json.TextIfAny("traceparent", envelope.traceparent);
  json.TextIfAny("tracestate", envelope.tracestate);
  json.TextIfAny("datacontenttype", envelope.content_type);
  if (IsJsonContentType(envelope.content_type) && ScanJson(envelope.payload)) {
    json.Raw("data", envelope.payload);
  } else {
    json.Text("data_base64", ToBase64(envelope.payload));
  }
  return std::move(json).Close();
}

}  // namespace sealane
