// Protects the JSON envelope: what goes in comes out byte for byte, and whatever is not an envelope is refused with
// the field and the place.

#include "sealane/envelope.hpp"

#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/time_text.hpp"

namespace sealane {
namespace {

// More cases than the default; RC_PARAMS in the environment still wins.
[[maybe_unused]] const int kMoreCases = setenv("RC_PARAMS", "max_success=500", 0);

constexpr std::string_view kId = "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f";

Envelope Minimal(std::string payload = R"({"a":1})", std::string content_type = "application/json") {
  Envelope envelope;
  envelope.id = *EventId::Parse(kId);
  envelope.type = "OrderPlaced";
  envelope.topic = "orders";
  envelope.key = "o-1";
  envelope.content_type = std::move(content_type);
  envelope.occurred_at = *ParseRfc3339("2024-05-06T07:08:09.123456Z");
  envelope.payload = std::move(payload);
  envelope.payload_hash = Sha256(envelope.payload);
  return envelope;
}

Envelope Full() {
  Envelope envelope = Minimal();
  envelope.kind = EventKind::kCommand;
  envelope.schema_version = 3;
  envelope.tenant = "t1";
  envelope.aggregate = {.type = "order", .id = "o-1", .version = 7};
  envelope.correlation_id = "corr";
  envelope.causation_id = "cause";
  envelope.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  envelope.tracestate = "vendor=1";
  envelope.producer = "shop";
  envelope.schema_id = "urn:schema:order:3";
  envelope.headers = {{"region", "eu"}, {"empty", ""}};
  envelope.available_at = *ParseRfc3339("2024-05-07T00:00:00Z");
  return envelope;
}

// A well-formed document in which one member can be replaced or added.
std::string Document(std::string_view member, std::string_view json) {
  std::vector<std::pair<std::string, std::string>> members = {
      {"sealane", "1"},   {"id", fmt::format("\"{}\"", kId)},          {"type", "\"T\""}, {"topic", "\"orders\""},
      {"key", "\"o-1\""}, {"occurred_at", "\"2024-05-06T07:08:09Z\""}, {"payload", "{}"}};
  std::string text = "{";
  bool replaced = false;
  for (auto& [name, value] : members) {
    if (name == member) {
      replaced = true;
      value = json;
    }
    if (!value.empty()) text += fmt::format("\"{}\":{},", name, value);
  }
  if (!replaced) text += fmt::format("\"{}\":{},", member, json);
  text.back() = '}';
  return text;
}

void ExpectRefused(std::string_view json, std::string_view code, std::string_view field) {
  const auto envelope = EnvelopeFromJson(json);
  ASSERT_FALSE(envelope) << json;
  EXPECT_EQ(envelope.error().kind(), ErrorKind::kRejected) << json;
  EXPECT_EQ(envelope.error().code(), code) << json << envelope.error().message();
  EXPECT_EQ(envelope.error().field(), field) << json;
  EXPECT_NE(envelope.error().message().find("at byte "), std::string::npos) << envelope.error().message();
}

TEST(Envelope, WritesOnlyWhatIsThere) {
  EXPECT_EQ(
      ToJson(Minimal()),
      R"({"sealane":1,"id":"018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f","kind":"event","type":"OrderPlaced",)"
      R"("schema_version":1,"topic":"orders","key":"o-1","content_type":"application/json",)"
      R"("occurred_at":"2024-05-06T07:08:09.123456Z",)"
      R"("payload_sha256":"015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862","payload":{"a":1}})");
}

TEST(Envelope, WritesEveryFieldInAFixedOrder) {
  EXPECT_EQ(
      ToJson(Full()),
      R"({"sealane":1,"id":"018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f","kind":"command","type":"OrderPlaced",)"
      R"("schema_version":3,"tenant":"t1","topic":"orders","key":"o-1",)"
      R"("aggregate":{"type":"order","id":"o-1","version":7},"correlation_id":"corr","causation_id":"cause",)"
      R"("traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"vendor=1",)"
      R"("producer":"shop","schema_id":"urn:schema:order:3","content_type":"application/json",)"
      R"("headers":{"region":"eu","empty":""},"occurred_at":"2024-05-06T07:08:09.123456Z",)"
      R"("available_at":"2024-05-07T00:00:00.000000Z",)"
      R"("payload_sha256":"015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862","payload":{"a":1}})");
}

TEST(Envelope, RoundTrips) {
  EXPECT_EQ(*EnvelopeFromJson(ToJson(Minimal())), Minimal());
  EXPECT_EQ(*EnvelopeFromJson(ToJson(Full())), Full());
}

TEST(Envelope, KeepsPayloadBytesExactly) {
  for (const std::string payload : {R"({"b":1,"a":2,"a":3})", " \n{ \"a\" : 1 }\t ", "123456789012345678901234567890",
                                    "1.10", "\"\\u00e4\\/\"", "null", R"({"lone":"\ud800"})", "[]"}) {
    const Envelope envelope = Minimal(payload);
    EXPECT_NE(ToJson(envelope).find("\"payload\":" + payload + "}"), std::string::npos);
    EXPECT_EQ(*EnvelopeFromJson(ToJson(envelope)), envelope) << payload;
  }
}

TEST(Envelope, ShipsOtherBytesAsBase64) {
  const std::pair<std::string, std::string> cases[] = {
      {std::string("\x00\xff\x01", 3), "application/octet-stream"},
      {"{\"a\":1}", "text/plain"},
      {"not json", "application/json"},
      {"\"\xff\"", "application/json"},
      {"", "application/json"},
      {"", "application/x-protobuf"},
      {std::string(65, '[') + std::string(65, ']'), "application/json"},
      {"{}", ""}};
  for (const auto& [payload, content_type] : cases) {
    const Envelope envelope = Minimal(payload, content_type);
    const std::string json = ToJson(envelope);
    EXPECT_NE(json.find("\"payload_base64\":\"" + ToBase64(payload) + "\"}"), std::string::npos) << json;
    EXPECT_EQ(*EnvelopeFromJson(json), envelope);
  }
}

TEST(Envelope, EmbedsEveryJsonContentType) {
  for (const auto* content_type : {"application/json", "Application/JSON", "application/json; charset=utf-8",
                                   "application/vnd.shop.order+json ; v=1"}) {
    EXPECT_NE(ToJson(Minimal("{}", content_type)).find("\"payload\":{}}"), std::string::npos) << content_type;
  }
  for (const auto* content_type :
       {"application/jsonx", "text/plain; x=application/json", "+json", "json", "application/json+xml"}) {
    EXPECT_NE(ToJson(Minimal("{}", content_type)).find("payload_base64"), std::string::npos) << content_type;
  }
}

TEST(Envelope, TakesPayloadsAsDeepAsAdmissionDoes) {
  const Envelope envelope = Minimal(std::string(64, '[') + std::string(64, ']'));
  EXPECT_EQ(*EnvelopeFromJson(ToJson(envelope)), envelope);
}

TEST(Envelope, KeepsUnknownFields) {
  const auto envelope = EnvelopeFromJson(Document("future", R"( {"a":[1, 2],"a":1.10} )"));
  ASSERT_TRUE(envelope);
  ASSERT_EQ(envelope->unknown.size(), 1U);
  EXPECT_EQ(envelope->unknown[0].first, "future");
  EXPECT_EQ(envelope->unknown[0].second, R"({"a":[1, 2],"a":1.10})");
  EXPECT_EQ(*EnvelopeFromJson(ToJson(*envelope)), *envelope);
}

TEST(Envelope, FillsInWhatMayBeLeftOut) {
  const auto envelope = EnvelopeFromJson(Document("payload", " [1, 2] "));
  ASSERT_TRUE(envelope);
  EXPECT_EQ(envelope->kind, EventKind::kEvent);
  EXPECT_EQ(envelope->schema_version, 1);
  EXPECT_EQ(envelope->content_type, "application/json");
  EXPECT_EQ(envelope->payload, "[1, 2]");  // without a hash, whitespace around it is not the payload's
  EXPECT_EQ(envelope->payload_hash, Sha256("[1, 2]"));
}

TEST(Envelope, LetsTheHashDecideAboutWhitespace) {
  const std::string hash_of_exact = ToHex(Sha256(" [1] "));
  const std::string hash_of_trimmed = ToHex(Sha256("[1]"));
  const auto with_hash = [](std::string_view hash) {
    std::string text = Document("payload", " [1] ");
    text.insert(1, fmt::format("\"payload_sha256\":\"{}\",", hash));
    return text;
  };
  EXPECT_EQ(EnvelopeFromJson(with_hash(hash_of_exact))->payload, " [1] ");
  EXPECT_EQ(EnvelopeFromJson(with_hash(hash_of_trimmed))->payload, "[1]");
  ExpectRefused(with_hash(std::string(64, '0')), "payload_hash_mismatch", "payload");
}

TEST(Envelope, RefusesAPayloadThatContradictsItsHash) {
  std::string json = ToJson(Minimal());
  json.replace(json.find("{\"a\":1}"), 7, "{\"a\":2}");
  ExpectRefused(json, "payload_hash_mismatch", "payload");
  json = ToJson(Minimal("abc", "text/plain"));
  json.replace(json.find("YWJj"), 4, "YWJk");
  ExpectRefused(json, "payload_hash_mismatch", "payload");
}

TEST(Envelope, RefusesMissingFields) {
  for (const auto* field : {"sealane", "id", "type", "topic", "key", "occurred_at", "payload"}) {
    ExpectRefused(Document(field, ""), "field_missing", field);
  }
  for (const auto* field : {"type", "topic", "key"}) ExpectRefused(Document(field, "\"\""), "field_missing", field);
}

TEST(Envelope, RefusesMistypedFields) {
  const std::pair<const char*, const char*> cases[] = {{"sealane", "\"1\""},
                                                       {"sealane", "1.0"},
                                                       {"id", "7"},
                                                       {"id", "\"o-1\""},
                                                       {"kind", "\"wish\""},
                                                       {"kind", "null"},
                                                       {"type", "1"},
                                                       {"type", "null"},
                                                       {"schema_version", "0"},
                                                       {"schema_version", "-1"},
                                                       {"schema_version", "1.5"},
                                                       {"schema_version", "2147483648"},
                                                       {"schema_version", "\"1\""},
                                                       {"tenant", "null"},
                                                       {"tenant", "[]"},
                                                       {"topic", "{}"},
                                                       {"key", "true"},
                                                       {"aggregate", "\"order\""},
                                                       {"aggregate", "null"},
                                                       {"headers", "[]"},
                                                       {"occurred_at", "0"},
                                                       {"occurred_at", "\"now\""},
                                                       {"available_at", "\"\""},
                                                       {"available_at", "\"2024-02-30T00:00:00Z\""},
                                                       {"payload_sha256", "\"ab\""},
                                                       {"payload_sha256", "1"},
                                                       {"content_type", "1"}};
  for (const auto& [field, json] : cases) ExpectRefused(Document(field, json), "field_invalid", field);
  ExpectRefused(Document("aggregate", R"({"type":1})"), "field_invalid", "aggregate.type");
  ExpectRefused(Document("aggregate", R"({"version":0})"), "field_invalid", "aggregate.version");
  ExpectRefused(Document("aggregate", R"({"version":9223372036854775808})"), "field_invalid", "aggregate.version");
  ExpectRefused(Document("aggregate", R"({"color":1})"), "field_invalid", "aggregate.color");
  ExpectRefused(Document("headers", R"({"a":1})"), "field_invalid", "headers.a");
  ExpectRefused(
      Document("payload", "").substr(0, Document("payload", "").size() - 1) + R"(,"payload_base64":"Zh=="})",
      "field_invalid", "payload_base64");
}

TEST(Envelope, RefusesDoubledFields) {
  for (const auto* field : {"sealane", "id", "type", "topic", "payload", "tenant", "payload_sha256"}) {
    std::string json = ToJson(Full());
    json.insert(1, nlohmann::json::parse(json).contains(field)
                       ? fmt::format("\"{}\":{},", field, nlohmann::json::parse(json)[field].dump())
                       : "");
    ExpectRefused(json, "field_doubled", field);
  }
  ExpectRefused(Document("aggregate", R"({"id":"a","id":"a"})"), "field_doubled", "aggregate.id");
  ExpectRefused(Document("headers", R"({"a":"1","b":"2","\u0061":"3"})"), "field_doubled", "headers.a");
  ExpectRefused(Document("payload_base64", "\"\""), "field_doubled", "payload");
}

TEST(Envelope, RefusesOtherVersions) {
  for (const auto* version : {"0", "2", "99"}) {
    ExpectRefused(Document("sealane", version), "envelope_version_unsupported", "sealane");
  }
  // Said first, whatever else is unfamiliar in a newer form.
  ExpectRefused(R"({"id":5,"sealane":2})", "envelope_version_unsupported", "sealane");
}

TEST(Envelope, RefusesTheNilId) {
  ExpectRefused(Document("id", "\"00000000-0000-0000-0000-000000000000\""), "nil_event_id", "id");
}

TEST(Envelope, RefusesTextThatCannotBeStored) {
  ExpectRefused(Document("key", R"("a\u0000b")"), "nul_in_text", "key");
  ExpectRefused(Document("key", R"("a\ud800b")"), "invalid_json", "key");
  ExpectRefused(Document("headers", R"({"a\u0000":"1"})"), "nul_in_text", "headers");
  ExpectRefused(Document("headers", R"({"a":"\u0000"})"), "nul_in_text", "headers.a");
}

TEST(Envelope, RefusesWhatIsNoObject) {
  for (const auto* json : {"[]", "1", "null", "\"x\""}) ExpectRefused(json, "field_invalid", "(document)");
  for (const auto* json : {"", "{", "{}x", "\xff"}) ExpectRefused(json, "invalid_json", "");
}

TEST(Envelope, NamesThePlaceOfTheFault) {
  const auto envelope = EnvelopeFromJson(R"({"sealane":1,"id":7})");
  ASSERT_FALSE(envelope);
  EXPECT_EQ(envelope.error().message(), "envelope field id at byte 18: expected a string, found a JSON number");
}

TEST(Envelope, RefusesEveryTruncation) {
  const std::string json = ToJson(Full());
  for (std::size_t size = 0; size < json.size(); ++size) {
    const auto envelope = EnvelopeFromJson(std::string_view(json).substr(0, size));
    ASSERT_FALSE(envelope) << size;
    EXPECT_EQ(envelope.error().code(), "invalid_json") << size;
  }
}

TEST(Envelope, IsValidJsonForOtherReaders) {
  Envelope envelope = Full();
  envelope.key = "quote \" backslash \\ newline \n bell \a \xf0\x9f\x9a\x80";
  const auto other = nlohmann::json::parse(ToJson(envelope));
  EXPECT_EQ(other["key"].get<std::string>(), envelope.key);
  EXPECT_EQ(other["payload"]["a"], 1);
}

TEST(EnvelopeDeathTest, RefusesToPassOnAnUnknownFieldThatIsNotJson) {
  Envelope envelope = Minimal();
  envelope.unknown = {{"future", "{"}};
  EXPECT_DEATH(static_cast<void>(ToJson(envelope)), "holds a JSON value");
}

// UTF-8 without NUL, with everything that needs escaping.
rc::Gen<std::string> Text() {
  return rc::gen::map(
      rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
          rc::gen::map(rc::gen::inRange(1, 128), [](int c) { return std::string(1, static_cast<char>(c)); }),
          rc::gen::element<std::string>("\"", "\\", "\n", "\xc3\xa4", "\xe2\x80\xa8", "\xef\xbf\xbd",
                                        "\xf0\x9f\x9a\x80", "\\u0041"))),
      [](const std::vector<std::string>& pieces) {
        std::string text;
        for (const std::string& piece : pieces) text += piece;
        return text;
      });
}
std::string NonEmptyText() {
  return *rc::gen::suchThat(Text(), [](const std::string& text) { return !text.empty(); });
}
std::string Json() {
  return *rc::gen::element<std::string>("null", "[1,  2]", "{\"a\":{\"a\":1,\"a\":2}}", "1.10", "\"\\ud800\"",
                                        "123456789012345678901234567890", "\"\xc3\xa4\"", "{}");
}
Timestamp Time() {
  return Timestamp{
      std::chrono::microseconds{*rc::gen::inRange<std::int64_t>(0, kTimestampMax.time_since_epoch().count())}};
}

