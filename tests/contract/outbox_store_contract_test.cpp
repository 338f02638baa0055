// What every store promises to those who read the log: committed events only, every field and byte as appended,
// filters and pages that miss nothing, and a bounded memory.

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.hpp"
#include "base/time_text.hpp"
#include "outbox/outbox_store.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A filter with one more field set.
template <class Field, class Value>
MessageFilter By(Field field, Value value, MessageFilter filter = {}) {
  filter.*field = value;
  return filter;
}

class OutboxStoreContract : public ::testing::TestWithParam<std::string> {
 protected:
  OutboxStore& store() { return *store_; }
  StoreFixture& fixture() { return *fixture_; }
  std::vector<Appended> Append(const std::vector<NewEntry>& entries) { return AppendAndCommit(*store_, entries); }

  StoredMessage AppendAndFind(const NewEntry& entry) {
    Append({entry});
    auto found = ValueOrThrow(store_->FindMessage(entry.envelope.id));
    EXPECT_TRUE(found.has_value());
    return found.value_or(StoredMessage{});
  }
  std::vector<StoredMessage> List(const MessageFilter& filter = {}) {
    return ValueOrThrow(store_->ListMessages(filter));
  }
  std::vector<std::string> KeysOf(const MessageFilter& filter) {
    std::vector<std::string> keys;
    for (const StoredMessage& message : List(filter)) keys.push_back(message.envelope.key);
    return keys;
  }

 private:
  std::unique_ptr<StoreFixture> fixture_ = MakeStoreFixture(GetParam());
  std::unique_ptr<OutboxStore> store_ = fixture_->Open();
};

INSTANTIATE_TEST_SUITE_P(Store, OutboxStoreContract, ::testing::Values("memory", "sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(OutboxStoreContract, ShowsAnEventExactlyWhenItIsCommitted) {
  const auto observer = fixture().Open();
  const NewEntry entry = SampleEntry();
  const auto transaction = ValueOrThrow(store().Begin());
  ValueOrThrow(transaction->Append({&entry, 1}));
  EXPECT_EQ(CountEvents(*observer), 0U);
  EXPECT_FALSE(ValueOrThrow(observer->FindMessage(entry.envelope.id)).has_value());

  ValueOrThrow(transaction->Commit());
  EXPECT_EQ(CountEvents(*observer), 1U);
  EXPECT_TRUE(ValueOrThrow(observer->FindMessage(entry.envelope.id)).has_value());
}

TEST_P(OutboxStoreContract, KeepsEveryField) {
  const NewEntry entry = FullEntry();
  const StoredMessage found = AppendAndFind(entry);
  EXPECT_EQ(found.envelope, entry.envelope);
  EXPECT_EQ(found.payload_size, entry.envelope.payload.size());
  EXPECT_TRUE(found.payload_loaded);
  EXPECT_GE(found.seq, 1);
  EXPECT_GE(found.lane, 0);
  EXPECT_GT(found.appended_at, kTimestampMin);
}

TEST_P(OutboxStoreContract, HasOneTransactionAtATimeAndNeverShowsItUnfinished) {
  auto first = store().Begin();
  ASSERT_TRUE(first);
  const NewEntry entry = SampleEntry();
  ASSERT_TRUE((*first)->Append({&entry, 1}));
  EXPECT_EQ(store().Begin().error().code(), "transaction_open");
  // A store may refuse to read meanwhile, or read around the transaction.
  if (const auto listed = store().ListMessages({})) {
    EXPECT_TRUE(listed->empty());
  } else {
    EXPECT_EQ(listed.error().code(), "transaction_open");
  }
  if (const auto found = store().FindMessage(entry.envelope.id)) {
    EXPECT_FALSE(found->has_value());
  } else {
    EXPECT_EQ(found.error().code(), "transaction_open");
  }
  EXPECT_TRUE((*first)->Rollback());
  EXPECT_TRUE(store().Begin());
}

TEST_P(OutboxStoreContract, ATransactionMayOutliveItsStore) {
  auto other = fixture().Open();
  auto transaction = other->Begin();
  ASSERT_TRUE(transaction);
  other.reset();
  const NewEntry entry = SampleEntry();
  ASSERT_TRUE((*transaction)->Append({&entry, 1}));
  ASSERT_TRUE((*transaction)->Commit());
  EXPECT_EQ(testing::CountEvents(store()), 1U);
}

TEST_P(OutboxStoreContract, KeepsWhatWasNotGivenEmpty) {
  const NewEntry entry = SampleEntry();
  EXPECT_EQ(AppendAndFind(entry).envelope, entry.envelope);
}

TEST_P(OutboxStoreContract, KeepsPayloadBytesExactly) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte.push_back(static_cast<char>(i));
  const std::array<std::string, 6> payloads = {"",
                                               std::string("\0", 1),
                                               std::string("a\0b\\x00'\";--", 12),
                                               "\xff\xfe\xc3\x28\xed\xa0\x80",
                                               every_byte,
                                               std::string(std::size_t{900} << 10, '\xa5')};
  for (const std::string& payload : payloads) {
    const NewEntry entry = WithPayload(SampleEntry(), payload);
    const StoredMessage found = AppendAndFind(entry);
    EXPECT_EQ(found.envelope.payload, payload);
    EXPECT_EQ(found.envelope.payload_hash, Sha256(payload));
    EXPECT_EQ(found.payload_size, payload.size());
  }
}

