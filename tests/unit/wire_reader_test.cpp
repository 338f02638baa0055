// Protects the way back from a broker: whatever ToWire() wrote is read as the event it was, byte for byte, and what
// others write in the same forms is read as documented or refused with the field that is at fault.

#include "core/wire_reader.hpp"

#include <array>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/time_text.hpp"
#include "core/fingerprint.hpp"

namespace sealane {
namespace {

const Timestamp kPublishedAt = *ParseRfc3339("2024-05-06T08:00:00Z");
constexpr auto kId = "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f";

Result<Envelope> Read(const WireMessage& message, std::optional<WireProfile> expected = {}) {
  return FromWire({.topic = "orders",
                   .key = message.key,
                   .value = message.value,
                   .headers = message.headers,
                   .published_at = kPublishedAt},
                  expected);
}

std::string CodeOf(const Result<Envelope>& read) {
  if (read) return "read";
  EXPECT_EQ(read.error().kind(), ErrorKind::kRejected);
  EXPECT_FALSE(read.error().field().empty()) << read.error().ToString();
  return read.error().code();
}

std::string FieldOf(const Result<Envelope>& read) {
  return read ? "" : read.error().field();
}

// UTF-8 without NUL, with everything that needs escaping.
std::string Text() {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
      rc::gen::map(rc::gen::inRange(1, 128), [](int c) { return std::string(1, static_cast<char>(c)); }),
      rc::gen::element<std::string>("plain text", "o-1", "\"", "\\", "\x7f", "\xc3\xa4", "\xe2\x80\xa8", "\\u0041")));
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

// Distinct by the number. Reserved ones among them, in both cases: those are shipped with another name.
std::string HeaderName(int number) {
  const std::array<std::string, 6> names = {"event-id", "CE_id", "eventType", "sealane-x", "ce_", "content-type"};
  if (*rc::gen::arbitrary<bool>()) return names.at(static_cast<std::size_t>(number));
  return *rc::gen::element<std::string>("", "own", "own-", "x") + std::to_string(number) + Text();
}

// The required fields are there; everything else is as odd as it can be in the database.
Envelope AnyEnvelope() {
  Envelope envelope;
  envelope.id = EventId(*rc::gen::arbitrary<EventId::Bytes>());
  RC_PRE(!envelope.id.is_nil());
  envelope.kind = *rc::gen::element(EventKind::kEvent, EventKind::kCommand);
  envelope.schema_version = *rc::gen::inRange(1, std::numeric_limits<std::int32_t>::max());
  envelope.type = "T" + Text();
  envelope.key = "k" + Text();
  envelope.topic = "orders";
  for (std::string Envelope::*field : {&Envelope::tenant, &Envelope::correlation_id, &Envelope::causation_id,
                                       &Envelope::traceparent, &Envelope::tracestate, &Envelope::producer}) {
    envelope.*field = Text();
  }
  envelope.schema_id = *rc::gen::oneOf(rc::gen::exec(Text), rc::gen::element<std::string>("https://x.example/1", ""));
  envelope.aggregate = {Text(), Text(), std::nullopt};
  if (*rc::gen::arbitrary<bool>()) {
    envelope.aggregate.version = *rc::gen::inRange<std::int64_t>(1, std::numeric_limits<std::int64_t>::max());
  }
  const int headers = *rc::gen::inRange(0, 6);
  for (int i = 0; i < headers; ++i) envelope.headers.push_back({HeaderName(i), Text()});
  envelope.occurred_at = Timestamp{
      std::chrono::microseconds{*rc::gen::inRange<std::int64_t>(0, kTimestampMax.time_since_epoch().count())}};
  if (*rc::gen::arbitrary<bool>()) envelope.available_at = envelope.occurred_at;
  envelope.content_type =
      *rc::gen::element<std::string>("application/json", "application/a+json; v=1", "text/plain",
                                     "application/cloudevents+json", "application/vnd.sealane.event+json", "");
  envelope.payload =
      *rc::gen::oneOf(rc::gen::element<std::string>(" {\"a\":1,\"a\":2}\n", "null", "{\"open\":", " \"text\" ", ""),
                      rc::gen::arbitrary<std::string>());
  envelope.payload_hash = Sha256(envelope.payload);
  return envelope;
}

// What a profile carries of an event.
Envelope CarriedBy(WireProfile profile, const Envelope& event) {
  if (profile == WireProfile::kCloudEvents || profile == WireProfile::kCloudEventsStructured) return event;
  Envelope carried;
  carried.id = event.id;
  carried.type = event.type;
  carried.topic = "orders";
  carried.key = event.aggregate.id.empty() ? event.key : event.aggregate.id;
  carried.traceparent = event.traceparent;
  carried.tracestate = event.tracestate;
  carried.headers = event.headers;
  carried.occurred_at = kPublishedAt;
  carried.payload = event.payload;
  carried.payload_hash = event.payload_hash;
  return carried;
}

void CheckRoundTrip(const Envelope& event, const Envelope& expected, WireProfile profile) {
  const WireMessage message = ToWire(event, profile);
  for (const std::optional<WireProfile> asked : {std::optional<WireProfile>{}, std::optional(profile)}) {
    const auto read = Read(message, asked);
    if (!read) RC_FAIL(read.error().ToString());
    RC_LOG() << ToJson(event) << "\n" << ToJson(*read) << "\n";
    RC_ASSERT(*read == expected);
  }
}

TEST(WireReader, GivesBackTheWholeEventFromItsEnvelope) {
  EXPECT_TRUE(rc::check("envelope", [] {
    Envelope event = AnyEnvelope();
    event.topic = "t" + Text();
    if (*rc::gen::arbitrary<bool>()) event.unknown.emplace_back("x" + Text(), "[1, 2]");
    CheckRoundTrip(event, event, WireProfile::kEnvelope);
  }));
}

TEST(WireReader, GivesBackWhatTheOtherProfilesCarry) {
  for (const WireProfile profile :
       {WireProfile::kCloudEvents, WireProfile::kCloudEventsStructured, WireProfile::kDebezium}) {
    EXPECT_TRUE(rc::check(std::string(ToString(profile)), [profile] {
      const Envelope event = AnyEnvelope();
      CheckRoundTrip(event, CarriedBy(profile, event), profile);
    }));
  }
}

TEST(WireReader, NeverGivesAnEventWithoutAnIdOrWithAnotherHash) {
  EXPECT_TRUE(rc::check("any bytes", [] {
    WireMessage message = ToWire(AnyEnvelope(), *rc::gen::element(WireProfile::kEnvelope, WireProfile::kCloudEvents,
                                                                  WireProfile::kCloudEventsStructured,
                                                                  WireProfile::kDebezium, WireProfile::kRaw));
    std::vector<std::string*> parts = {&message.value};
    for (Header& header : message.headers) parts.insert(parts.end(), {&header.name, &header.value});
    for (int flips = *rc::gen::inRange(1, 4); flips > 0; --flips) {
      std::string& bytes = *parts.at(*rc::gen::inRange<std::size_t>(0, parts.size()));
      if (!bytes.empty()) bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
    }
    const auto read = Read(message);
    if (read) {
      RC_ASSERT(!read->id.is_nil());
      RC_ASSERT(read->payload_hash == Sha256(read->payload));
    } else {
      RC_ASSERT(read.error().kind() == ErrorKind::kRejected);
    }
  }));
}

TEST(WireReader, RefusesARawMessageBecauseItHasNoId) {
  const WireMessage message{.key = "o-1", .value = "{}", .headers = {{"region", "eu"}}};
  EXPECT_EQ(CodeOf(Read(message, WireProfile::kRaw)), "event_id_missing");
  EXPECT_EQ(CodeOf(Read(message)), "unreadable_message");
}

TEST(WireReader, ReadsTheExpectedFormWhenTheHeadersAreLost) {
  const WireMessage message{
      .key = {},
      .value = R"({"sealane":1,"id":"018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f","type":"T","topic":"mail","key":"k",)"
               R"("occurred_at":"2024-05-06T07:08:09Z","payload":{}})",
      .headers = {}};
  EXPECT_EQ(CodeOf(Read(message)), "unreadable_message");
  const auto read = Read(message, WireProfile::kEnvelope);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->topic, "mail");
  for (const WireProfile profile : {WireProfile::kEnvelope, WireProfile::kCloudEventsStructured}) {
    const auto broken = Read({.key = {}, .value = "{", .headers = {}}, profile);
    EXPECT_EQ(CodeOf(broken), "invalid_json");
    EXPECT_EQ(FieldOf(broken), "value");
  }
}

