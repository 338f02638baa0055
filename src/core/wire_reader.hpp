#pragma once

#include <optional>
#include <string_view>

#include "sealane/envelope.hpp"
#include "sealane/result.hpp"

#include "core/wire.hpp"

namespace sealane {

/// A message as a broker handed it out. Everything is borrowed.
struct WireInput {
  std::string_view topic;
  std::string_view key;
  std::string_view value;
  const Headers& headers;
  Timestamp published_at;  ///< stands for the time of an event that does not say when it happened
};

/// Which profile a message has, by its headers alone; empty when they do not say.
///
/// kRejected (`field_doubled`) when a header that would decide it stands twice, `unreadable_message` for a format of
/// CloudEvents that is not read here.
Result<std::optional<WireProfile>> DetectProfile(const WireInput& input);

/// The event in a message: the inverse of ToWire(), and a reader of what others write in the same forms.
///
/// Without `expected` the headers tell the profile, and a message that has none is refused (`unreadable_message`).
/// With it they are not asked, so that a document can be read whose headers were lost on the way. Every field comes
/// back that the profile carries; docs/envelope.md ("Reading") says what the others become. The payload's bytes are
/// exact, and its hash was computed from them.
///
/// Errors are kRejected and name the field: the codes of EnvelopeFromJson(), `unreadable_message`, `invalid_utf8`,
/// and `event_id_missing` for a raw message, because nothing in one could tell a second delivery from a second event.
inline constexpr std::size_t kWireHeadersMax = 1'000;
Result<Envelope> FromWire(const WireInput& input, std::optional<WireProfile> expected = {});

}  // namespace sealane
