// Protects what becomes of events whose time has not come: they leave when it has, in the order of their times, hold
// up nothing, cost nothing until then, and are neither lost nor sent twice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/relay_bench.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RelayDelayed : public ::testing::Test {
 protected:
  RelayBench bench_;
};

TEST_F(RelayDelayed, ADelayedEventLeavesWhenItsTimeHasComeAndHoldsUpNothing) {
  const auto relay = bench_.MakeRelay();
  const auto id = bench_.AppendDelayed("a", "later", seconds{60});
  bench_.Append("a", "next");
  bench_.Append("b", "now");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("next")) << "its turn is when its time has come";
  EXPECT_THAT(bench_.Published("b"), ElementsAre("now"));
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kPending);
  EXPECT_EQ(bench_.StatusOf(id).attempts, 0);
  EXPECT_TRUE(bench_.StatusOf(id).next_attempt_at.has_value());
  bench_.Advance(seconds{58});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("next"));
  bench_.Advance(seconds{3});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("next", "later"));
  bench_.Step({relay.get()}, 30);
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kPublished);
  EXPECT_EQ(relay->stats().parked_total, 0U);
}

TEST_F(RelayDelayed, TheyLeaveInTheOrderOfTheirTimes) {
  const auto relay = bench_.MakeRelay();
  bench_.AppendDelayed("a", "third", seconds{30});
  bench_.AppendDelayed("a", "first", seconds{10});
  bench_.AppendDelayed("a", "second", seconds{20});
  bench_.RunUntilQuiet(*relay);
  bench_.Advance(seconds{31});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("first", "second", "third"));
}

TEST_F(RelayDelayed, TheStoreIsNotAskedUntilTheFirstIsDue) {
  const auto relay = bench_.MakeRelay();
  for (int i = 0; i < 500; ++i) bench_.AppendDelayed("k" + std::to_string(i), "v", seconds{600});
  bench_.RunUntilQuiet(*relay);
  bench_.Step({relay.get()}, 100);
  const auto asked = bench_.faults().count(memory::LogCall::kReadDelayed);
  bench_.Step({relay.get()}, 1'000, milliseconds{500});
  EXPECT_EQ(bench_.faults().count(memory::LogCall::kReadDelayed), asked);
  bench_.Step({relay.get()}, 300, milliseconds{500});
  EXPECT_EQ(bench_.broker().record_count(), 500U);
}

TEST_F(RelayDelayed, MoreMayBeDelayedThanMayBeParked) {
  RouteOptions options = bench_.Options();
  options.parked_max = 10;
  const auto relay = bench_.MakeRelay(options);
  for (int i = 0; i < 3'000; ++i) bench_.AppendDelayed("k" + std::to_string(i), "v", seconds{60});
  bench_.Append("b", "now");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("b"), ElementsAre("now"));
  EXPECT_EQ(relay->stats().problem_code, "");
  bench_.Advance(seconds{61});
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.broker().record_count(), 3'001U);
}

TEST_F(RelayDelayed, ASuccessorSendsWhatItsPredecessorDelayed) {
  const auto first = bench_.MakeRelay("relay-1");
  bench_.AppendDelayed("a", "1", seconds{60});
  bench_.AppendDelayed("b", "2", seconds{61});
  bench_.Step({first.get()}, 50);
  bench_.Advance(seconds{62});  // longer than the lease
  const auto second = bench_.MakeRelay("relay-2");
  bench_.RunUntilQuiet(*second);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
  EXPECT_THAT(bench_.Published("b"), ElementsAre("2"));
}

TEST_F(RelayDelayed, TwoRelaysSendEachThoseOfItsLanes) {
  const auto first = bench_.MakeRelay("relay-1");
  const auto second = bench_.MakeRelay("relay-2");
  bench_.Step({first.get(), second.get()}, 200);
  for (int i = 0; i < 100; ++i) bench_.AppendDelayed("k" + std::to_string(i), "v", seconds{5});
  bench_.Step({first.get(), second.get()}, 500);
  EXPECT_EQ(bench_.broker().record_count(), 100U);
  EXPECT_GT(first->stats().published, 0U);
  EXPECT_GT(second->stats().published, 0U);
}

TEST_F(RelayDelayed, AFailingOneIsParkedAndHoldsUpItsKeyAlone) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; },
                           {.failure = FailureClass::kRejected, .code = "message_too_large"});
  const auto relay = bench_.MakeRelay();
  const EventId bad = bench_.AppendDelayed("a", "bad", seconds{10});
  bench_.AppendDelayed("b", "good", seconds{10});
  bench_.RunUntilQuiet(*relay);
  bench_.Advance(seconds{11});
  bench_.RunUntilQuiet(*relay);
  bench_.Append("a", "behind");
  const EventId late = bench_.AppendDelayed("a", "late", seconds{10});
  bench_.RunUntilQuiet(*relay);
  bench_.Advance(seconds{11});
  bench_.RunUntilQuiet(*relay);
  EXPECT_EQ(bench_.StateOf(bad), DeliveryState::kDead);
  EXPECT_EQ(bench_.StatusOf(bad).attempts, 1);
  EXPECT_EQ(bench_.StateOf(late), DeliveryState::kPending);
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  EXPECT_THAT(bench_.Published("b"), ElementsAre("good"));
  bench_.broker().ForgetFaults();
  ASSERT_TRUE(bench_.dead_letters().Retry(bad, std::nullopt, {.actor = "ops", .reason = "limit raised"}));
  bench_.Advance(seconds{5});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("bad", "behind", "late"));
}

