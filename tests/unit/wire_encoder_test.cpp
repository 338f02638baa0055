// Protects the relay's encoder: one encoder that is used again and again gives for each event exactly what ToWire()
// gives for it alone, nothing of the event before shines through, and once warm it allocates nothing.

#include "core/wire_encoder.hpp"

#include <array>
#include <cstdlib>
#include <limits>
#include <new>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include "base/sha256.hpp"
#include "core/headers_json.hpp"
#include "support/sample_events.hpp"

namespace {
// Every allocation of this program is counted; the test looks at the difference.
std::size_t allocations = 0;

void* Allocate(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  std::abort();
}
}  // namespace

void* operator new(std::size_t size) {
  return Allocate(size);
}
void* operator new[](std::size_t size) {
  return Allocate(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace sealane {
namespace {

using namespace sealane::testing;

constexpr std::array kAllProfiles = {WireProfile::kEnvelope, WireProfile::kCloudEvents,
                                     WireProfile::kCloudEventsStructured, WireProfile::kDebezium, WireProfile::kRaw};

WireMessage Owned(const WireView& view) {
  WireMessage message{.key = std::string(view.key), .value = std::string(view.value), .headers = {}};
  for (const HeaderView& header : view.headers) {
    message.headers.push_back({std::string(header.name), std::string(header.value)});
  }
  return message;
}

// UTF-8 without NUL, with everything that needs escaping, of any length around the encoder's steps of eight bytes.
std::string Text() {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
      rc::gen::map(rc::gen::inRange(1, 128), [](int c) { return std::string(1, static_cast<char>(c)); }),
      rc::gen::element<std::string>("plain text", "o-1", "\"", "\\", "\x7f", "\xc3\xa4", "\xe2\x80\xa8", "\\u0041")));
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

std::string HeaderName(int number) {
  return *rc::gen::element<std::string>("", "event-id", "CE_id", "eventType", "sealane-x", "own") +
         (*rc::gen::arbitrary<bool>() ? "" : std::to_string(number) + Text());
}

Envelope AnyEnvelope() {
  Envelope envelope = SampleEntry().envelope;
  envelope.id = EventId(*rc::gen::arbitrary<EventId::Bytes>());
  envelope.kind = *rc::gen::element(EventKind::kEvent, EventKind::kCommand);
  envelope.schema_version = *rc::gen::inRange(1, std::numeric_limits<std::int32_t>::max());
  for (std::string Envelope::*field :
       {&Envelope::type, &Envelope::topic, &Envelope::key, &Envelope::tenant, &Envelope::correlation_id,
        &Envelope::causation_id, &Envelope::traceparent, &Envelope::tracestate, &Envelope::producer}) {
    envelope.*field = Text();
  }
  envelope.schema_id = *rc::gen::oneOf(rc::gen::exec(Text), rc::gen::element<std::string>("https://x.example/1", ""));
  envelope.aggregate = {Text(), Text(), std::nullopt};
  if (*rc::gen::arbitrary<bool>()) envelope.aggregate.version = *rc::gen::arbitrary<std::int64_t>();
  const int headers = *rc::gen::inRange(0, 4);
  for (int i = 0; i < headers; ++i) envelope.headers.push_back({HeaderName(i), Text()});
  envelope.occurred_at = Timestamp{std::chrono::microseconds{*rc::gen::arbitrary<std::int64_t>()}};
  if (*rc::gen::arbitrary<bool>()) envelope.available_at = envelope.occurred_at;
  if (*rc::gen::arbitrary<bool>()) envelope.unknown.emplace_back("x" + Text(), "[1, 2]");
  envelope.content_type =
      *rc::gen::element<std::string>("application/json", "application/a+json; v=1", "text/plain", "");
  envelope.payload = *rc::gen::oneOf(rc::gen::element<std::string>(" {\"a\":1,\"a\":2}\n", "null", "{\"open\":"),
                                     rc::gen::arbitrary<std::string>());
  envelope.payload_hash = Sha256(envelope.payload);
  return envelope;
}

TEST(WireEncoder, GivesWhatToWireGivesHoweverOftenItIsUsed) {
  EXPECT_TRUE(rc::check("one encoder for many events", [] {
    const WireProfile profile = *rc::gen::elementOf(kAllProfiles);
    const WireOptions options{.source = *rc::gen::element<std::string>("", "/shop/orders")};
    WireEncoder encoder(profile, options);
    for (int i = 0; i < 4; ++i) {
      const Envelope envelope = AnyEnvelope();
      const std::string headers_json = HeadersToJson(envelope.headers);
      RC_ASSERT(Owned(encoder.Encode(ViewOf(envelope, headers_json), envelope.unknown)) ==
                ToWire(envelope, profile, options));
    }
  }));
}

TEST(WireEncoder, WritesTheEnvelopeThatToJsonWrites) {
  EXPECT_TRUE(rc::check("value of the envelope profile", [] {
    const Envelope envelope = AnyEnvelope();
    RC_ASSERT(ToWire(envelope, WireProfile::kEnvelope).value == ToJson(envelope));
  }));
}

TEST(WireEncoder, ReadsHeadersInWhateverWayTheyAreStored) {
  Envelope envelope = FullEntry().envelope;
  envelope.headers = {{"a\"b", "c\\d"}, {"", ""}, {"\xc3\xa4", "\xf0\x9f\x9a\xa2"}, {"event-id", "1"}};
  const EnvelopeView view = ViewOf(envelope,
                                   " { \"a\\u0022b\" : \"c\\\\d\" ,\n\"\":\"\", \"\\u00e4\":\"\\ud83d\\udea2\", "
                                   "\"event-id\" :\"1\"} ");
  for (const WireProfile profile : kAllProfiles) {
    EXPECT_EQ(Owned(WireEncoder(profile).Encode(view)), ToWire(envelope, profile)) << ToString(profile);
  }
}

TEST(WireEncoder, WritesDocumentsThatOtherReadersTake) {
  EXPECT_TRUE(rc::check("documents", [] {
    const Envelope envelope = AnyEnvelope();
    for (const WireProfile profile : {WireProfile::kEnvelope, WireProfile::kCloudEventsStructured}) {
      const std::string value = ToWire(envelope, profile).value;
      RC_LOG() << value;
      RC_ASSERT(nlohmann::json::accept(value));
    }
  }));
}

TEST(WireEncoder, AllocatesNothingOnceItIsWarm) {
  NewEntry entry = FullEntry();
  entry.envelope.headers = {{"a header with a long name", "and a value that no small buffer holds"}, {"id", "x"}};
  entry.envelope.content_type = "application/json";
  const std::string headers_json = HeadersToJson(entry.envelope.headers);
  const EnvelopeView view = ViewOf(entry.envelope, headers_json);
  for (const WireProfile profile : kAllProfiles) {
    WireEncoder encoder(profile);
    encoder.Encode(view);
    const std::size_t before = allocations;
    for (int i = 0; i < 100; ++i) encoder.Encode(view);
    EXPECT_EQ(allocations, before) << ToString(profile);
  }
}

TEST(EnvelopeView, BecomesTheEnvelopeItWasMadeFrom) {
  EXPECT_TRUE(rc::check("view and back", [] {
    Envelope envelope = AnyEnvelope();
    envelope.unknown.clear();
    const std::string headers_json = HeadersToJson(envelope.headers);
    const auto owned = ToEnvelope(ViewOf(envelope, headers_json));
    RC_ASSERT(owned.has_value());
    RC_ASSERT(*owned == envelope);
  }));
}

TEST(EnvelopeView, RefusesWhatNoStoreWrites) {
  const Envelope envelope = FullEntry().envelope;
  for (const auto* headers : {"", "[]", "{\"a\":1}", "{\"a\":\"\\ud800\"}", "{"}) {
    const auto owned = ToEnvelope(ViewOf(envelope, headers));
    ASSERT_FALSE(owned) << headers;
    EXPECT_EQ(owned.error().kind(), ErrorKind::kCorrupt);
    EXPECT_EQ(owned.error().code(), "bad_row");
    EXPECT_EQ(owned.error().field(), "headers");
  }
  EnvelopeView view = ViewOf(envelope, "{}");
  view.payload_hash = view.payload_hash.substr(1);
  const auto owned = ToEnvelope(view);
  ASSERT_FALSE(owned);
  EXPECT_EQ(owned.error().code(), "bad_row");
  EXPECT_EQ(owned.error().field(), "payload_hash");
}

}  // namespace
}  // namespace sealane
