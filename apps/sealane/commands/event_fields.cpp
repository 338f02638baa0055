#include "commands/event_fields.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "time_option.hpp"

namespace sealane::cli {
namespace {

using enum EventFieldType;

template <std::string Event::*member>
Status SetText(Event& event, std::string_view text, Timestamp) {
  event.*member = text;
  return Ok();
}

template <std::string Aggregate::*member>
Status SetAggregateText(Event& event, std::string_view text, Timestamp) {
  event.aggregate.*member = text;
  return Ok();
}

template <std::optional<Timestamp> Event::*member>
Status SetTime(Event& event, std::string_view text, Timestamp now) {
  SEALANE_ASSIGN_OR_RETURN(event.*member, ParseFutureTime(text, now));
  return Ok();
}

Error Invalid(std::string_view text, std::string_view what) {
  return Error(ErrorKind::kRejected, "invalid_field", fmt::format("`{}` is not {}", text, what));
}

template <class Number>
Result<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || rest != text.data() + text.size()) return Invalid(text, "a whole number in range");
  return number;
}

Status SetAggregateVersion(Event& event, std::string_view text, Timestamp) {
  SEALANE_ASSIGN_OR_RETURN(event.aggregate.version, ParseNumber<std::int64_t>(text));
  return Ok();
}

Status SetSchemaVersion(Event& event, std::string_view text, Timestamp) {
  SEALANE_ASSIGN_OR_RETURN(event.schema_version, ParseNumber<std::int32_t>(text));
  return Ok();
}

Status SetKind(Event& event, std::string_view text, Timestamp) {
  const auto kind = ParseEventKind(text);
  if (!kind) return Invalid(text, "event or command");
  event.kind = *kind;
  return Ok();
}

Status SetId(Event& event, std::string_view text, Timestamp) {
  event.id = EventId::Parse(text);
  if (!event.id) return Invalid(text, "a UUID of 36 characters");
  return Ok();
}

Status SetDedupKey(Event& event, std::string_view text, Timestamp) {
  event.dedup_key = std::string(text);
  return Ok();
}

constexpr std::array<EventField, 20> kFields = {{
    {"topic", "NAME", "where the event goes", kText, true, SetText<&Event::topic>},
    {"key", "KEY", "events with the same key keep their order", kText, true, SetText<&Event::key>},
    {"type", "NAME", "what happened, for example OrderPlaced", kText, true, SetText<&Event::type>},
    {"tenant", "NAME", "whose event it is", kText, false, SetText<&Event::tenant>},
    {"aggregate_type", "NAME", "kind of the thing the event is about, for example order", kText, false,
     SetAggregateText<&Aggregate::type>},
    {"aggregate_id", "ID", "which one", kText, false, SetAggregateText<&Aggregate::id>},
    {"aggregate_version", "N", "its version after the event, from 1", kInteger, false, SetAggregateVersion},
    {"content_type", "TYPE", "of the payload (default: application/json)", kText, false,
     SetText<&Event::content_type>},
    {"kind", "KIND", "event or command (default: event)", kText, false, SetKind},
    {"correlation_id", "ID", "what the event belongs to", kText, false, SetText<&Event::correlation_id>},
    {"causation_id", "ID", "what caused it", kText, false, SetText<&Event::causation_id>},
    {"traceparent", "TEXT", "W3C trace context", kText, false, SetText<&Event::traceparent>},
    {"tracestate", "TEXT", "W3C trace context", kText, false, SetText<&Event::tracestate>},
    {"schema_id", "ID", "of the payload's schema in a registry", kText, false, SetText<&Event::schema_id>},
    {"schema_version", "N", "of the payload's schema (default: 1)", kInteger, false, SetSchemaVersion},
    {"producer", "NAME", "the service it comes from (default: outbox.producer)", kText, false,
     SetText<&Event::producer>},
    {"id", "UUID", "identity of the event (default: a new one); refused when it exists", kText, false, SetId},
    {"occurred_at", "TIME", "RFC 3339 (default: now)", kText, false, SetTime<&Event::occurred_at>},
    {"available_at", "TIME", "not delivered before: RFC 3339, or +5m", kText, false, SetTime<&Event::available_at>},
    {"dedup_key", "KEY", "a second event with this key is not written", kText, false, SetDedupKey},
}};

}  // namespace

std::span<const EventField> EventFields() {
  return kFields;
}

std::string FlagName(const EventField& field) {
  std::string name = fmt::format("--{}", field.name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

}  // namespace sealane::cli
