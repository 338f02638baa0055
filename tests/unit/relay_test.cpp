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
  RelayBench bench_;
};

MemoryFault Rejected() {
  return {.failure = FailureClass::kRejected, .code = "message_too_large"};
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
  RouteOptions options = bench_.Options();
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
  bench_.Step({one.get(), two.get()}, 100, milliseconds{200});
  EXPECT_EQ(one->stats().held.size(), 4U);
  EXPECT_EQ(two->stats().held.size(), 4U);
  for (int i = 0; i < 100; ++i) bench_.Append("k" + std::to_string(i), "v");
  bench_.Step({one.get(), two.get()}, 100);
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
  bench_.Step({zombie.get(), heir.get()}, 50, milliseconds{10});
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
}

// What a relay saw of the log before it got a lane says nothing about that lane, whose owner may have seen more.
TEST_F(RelayTest, ALaneFromAnotherRelayDoesNotGoBack) {
  const auto one = bench_.MakeRelay("relay-1");
  auto two = bench_.MakeRelay("relay-2");
  bench_.Step({one.get(), two.get()}, 100, milliseconds{200});
  ASSERT_EQ(two->stats().held.size(), 4U);
  for (int i = 0; i < 100; ++i) bench_.Append("k" + std::to_string(i % 40), std::to_string(i));
  bench_.RunUntilQuiet(*two);  // the first one stands still meanwhile
  const std::size_t published = bench_.broker().record_count();
  EXPECT_GT(published, 10U);
  EXPECT_EQ(two->Drain(), RelayEnd::kDrained);
  bench_.Step({one.get()}, 400);
  EXPECT_EQ(one->stats().held.size(), 8U);
  EXPECT_EQ(bench_.broker().record_count(), 100U) << "some events came twice";
}

TEST_F(RelayTest, ADrainWritesDownWhatIsKnownAndFreesTheLanes) {
  for (int i = 0; i < 20; ++i) bench_.Append("a", std::to_string(i));
  RouteOptions options = bench_.Options("first");
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
  bench_.Step({relay.get()}, 5);
  EXPECT_EQ(relay->Drain(), RelayEnd::kDrained);
}

TEST_F(RelayTest, ADrainSaysWhenSomethingMayComeAgain) {
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.broker().HoldDeliveries();
  bench_.Append("a", "1");
  bench_.Step({relay.get()}, 5);
  EXPECT_EQ(relay->Drain(), RelayEnd::kUnresolved);
}

TEST_F(RelayTest, AFilterLetsOnlyItsOwnPass) {
  bench_.Append("a", "1", "", "orders");
  bench_.Append("b", "2", "", "billing.invoices");
  RouteOptions options = bench_.Options();
  options.filter.topics = {"billing.*"};
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.broker().record_count(), 1U);
  EXPECT_EQ(relay->stats().filtered, 1U);
}

TEST_F(RelayTest, ATemplateNamesTheTopic) {
  bench_.Append("a", "1", "acme", "orders");
  RouteOptions options = bench_.Options();
  options.topic_template = "${tenant}.${topic}.events";
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a", "acme.orders.events"), ElementsAre("1"));
}

TEST_F(RelayTest, GlobalOrderHasOneOwnerAndOneSequence) {
  RouteOptions options = bench_.Options("relay-1");
  options.order = OrderMode::kGlobal;
  const auto one = bench_.MakeRelay(options);
  options.owner = "relay-2";
  const auto two = bench_.MakeRelay(options);
  for (int i = 0; i < 40; ++i) bench_.Append("k" + std::to_string(i % 9), std::to_string(i));
  bench_.Step({one.get(), two.get()}, 400, milliseconds{100});
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
  RouteOptions options = bench_.Options();
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
  bench_.Step({relay.get()}, 30, milliseconds{300});
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  EXPECT_THAT(bench_.Published("b"), ElementsAre("2"));
  EXPECT_EQ(bench_.StateOf(paused), DeliveryState::kPending);
  ASSERT_TRUE(bench_.dead_letters().SetTenant("main", {.tenant = "acme", .paused = false}, why));
  bench_.Step({relay.get()}, 30, milliseconds{300});
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
  RouteOptions options = bench_.Options();
  options.crowd_backlog = 100;
  options.page_bytes = 4'096;  // what a flow reads before the next has its turn
  const auto relay = bench_.MakeRelay(options);
  for (int i = 0; i < 2'000; ++i) bench_.Append("big" + std::to_string(i % 50), std::to_string(i), "big");
  bench_.Step({relay.get()}, 10, milliseconds{2});
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
  bench_.Step({relay.get()}, 100, milliseconds{500});
  EXPECT_EQ(bench_.Published("a").size(), 30U);
}

// Lanes that cannot be opened come again. What was read for the lanes that are open comes only once.
TEST_F(RelayTest, ALaneThatCannotBeOpenedTakesNoOtherWithIt) {
  const auto one = bench_.MakeRelay("relay-1");
  auto two = bench_.MakeRelay("relay-2");
  bench_.Step({one.get(), two.get()}, 100, milliseconds{200});
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

}  // namespace
}  // namespace sealane::testing