TEST_P(OutboxStoreContract, KeepsJsonAsItWasWritten) {
  const std::string json =
      "{\"b\":1,\"a\":2,\"a\":123456789012345678901234567890.10,\n \"t\":\"\\ud83d\\ude00\\u0041\"}";
  const NewEntry entry = WithPayload(SampleEntry(), json, "application/json");
  EXPECT_EQ(AppendAndFind(entry).envelope.payload, json);
}

TEST_P(OutboxStoreContract, KeepsTimesToTheMicrosecond) {
  const std::array<Timestamp, 4> times = {kTimestampMin, kTimestampMin + std::chrono::microseconds{1},
                                          Timestamp{std::chrono::microseconds{1'700'000'000'999'999}}, kTimestampMax};
  for (const Timestamp time : times) {
    NewEntry entry = SampleEntry();
    entry.envelope.occurred_at = time;
    entry.envelope.available_at = time;
    const StoredMessage found = AppendAndFind(entry);
    EXPECT_EQ(found.envelope.occurred_at, time) << ToRfc3339(time);
    EXPECT_EQ(found.envelope.available_at, time) << ToRfc3339(time);
  }
}

TEST_P(OutboxStoreContract, KeepsTextThatLooksLikeSqlJsonOrArrays) {
  for (const std::string text :
       {R"('; DROP TABLE sealane_outbox; --)", R"("quoted" \ back\\slash)", R"({1,2,"NULL"})", "NULL",
        "$1 ? :name %s {0}", "caf\xc3\xa9 \xf0\x9f\x9a\xa2 \xe2\x80\xa8", "\x01\x1f\x7f"}) {
    NewEntry entry = FullEntry();
    Envelope& envelope = entry.envelope;
    envelope.key = envelope.type = envelope.tenant = envelope.aggregate.type = envelope.aggregate.id = text;
    envelope.correlation_id = envelope.causation_id = envelope.traceparent = envelope.tracestate = text;
    envelope.producer = envelope.schema_id = text;
    envelope.headers = {{text, text}, {"other", ""}};
    entry.unique_version = true;
    entry.dedup_key = text;
    EXPECT_EQ(AppendAndFind(entry).envelope, envelope);
    EXPECT_EQ(KeysOf(By(&MessageFilter::key, text)), std::vector{text});
  }
}

TEST_P(OutboxStoreContract, KeepsTheLargestVersions) {
  NewEntry entry = SampleEntry();
  entry.envelope.schema_version = std::numeric_limits<std::int32_t>::max();
  entry.envelope.aggregate = {"order", "o-1", std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(AppendAndFind(entry).envelope, entry.envelope);
}

TEST_P(OutboxStoreContract, FindsNothingForAnUnknownId) {
  Append({SampleEntry()});
  EXPECT_FALSE(ValueOrThrow(store().FindMessage(FreshId())).has_value());
  EXPECT_FALSE(ValueOrThrow(store().FindMessage(EventId{})).has_value());
}

TEST_P(OutboxStoreContract, NoticesAPayloadThatContradictsItsHash) {
  NewEntry entry = SampleEntry();
  entry.envelope.payload_hash[0] ^= 1U;
  const auto transaction = ValueOrThrow(store().Begin());
  if (!transaction->Append({&entry, 1})) {
    EXPECT_EQ(GetParam(), "postgres") << "which compares at the append";
    return;
  }
  ValueOrThrow(transaction->Commit());
  const auto found = store().FindMessage(entry.envelope.id);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(found.error().code(), "payload_hash_mismatch");
}

TEST_P(OutboxStoreContract, EveryNewEventIsPendingOnTheMainRoute) {
  Append({SampleEntry(), FullEntry()});
  for (const StoredMessage& message : List()) {
    ASSERT_EQ(message.routes.size(), 1U);
    const RouteStatus& status = message.routes.front();
    EXPECT_EQ(status.route, "main");
    EXPECT_EQ(status.state, DeliveryState::kPending);
    EXPECT_EQ(status.attempts, 0);
    EXPECT_FALSE(status.next_attempt_at || status.published_at);
    EXPECT_EQ(status.last_error_code + status.last_error_message, "");
  }
}

// --- Lists
// ----------------------------------------------------------------------------------------------------------

TEST_P(OutboxStoreContract, ListsNewestFirst) {
  Append({SampleEntry("a"), SampleEntry("b")});
  Append({SampleEntry("c")});
  EXPECT_THAT(KeysOf({}), ElementsAre("c", "b", "a"));
}

TEST_P(OutboxStoreContract, PagesMeetEveryEventOnce) {
  std::vector<NewEntry> entries;
  for (int i = 0; i < 25; ++i) entries.push_back(SampleEntry("k" + std::to_string(i)));
  Append(entries);

  std::vector<std::string> keys;
  MessageFilter filter = By(&MessageFilter::limit, 7);
  std::size_t pages = 0;
  for (auto page = List(filter); !page.empty(); page = List(filter), ++pages) {
    EXPECT_LE(page.size(), 7U);
    for (const StoredMessage& message : page) keys.insert(keys.begin(), message.envelope.key);
    filter.before_seq = page.back().seq;
  }
  EXPECT_EQ(pages, 4U);
  ASSERT_EQ(keys.size(), entries.size());
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], entries[i].envelope.key);
}

TEST_P(OutboxStoreContract, LeavesPayloadsOutUnlessAsked) {
  const NewEntry entry = FullEntry();
  Append({entry});
  const StoredMessage without = List().at(0);
  EXPECT_FALSE(without.payload_loaded);
  EXPECT_EQ(without.envelope.payload, "");
  EXPECT_EQ(without.payload_size, entry.envelope.payload.size());
  EXPECT_EQ(without.envelope.payload_hash, entry.envelope.payload_hash);
  const StoredMessage with = List(By(&MessageFilter::with_payload, true)).at(0);
  EXPECT_TRUE(with.payload_loaded);
  EXPECT_EQ(with.envelope, entry.envelope);
}

TEST_P(OutboxStoreContract, FiltersByEveryTextField) {
  const NewEntry wanted = FullEntry();
  Append({SampleEntry("plain"), wanted});
  const Envelope& envelope = wanted.envelope;
  const std::vector<std::pair<std::optional<std::string> MessageFilter::*, std::string>> fields = {
      {&MessageFilter::tenant, envelope.tenant},
      {&MessageFilter::topic, envelope.topic},
      {&MessageFilter::key, envelope.key},
      {&MessageFilter::type, envelope.type},
      {&MessageFilter::aggregate_type, envelope.aggregate.type},
      {&MessageFilter::aggregate_id, envelope.aggregate.id},
      {&MessageFilter::correlation_id, envelope.correlation_id}};
  MessageFilter all;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto& [field, value] = fields[i];
    MessageFilter filter;
    filter.*field = value;
    EXPECT_THAT(KeysOf(filter), ElementsAre("key-7")) << "field " << i;
    filter.*field = value + "x";
    EXPECT_THAT(KeysOf(filter), IsEmpty()) << "field " << i;
    filter.*field = value + "' OR 1=1 --";
    EXPECT_THAT(KeysOf(filter), IsEmpty()) << "field " << i;
    all.*field = value;
  }
  EXPECT_THAT(KeysOf(all), ElementsAre("key-7"));
  EXPECT_THAT(KeysOf(By(&MessageFilter::tenant, "")), ElementsAre("plain"));
}

TEST_P(OutboxStoreContract, FiltersByStateAndRoute) {
  Append({SampleEntry("a"), SampleEntry("b")});
  EXPECT_THAT(KeysOf(By(&MessageFilter::state, DeliveryState::kPending)), ElementsAre("b", "a"));
  EXPECT_THAT(KeysOf(By(&MessageFilter::route, "main")), ElementsAre("b", "a"));
  EXPECT_THAT(KeysOf(By(&MessageFilter::route, "main", By(&MessageFilter::state, DeliveryState::kPending))),
              ElementsAre("b", "a"));
  EXPECT_THAT(KeysOf(By(&MessageFilter::route, "elsewhere")), IsEmpty());
  for (const auto state : {DeliveryState::kPublishing, DeliveryState::kPublished, DeliveryState::kFailed,
                           DeliveryState::kDead, DeliveryState::kDiscarded}) {
    EXPECT_THAT(KeysOf(By(&MessageFilter::state, state)), IsEmpty()) << ToString(state);
  }
}

TEST_P(OutboxStoreContract, FiltersByTimeFromInclusiveToExclusive) {
  Append({SampleEntry("a")});
  const Timestamp at = List().at(0).appended_at;
  const std::chrono::microseconds tick{1};
  EXPECT_THAT(KeysOf(By(&MessageFilter::since, at)), ElementsAre("a"));
  EXPECT_THAT(KeysOf(By(&MessageFilter::since, at + tick)), IsEmpty());
  EXPECT_THAT(KeysOf(By(&MessageFilter::until, at)), IsEmpty());
  EXPECT_THAT(KeysOf(By(&MessageFilter::until, at + tick)), ElementsAre("a"));
  EXPECT_THAT(KeysOf(By(&MessageFilter::since, at, By(&MessageFilter::until, at + tick))), ElementsAre("a"));
  EXPECT_THAT(KeysOf(By(&MessageFilter::since, kTimestampMin, By(&MessageFilter::until, kTimestampMax))),
              ElementsAre("a"));
}

// --- Forgetting
// -----------------------------------------------------------------------------------------------------

TEST_P(OutboxStoreContract, RemembersWhatIsUniqueForThirtyDays) {
  const NewEntry entry = WithDedupKey(SampleEntry(), "k");
  Append({entry});
  fixture().LetTimePass(std::chrono::hours{24 * 29});
  EXPECT_EQ(ValueOrThrow(store().ForgetExpired(100)).unique_forgotten, 0);
  EXPECT_TRUE(Append({WithDedupKey(SampleEntry(), "k")}).front().already_there);

  fixture().LetTimePass(std::chrono::hours{24 * 2});
  EXPECT_EQ(ValueOrThrow(store().ForgetExpired(100)).unique_forgotten, 1);
  EXPECT_FALSE(Append({WithDedupKey(SampleEntry(), "k")}).front().already_there);
  EXPECT_EQ(CountEvents(store()), 2U) << "events themselves are not forgotten";
}

TEST_P(OutboxStoreContract, ForgetsAtMostAsManyAsAsked) {
  std::vector<NewEntry> entries;
  for (int i = 0; i < 5; ++i) entries.push_back(WithDedupKey(SampleEntry(), std::to_string(i)));
  Append(entries);
  InTransaction(store(), [](Transaction& transaction) -> Status {
    for (int i = 0; i < 5; ++i) {
      const IdempotencyClaim claim{"t", std::to_string(i), "hash"};
      SEALANE_RETURN_IF_ERROR(transaction.BeginOnce(claim));
      SEALANE_RETURN_IF_ERROR(transaction.CompleteOnce(claim, {200, ""}));
    }
    return Ok();
  });
  fixture().LetTimePass(std::chrono::hours{24 * 31});
  for (const std::int64_t expected : {2, 2, 1, 0}) {
    const SweepReport report = ValueOrThrow(store().ForgetExpired(2));
    EXPECT_EQ(report.unique_forgotten, expected);
    EXPECT_EQ(report.idempotency_forgotten, expected);
  }
}

TEST_P(OutboxStoreContract, KeepsResponsesAsLongAsTheirRequestsAsked) {
  InTransaction(store(), [](Transaction& transaction) -> Status {
    for (const int hours : {1, 24}) {
      IdempotencyClaim claim{"t", std::to_string(hours), "hash"};
      claim.remember = std::chrono::hours{hours};
      SEALANE_RETURN_IF_ERROR(transaction.BeginOnce(claim));
      SEALANE_RETURN_IF_ERROR(transaction.CompleteOnce(claim, {200, ""}));
    }
    return Ok();
  });
  EXPECT_EQ(ValueOrThrow(store().ForgetExpired(10)).idempotency_forgotten, 0);
  fixture().LetTimePass(std::chrono::hours{2});
  EXPECT_EQ(ValueOrThrow(store().ForgetExpired(10)).idempotency_forgotten, 1);
  fixture().LetTimePass(std::chrono::hours{23});
  EXPECT_EQ(ValueOrThrow(store().ForgetExpired(10)).idempotency_forgotten, 1);
}

}  // namespace
}  // namespace sealane