TEST(WireReader, TakesEnvelopeHeadersForWhatTheyAreAndTheValueForTheTruth) {
  WireMessage message = ToWire(*Read({.key = "k", .value = "{}", .headers = {{"id", kId}, {"eventType", "T"}}}),
                               WireProfile::kEnvelope);
  message.headers.front().value = "forged";
  EXPECT_EQ(Read(message)->id.ToString(), kId);
  for (Header& header : message.headers) {
    if (header.name == "content-type") header = {"Content-Type", "Application/Vnd.Sealane.Event+JSON ; v=1"};
  }
  EXPECT_EQ(CodeOf(Read(message)), "read");
}

// ---- CloudEvents of others ----

WireMessage Foreign(Headers more = {}) {
  WireMessage message{.key = "o-1",
                      .value = "hello",
                      .headers = {{"ce_specversion", "1.0"},
                                  {"ce_id", "A234-1234-1234"},
                                  {"ce_source", "https://shop.example/orders"},
                                  {"ce_type", "com.example.placed"}}};
  message.headers.insert(message.headers.end(), more.begin(), more.end());
  return message;
}

WireMessage With(WireMessage message, std::string_view name, std::string_view value) {
  for (Header& header : message.headers) {
    if (header.name == name) header.value = value;
  }
  return message;
}

