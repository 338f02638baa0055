#include "core/wire.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/hex.hpp"
#include "base/time_text.hpp"
#include "core/cloud_event.hpp"

namespace sealane {
namespace {

constexpr std::array<std::pair<WireProfile, std::string_view>, 5> kProfiles = {{
    {WireProfile::kEnvelope, "envelope"},
    {WireProfile::kCloudEvents, "cloudevents"},
    {WireProfile::kCloudEventsStructured, "cloudevents-structured"},
    {WireProfile::kDebezium, "debezium"},
    {WireProfile::kRaw, "raw"},
}};

constexpr std::array<std::string_view, 14> kReservedNames = {
    "event-id",   "event-type", "event-version", "tenant-id",    "correlation-id", "causation-id", "traceparent",
    "tracestate", "schema-id",  "producer",      "content-hash", "content-type",   "id",           "eventtype"};
constexpr std::array<std::string_view, 4> kReservedPrefixes = {"ce_", "ce-", "cloudevents", "sealane-"};

void AddIfAny(Headers& headers, std::string_view name, std::string_view value) {
  if (!value.empty()) headers.push_back({.name = std::string(name), .value = std::string(value)});
}

void AddTrace(Headers& headers, const Envelope& envelope) {
  AddIfAny(headers, "traceparent", envelope.traceparent);
  AddIfAny(headers, "tracestate", envelope.tracestate);
}

void AddOwn(Headers& headers, const Envelope& envelope) {
  for (const Header& own : envelope.headers) {
    headers.push_back({.name = IsReservedHeader(own.name) ? "own-" + own.name : own.name, .value = own.value});
  }
}

WireMessage AsEnvelope(const Envelope& envelope) {
  WireMessage message{.key = envelope.key, .value = ToJson(envelope), .headers = {}};
  Headers& headers = message.headers;
  AddIfAny(headers, "event-id", envelope.id.ToString());
  AddIfAny(headers, "event-type", envelope.type);
  AddIfAny(headers, "event-version", std::to_string(envelope.schema_version));
  AddIfAny(headers, "tenant-id", envelope.tenant);
  AddIfAny(headers, "correlation-id", envelope.correlation_id);
  AddIfAny(headers, "causation-id", envelope.causation_id);
  AddTrace(headers, envelope);
  AddIfAny(headers, "schema-id", envelope.schema_id);
  AddIfAny(headers, "producer", envelope.producer);
  AddIfAny(headers, "content-hash", ToHex(envelope.payload_hash));
  AddIfAny(headers, "content-type", kEnvelopeContentType);
  return message;
}

WireMessage AsCloudEvent(const Envelope& envelope, const WireOptions& options) {
  WireMessage message{.key = envelope.key, .value = envelope.payload, .headers = {}};
  for (const CloudAttribute& attribute : CloudAttributes(envelope, options.source)) {
    AddIfAny(message.headers, "ce_" + std::string(attribute.name), attribute.value);
  }
  AddIfAny(message.headers, "content-type", envelope.content_type);
  AddTrace(message.headers, envelope);
  return message;
}

WireMessage AsStructuredCloudEvent(const Envelope& envelope, const WireOptions& options) {
  WireMessage message{.key = envelope.key, .value = CloudEventJson(envelope, options.source), .headers = {}};
  AddIfAny(message.headers, "content-type", "application/cloudevents+json; charset=UTF-8");
  AddTrace(message.headers, envelope);
  return message;
}

// The router's defaults put the event's id into the header `id` and drop its type. The type goes where the router's
// documentation shows how to keep it, the header `eventType`.
WireMessage AsDebezium(const Envelope& envelope) {
  const std::string& key = envelope.aggregate.id.empty() ? envelope.key : envelope.aggregate.id;
  WireMessage message{.key = key, .value = envelope.payload, .headers = {}};
  AddIfAny(message.headers, "id", envelope.id.ToString());
  AddIfAny(message.headers, "eventType", envelope.type);
  AddTrace(message.headers, envelope);
  return message;
}

WireMessage WithoutOwnHeaders(const Envelope& envelope, WireProfile profile, const WireOptions& options) {
  switch (profile) {
    case WireProfile::kEnvelope:
      return AsEnvelope(envelope);
    case WireProfile::kCloudEvents:
      return AsCloudEvent(envelope, options);
    case WireProfile::kCloudEventsStructured:
      return AsStructuredCloudEvent(envelope, options);
    case WireProfile::kDebezium:
      return AsDebezium(envelope);
    case WireProfile::kRaw:
      break;
  }
  return {.key = envelope.key, .value = envelope.payload, .headers = {}};
}

}  // namespace

std::string_view ToString(WireProfile profile) {
  return kProfiles.at(static_cast<std::size_t>(profile)).second;
}

std::optional<WireProfile> ParseWireProfile(std::string_view text) {
  for (const auto& [profile, name] : kProfiles) {
    if (name == text) return profile;
  }
  return std::nullopt;
}

WireMessage ToWire(const Envelope& envelope, WireProfile profile, const WireOptions& options) {
  WireMessage message = WithoutOwnHeaders(envelope, profile, options);
  AddOwn(message.headers, envelope);
  return message;
}

bool IsReservedHeader(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (std::find(kReservedNames.begin(), kReservedNames.end(), lower) != kReservedNames.end()) return true;
  return std::any_of(kReservedPrefixes.begin(), kReservedPrefixes.end(),
                     [&](std::string_view prefix) { return lower.starts_with(prefix); });
}

}  // namespace sealane
