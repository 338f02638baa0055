#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cloud_event.hpp"
#include "core/envelope_view.hpp"
#include "core/text_arena.hpp"
#include "core/wire.hpp"

namespace sealane {

struct HeaderView {
  std::string_view name;
  std::string_view value;
};

/// A field of a newer envelope version: name and raw JSON value.
using UnknownField = std::pair<std::string, std::string>;

/// A message whose parts lie in the event's buffer or in the encoder's; valid until the encoder's next Encode().
struct WireView {
  std::string_view key;
  std::string_view value;
  std::span<const HeaderView> headers;
};

/// Does what ToWire() does, many times, without allocating: buffers are kept from one event to the next.
///
/// Encode() gives byte for byte what ToWire() gives for the same event, profile and options; there is one
/// implementation and two doors to it. Not thread-safe: a worker has its own.
class WireEncoder {
 public:
  explicit WireEncoder(WireProfile profile, WireOptions options = {});

  /// Never fails: an event with headers that cannot be read is kCorrupt at the store, long before.
  ///
  /// `unknown` are the fields of Envelope::unknown, which only the envelope profile has a place for.
  WireView Encode(const EnvelopeView& event, std::span<const UnknownField> unknown = {});

  WireProfile profile() const { return profile_; }

 private:
  WireView AsEnvelope(const EnvelopeView& event, std::span<const UnknownField> unknown);
  WireView AsCloudEvent(const EnvelopeView& event);
  WireView AsStructuredCloudEvent(const EnvelopeView& event);
  WireView AsDebezium(const EnvelopeView& event);

  void ReadOwnHeaders(std::string_view headers_json);
  std::string_view DecodedText(std::string_view json_string);
  void AddIfAny(std::string_view name, std::string_view value);
  void AddTrace(const EnvelopeView& event);
  void AddOwnHeaders();

  const WireProfile profile_;
  const WireOptions options_;
  TextArena texts_;
  std::string value_;
  std::vector<HeaderView> own_headers_;  // as stored
  std::vector<HeaderView> headers_;      // as shipped
  std::vector<CloudAttribute> attributes_;
};

}  // namespace sealane
