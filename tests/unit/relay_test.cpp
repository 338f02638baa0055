// Protects what a relay promises whatever the store and the broker are: nothing is lost, keys keep their order, a bad
// event holds up its key alone, an outage holds up everything and condemns nothing, and a relay that lost its lease
// does nothing more.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/relay_bench.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RelayTest : public ::testing::Test {
 protected:
  /// Steps with 20 ms between them.
  void Step(Relay& relay, int steps) {
    for (int i = 0; i < steps; ++i) {
      (void)relay.RunOnce();
      bench_.Advance(milliseconds{20});
    }
  }

  RelayBench bench_;
};

MemoryFault Rejected() {
  return {.failure = FailureClass::kRejected, .code = "message_too_large"};
}
MemoryFault Retryable() {
  return {.failure = FailureClass::kRetry, .code = "receiver_said_500"};
}

TEST_F(RelayTest, PublishesWhatWasCommittedInOrder) {
  for (int i = 0; i < 50; ++i) bench_.Append("a", std::to_string(i));
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  const std::vector<std::string> published = bench_.Published("a");
  ASSERT_EQ(published.size(), 50U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(published[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(RelayTest, WritesNothingPerEvent) {
  for (int i = 0; i < 500; ++i) bench_.Append("k" + std::to_string(i % 20), std::to_string(i));
  RelayOptions options = bench_.Options();
  options.settle_interval = milliseconds{250};
  options.page_entries = 50;
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.broker().record_count(), 500U);
  EXPECT_LE(bench_.faults().count(memory::LogCall::kSettle), 5);
}

TEST_F(RelayTest, SaysPublishedOnceItIsWrittenDown) {
  const EventId id = bench_.Append("a", "1");
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kPending);
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  const RouteStatus status = bench_.StatusOf(id);
  EXPECT_EQ(status.state, DeliveryState::kPublished);
  EXPECT_TRUE(status.published_at.has_value());
}

TEST_F(RelayTest, ARejectedEventHoldsUpItsKeyAlone) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  bench_.Append("a", "1");
  const EventId bad = bench_.Append("a", "bad");
  const EventId follower = bench_.Append("a", "3");
  bench_.Append("b", "4");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);

  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
  EXPECT_THAT(bench_.Published("b"), ElementsAre("4"));
  const RouteStatus status = bench_.StatusOf(bad);
  EXPECT_EQ(status.state, DeliveryState::kDead);
  EXPECT_EQ(status.attempts, 1);
  EXPECT_EQ(status.last_error_code, "message_too_large");
  EXPECT_EQ(bench_.StateOf(follower), DeliveryState::kPending);
}

TEST_F(RelayTest, AReTriedDeadEventGoesBeforeItsFollowers) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  const EventId bad = bench_.Append("a", "bad");
  bench_.Append("a", "2");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.Append("a", "3");  // while the key waits
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), IsEmpty());

  bench_.broker().ForgetFaults();
  ASSERT_EQ(ValueOrThrow(bench_.dead_letters().Retry(bad, std::nullopt, {.actor = "ops", .reason = "limit raised"})),
            1);
  bench_.Advance(seconds{5});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("bad", "2", "3"));
  bench_.Append("a", "4");  // the key flows again
  bench_.Advance(seconds{5});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("bad", "2", "3", "4"));
  EXPECT_EQ(bench_.StateOf(bad), DeliveryState::kPublished);
}

TEST_F(RelayTest, ADiscardedEventLetsItsFollowersGo) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  const EventId bad = bench_.Append("a", "bad");
  bench_.Append("a", "2");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  ASSERT_EQ(ValueOrThrow(bench_.dead_letters().Discard(bad, std::nullopt, {.actor = "ops", .reason = "obsolete"})),
            1);
  bench_.Advance(seconds{5});
  bench_.RunUntilQuiet(*relay);
  bench_.Append("a", "3");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("2", "3"));
  EXPECT_EQ(bench_.StateOf(bad), DeliveryState::kDiscarded);
}

