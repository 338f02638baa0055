// Protects the log from what could not be shipped or stored, with errors that name field, limit and size.

#include "sealane/admission.hpp"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "base/time_text.hpp"

namespace sealane {
namespace {

Envelope Good() {
  Envelope envelope;
  envelope.id = *EventId::Parse("018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f");
  envelope.type = "OrderPlaced";
  envelope.topic = "orders";
  envelope.key = "o-1";
  envelope.content_type = "application/json";
  envelope.occurred_at = *ParseRfc3339("2024-05-06T07:08:09Z");
  envelope.payload = R"({"a":1})";
  return envelope;
}

using Change = std::function<void(Envelope&)>;

Status Check(const Change& change) {
  Envelope envelope = Good();
  change(envelope);
  return CheckAdmission(envelope, Limits{});
}

void ExpectRefused(const Status& status, std::string_view code, std::string_view field) {
  ASSERT_FALSE(status) << code << " " << field;
  EXPECT_EQ(status.error().kind(), ErrorKind::kRejected);
  EXPECT_EQ(status.error().code(), code) << status.error().ToString();
  EXPECT_EQ(status.error().field(), field) << status.error().ToString();
  EXPECT_FALSE(status.error().hint().empty()) << code;
}

TEST(Admission, TakesWhatIsInOrder) {
  EXPECT_TRUE(CheckAdmission(Good(), Limits{}));
  EXPECT_TRUE(Check([](Envelope& e) { e.aggregate = {.type = "order", .id = "o-1", .version = 1}; }));
  EXPECT_TRUE(Check([](Envelope& e) { e.aggregate = {.type = "order", .id = "o-1", .version = {}}; }));
  EXPECT_TRUE(Check([](Envelope& e) { e.key = "';drop table\"--\n\x1b[2J \xf0\x9f\x9a\x80"; }));
  EXPECT_TRUE(Check([](Envelope& e) { e.payload = R"({"a":1,"a":123456789012345678901234567890,"s":"\ud800"})"; }));
  EXPECT_TRUE(Check([](Envelope& e) {
    e.content_type = "application/x-protobuf";
    e.payload = "";  // a message of nothing but defaults has no bytes
  }));
  EXPECT_TRUE(Check([](Envelope& e) {
    e.content_type = "application/octet-stream";
    e.payload = std::string("\0\xff", 2);
  }));
  EXPECT_TRUE(Check([](Envelope& e) { e.available_at = kTimestampMax; }));
}

TEST(Admission, RefusesMissingFields) {
  ExpectRefused(Check([](Envelope& e) { e.topic = ""; }), "field_missing", "topic");
  ExpectRefused(Check([](Envelope& e) { e.key = ""; }), "field_missing", "key");
  ExpectRefused(Check([](Envelope& e) { e.type = ""; }), "field_missing", "type");
  ExpectRefused(Check([](Envelope& e) { e.content_type = ""; }), "field_missing", "content_type");
  ExpectRefused(Check([](Envelope& e) { e.id = EventId(); }), "nil_event_id", "id");
}

struct TextField {
  const char* name;
  std::string& (*of)(Envelope& envelope);
  std::size_t max;
};

const TextField kTextFields[] = {
    {"topic", [](Envelope& e) -> std::string& { return e.topic; }, 249},
    {"key", [](Envelope& e) -> std::string& { return e.key; }, 1024},
    {"type", [](Envelope& e) -> std::string& { return e.type; }, 255},
    {"content_type", [](Envelope& e) -> std::string& { return e.content_type; }, 255},
    {"tenant", [](Envelope& e) -> std::string& { return e.tenant; }, 255},
    {"producer", [](Envelope& e) -> std::string& { return e.producer; }, 255},
    {"schema_id", [](Envelope& e) -> std::string& { return e.schema_id; }, 255},
    {"correlation_id", [](Envelope& e) -> std::string& { return e.correlation_id; }, 512},
    {"causation_id", [](Envelope& e) -> std::string& { return e.causation_id; }, 512},
    {"traceparent", [](Envelope& e) -> std::string& { return e.traceparent; }, 512},
    {"tracestate", [](Envelope& e) -> std::string& { return e.tracestate; }, 512},
    {"aggregate_type", [](Envelope& e) -> std::string& { return e.aggregate.type; }, 255},
    {"aggregate_id", [](Envelope& e) -> std::string& { return e.aggregate.id; }, 1024},
};

TEST(Admission, BoundsEveryTextField) {
  for (const TextField& field : kTextFields) {
    const auto with = [&](std::size_t size) {
      return Check([&](Envelope& e) {
        e.aggregate = {.type = "order", .id = "o-1", .version = {}};
        field.of(e) = std::string(size, 'x');
      });
    };
    EXPECT_TRUE(with(field.max)) << field.name;
    ExpectRefused(with(field.max + 1), "field_too_long", field.name);
    EXPECT_NE(with(field.max + 1).error().message().find(std::to_string(field.max + 1)), std::string::npos);
    EXPECT_NE(with(field.max + 1).error().message().find(std::to_string(field.max) + " are taken"),
              std::string::npos);
  }
}

TEST(Admission, RefusesTextThatCannotBeStoredInEveryField) {
  for (const TextField& field : kTextFields) {
    ExpectRefused(Check([&](Envelope& e) { field.of(e) = "ab\xff"; }), "invalid_utf8", field.name);
    ExpectRefused(Check([&](Envelope& e) { field.of(e) = "\xed\xa0\x80"; }), "invalid_utf8", field.name);
    ExpectRefused(Check([&](Envelope& e) { field.of(e) = std::string("a\0b", 3); }), "nul_in_text", field.name);
  }
  EXPECT_EQ(Check([](Envelope& e) { e.key = "ab\xff"; }).error().message(), "key is not UTF-8 at byte 2");
}

TEST(Admission, TakesOnlyTopicsThatBrokersTake) {
  for (const auto* topic : {"a", "Orders.v1_x-y", "...", "0"}) {
    EXPECT_TRUE(Check([&](Envelope& e) { e.topic = topic; })) << topic;
  }
  for (const auto* topic : {".", "..", "a b", "a/b", "\xc3\xa4", "a\n", "a;drop", "a'b", "a:b"}) {
    ExpectRefused(Check([&](Envelope& e) { e.topic = topic; }), "invalid_topic", "topic");
  }
}

TEST(Admission, RefusesHalfAnAggregate) {
  ExpectRefused(Check([](Envelope& e) { e.aggregate.id = "o-1"; }), "field_missing", "aggregate_type");
  ExpectRefused(Check([](Envelope& e) { e.aggregate.type = "order"; }), "field_missing", "aggregate_id");
  ExpectRefused(Check([](Envelope& e) { e.aggregate.version = 1; }), "field_missing", "aggregate_id");
}

TEST(Admission, CountsVersionsFromOne) {
  for (const std::int64_t version : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    ExpectRefused(Check([&](Envelope& e) { e.aggregate = {.type = "order", .id = "o-1", .version = version}; }),
                  "invalid_version", "aggregate_version");
  }
  ExpectRefused(Check([](Envelope& e) { e.schema_version = 0; }), "invalid_version", "schema_version");
}

TEST(Admission, RefusesTimesThatCannotBeWritten) {
  for (const Timestamp time : {kTimestampMin - std::chrono::microseconds{1},
                               kTimestampMax + std::chrono::microseconds{1}, Timestamp::max(), Timestamp::min()}) {
    ExpectRefused(Check([&](Envelope& e) { e.occurred_at = time; }), "invalid_time", "occurred_at");
    ExpectRefused(Check([&](Envelope& e) { e.available_at = time; }), "invalid_time", "available_at");
  }
}

TEST(Admission, BoundsHeaders) {
  const auto numbered = [](int count) {
    Headers headers;
    for (int i = 0; i < count; ++i) headers.push_back({"h" + std::to_string(i), "v"});
    return headers;
  };
  EXPECT_TRUE(Check([&](Envelope& e) { e.headers = numbered(64); }));
  ExpectRefused(Check([&](Envelope& e) { e.headers = numbered(65); }), "too_many_headers", "headers");
  ExpectRefused(Check([&](Envelope& e) { e.headers = numbered(10'000); }), "too_many_headers", "headers");
  EXPECT_TRUE(Check([&](Envelope& e) { e.headers = {{"h", std::string((16 << 10) - 1, 'v')}}; }));
  ExpectRefused(Check([&](Envelope& e) {
                  e.headers = {{"h", std::string(16 << 10, 'v')}};
                }),
                "headers_too_large", "headers");
}

TEST(Admission, RefusesHeadersThatCannotBeShipped) {
  ExpectRefused(Check([](Envelope& e) {
                  e.headers = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
                }),
                "duplicate_header", "headers");
  ExpectRefused(Check([](Envelope& e) { e.headers = {{"", "1"}}; }), "field_missing", "headers");
  ExpectRefused(Check([](Envelope& e) { e.headers = {{"a\xff", "1"}}; }), "invalid_utf8", "headers");
  ExpectRefused(Check([](Envelope& e) { e.headers = {{"a", "\xff"}}; }), "invalid_utf8", "headers");
  ExpectRefused(Check([](Envelope& e) { e.headers = {{"a", std::string(1, '\0')}}; }), "nul_in_text", "headers");
  for (const auto* name : {"event-id", "Event-Id", "ce_id", "traceparent", "id", "sealane-replay", "content-type"}) {
    ExpectRefused(Check([&](Envelope& e) { e.headers = {{name, "1"}}; }), "reserved_header", "headers");
  }
}

TEST(Admission, BoundsThePayload) {
  const auto of_size = [](std::size_t size) {
    return Check([&](Envelope& e) { e.payload = "\"" + std::string(size - 2, 'x') + "\""; });
  };
  EXPECT_TRUE(of_size(std::size_t{900} << 10));
  ExpectRefused(of_size((std::size_t{900} << 10) + 1), "payload_too_large", "payload");
  EXPECT_EQ(of_size(10 << 20).error().message(), "payload has 10485760 bytes, at most 921600 are taken");
}

TEST(Admission, ChecksJsonOnlyWhereTheContentTypeSaysSo) {
  ExpectRefused(Check([](Envelope& e) { e.payload = ""; }), "invalid_json", "payload");
  ExpectRefused(Check([](Envelope& e) { e.payload = R"({"a":})"; }), "invalid_json", "payload");
  ExpectRefused(Check([](Envelope& e) { e.payload = "\"\xff\""; }), "invalid_json", "payload");
  ExpectRefused(Check([](Envelope& e) { e.payload = std::string(65, '[') + std::string(65, ']'); }), "invalid_json",
                "payload");
  EXPECT_EQ(Check([](Envelope& e) { e.payload = R"({"a":})"; }).error().message(),
            "payload is not JSON: invalid JSON at byte 5: expected a value, found '}'");
  ExpectRefused(Check([](Envelope& e) {
                  e.content_type = "application/vnd.shop+json; v=1";
                  e.payload = "{";
                }),
                "invalid_json", "payload");
  EXPECT_TRUE(Check([](Envelope& e) {
    e.content_type = "text/plain";
    e.payload = "{";
  }));
}

TEST(Admission, PrintsNoControlCharactersOfTheCaller) {
  const Status status = Check([](Envelope& e) { e.topic = "a\x1b[2J"; });
  EXPECT_EQ(status.error().message().find('\x1b'), std::string::npos);
}

TEST(DedupKey, IsOptionalButNotEmpty) {
  EXPECT_TRUE(CheckDedupKey(std::nullopt, Limits{}));
  EXPECT_TRUE(CheckDedupKey("import-1", Limits{}));
  ExpectRefused(CheckDedupKey("", Limits{}), "field_missing", "dedup_key");
  ExpectRefused(CheckDedupKey(std::string(1025, 'x'), Limits{}), "field_too_long", "dedup_key");
  ExpectRefused(CheckDedupKey(std::string(1, '\0'), Limits{}), "nul_in_text", "dedup_key");
}

TEST(AggregateName, NeedsTypeAndId) {
  EXPECT_TRUE(CheckAggregateName({.tenant = "", .type = "order", .id = "o-1"}, Limits{}));
  ExpectRefused(CheckAggregateName({.tenant = "", .type = "", .id = "o-1"}, Limits{}), "field_missing",
                "aggregate_type");
  ExpectRefused(CheckAggregateName({.tenant = "", .type = "order", .id = ""}, Limits{}), "field_missing",
                "aggregate_id");
  ExpectRefused(CheckAggregateName({.tenant = "\xff", .type = "order", .id = "o"}, Limits{}), "invalid_utf8",
                "tenant");
}

TEST(Claim, NeedsKeyHashAndSensibleTimes) {
  const IdempotencyClaim good{.tenant = "t1", .key = "k", .request_hash = "h"};
  EXPECT_TRUE(CheckClaim(good, Limits{}));
  const auto refused = [&](const std::function<void(IdempotencyClaim&)>& change, std::string_view code,
                           std::string_view field) {
    IdempotencyClaim claim = good;
    change(claim);
    ExpectRefused(CheckClaim(claim, Limits{}), code, field);
  };
  refused([](auto& c) { c.key = ""; }, "field_missing", "key");
  refused([](auto& c) { c.key = std::string(1025, 'k'); }, "field_too_long", "key");
  refused([](auto& c) { c.request_hash = ""; }, "field_missing", "request_hash");
  refused([](auto& c) { c.remember = std::chrono::seconds{0}; }, "invalid_duration", "remember");
  refused([](auto& c) { c.remember = std::chrono::seconds::max(); }, "invalid_duration", "remember");
  refused([](auto& c) { c.patience = std::chrono::seconds{-1}; }, "invalid_duration", "patience");
}

TEST(Limits, AreTheCallersToChange) {
  Limits limits;
  limits.payload_max = 6;
  Envelope envelope = Good();
  ExpectRefused(CheckAdmission(envelope, limits), "payload_too_large", "payload");
  limits.payload_max = 7;
  EXPECT_TRUE(CheckAdmission(envelope, limits));
}

}  // namespace
}  // namespace sealane
