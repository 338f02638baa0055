#include "core/envelope_view.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/headers_json.hpp"

namespace sealane {

EnvelopeView ViewOf(const Envelope& envelope, std::string_view headers_json) {
  return {
      .id = envelope.id,
      .kind = envelope.kind,
      .schema_version = envelope.schema_version,
      .aggregate_version = envelope.aggregate.version,
      .occurred_at = envelope.occurred_at,
      .available_at = envelope.available_at,
      .type = envelope.type,
      .tenant = envelope.tenant,
      .topic = envelope.topic,
      .key = envelope.key,
      .aggregate_type = envelope.aggregate.type,
      .aggregate_id = envelope.aggregate.id,
      .correlation_id = envelope.correlation_id,
      .causation_id = envelope.causation_id,
      .traceparent = envelope.traceparent,
      .tracestate = envelope.tracestate,
      .producer = envelope.producer,
      .schema_id = envelope.schema_id,
      .content_type = envelope.content_type,
      .headers_json = headers_json,
      .payload = envelope.payload,
      .payload_hash = {reinterpret_cast<const char*>(envelope.payload_hash.data()), envelope.payload_hash.size()}};
}

Result<Envelope> ToEnvelope(const EnvelopeView& view) {
  auto headers = HeadersFromJson(view.headers_json);
  if (!headers) {
    return Error(ErrorKind::kCorrupt, "bad_row",
                 fmt::format("the headers of event {} cannot be read: {}", view.id.ToString(),
                             headers.error().message()))
        .WithField("headers")
        .WithHint("the row was not written by Sealane, or changed afterwards");
  }
  PayloadHash hash{};
  if (view.payload_hash.size() != hash.size()) {
    return Error(ErrorKind::kCorrupt, "bad_row",
                 fmt::format("the payload hash of event {} has {} bytes instead of {}", view.id.ToString(),
                             view.payload_hash.size(), hash.size()))
        .WithField("payload_hash")
        .WithHint("the row was not written by Sealane, or changed afterwards");
  }
  std::copy(view.payload_hash.begin(), view.payload_hash.end(), hash.begin());

  Envelope envelope;
  envelope.id = view.id;
  envelope.kind = view.kind;
  envelope.type = view.type;
  envelope.schema_version = view.schema_version;
  envelope.tenant = view.tenant;
  envelope.topic = view.topic;
  envelope.key = view.key;
  envelope.aggregate = {std::string(view.aggregate_type), std::string(view.aggregate_id), view.aggregate_version};
  envelope.correlation_id = view.correlation_id;
  envelope.causation_id = view.causation_id;
  envelope.traceparent = view.traceparent;
  envelope.tracestate = view.tracestate;
  envelope.producer = view.producer;
  envelope.schema_id = view.schema_id;
  envelope.content_type = view.content_type;
  envelope.headers = *std::move(headers);
  envelope.occurred_at = view.occurred_at;
  envelope.available_at = view.available_at;
  envelope.payload = view.payload;
  envelope.payload_hash = hash;
  return envelope;
}

}  // namespace sealane