TEST_F(RelayTest, AFailedEventIsRetriedByThePolicyAndKeepsItsOrder) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "1"; }, Retryable(), 2);
  const EventId first = bench_.Append("a", "1");
  bench_.Append("a", "2");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.StateOf(first), DeliveryState::kFailed);
  EXPECT_TRUE(bench_.StatusOf(first).next_attempt_at.has_value());
  EXPECT_THAT(bench_.Published("a"), IsEmpty());

  bench_.Advance(milliseconds{1'500});
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.StatusOf(first).attempts, 2);
  EXPECT_THAT(bench_.Published("a"), IsEmpty());

  bench_.Advance(seconds{5});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "2"));
}

TEST_F(RelayTest, AnEventIsDeadWhenItsAttemptsAreUsedUp) {
  bench_.broker().FailKey("a", Retryable());
  const EventId id = bench_.Append("a", "1");
  const auto relay = bench_.MakeRelay();
  for (int i = 0; i < 10; ++i) {
    bench_.RunUntilQuiet(*relay);
    bench_.Advance(seconds{10});
  }
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kDead);
  EXPECT_EQ(bench_.StatusOf(id).attempts, 3);
  EXPECT_EQ(relay->stats().dead_total, 1U);
}

TEST_F(RelayTest, AForbiddenTopicIsRetriedForEverAndOthersFlow) {
  bench_.broker().FailTopic("secret", {.failure = FailureClass::kForbidden, .code = "topic_forbidden"});
  const EventId id = bench_.Append("a", "1", "", "secret");
  bench_.Append("b", "2");
  const auto relay = bench_.MakeRelay();
  for (int i = 0; i < 30; ++i) {
    bench_.RunUntilQuiet(*relay);
    bench_.Advance(seconds{400});
  }
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kFailed);
  EXPECT_GT(bench_.StatusOf(id).attempts, 10);
  EXPECT_THAT(bench_.Published("b"), ElementsAre("2"));
}

TEST_F(RelayTest, AnOutageHoldsEverythingAndCondemnsNothing) {
  const auto relay = bench_.MakeRelay();
  bench_.broker().BeginOutage();
  std::vector<EventId> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(bench_.Append("a", std::to_string(i)));
  for (int i = 0; i < 600; ++i) {  // ten minutes
    (void)relay->RunOnce();
    bench_.Advance(seconds{1});
  }
  EXPECT_EQ(bench_.broker().record_count(), 0U);
  EXPECT_EQ(relay->stats().state, RelayState::kHolding);
  for (const EventId& id : ids) EXPECT_NE(bench_.StateOf(id), DeliveryState::kFailed);

  bench_.broker().EndOutage();
  bench_.RunUntilQuiet(*relay);
  ASSERT_EQ(bench_.Published("a").size(), 20U);
  EXPECT_EQ(bench_.Published("a").front(), "0");
  EXPECT_EQ(relay->stats().parked_total, 0U);
  EXPECT_EQ(relay->stats().repeated, 0U);
}

TEST_F(RelayTest, ALostAcknowledgementIsSentAgainAndCounted) {
  bench_.broker().FailNth(2, {.status = DeliveryStatus::kPossiblyPersisted,
                              .failure = FailureClass::kOutage,
                              .code = "connection_lost",
                              .persist = true});
  for (int i = 0; i < 3; ++i) bench_.Append("a", std::to_string(i));
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.Advance(seconds{1});
  bench_.RunUntilQuiet(*relay);
  std::vector<std::string> all = bench_.Published("a");
  EXPECT_EQ(std::count(all.begin(), all.end(), "1"), 2);
  EXPECT_EQ(relay->stats().repeated, 1U);
  // First deliveries are in order.
  EXPECT_LT(std::find(all.begin(), all.end(), "0"), std::find(all.begin(), all.end(), "1"));
  EXPECT_LT(std::find(all.begin(), all.end(), "1"), std::find(all.begin(), all.end(), "2"));
}

TEST_F(RelayTest, TwoRelaysShareTheLanesAndTheWork) {
  const auto one = bench_.MakeRelay("relay-1");
  const auto two = bench_.MakeRelay("relay-2");
  for (int i = 0; i < 100; ++i) {
    (void)one->RunOnce();
    (void)two->RunOnce();
    bench_.Advance(milliseconds{200});
  }
  EXPECT_EQ(one->stats().held.size(), 4U);
  EXPECT_EQ(two->stats().held.size(), 4U);
  for (int i = 0; i < 100; ++i) bench_.Append("k" + std::to_string(i), "v");
  for (int i = 0; i < 100; ++i) {
    (void)one->RunOnce();
    (void)two->RunOnce();
    bench_.Advance(milliseconds{20});
  }
  EXPECT_EQ(bench_.broker().record_count(), 100U);
  EXPECT_GT(one->stats().published, 0U);
  EXPECT_GT(two->stats().published, 0U);
}

