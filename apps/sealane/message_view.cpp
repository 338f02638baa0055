#include "message_view.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"
#include "core/content_type.hpp"
#include "core/json_scan.hpp"
#include "output.hpp"

namespace sealane::cli {
namespace {

std::string RouteJson(const RouteStatus& route) {
  JsonDocument json;
  json.Text("route", route.route).Text("status", ToString(route.state)).Integer("attempts", route.attempts);
  if (route.next_attempt_at) json.Time("next_attempt_at", *route.next_attempt_at);
  if (route.published_at) json.Time("published_at", *route.published_at);
  return json.TextIfAny("last_error_code", route.last_error_code)
      .TextIfAny("last_error_message", route.last_error_message)
      .TextIfAny("rerouted_to", route.rerouted_to)
      .Finish();
}

void AddPayload(const Envelope& envelope, JsonDocument& json) {
  // A line break in JSON is whitespace, but it would end the line of a JSON lines document.
  const bool one_line = envelope.payload.find_first_of("\r\n") == std::string::npos;
  if (one_line && IsJsonContentType(envelope.content_type)) {
    if (const auto scanned = ScanJson(envelope.payload)) {
      json.Raw("payload", envelope.payload);
      return;
    }
  }
  json.Text("payload_base64", ToBase64(envelope.payload));
}

std::string ShownPayload(const Envelope& envelope) {
  return IsUtf8(envelope.payload) ? EscapeForTerminal(envelope.payload)
                                  : fmt::format("base64 {}", ToBase64(envelope.payload));
}

std::string ShownTime(Timestamp time) {
  return ToRfc3339(time);
}

}  // namespace

DeliveryState OverallState(const StoredMessage& message) {
  // From what needs a person most to what needs nobody.
  constexpr std::array kUrgency = {DeliveryState::kDead,       DeliveryState::kFailed,    DeliveryState::kPending,
                                   DeliveryState::kPublishing, DeliveryState::kPublished, DeliveryState::kDiscarded};
  for (const DeliveryState state : kUrgency) {
    const bool any = std::any_of(message.routes.begin(), message.routes.end(),
                                 [&](const RouteStatus& route) { return route.state == state; });
    if (any) return state;
  }
  return DeliveryState::kPending;
}

std::string MessageJson(const StoredMessage& message, bool with_payload) {
  const Envelope& envelope = message.envelope;
  JsonDocument json;
  json.Text("id", envelope.id.ToString())
      .Integer("seq", message.seq)
      .Integer("lane", message.lane)
      .Text("status", ToString(OverallState(message)))
      .Time("appended_at", message.appended_at)
      .Time("occurred_at", envelope.occurred_at);
  if (envelope.available_at) json.Time("available_at", *envelope.available_at);
  json.Text("topic", envelope.topic)
      .Text("key", envelope.key)
      .Text("type", envelope.type)
      .Text("kind", ToString(envelope.kind))
      .Integer("schema_version", envelope.schema_version)
      .TextIfAny("schema_id", envelope.schema_id)
      .TextIfAny("tenant", envelope.tenant)
      .TextIfAny("aggregate_type", envelope.aggregate.type)
      .TextIfAny("aggregate_id", envelope.aggregate.id);
  if (envelope.aggregate.version) json.Integer("aggregate_version", *envelope.aggregate.version);
  json.TextIfAny("correlation_id", envelope.correlation_id)
      .TextIfAny("causation_id", envelope.causation_id)
      .TextIfAny("traceparent", envelope.traceparent)
      .TextIfAny("tracestate", envelope.tracestate)
      .TextIfAny("producer", envelope.producer)
      .Text("content_type", envelope.content_type);
  JsonDocument headers;
  for (const Header& header : envelope.headers) headers.Text(header.name, header.value);
  json.Raw("headers", headers.Finish());
  json.Integer("payload_size", static_cast<std::int64_t>(message.payload_size))
      .Text("payload_sha256", ToHex(envelope.payload_hash));
  std::vector<std::string> routes;
  for (const RouteStatus& route : message.routes) routes.push_back(RouteJson(route));
  json.Raw("routes", JsonArray(routes));
  if (with_payload && message.payload_loaded) AddPayload(envelope, json);
  return json.Finish();
}

std::string MessageTable(const std::vector<StoredMessage>& messages, bool with_payload, bool color) {
  std::vector<std::string> header = {"TIME", "SEQ", "STATUS", "TOPIC", "KEY", "TYPE", "TENANT", "SIZE", "ID"};
  if (with_payload) header.emplace_back("PAYLOAD");
  Table table(std::move(header));
  for (const StoredMessage& message : messages) {
    const Envelope& envelope = message.envelope;
    std::vector<std::string> row = {ShownTime(message.appended_at),
                                    fmt::format("{}", message.seq),
                                    std::string(ToString(OverallState(message))),
                                    envelope.topic,
                                    envelope.key,
                                    envelope.type,
                                    envelope.tenant.empty() ? "-" : envelope.tenant,
                                    fmt::format("{}", message.payload_size),
                                    envelope.id.ToString()};
    if (with_payload) row.push_back(ShownPayload(envelope));
    table.Add(std::move(row));
  }
  return table.Render(color);
}

std::string MessageDetails(const StoredMessage& message, bool color) {
  const Envelope& envelope = message.envelope;
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<16}{}\n", name, EscapeForTerminal(value));
  };
  line("id", envelope.id.ToString());
  line("seq", fmt::format("{} (lane {})", message.seq, message.lane));
  line("appended at", ShownTime(message.appended_at));
  line("occurred at", ShownTime(envelope.occurred_at));
  if (envelope.available_at) line("available at", ShownTime(*envelope.available_at));
  line("topic", envelope.topic);
  for (const RouteStatus& route : message.routes) {
    if (!route.rerouted_to.empty())
      line("rerouted to", fmt::format("{} on route {}", route.rerouted_to, route.route));
  }
  line("key", envelope.key);
  line("type", fmt::format("{} version {} ({})", envelope.type, envelope.schema_version, ToString(envelope.kind)));
  line("schema", envelope.schema_id);
  line("tenant", envelope.tenant);
  if (!envelope.aggregate.type.empty() || !envelope.aggregate.id.empty()) {
    line("aggregate", fmt::format("{} {}{}", envelope.aggregate.type, envelope.aggregate.id,
                                  envelope.aggregate.version ? fmt::format(" version {}", *envelope.aggregate.version)
                                                             : std::string()));
  }
  line("correlation", envelope.correlation_id);
  line("causation", envelope.causation_id);
  line("traceparent", envelope.traceparent);
  line("tracestate", envelope.tracestate);
  line("producer", envelope.producer);
  for (const Header& header : envelope.headers) line("header", fmt::format("{}: {}", header.name, header.value));
  line("content type", envelope.content_type);
  line("payload", fmt::format("{} bytes, sha256 {}", message.payload_size, ToHex(envelope.payload_hash)));
  text += '\n' + ShownPayload(envelope) + "\n\n";
  if (message.routes.empty()) return text + "status PENDING: no route delivers it yet\n";
  Table routes({"ROUTE", "STATUS", "ATTEMPTS", "PUBLISHED", "NEXT ATTEMPT", "LAST ERROR"});
  for (const RouteStatus& route : message.routes) {
    routes.Add({route.route, std::string(ToString(route.state)), fmt::format("{}", route.attempts),
                route.published_at ? ShownTime(*route.published_at) : "-",
                route.next_attempt_at ? ShownTime(*route.next_attempt_at) : "-",
                route.last_error_code.empty()
                    ? "-"
                    : fmt::format("{}: {}", route.last_error_code, route.last_error_message)});
  }
  return text + routes.Render(color);
}

}  // namespace sealane::cli
