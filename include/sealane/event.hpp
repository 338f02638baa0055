#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/event_id.hpp"

namespace sealane {

/// A fact that happened (`OrderPlaced`) or a wish somebody should fulfil (`SendApprovalEmail`).
enum class EventKind : std::uint8_t { kEvent, kCommand };
/// `event` or `command`, as stored and shipped.
std::string_view ToString(EventKind kind);
std::optional<EventKind> ParseEventKind(std::string_view text);

/// Metadata for the broker's headers. Names are unique within an event; values are UTF-8 text.
struct Header {
  std::string name;
  std::string value;
  friend bool operator==(const Header&, const Header&) = default;
};
using Headers = std::vector<Header>;

/// The thing an event is about. All three together name one state of one business object.
struct Aggregate {
  std::string type = {};                     ///< for example `order`; empty: the event belongs to no aggregate
  std::string id = {};                       ///< for example `o-1`
  std::optional<std::int64_t> version = {};  ///< 1 for the first change; see Versions for gapless numbers
  friend bool operator==(const Aggregate&, const Aggregate&) = default;
};

/// What the application says happened. Only topic, key, type and payload are required.
///
/// Text fields are UTF-8 without NUL. The payload is opaque: the bytes given here are the bytes that arrive.
struct Event {
  std::string topic;    ///< where it goes, for example `orders`
  std::string key;      ///< events with the same key keep their order; becomes the broker's partition key
  std::string type;     ///< for example `OrderPlaced`
  std::string payload;  ///< bytes; checked to be JSON when content_type says so

  std::string tenant = {};
  Aggregate aggregate = {};
  std::int32_t schema_version = 1;  ///< version of the payload's schema
  EventKind kind = EventKind::kEvent;
  std::string content_type = "application/json";
  Headers headers = {};
  std::string correlation_id = {};
  std::string causation_id = {};
  std::string traceparent = {};  ///< W3C trace context
  std::string tracestate = {};
  std::string schema_id = {};  ///< identity in a schema registry
  std::string producer = {};   ///< empty: OutboxOptions::producer

  std::optional<EventId> id = {};              ///< empty: a fresh version 7 id. Given: refused if it exists already
  std::optional<Timestamp> occurred_at = {};   ///< empty: the time of the append
  std::optional<Timestamp> available_at = {};  ///< not delivered before this time
  std::optional<std::string> dedup_key = {};   ///< given: a second append with it is a no-op (per tenant)
  bool unique_version = true;  ///< refuse a second event of this type for the same tenant, aggregate and version
};

}  // namespace sealane