TEST_F(RelayTest, LanesOfADeadRelayAreTakenOverWhenTheirTimeIsOver) {
  auto dead = bench_.MakeRelay("dead");
  (void)dead->RunOnce();
  ASSERT_EQ(dead->stats().held.size(), 8U);
  dead.reset();  // no drain: as if killed
  bench_.Append("a", "1");
  const auto heir = bench_.MakeRelay("heir");
  bench_.RunUntilQuiet(*heir, 100);
  EXPECT_EQ(bench_.broker().record_count(), 0U);
  bench_.Advance(seconds{11});
  bench_.RunUntilQuiet(*heir);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
}

TEST_F(RelayTest, ARelayThatSleptThroughItsLeasePublishesNothingMore) {
  const auto zombie = bench_.MakeRelay("zombie");
  (void)zombie->RunOnce();
  bench_.Advance(seconds{30});
  const auto heir = bench_.MakeRelay("heir");
  bench_.Append("a", "1");
  bench_.RunUntilQuiet(*heir);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
  for (int i = 0; i < 50; ++i) {
    (void)zombie->RunOnce();
    (void)heir->RunOnce();
    bench_.Advance(milliseconds{10});
  }
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
}

// What a relay saw of the log before it got a lane says nothing about that lane, whose owner may have seen more.
TEST_F(RelayTest, ALaneFromAnotherRelayDoesNotGoBack) {
  const auto one = bench_.MakeRelay("relay-1");
  auto two = bench_.MakeRelay("relay-2");
  for (int i = 0; i < 100; ++i) {
    (void)one->RunOnce();
    (void)two->RunOnce();
    bench_.Advance(milliseconds{200});
  }
  ASSERT_EQ(two->stats().held.size(), 4U);
  for (int i = 0; i < 100; ++i) bench_.Append("k" + std::to_string(i % 40), std::to_string(i));
  bench_.RunUntilQuiet(*two);  // the first one stands still meanwhile
  const std::size_t published = bench_.broker().record_count();
  EXPECT_GT(published, 10U);
  EXPECT_EQ(two->Drain(), RelayEnd::kDrained);
  for (int i = 0; i < 400; ++i) {
    (void)one->RunOnce();
    bench_.Advance(milliseconds{20});
  }
  EXPECT_EQ(one->stats().held.size(), 8U);
  EXPECT_EQ(bench_.broker().record_count(), 100U) << "some events came twice";
}

TEST_F(RelayTest, ADrainWritesDownWhatIsKnownAndFreesTheLanes) {
  for (int i = 0; i < 20; ++i) bench_.Append("a", std::to_string(i));
  RelayOptions options = bench_.Options("first");
  options.settle_interval = std::chrono::hours{1};  // nothing is written before the drain
  auto first = bench_.MakeRelay(options);
  for (int i = 0; i < 3; ++i) (void)first->RunOnce();
  EXPECT_EQ(first->Drain(), RelayEnd::kDrained);
  const auto second = bench_.MakeRelay("second");
  bench_.RunUntilQuiet(*second);
  EXPECT_EQ(bench_.Published("a").size(), 20U);  // no event twice
}

// What the destination never saw cannot come twice, so a stop during an outage is a clean one.
TEST_F(RelayTest, ADrainDuringAnOutageLeavesNothingInDoubt) {
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.broker().BeginOutage();
  bench_.Append("a", "1");
  Step(*relay, 5);
  EXPECT_EQ(relay->Drain(), RelayEnd::kDrained);
}

TEST_F(RelayTest, ADrainSaysWhenSomethingMayComeAgain) {
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.broker().HoldDeliveries();
  bench_.Append("a", "1");
  Step(*relay, 5);
  EXPECT_EQ(relay->Drain(), RelayEnd::kUnresolved);
}