TEST_F(RelayDelayed, AnOutageAtItsTimeCondemnsNothingAndKeepsTheOrder) {
  const auto relay = bench_.MakeRelay();
  for (int i = 0; i < 20; ++i) bench_.AppendDelayed("a", std::to_string(i), seconds{10 + i % 2});
  bench_.RunUntilQuiet(*relay);
  bench_.broker().FailWhen([](const MemoryRecord&) { return true; },
                           {.failure = FailureClass::kOutage, .code = "timed_out"}, 5);
  bench_.Step({relay.get()}, 3'000);
  ASSERT_THAT(bench_.Published("a"), SizeIs(20));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(bench_.Published("a").at(static_cast<std::size_t>(i)), std::to_string(2 * i));
    EXPECT_EQ(bench_.Published("a").at(static_cast<std::size_t>(10 + i)), std::to_string(2 * i + 1));
  }
  EXPECT_EQ(relay->stats().dead_total, 0U);
}

TEST_F(RelayDelayed, PausedTenantsKeepTheirsAndOthersLeave) {
  const auto relay = bench_.MakeRelay();
  bench_.AppendDelayed("a", "paused", seconds{10}, "acme");
  bench_.AppendDelayed("b", "flows", seconds{11}, "other");
  bench_.RunUntilQuiet(*relay);
  const OperatorAction why{.actor = "ops", .reason = "maintenance"};
  ASSERT_TRUE(bench_.dead_letters().SetTenant("main", {.tenant = "acme", .paused = true}, why));
  bench_.Step({relay.get()}, 1'000);
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  EXPECT_THAT(bench_.Published("b"), ElementsAre("flows"));
  ASSERT_TRUE(bench_.dead_letters().SetTenant("main", {.tenant = "acme", .paused = false}, why));
  bench_.Step({relay.get()}, 500);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("paused"));
}

