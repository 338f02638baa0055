#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sealane {

/// The form in which an event leaves for a broker. docs/envelope.md lists the headers of each.
enum class WireProfile : std::uint8_t {
  kEnvelope,               ///< our JSON envelope, its metadata repeated as headers
  kCloudEvents,            ///< CloudEvents 1.0, binary mode of the Kafka binding: value = payload
  kCloudEventsStructured,  ///< CloudEvents 1.0 as one JSON document
  kDebezium,               ///< what Debezium's outbox event router would have sent
  kRaw,                    ///< key, payload and the event's own headers
};
/// `envelope`, `cloudevents`, `cloudevents-structured`, `debezium`, `raw`.
std::string_view ToString(WireProfile profile);
std::optional<WireProfile> ParseWireProfile(std::string_view text);

}  // namespace sealane