TEST_F(RelayTest, ADelayedEventHoldsUpItsKeyUntilItsTime) {
  const auto relay = bench_.MakeRelay();
  const auto id = bench_.AppendDelayed("a", "later", seconds{60});
  bench_.Append("a", "next");
  bench_.Append("b", "now");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  EXPECT_THAT(bench_.Published("b"), ElementsAre("now"));
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kPending);
  bench_.Advance(seconds{61});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("later", "next"));
}

TEST_F(RelayTest, AFilterLetsOnlyItsOwnPass) {
  bench_.Append("a", "1", "", "orders");
  bench_.Append("b", "2", "", "billing.invoices");
  RelayOptions options = bench_.Options();
  options.filter.topics = {"billing.*"};
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.broker().record_count(), 1U);
  EXPECT_EQ(relay->stats().filtered, 1U);
}

TEST_F(RelayTest, ATemplateNamesTheTopic) {
  bench_.Append("a", "1", "acme", "orders");
  RelayOptions options = bench_.Options();
  options.topic_template = "${tenant}.${topic}.events";
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a", "acme.orders.events"), ElementsAre("1"));
}

TEST_F(RelayTest, ADeadEventIsCopiedToTheDeadLetterTopic) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders"; }, Rejected());
  const EventId id = bench_.Append("a", "1");
  RelayOptions options = bench_.Options();
  options.failures.dead_letter_topic = "orders.dead";
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a", "orders.dead"), ElementsAre("1"));
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kDead);
  const Headers headers = bench_.broker().records().front().headers;
  EXPECT_THAT(headers, ::testing::Contains(Header{"sealane-dead-code", "message_too_large"}));
  EXPECT_THAT(headers, ::testing::Contains(Header{"sealane-dead-topic", "orders"}));
}

TEST_F(RelayTest, AnEventThatDiesOfItsRetriesIsCopiedToTheDeadLetterTopicToo) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders"; }, Retryable());
  const EventId id = bench_.Append("a", "1");
  RelayOptions options = bench_.Options();
  options.failures.dead_letter_topic = "orders.dead";
  const auto relay = bench_.MakeRelay(options);
  for (int i = 0; i < 4; ++i) {
    bench_.RunUntilQuiet(*relay);
    bench_.Advance(seconds{8});
  }
  EXPECT_THAT(bench_.Published("a", "orders.dead"), ElementsAre("1"));
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kDead);
  EXPECT_EQ(bench_.StatusOf(id).attempts, 3);
  const Headers headers = bench_.broker().records().front().headers;
  EXPECT_THAT(headers, ::testing::Contains(Header{"sealane-dead-code", "receiver_said_500"}));
  EXPECT_THAT(headers, ::testing::Contains(Header{"sealane-dead-attempts", "3"}));
}

// The last attempt fails for good while the copy meets an outage: the event must not count as dead without one.
TEST_F(RelayTest, ADyingEventWaitsForItsCopy) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders"; }, Retryable());
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders.dead"; },
                           {.failure = FailureClass::kOutage, .code = "broker_unreachable"}, 3);
  const EventId id = bench_.Append("a", "1");
  RelayOptions options = bench_.Options();
  options.failures.dead_letter_topic = "orders.dead";
  options.failures.retry.attempts_max = 2;
  const auto relay = bench_.MakeRelay(options);
  for (int i = 0; i < 10; ++i) {
    bench_.RunUntilQuiet(*relay);
    bench_.Advance(seconds{8});
  }
  EXPECT_THAT(bench_.Published("a", "orders.dead"), ElementsAre("1"));
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kDead);
}

TEST_F(RelayTest, WithoutOrderOnlyTheFailingEventWaits) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  bench_.Append("a", "bad");
  RelayOptions options = bench_.Options();
  options.order = OrderMode::kNone;
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  bench_.Append("a", "2");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("2"));
}

TEST_F(RelayTest, GlobalOrderHasOneOwnerAndOneSequence) {
  RelayOptions options = bench_.Options("relay-1");
  options.order = OrderMode::kGlobal;
  const auto one = bench_.MakeRelay(options);
  options.owner = "relay-2";
  const auto two = bench_.MakeRelay(options);
  for (int i = 0; i < 40; ++i) bench_.Append("k" + std::to_string(i % 9), std::to_string(i));
  for (int i = 0; i < 400; ++i) {
    (void)one->RunOnce();
    (void)two->RunOnce();
    bench_.Advance(milliseconds{100});
  }
  const std::vector<MemoryRecord> records = bench_.broker().records();
  ASSERT_EQ(records.size(), 40U);
  for (std::size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].value, std::to_string(i));
  EXPECT_EQ(one->stats().held.size() + two->stats().held.size(), 8U);
}