TEST_F(RelayDelayed, AMissingTopicAtItsTimeIsWaitedFor) {
  const auto relay = bench_.MakeRelay();
  bench_.AppendDelayed("a", "1", seconds{10});
  bench_.RunUntilQuiet(*relay);
  bench_.broker().FailTopic("orders", {.failure = FailureClass::kTopicMissing, .code = "unknown_topic"}, 3);
  bench_.Step({relay.get()}, 2'000);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
  EXPECT_EQ(relay->stats().dead_total, 0U);
}

// The look at what is due fails, or what is known about it cannot be written: nothing is lost, nothing left behind.
TEST_F(RelayDelayed, AStoreThatStumblesLosesNothing) {
  const auto relay = bench_.MakeRelay();
  for (int i = 0; i < 50; ++i) bench_.AppendDelayed("k" + std::to_string(i), "v", seconds{1 + i % 5});
  for (int round = 0; round < 10; ++round) {
    const auto error = Error(ErrorKind::kUnavailable, "connection_lost", "cut");
    bench_.faults().Fail(memory::LogCall::kReadDelayed, error);
    bench_.Step({relay.get()}, 20);
    bench_.faults().Fail(memory::LogCall::kSettle, error);
    bench_.Step({relay.get()}, 20);
  }
  bench_.Step({relay.get()}, 500);
  EXPECT_EQ(bench_.broker().record_count(), 50U);
}

TEST_F(RelayDelayed, AStoresClockThatIsSetBackHidesNothing) {
  const auto relay = bench_.MakeRelay();
  bench_.AppendDelayed("a", "1", seconds{10});
  bench_.RunUntilQuiet(*relay);
  bench_.Advance(seconds{20});
  bench_.RunUntilQuiet(*relay);
  ASSERT_THAT(bench_.Published("a"), ElementsAre("1"));
  bench_.clock().StepCalendar(-seconds{15});
  bench_.AppendDelayed("a", "2", seconds{3});
  bench_.RunUntilQuiet(*relay);
  bench_.Advance(seconds{4});
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "2"));
}

// The relay dies while the earlier event of the key is not published; the later one is due when its successor begins.
TEST_F(RelayDelayed, ASuccessorSendsNothingBeforeAnEarlierEventOfTheKey) {
  auto first = bench_.MakeRelay("relay-1");
  bench_.Step({first.get()}, 20);
  bench_.broker().FailWhen([](const MemoryRecord&) { return true; },
                           {.failure = FailureClass::kOutage, .code = "broker_unreachable"});
  for (int i = 0; i < 20; ++i) bench_.Append("k" + std::to_string(i), "1");
  for (int i = 0; i < 20; ++i) bench_.AppendDelayed("k" + std::to_string(i), "2", seconds{3});
  bench_.Step({first.get()}, 100);
  first.reset();
  bench_.Advance(seconds{30});
  bench_.broker().ForgetFaults();
  const auto second = bench_.MakeRelay("relay-2");
  bench_.RunUntilQuiet(*second);
  bench_.Step({second.get()}, 100);
  for (int i = 0; i < 20; ++i) EXPECT_THAT(bench_.Published("k" + std::to_string(i)), ElementsAre("1", "2"));
}

// The same in one relay: the time comes while the earlier one of the key still waits for an answer.
TEST_F(RelayDelayed, ItWaitsForAnEarlierEventOfItsKeyThatIsOnItsWay) {
  const auto relay = bench_.MakeRelay();
  bench_.Step({relay.get()}, 20);
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "1"; },
                           {.failure = FailureClass::kOutage, .code = "timed_out"}, 6);
  bench_.Append("a", "1");
  bench_.AppendDelayed("a", "2", seconds{1});
  bench_.Step({relay.get()}, 3'000);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "2"));
}

TEST_F(RelayDelayed, OneThatIsGivenUpNeverLeaves) {
  const auto relay = bench_.MakeRelay();
  const EventId id = bench_.AppendDelayed("a", "1", seconds{10});
  bench_.RunUntilQuiet(*relay);
  bench_.Step({relay.get()}, 30);
  ASSERT_EQ(ValueOrThrow(bench_.dead_letters().Discard(id, std::nullopt, {.actor = "ops", .reason = "obsolete"})), 1);
  bench_.Step({relay.get()}, 1'000);
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kDiscarded);
}

}  // namespace
}  // namespace sealane::testing
