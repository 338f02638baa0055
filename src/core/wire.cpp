#include "core/wire.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/headers_json.hpp"
#include "core/wire_encoder.hpp"

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

constexpr char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// `lower` is in lower case.
bool StartsWith(std::string_view name, std::string_view lower) {
  return name.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), name.begin(), [](char a, char b) { return a == Lower(b); });
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
  const std::string headers_json = HeadersToJson(envelope.headers);
  WireEncoder encoder(profile, options);
  const WireView view = encoder.Encode(ViewOf(envelope, headers_json), envelope.unknown);
  WireMessage message{.key = std::string(view.key), .value = std::string(view.value), .headers = {}};
  message.headers.reserve(view.headers.size());
  for (const HeaderView& header : view.headers) {
    message.headers.push_back({.name = std::string(header.name), .value = std::string(header.value)});
  }
  return message;
}

bool IsReservedHeader(std::string_view name) {
  return std::any_of(kReservedNames.begin(), kReservedNames.end(),
                     [&](std::string_view reserved) {
                       return name.size() == reserved.size() && StartsWith(name, reserved);
                     }) ||
         std::any_of(kReservedPrefixes.begin(), kReservedPrefixes.end(),
                     [&](std::string_view prefix) { return StartsWith(name, prefix); });
}

}  // namespace sealane