TEST_F(RelayTest, TenantOrderHoldsBackTheWholeTenant) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  bench_.Append("k1", "bad", "acme");
  bench_.Append("k2", "2", "acme");
  bench_.Append("k3", "3", "globex");
  RelayOptions options = bench_.Options();
  options.order = OrderMode::kTenant;
  const auto relay = bench_.MakeRelay(options);
  for (int i = 0; i < 20; ++i) {
    bench_.RunUntilQuiet(*relay, 50);
    bench_.Advance(seconds{2});
  }
  const std::vector<MemoryRecord> records = bench_.broker().records();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records.front().value, "3");
}

TEST_F(RelayTest, APausedTenantWaitsAndTheOthersFlow) {
  const OperatorAction why{.actor = "ops", .reason = "migration"};
  ASSERT_TRUE(bench_.dead_letters().SetTenant("main", {.tenant = "acme", .paused = true}, why));
  const auto relay = bench_.MakeRelay();
  const EventId paused = bench_.Append("a", "1", "acme");
  bench_.Append("b", "2", "globex");
  for (int i = 0; i < 30; ++i) {
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{300});
  }
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  EXPECT_THAT(bench_.Published("b"), ElementsAre("2"));
  EXPECT_EQ(bench_.StateOf(paused), DeliveryState::kPending);
  ASSERT_TRUE(bench_.dead_letters().SetTenant("main", {.tenant = "acme", .paused = false}, why));
  for (int i = 0; i < 30; ++i) {
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{300});
  }
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
  bench_.Append("a", "3", "acme");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "3"));
}

TEST_F(RelayTest, APauseSurvivesTheRelayThatKeptIt) {
  const OperatorAction why{.actor = "ops", .reason = "migration"};
  ASSERT_TRUE(bench_.dead_letters().SetTenant("main", {.tenant = "acme", .paused = true}, why));
  bench_.Append("a", "1", "acme");
  bench_.Append("a2", "2", "globex");
  auto first = bench_.MakeRelay("first");
  bench_.RunUntilQuiet(*first);
  EXPECT_EQ(first->Drain(), RelayEnd::kDrained);
  ASSERT_TRUE(bench_.dead_letters().SetTenant("main", {.tenant = "acme", .paused = false}, why));
  const auto second = bench_.MakeRelay("second");
  bench_.RunUntilQuiet(*second);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
  EXPECT_THAT(bench_.Published("a2"), ElementsAre("2"));
}

TEST_F(RelayTest, ATenantWithALongBacklogIsOvertaken) {
  RelayOptions options = bench_.Options();
  options.crowd_backlog = 100;
  options.page_bytes = 4'096;  // what a flow reads before the next has its turn
  const auto relay = bench_.MakeRelay(options);
  for (int i = 0; i < 2'000; ++i) bench_.Append("big" + std::to_string(i % 50), std::to_string(i), "big");
  for (int i = 0; i < 10; ++i) {
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{2});
  }
  bench_.Append("small", "now", "small");
  std::size_t before = 0;
  for (int i = 0; i < 5'000 && bench_.Published("small").empty(); ++i) {
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{2});
    before = bench_.broker().record_count();
  }
  EXPECT_LT(before, 1'500U);
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.broker().record_count(), 2'001U);
  for (int k = 0; k < 50; ++k) {
    const auto values = bench_.Published("big" + std::to_string(k));
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end(), [](const std::string& a, const std::string& b) {
      return std::stoi(a) < std::stoi(b);
    }));
  }
}

