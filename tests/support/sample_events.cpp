#include "support/sample_events.hpp"

#include <chrono>
#include <utility>

#include "base/sha256.hpp"

namespace sealane::testing {

EventId FreshId() {
  return EventIdGenerator::Instance().Next();
}

NewEntry SampleEntry(std::string_view key) {
  NewEntry entry;
  entry.envelope.id = FreshId();
  entry.envelope.topic = "orders";
  entry.envelope.key = key;
  entry.envelope.type = "OrderPlaced";
  entry.envelope.occurred_at = Timestamp{std::chrono::microseconds{1'700'000'000'123'456}};
  return WithPayload(std::move(entry), R"({"id":1})", "application/json");
}

NewEntry FullEntry() {
  NewEntry entry = WithPayload(SampleEntry("key-7"), R"({ "amount" : 10.50 })", "application/vnd.shop+json");
  Envelope& envelope = entry.envelope;
  envelope.kind = EventKind::kCommand;
  envelope.type = "SendApprovalEmail";
  envelope.schema_version = 3;
  envelope.tenant = "tenant-1";
  envelope.topic = "mails";
  envelope.aggregate = {"order", "o-7", 42};
  envelope.correlation_id = "correlation-1";
  envelope.causation_id = "causation-1";
  envelope.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  envelope.tracestate = "vendor=value";
  envelope.producer = "shop";
  envelope.schema_id = "schema-9";
  envelope.headers = {
      {"zebra", "1"}, {"alpha", "2"}, {"with \"quotes\"", "line\nbreak \\ \t \xc3\xa9 \xf0\x9f\x9a\xa2"}};
  envelope.occurred_at = Timestamp{std::chrono::microseconds{1'111'111'111'111'111}};
  envelope.available_at = Timestamp{std::chrono::microseconds{2'222'222'222'222'223}};
  return entry;
}

NewEntry WithPayload(NewEntry entry, std::string payload, std::string_view content_type) {
  entry.envelope.payload = std::move(payload);
  entry.envelope.payload_hash = Sha256(entry.envelope.payload);
  entry.envelope.content_type = content_type;
  return entry;
}

NewEntry AboutVersion(NewEntry entry, std::string_view id, std::int64_t version) {
  entry.envelope.aggregate = {"order", std::string(id), version};
  entry.unique_version = true;
  return entry;
}

NewEntry WithDedupKey(NewEntry entry, std::string_view dedup_key) {
  entry.dedup_key = dedup_key;
  return entry;
}

NewEntry OfTenant(NewEntry entry, std::string_view tenant) {
  entry.envelope.tenant = tenant;
  return entry;
}

NewEntry WithOwnId(NewEntry entry, const EventId& id) {
  entry.envelope.id = id;
  entry.own_id = true;
  return entry;
}

}  // namespace sealane::testing