TEST(ForeignCloudEvent, IsReadWithDefaultsForWhatItDoesNotSay) {
  const auto read = Read(Foreign({{"ce_myext", "7"}, {"region", "eu"}}));
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->id, ForeignEventId("https://shop.example/orders", "A234-1234-1234"));
  EXPECT_EQ(read->type, "com.example.placed");
  EXPECT_EQ(read->topic, "orders");
  EXPECT_EQ(read->key, "o-1");
  EXPECT_EQ(read->producer, "https://shop.example/orders");
  EXPECT_EQ(read->kind, EventKind::kEvent);
  EXPECT_EQ(read->schema_version, 1);
  EXPECT_EQ(read->occurred_at, kPublishedAt);
  EXPECT_EQ(read->content_type, "");
  EXPECT_EQ(read->payload, "hello");
  EXPECT_EQ(read->payload_hash, Sha256("hello"));
  EXPECT_EQ(read->headers, (Headers{{"ce_id", "A234-1234-1234"}, {"ce_myext", "7"}, {"region", "eu"}}));
}

TEST(ForeignCloudEvent, HasTheSameIdEveryTimeAndAnotherForAnotherSource) {
  const EventId id = ForeignEventId("/a", "1");
  // SHA-256 of 'c', 00000002 "/a", 00000001 "1", with version and variant set: part of the stored format.
  EXPECT_EQ(id.ToString(), "59c5b6b4-3cab-8297-9fe8-6646613ad076");
  EXPECT_EQ(Read(With(With(Foreign(), "ce_source", "/a"), "ce_id", "1"))->id, id);
  EXPECT_NE(ForeignEventId("/b", "1"), id);
  EXPECT_NE(ForeignEventId("/", "a1"), id);
  EXPECT_EQ(Read(With(Foreign(), "ce_id", "018F4E2A-1B2C-7D3E-8F40-5A6B7C8D9E0F"))->id.ToString(), kId);
}

TEST(ForeignCloudEvent, KeepsAKeyThatIsNoTextAsHexDigits) {
  WireMessage message = Foreign();
  message.key = std::string("\x00\x2a", 2);
  EXPECT_EQ(Read(message)->key, "0x002a");
  message.headers.push_back({"ce_partitionkey", "p"});
  EXPECT_EQ(Read(message)->key, "p");
}

