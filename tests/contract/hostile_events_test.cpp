// Whatever an application throws at the outbox is either stored exactly, hash equal on read, or refused with an error
// that names the field; and what is refused leaves nothing behind. Ten thousand hostile events per store, and the
// famous ones by name.

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "sealane/outbox.hpp"

#include "base/sha256.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using testing::MakeStoreFixture;
using testing::StoreFixture;

constexpr int kBatch = 100;  // events per case; RapidCheck makes 100 cases

Event GoodEvent() {
  return {.topic = "orders", .key = "o-1", .type = "OrderPlaced", .payload = R"({"a":1})"};
}

/// Text that breaks careless code.
rc::Gen<std::string> HostileText() {
  using namespace std::string_literals;
  const auto famous = rc::gen::element(
      ""s, "a\0b"s, "\xff\xfe"s, "\xed\xa0\x80"s, "\xc0\xaf"s, "\xf4\x90\x80\x80"s, "o'); DROP TABLE orders; --"s,
      "\"quoted\"; \\ $1 %s {0}"s, "{NULL,\"a\"}"s, "NULL"s, "\\x00"s, "\r\n\t\x1b[31m"s, "\xe2\x80\xa8\xef\xbb\xbf"s,
      "\xf0\x9f\x92\xa9\xf0\x9f\x8f\xb3\xef\xb8\x8f"s, ".."s, " "s, std::string(300, 'x'), std::string(2'000, 'k'));
  return rc::gen::oneOf(famous, rc::gen::arbitrary<std::string>(),
                        rc::gen::map(rc::gen::arbitrary<std::vector<std::uint8_t>>(),
                                     [](const auto& bytes) { return std::string(bytes.begin(), bytes.end()); }));
}

rc::Gen<std::string> HostilePayload() {
  using namespace std::string_literals;
  const auto famous = rc::gen::element(
      R"({"n":123456789012345678901234567890,"n":1e400})"s, R"({"b":1,"a":2,"a":3})"s, R"("\ud800")"s, "  [1 , 2]\n"s,
      "\"a\0b\""s, "{\"a\":\xff}"s, "{"s, ""s, "nul"s, "-0"s, "[1,]"s, "01"s, "\xef\xbb\xbf{}"s,
      std::string(100, '[') + std::string(100, ']'), "\"" + std::string(1'000'000, 'x') + "\"", R"({"a":"\u0000"})"s);
  return rc::gen::oneOf(famous, HostileText());
}

rc::Gen<Headers> HostileHeaders() {
  return rc::gen::oneOf(rc::gen::container<Headers>(rc::gen::construct<Header>(HostileText(), HostileText())),
                        rc::gen::just(Headers{{"a", "1"}, {"a", "2"}}), rc::gen::just(Headers{{"", "x"}}),
                        rc::gen::just(Headers(65, {"h", "v"})),
                        rc::gen::just(Headers{{"a\"b\\", "{\"x\":1}"}, {"ä", std::string(3'000, 'v')}}));
}

rc::Gen<std::int64_t> HostileNumber() {
  return rc::gen::element<std::int64_t>(-1, 0, 1, 2, INT64_MAX, INT64_MIN, 1LL << 53);
}

rc::Gen<Timestamp> HostileTime() {
  return rc::gen::map(rc::gen::element<std::int64_t>(0, -1, 1, 253'402'300'799'999'999, 253'402'300'800'000'000,
                                                     INT64_MAX, INT64_MIN, 1'700'000'000'123'456),
                      [](std::int64_t value) { return Timestamp{std::chrono::microseconds{value}}; });
}

/// A good event with up to three fields made hostile, so that much of it gets through to the store.
rc::Gen<Event> HostileEvent() {
  return rc::gen::exec([] {
    Event event = GoodEvent();
    const int changes = *rc::gen::inRange(0, 4);
    for (int i = 0; i < changes; ++i) {
      switch (*rc::gen::inRange(0, 19)) {
        case 0:
          event.topic = *HostileText();
          break;
        case 1:
          event.key = *HostileText();
          break;
        case 2:
          event.type = *HostileText();
          break;
        case 3:
          event.payload = *HostilePayload();
          break;
        case 4:
          event.tenant = *HostileText();
          break;
        case 5:
          event.aggregate = {*HostileText(), *HostileText(), *HostileNumber()};
          break;
        case 6:
          event.aggregate = {"order", *HostileText(), std::nullopt};
          break;
        case 7:
          event.schema_version = static_cast<std::int32_t>(*HostileNumber());
          break;
        case 8:
          event.content_type = *rc::gen::oneOf(rc::gen::just(std::string("application/octet-stream")), HostileText());
          break;
        case 9:
          event.headers = *HostileHeaders();
          break;
        case 10:
          event.correlation_id = *HostileText();
          break;
        case 11:
          event.causation_id = *HostileText();
          break;
        case 12:
          event.traceparent = *HostileText();
          break;
        case 13:
          event.tracestate = *HostileText();
          break;
        case 14:
          event.schema_id = *HostileText();
          break;
        case 15:
          event.producer = *HostileText();
          break;
        case 16:
          event.occurred_at = *HostileTime();
          break;
        case 17:
          event.available_at = *HostileTime();
          break;
        default:
          event.dedup_key = *HostileText();
          break;
      }
    }
    // Uniqueness is another suite's subject; here two equal versions must not fail a whole batch.
    event.unique_version = false;
    return event;
  });
}

class HostileEvents : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Stores, HostileEvents, ::testing::Values("memory", "sqlite", "postgres"),
                         [](const auto& param) { return param.param; });

TEST_P(HostileEvents, AreStoredExactlyOrRefusedByName) {
  const auto fixture = MakeStoreFixture(GetParam());
  const auto store = fixture->Open();
  const Outbox outbox;
  int stored = 0;
  int refused = 0;
  EXPECT_TRUE(rc::check([&] {
    const auto events = *rc::gen::container<std::vector<Event>>(kBatch, HostileEvent());
    std::map<EventId, Envelope> expected;
    auto transaction = store->Begin();
    RC_ASSERT(transaction.has_value());
    for (const Event& event : events) {
      const auto entry = outbox.Admit(event);
      if (!entry) {
        RC_ASSERT(entry.error().kind() == ErrorKind::kRejected);
        RC_ASSERT(!entry.error().field().empty());
        RC_ASSERT(!entry.error().message().empty());
        RC_ASSERT(!outbox.Append(**transaction, event).has_value());
        ++refused;
        continue;
      }
      const auto appended = (*transaction)->Append({&*entry, 1});
      if (!appended) RC_FAIL(appended.error().ToString());
      if (!appended->front().already_there) {
        expected.emplace(entry->envelope.id, entry->envelope);
        ++stored;
      }
    }
    RC_ASSERT((*transaction)->Commit().has_value());

    MessageFilter newest;
    newest.limit = expected.size() + 1;
    newest.with_payload = true;
    const auto messages = store->ListMessages(newest);
    if (!messages) RC_FAIL(messages.error().ToString());
    std::size_t found = 0;
    for (const StoredMessage& message : *messages) {
      const auto mine = expected.find(message.envelope.id);
      if (mine == expected.end()) continue;
      RC_ASSERT(message.envelope == mine->second);
      RC_ASSERT(Sha256(message.envelope.payload) == message.envelope.payload_hash);
      ++found;
    }
    RC_ASSERT(found == expected.size());
  }));
  EXPECT_EQ(testing::CountEvents(*store),
            static_cast<std::size_t>(std::min(stored, static_cast<int>(MessageFilter::kListMax))));
  EXPECT_GT(stored, 2'000);
  EXPECT_GT(refused, 1'000);
}

struct Famous {
  std::string name;
  std::function<void(Event&)> change;
  std::string refused_field;  // empty: stored exactly
};

TEST_P(HostileEvents, TheFamousOnesEachGetTheirAnswer) {
  using namespace std::string_literals;
  const std::vector<Famous> all = {
      {"NUL in a key", [](Event& e) { e.key = "a\0b"s; }, "key"},
      {"invalid UTF-8 in a tenant", [](Event& e) { e.tenant = "\xff"; }, "tenant"},
      {"invalid UTF-8 in JSON", [](Event& e) { e.payload = "{\"a\":\"\xff\"}"; }, "payload"},
      {"an encoded surrogate", [](Event& e) { e.type = "\xed\xa0\x80"; }, "type"},
      {"a lone surrogate escape", [](Event& e) { e.payload = R"({"a":"\ud800"})"; }, ""},
      {"a 30-digit number", [](Event& e) { e.payload = R"({"a":123456789012345678901234567890})"; }, ""},
      {"doubled JSON keys", [](Event& e) { e.payload = R"({"b":1,"a":2,"a":3})"; }, ""},
      {"a payload of 10 MiB", [](Event& e) { e.payload = "\"" + std::string(10U << 20, 'x') + "\""; }, "payload"},
      {"binary bytes",
       [](Event& e) {
         e.payload = "\0\xff\x01"s;
         e.content_type = "application/octet-stream";
       },
       ""},
      {"an empty binary payload",
       [](Event& e) {
         e.payload = "";
         e.content_type = "application/octet-stream";
       },
       ""},
      {"quotes and semicolons in names", [](Event& e) { e.key = e.tenant = e.type = R"(o'"; DROP TABLE x; --)"; },
       ""},
      {"a semicolon in a topic", [](Event& e) { e.topic = "orders;"; }, "topic"},
      {"10,000 headers",
       [](Event& e) {
         for (int i = 0; i < 10'000; ++i) e.headers.push_back({std::to_string(i), "v"});
       },
       "headers"},
      {"a negative version",
       [](Event& e) {
         e.aggregate = {"order", "1", -1};
       },
       "aggregate_version"},
      {"version zero of the schema", [](Event& e) { e.schema_version = 0; }, "schema_version"},
      {"the last moment of 9999",
       [](Event& e) { e.available_at = Timestamp{std::chrono::microseconds{253'402'300'799'999'999}}; }, ""},
      {"the year 10000",
       [](Event& e) { e.available_at = Timestamp{std::chrono::microseconds{253'402'300'800'000'000}}; },
       "available_at"},
      {"the nil id", [](Event& e) { e.id = EventId{}; }, "id"},
  };
  const auto fixture = MakeStoreFixture(GetParam());
  const auto store = fixture->Open();
  const Outbox outbox;
  for (const Famous& famous : all) {
    Event event = GoodEvent();
    famous.change(event);
    auto transaction = store->Begin();
    ASSERT_TRUE(transaction);
    const auto appended = outbox.Append(**transaction, event);
    if (!famous.refused_field.empty()) {
      ASSERT_FALSE(appended) << famous.name;
      EXPECT_EQ(appended.error().field(), famous.refused_field) << famous.name << ": " << appended.error().ToString();
      EXPECT_TRUE((*transaction)->Rollback());
      continue;
    }
    ASSERT_TRUE(appended) << famous.name << ": " << appended.error().ToString();
    ASSERT_TRUE((*transaction)->Commit());
    const auto found = store->FindMessage(appended->id);
    ASSERT_TRUE(found && *found) << famous.name;
    EXPECT_EQ((*found)->envelope.payload, event.payload) << famous.name;
    EXPECT_EQ((*found)->envelope.payload_hash, Sha256(event.payload)) << famous.name;
    EXPECT_EQ((*found)->envelope.key, event.key) << famous.name;
  }
  EXPECT_EQ(testing::CountEvents(*store),
            static_cast<std::size_t>(std::ranges::count(all, "", &Famous::refused_field)));
}

}  // namespace
}  // namespace sealane