TEST_F(RelayTest, ARateLimitIsKept) {
  const OperatorAction why{.actor = "ops", .reason = "their endpoint is slow"};
  ASSERT_TRUE(bench_.dead_letters().SetTenant("main", {.tenant = "acme", .rate_max = 10}, why));
  for (int i = 0; i < 200; ++i) bench_.Append("k" + std::to_string(i % 20), std::to_string(i), "acme");
  const auto relay = bench_.MakeRelay();
  for (int i = 0; i < 500; ++i) {  // ten seconds
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{20});
  }
  EXPECT_GE(bench_.broker().record_count(), 80U);
  EXPECT_LE(bench_.broker().record_count(), 125U);
}

TEST_F(RelayTest, AnErrorOfTheStoreLosesNothing) {
  for (int i = 0; i < 30; ++i) bench_.Append("a", std::to_string(i));
  const auto relay = bench_.MakeRelay();
  for (const auto call : {memory::LogCall::kBeat, memory::LogCall::kClaim, memory::LogCall::kLook,
                          memory::LogCall::kRead, memory::LogCall::kSettle, memory::LogCall::kBlockedUnits}) {
    bench_.faults().Fail(call, Error(ErrorKind::kUnavailable, "connection_lost", "cut by the test"));
  }
  for (int i = 0; i < 100; ++i) {
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{500});
  }
  EXPECT_EQ(bench_.Published("a").size(), 30U);
}

// Lanes that cannot be opened come again. What was read for the lanes that are open comes only once.
TEST_F(RelayTest, ALaneThatCannotBeOpenedTakesNoOtherWithIt) {
  const auto one = bench_.MakeRelay("relay-1");
  auto two = bench_.MakeRelay("relay-2");
  for (int i = 0; i < 100; ++i) {
    (void)one->RunOnce();
    (void)two->RunOnce();
    bench_.Advance(milliseconds{200});
  }
  ASSERT_EQ(one->stats().held.size(), 4U);
  ASSERT_EQ(two->Drain(), RelayEnd::kDrained);
  bench_.faults().Fail(memory::LogCall::kBlockedUnits, Error(ErrorKind::kUnavailable, "connection_lost", "cut"));
  for (int i = 0; i < 100; ++i) {
    // So that the step that brings the lanes has something to read of all lanes.
    for (int key = 0; key < 10; ++key) bench_.Append("k" + std::to_string(key), std::to_string(i));
    (void)one->RunOnce();
    bench_.Advance(milliseconds{50});
  }
  bench_.RunUntilQuiet(*one);
  EXPECT_EQ(one->stats().held.size(), 8U);
  EXPECT_EQ(bench_.broker().record_count(), 1'000U);
}

// While the copy of a dead event is under way, the store does not know of it yet.
TEST_F(RelayTest, NothingOvertakesAnEventWhoseCopyIsUnderWay) {
  RelayOptions options = bench_.Options();
  options.failures.dead_letter_topic = "orders.dead";
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders"; }, Rejected(), 1);
  bench_.broker().HoldDeliveries();
  bench_.Append("a", "bad");
  Step(*relay, 5);
  bench_.broker().ReleaseDeliveries(1);
  Step(*relay, 5);
  ASSERT_THAT(bench_.Published("a", "orders.dead"), ElementsAre("bad"));
  for (int i = 0; i < 50; ++i) {
    bench_.Append("a", "next");
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{100});
  }
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  bench_.broker().ReleaseDeliveries();
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
}

// The first of the key came back and waits until nothing is on its way; the second was delayed and is due now.
TEST_F(RelayTest, ADelayedEventDoesNotOvertakeOneThatCameBack) {
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.broker().FailKey("a", {.failure = FailureClass::kOutage, .code = "timed_out"}, 1);
  bench_.broker().HoldDeliveries();
  bench_.Append("a", "1");
  bench_.AppendDelayed("a", "2", seconds{1});
  bench_.Append("b", "3");
  Step(*relay, 5);
  ASSERT_EQ(bench_.broker().arrived_count(), 2U);
  bench_.broker().ReleaseDeliveries(1);  // that of the first; the one of the other key is still missing
  Step(*relay, 300);
  bench_.broker().ReleaseDeliveries();
  Step(*relay, 300);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "2"));
}