TEST(ForeignCloudEvent, LosesOnlyHeadersThatAreNoText) {
  const auto read = Read(Foreign({{"bytes", "\xff"}, {"nul", std::string(1, '\0')}, {"a", "1"}, {"a", "2"}}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->headers, (Headers{{"ce_id", "A234-1234-1234"}, {"a", "2"}}));
}

TEST(ForeignCloudEvent, MayCarryItsTraceAsAttributes) {
  const auto read = Read(Foreign({{"ce_traceparent", "00-a"}, {"ce_tracestate", "x=1"}, {"tracestate", "y=2"}}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->traceparent, "00-a");
  EXPECT_EQ(read->tracestate, "y=2");
}

TEST(ForeignCloudEvent, IsRefusedWithTheFieldAtFault) {
  struct Case {
    WireMessage message;
    std::string code;
    std::string field;
  };
  const std::vector<Case> cases = {
      {Foreign({{"ce_type", "again"}}), "field_doubled", "ce_type"},
      {Foreign({{"CE_ID", "again"}}), "field_doubled", "CE_ID"},
      {Foreign({{"content-type", "a/b"}, {"Content-Type", "a/b"}}), "field_doubled", "content-type"},
      {With(Foreign(), "ce_id", "00000000-0000-0000-0000-000000000000"), "nil_event_id", "id"},
      {With(Foreign(), "ce_id", ""), "field_missing", "id"},
      {With(Foreign(), "ce_type", ""), "field_missing", "type"},
      {With(Foreign(), "ce_source", ""), "field_missing", "source"},
      {With(Foreign(), "ce_specversion", "0.3"), "envelope_version_unsupported", "specversion"},
      {With(Foreign(), "ce_specversion", ""), "field_missing", "specversion"},
      {With(Foreign(), "ce_type", "\xff"), "invalid_utf8", "ce_type"},
      {With(Foreign(), "ce_type", std::string_view("a\0b", 3)), "nul_in_text", "ce_type"},
      {Foreign({{"ce_time", "yesterday"}}), "field_invalid", "time"},
      {Foreign({{"ce_kind", "rumour"}}), "field_invalid", "kind"},
      {Foreign({{"ce_schemaversion", "0"}}), "field_invalid", "schemaversion"},
      {Foreign({{"ce_schemaversion", "2147483648"}}), "field_invalid", "schemaversion"},
      {Foreign({{"ce_schemaversion", "1x"}}), "field_invalid", "schemaversion"},
      {Foreign({{"ce_aggregateversion", "-1"}}), "field_invalid", "aggregateversion"},
      {Foreign({{"ce_availableat", "2024-13-01T00:00:00Z"}}), "field_invalid", "availableat"},
      {Foreign({{"ce_payloadsha256", "12"}}), "field_invalid", "payloadsha256"},
      {Foreign({{"ce_payloadsha256", std::string(64, '0')}}), "payload_hash_mismatch", "payload"},
      {Foreign({{"content-type", "application/cloudevents+avro"}}), "unreadable_message", "content-type"},
  };
  for (const Case& c : cases) {
    const auto read = Read(c.message);
    EXPECT_EQ(CodeOf(read), c.code) << c.field;
    EXPECT_EQ(FieldOf(read), c.field);
  }
}

TEST(BinaryCloudEvent, MayHaveACloudEventAsItsPayload) {
  const std::string inner = R"({"specversion":"1.0","id":"inner","source":"/i","type":"Inner"})";
  WireMessage message = Foreign({{"content-type", "application/cloudevents+json"}});
  message.value = inner;
  EXPECT_EQ(Read(message)->type, "Inner") << "a structured event that repeats its attributes as headers";
  message.headers.push_back({"ce_payloadsha256", ToHex(Sha256(inner))});
  EXPECT_EQ(Read(message)->type, "com.example.placed");
  EXPECT_EQ(Read(message)->payload, inner);
}

WireMessage Structured(std::string_view members) {
  return {.key = "o-1",
          .value = R"({"specversion":"1.0","id":"1","source":"/a","type":"T")" + std::string(members) + "}",
          .headers = {{"content-type", "application/cloudevents+json; charset=UTF-8"}}};
}

TEST(StructuredCloudEvent, KeepsTheBytesOfItsData) {
  EXPECT_EQ(Read(Structured(R"(, "data" : {"b" :1, "a":1e400 } )"))->payload, R"({"b" :1, "a":1e400 })");
  EXPECT_EQ(Read(Structured(R"(,"data":null)"))->payload, "null");
  EXPECT_EQ(Read(Structured(R"(,"data":"text")"))->payload, R"("text")");
  EXPECT_EQ(Read(Structured(R"(,"data":1)"))->content_type, "application/json");
  EXPECT_EQ(Read(Structured(""))->payload, "");
  EXPECT_EQ(Read(Structured(R"(,"data_base64":"AP8=")"))->payload, std::string("\x00\xff", 2));
}

TEST(StructuredCloudEvent, TakesATextForDataThatIsNoJson) {
  EXPECT_EQ(Read(Structured(R"(,"datacontenttype":"text/plain","data":"a\nb")"))->payload, "a\nb");
  EXPECT_EQ(Read(Structured(R"(,"datacontenttype":"text/xml","data":{"a":1})"))->payload, R"({"a":1})");
}

TEST(StructuredCloudEvent, TakesNumbersAndTextsForNumbersAndNullForNothing) {
  const auto read = Read(Structured(
      R"(,"schemaversion":"3","aggregateversion":9007199254740993,"tenantid":null,"flag":true,"subject":"o-7")"));
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->schema_version, 3);
  EXPECT_EQ(read->aggregate.version, 9'007'199'254'740'993);
  EXPECT_EQ(read->aggregate.id, "o-7");
  EXPECT_EQ(read->tenant, "");
  EXPECT_EQ(read->headers, (Headers{{"ce_id", "1"}, {"ce_flag", "true"}}));
}

TEST(StructuredCloudEvent, IsRefusedWithTheFieldAtFault) {
  struct Case {
    std::string_view members;
    std::string_view code;
    std::string_view field;
  };
  for (const Case& c :
       {Case{R"(,"type":"again")", "field_doubled", "type"}, Case{R"(,"x":1,"x":2)", "field_doubled", "x"},
        Case{R"(,"data":1,"data":2)", "field_doubled", "data"},
        Case{R"(,"data":1,"data_base64":"")", "field_doubled", "data"},
        Case{R"(,"data_base64":"A")", "field_invalid", "data_base64"},
        Case{R"(,"data_base64":1)", "field_invalid", "data_base64"}, Case{R"(,"x":{})", "field_invalid", "x"},
        Case{R"(,"tenantid":"a\u0000")", "nul_in_text", "tenantid"},
        Case{R"(,"schemaversion":1.5)", "field_invalid", "schemaversion"},
        Case{R"(,"payloadsha256":"00")", "field_invalid", "payloadsha256"}}) {
    const auto read = Read(Structured(c.members));
    EXPECT_EQ(CodeOf(read), c.code) << c.members;
    EXPECT_EQ(FieldOf(read), c.field) << c.members;
  }
  EXPECT_EQ(CodeOf(Read(Structured(","))), "invalid_json");
  WireMessage list = Structured("");
  list.value = "[]";
  EXPECT_EQ(CodeOf(Read(list)), "field_invalid");
}

// ---- Debezium ----

TEST(DebeziumReader, ReadsWhatTheRouterPlacesInHeaders) {
  const auto read = Read({.key = "o-1",
                          .value = std::string("\x00\x01", 2),
                          .headers = {{"id", kId}, {"eventType", "T"}, {"tenant-id", "t1"}, {"event-version", "2"}}});
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->id.ToString(), kId);
  EXPECT_EQ(read->key, "o-1");
  EXPECT_EQ(read->tenant, "t1");
  EXPECT_EQ(read->schema_version, 2);
  EXPECT_EQ(read->occurred_at, kPublishedAt);
  EXPECT_EQ(read->aggregate, Aggregate{});
  EXPECT_TRUE(read->headers.empty());
}

TEST(DebeziumReader, RefusesAnEventWithoutTypeOrUsableId) {
  const auto with = [](Headers headers) {
    return WireMessage{.key = "k", .value = "", .headers = std::move(headers)};
  };
  EXPECT_EQ(CodeOf(Read(with({{"id", kId}}))), "field_missing");
  EXPECT_EQ(FieldOf(Read(with({{"id", kId}}))), "eventType");
  EXPECT_EQ(CodeOf(Read(with({{"id", "00000000-0000-0000-0000-000000000000"}, {"eventType", "T"}}))), "nil_event_id");
  EXPECT_EQ(CodeOf(Read(with({{"id", kId}, {"ID", kId}, {"eventType", "T"}}))), "field_doubled");
  EXPECT_EQ(CodeOf(Read(with({{"id", kId}, {"eventType", "T"}, {"event-version", "0"}}))), "field_invalid");
  EXPECT_EQ(CodeOf(Read(with({{"id", "7"}, {"eventType", "T"}}))), "unreadable_message");
  EXPECT_EQ(CodeOf(Read(with({{"id", "7"}, {"eventType", "T"}}), WireProfile::kDebezium)), "field_invalid");
  EXPECT_EQ(CodeOf(Read(with({{"eventType", "T"}}), WireProfile::kDebezium)), "event_id_missing");
}

// ---- what no database would take ----

TEST(WireReader, RefusesMoreHeadersThanAnybodyMeans) {
  Headers headers = {{"id", kId}, {"eventType", "T"}};
  while (headers.size() < kWireHeadersMax) headers.push_back({"h" + std::to_string(headers.size()), ""});
  EXPECT_TRUE(Read({.key = "k", .value = "", .headers = headers}));
  headers.push_back({"one more", ""});
  EXPECT_EQ(CodeOf(Read({.key = "k", .value = "", .headers = headers})), "too_many_headers");
}

TEST(WireReader, RefusesNamesThatNoIndexHolds) {
  const auto with_tenant = [](std::size_t size) {
    return Read({.key = "k",
                 .value = "",
                 .headers = {{"id", kId}, {"eventType", "T"}, {"tenant-id", std::string(size, 't')}}});
  };
  EXPECT_TRUE(with_tenant(255));
  EXPECT_EQ(CodeOf(with_tenant(256)), "field_too_long");
  EXPECT_EQ(FieldOf(with_tenant(256)), "tenant");
}

}  // namespace
}  // namespace sealane
