#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

namespace sealane {

/// SHA-256 of a payload.
using PayloadHash = std::array<std::uint8_t, 32>;

/// An Event as stored and shipped: every default filled in, with its identity and the hash of its payload.
struct Envelope {
  EventId id;
  EventKind kind = EventKind::kEvent;
  std::string type;
  std::int32_t schema_version = 1;
  std::string tenant;
  std::string topic;
  std::string key;
  Aggregate aggregate;
  std::string correlation_id;
  std::string causation_id;
  std::string traceparent;
  std::string tracestate;
  std::string producer;
  std::string schema_id;
  std::string content_type;
  Headers headers;
  Timestamp occurred_at{};
  std::optional<Timestamp> available_at;
  std::string payload;
  PayloadHash payload_hash{};

  /// Fields of a newer envelope version that this one does not know: name and raw JSON value, in the order seen.
  /// Kept so that passing an envelope on loses nothing.
  std::vector<std::pair<std::string, std::string>> unknown;

  friend bool operator==(const Envelope&, const Envelope&) = default;
};

/// The self-describing JSON form that is the default message value (docs/envelope.md).
///
/// A JSON payload stands in it byte for byte as the last member; any other payload is base64 in `payload_base64`.
std::string ToJson(const Envelope& envelope);

/// Reads what ToJson() wrote, strictly: a missing or mistyped field, a doubled field, malformed JSON, nesting deeper
/// than 64 or a payload that contradicts its hash is an error of kind kRejected whose message names the byte
/// position. Unknown fields are kept in Envelope::unknown.
Result<Envelope> EnvelopeFromJson(std::string_view json);

}  // namespace sealane