Envelope AnyEnvelope() {
  Envelope envelope;
  envelope.id =
      EventId(*rc::gen::suchThat<EventId::Bytes>([](const auto& bytes) { return !EventId(bytes).is_nil(); }));
  envelope.kind = *rc::gen::element(EventKind::kEvent, EventKind::kCommand);
  envelope.type = NonEmptyText();
  envelope.schema_version = *rc::gen::inRange(1, std::numeric_limits<std::int32_t>::max());
  envelope.topic = NonEmptyText();
  envelope.key = NonEmptyText();
  for (std::string Envelope::*field :
       {&Envelope::tenant, &Envelope::correlation_id, &Envelope::causation_id, &Envelope::traceparent,
        &Envelope::tracestate, &Envelope::producer, &Envelope::schema_id}) {
    envelope.*field = *Text();
  }
  envelope.aggregate.type = *Text();
  envelope.aggregate.id = *Text();
  if (*rc::gen::arbitrary<bool>()) {
    envelope.aggregate.version = *rc::gen::inRange<std::int64_t>(1, std::numeric_limits<std::int64_t>::max());
  }
  const int headers = *rc::gen::inRange(0, 4);
  for (int i = 0; i < headers; ++i) envelope.headers.push_back({std::to_string(i) + *Text(), *Text()});
  envelope.occurred_at = Time();
  if (*rc::gen::arbitrary<bool>()) envelope.available_at = Time();
  const int unknown = *rc::gen::inRange(0, 3);
  for (int i = 0; i < unknown; ++i) envelope.unknown.emplace_back("x" + *Text(), Json());

  envelope.content_type =
      *rc::gen::element<std::string>("application/json", "application/a+json; v=1", "text/plain", "");
  if (*rc::gen::arbitrary<bool>()) {
    const auto space = rc::gen::element<std::string>("", " ", "\n\t");
    envelope.payload = *space + Json() + *space;
  } else {
    envelope.payload = *rc::gen::arbitrary<std::string>();
  }
  envelope.payload_hash = Sha256(envelope.payload);
  return envelope;
}

TEST(Envelope, RoundTripsWhateverItHolds) {
  EXPECT_TRUE(rc::check("round trip", [] {
    const Envelope envelope = AnyEnvelope();
    const std::string json = ToJson(envelope);
    const auto read = EnvelopeFromJson(json);
    RC_LOG() << json;
    RC_ASSERT(read.has_value());
    RC_ASSERT(*read == envelope);
    RC_ASSERT(ToJson(*read) == json);
  }));
}

TEST(Envelope, SurvivesDamage) {
  EXPECT_TRUE(rc::check("damage", [] {
    const Envelope envelope = AnyEnvelope();
    std::string json = ToJson(envelope);
    const auto at = *rc::gen::inRange<std::size_t>(0, json.size());
    json[at] = *rc::gen::arbitrary<char>();
    const auto read = EnvelopeFromJson(json);
    // Whatever is accepted carries a payload that fits its hash, or the payload's name itself was hit.
    if (read) RC_ASSERT(Sha256(read->payload) == read->payload_hash);
  }));
}

}  // namespace
}  // namespace sealane