TEST_F(RelayTest, APauseHoldsBackWhatWasSetAsideToo) {
  const auto relay = bench_.MakeRelay();
  bench_.AppendDelayed("a", "1", seconds{5});
  bench_.RunUntilQuiet(*relay);
  ASSERT_TRUE(bench_.dead_letters().SetPaused("main", true, {.actor = "ops", .reason = "maintenance"}));
  for (int i = 0; i < 200; ++i) {
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{100});
  }
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  ASSERT_TRUE(bench_.dead_letters().SetPaused("main", false, {.actor = "ops", .reason = "done"}));
  for (int i = 0; i < 50; ++i) {
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{100});
  }
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
}

// A database that is away takes the lease with it. What is inside the publisher must not go out once it is over.
TEST_F(RelayTest, AStoreThatIsAwayDoesNotLetAZombiePublish) {
  const auto relay = bench_.MakeRelay("zombie");
  bench_.RunUntilQuiet(*relay);
  bench_.broker().BeginOutage();
  for (int i = 0; i < 10; ++i) bench_.Append("a", std::to_string(i));
  for (int i = 0; i < 5; ++i) (void)relay->RunOnce();
  bench_.CutStore();
  bench_.Advance(seconds{8});
  (void)relay->RunOnce();
  EXPECT_EQ(bench_.broker().abandoned_count(), 0U);
  bench_.Advance(seconds{3});
  (void)relay->RunOnce();
  EXPECT_EQ(bench_.broker().abandoned_count(), 10U) << "the lease is over";
  bench_.HealStore();
  bench_.broker().EndOutage();
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.Published("a").size(), 10U);
}

// Enough is enough: when more fail than anybody can look after, the route waits instead of setting more aside.
TEST_F(RelayTest, WhatIsSetAsideIsBounded) {
  RelayOptions options = bench_.Options();
  options.parked_max = 50;
  bench_.broker().FailTopic("orders", Rejected());
  for (int i = 0; i < 200; ++i) bench_.Append("k" + std::to_string(i), "v");
  const auto relay = bench_.MakeRelay(options);
  for (int i = 0; i < 400; ++i) {
    (void)relay->RunOnce();
    bench_.Advance(milliseconds{500});
  }
  EXPECT_EQ(relay->stats().problem_code, "parked_limit");
  EXPECT_GE(relay->stats().dead_total, 50U);
  EXPECT_LE(relay->stats().dead_total, 50U + 5 * options.page_entries) << "known a heartbeat later";
  // As soon as the cause is gone, those that were not set aside flow.
  bench_.broker().ForgetFaults();
  bench_.Advance(seconds{60});
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.broker().record_count() + relay->stats().dead_total, 200U);
  EXPECT_EQ(relay->stats().problem_code, "");
}

// At the limit, what came back behind a failed event must not stand in that event's way.
TEST_F(RelayTest, AtTheLimitTheFirstOfAKeyIsStillTriedAgain) {
  RelayOptions options = bench_.Options();
  options.parked_max = 1;
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  bench_.broker().FailKey("a", Retryable(), 1);
  bench_.broker().HoldDeliveries();
  bench_.Append("a", "1");
  bench_.Append("a", "2");
  Step(*relay, 5);
  bench_.broker().ReleaseDeliveries(1);
  Step(*relay, 150);  // until a heartbeat has counted it
  bench_.broker().ReleaseDeliveries();
  Step(*relay, 600);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "2"));
}

TEST_F(RelayTest, AtTheLimitWhatWasSetAsideIsStillTried) {
  RelayOptions options = bench_.Options();
  options.parked_max = 1;
  const auto relay = bench_.MakeRelay(options);
  bench_.AppendDelayed("a", "later", seconds{5});
  Step(*relay, 150);
  bench_.broker().FailKey("b", Rejected());
  bench_.Append("b", "bad");
  Step(*relay, 1'500);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("later"));
}

TEST_F(RelayTest, OneEventThatIsGoneFromTheLogStopsNoOther) {
  bench_.broker().FailWhen([](const MemoryRecord&) { return true; }, Retryable(), 2);
  const EventId gone = bench_.Append("a", "1");
  bench_.Append("b", "2");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  ASSERT_EQ(bench_.StateOf(gone), DeliveryState::kFailed);
  bench_.Erase(gone);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(relay->RunOnce().has_value());
    bench_.Advance(milliseconds{100});
  }
  EXPECT_THAT(bench_.Published("b"), ElementsAre("2"));
}

}  // namespace
}  // namespace sealane::testing
