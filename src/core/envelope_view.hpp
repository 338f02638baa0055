#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sealane/envelope.hpp"

namespace sealane {

/// An Envelope whose texts lie somewhere else, for example in the buffer a page of the log was read into.
///
/// The relay passes hundreds of thousands of events a second from a page to a broker; a view costs no allocation.
/// Valid as long as the buffer is.
struct EnvelopeView {
  EventId id;
  EventKind kind = EventKind::kEvent;
  std::int32_t schema_version = 1;
  std::optional<std::int64_t> aggregate_version;
  Timestamp occurred_at{};
  std::optional<Timestamp> available_at;
  std::string_view type;
  std::string_view tenant;
  std::string_view topic;
  std::string_view key;
  std::string_view aggregate_type;
  std::string_view aggregate_id;
  std::string_view correlation_id;
  std::string_view causation_id;
  std::string_view traceparent;
  std::string_view tracestate;
  std::string_view producer;
  std::string_view schema_id;
  std::string_view content_type;
  std::string_view headers_json = "{}";  ///< as stored: an object of texts, see headers_json.hpp
  std::string_view payload;
  std::string_view payload_hash;  ///< 32 bytes
};

/// A view of `envelope` whose headers stand in `headers_json` (HeadersToJson() of its headers), both of which it
/// borrows. Envelope::unknown has no place in a view.
EnvelopeView ViewOf(const Envelope& envelope, std::string_view headers_json);

/// An owner of everything the view shows. kCorrupt (`bad_row`) when the headers or the hash are not what a store
/// writes.
Result<Envelope> ToEnvelope(const EnvelopeView& view);

}  // namespace sealane
