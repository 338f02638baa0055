#pragma once

#include <string>
#include <string_view>

#include "sealane/envelope.hpp"
#include "sealane/wire_profile.hpp"

namespace sealane {

/// The content type of a message whose value is our JSON envelope.
inline constexpr std::string_view kEnvelopeContentType = "application/vnd.sealane.event+json";

struct WireOptions {
  std::string source = {};  ///< CloudEvents `source`; empty: `/sealane/<producer>`
};

/// One message as handed to a broker.
struct WireMessage {
  std::string key;
  std::string value;
  Headers headers;
  friend bool operator==(const WireMessage&, const WireMessage&) = default;
};

/// A pure function of its arguments: the same event gives the same bytes, on every relay and on every attempt.
///
/// Our headers come first. The event's own headers follow; one whose name is reserved is shipped as `own-<name>`, so
/// that it can neither replace nor shadow ours.
WireMessage ToWire(const Envelope& envelope, WireProfile profile, const WireOptions& options = {});

/// Names that profiles use or may come to use: those of ToWire(), and everything that starts with `ce_`, `ce-`,
/// `cloudevents` or `sealane-`. Upper and lower case count as the same, because some brokers do not tell them apart.
bool IsReservedHeader(std::string_view name);

}  // namespace sealane
