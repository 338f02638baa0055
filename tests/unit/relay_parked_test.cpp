// Protects what becomes of events that fail, wait or die: their key waits with them and in order, the others flow,
// nothing is forgotten, and there is an end to how much is set aside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/relay_bench.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RelayParked : public ::testing::Test {
 protected:
  RelayBench bench_;
};

MemoryFault Rejected() {
  return {.failure = FailureClass::kRejected, .code = "message_too_large"};
}
MemoryFault Retryable() {
  return {.failure = FailureClass::kRetry, .code = "receiver_said_500"};
}

TEST_F(RelayParked, ARejectedEventHoldsUpItsKeyAlone) {
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

TEST_F(RelayParked, AReTriedDeadEventGoesBeforeItsFollowers) {
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

TEST_F(RelayParked, ADiscardedEventLetsItsFollowersGo) {
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

TEST_F(RelayParked, AFailedEventIsRetriedByThePolicyAndKeepsItsOrder) {
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

TEST_F(RelayParked, AnEventIsDeadWhenItsAttemptsAreUsedUp) {
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

TEST_F(RelayParked, ABriefPolicyIsDoneWithItsAttemptsInTheTimeItNames) {
  bench_.broker().FailKey("a", Retryable());
  const EventId bad = bench_.Append("a", "bad");
  RouteOptions options = bench_.Options();
  options.failures.retry = *RetryPreset("brief");
  const auto relay = bench_.MakeRelay(options);
  bench_.Step({relay.get()}, 125);  // 2.5 s: 100, 200, 400 and 800 ms of waits, and a look every 100 ms
  EXPECT_EQ(bench_.StateOf(bad), DeliveryState::kDead);
  EXPECT_EQ(bench_.StatusOf(bad).attempts, 5);
}

TEST_F(RelayParked, AForbiddenTopicIsRetriedForEverAndOthersFlow) {
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

TEST_F(RelayParked, ADeadEventIsCopiedToTheDeadLetterTopic) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders"; }, Rejected());
  const EventId id = bench_.Append("a", "1");
  RouteOptions options = bench_.Options();
  options.failures.dead_letter_topic = "orders.dead";
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a", "orders.dead"), ElementsAre("1"));
  EXPECT_EQ(bench_.StateOf(id), DeliveryState::kDead);
  const Headers headers = bench_.broker().records().front().headers;
  EXPECT_THAT(headers, ::testing::Contains(Header{"sealane-dead-code", "message_too_large"}));
  EXPECT_THAT(headers, ::testing::Contains(Header{"sealane-dead-topic", "orders"}));
}

TEST_F(RelayParked, AnEventThatDiesOfItsRetriesIsCopiedToTheDeadLetterTopicToo) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders"; }, Retryable());
  const EventId id = bench_.Append("a", "1");
  RouteOptions options = bench_.Options();
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
TEST_F(RelayParked, ADyingEventWaitsForItsCopy) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders"; }, Retryable());
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders.dead"; },
                           {.failure = FailureClass::kOutage, .code = "broker_unreachable"}, 3);
  const EventId id = bench_.Append("a", "1");
  RouteOptions options = bench_.Options();
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

TEST_F(RelayParked, WithoutOrderOnlyTheFailingEventWaits) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  bench_.Append("a", "bad");
  RouteOptions options = bench_.Options();
  options.order = OrderMode::kNone;
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  bench_.Append("a", "2");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("2"));
}

// While the copy of a dead event is under way, the store does not know of it yet.
TEST_F(RelayParked, NothingOvertakesAnEventWhoseCopyIsUnderWay) {
  RouteOptions options = bench_.Options();
  options.failures.dead_letter_topic = "orders.dead";
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.topic == "orders"; }, Rejected(), 1);
  bench_.broker().HoldDeliveries();
  bench_.Append("a", "bad");
  bench_.Step({relay.get()}, 5);
  bench_.broker().ReleaseDeliveries(1);
  bench_.Step({relay.get()}, 5);
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
TEST_F(RelayParked, ADelayedEventDoesNotOvertakeOneThatCameBack) {
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.broker().FailKey("a", {.failure = FailureClass::kOutage, .code = "timed_out"}, 1);
  bench_.broker().HoldDeliveries();
  bench_.Append("a", "1");
  bench_.AppendDelayed("a", "2", seconds{1});
  bench_.Append("b", "3");
  bench_.Step({relay.get()}, 5);
  ASSERT_EQ(bench_.broker().arrived_count(), 2U);
  bench_.broker().ReleaseDeliveries(1);  // that of the first; the one of the other key is still missing
  bench_.Step({relay.get()}, 300);
  bench_.broker().ReleaseDeliveries();
  bench_.Step({relay.get()}, 300);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "2"));
}

TEST_F(RelayParked, APauseHoldsBackWhatWasSetAsideToo) {
  RouteOptions options = bench_.Options();
  options.failures.retry.first = seconds{10};
  options.failures.retry.max = seconds{10};
  const auto relay = bench_.MakeRelay(options);
  bench_.broker().FailKey("a", Retryable(), 1);
  bench_.Append("a", "1");
  bench_.RunUntilQuiet(*relay);
  ASSERT_TRUE(bench_.dead_letters().SetPaused("main", true, {.actor = "ops", .reason = "maintenance"}));
  bench_.Step({relay.get()}, 200, milliseconds{100});
  EXPECT_THAT(bench_.Published("a"), IsEmpty());
  ASSERT_TRUE(bench_.dead_letters().SetPaused("main", false, {.actor = "ops", .reason = "done"}));
  bench_.Step({relay.get()}, 50, milliseconds{100});
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1"));
}

// Enough is enough: with as many parked events as a tenant may have, its others are tried one by one. Those of other
// tenants flow.
TEST_F(RelayParked, WhatATenantHasParkedIsBoundedAndStopsNoOther) {
  RouteOptions options = bench_.Options();
  options.parked_max = 50;
  options.page_entries = 20;
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  const auto relay = bench_.MakeRelay(options);
  for (int i = 0; i < 2'000; ++i) bench_.Append("k" + std::to_string(i), "bad", "acme");
  bench_.Append("b", "1", "other");
  bench_.Step({relay.get()}, 200);
  EXPECT_EQ(relay->stats().problem_code, "parked_limit");
  EXPECT_THAT(relay->stats().problem, ::testing::HasSubstr("acme"));
  EXPECT_EQ(relay->stats().state, RelayState::kRunning);
  EXPECT_GE(relay->stats().parked, 50);
  EXPECT_THAT(bench_.Published("b"), ElementsAre("1")) << "it stood behind them";
  bench_.Append("b", "2", "other");
  bench_.Append("c", "3");
  bench_.Step({relay.get()}, 5);
  EXPECT_THAT(bench_.Published("b"), ElementsAre("1", "2"));
  EXPECT_THAT(bench_.Published("c"), ElementsAre("3"));
  const std::int64_t before = relay->stats().parked;
  bench_.Step({relay.get()}, 2'000, milliseconds{500});
  EXPECT_LE(relay->stats().parked, before + 60) << "one in half a minute";

  // As soon as the cause is gone, those that were not parked flow, faster and faster.
  bench_.broker().ForgetFaults();
  bench_.Step({relay.get()}, 1'000, milliseconds{100});
  EXPECT_EQ(bench_.broker().record_count() + relay->stats().dead_total, 2'003U);
  ASSERT_TRUE(bench_.dead_letters().Retry(DeadLetterFilter{.limit = 10'000}, {.actor = "ops", .reason = "repaired"}));
  bench_.Step({relay.get()}, 500, milliseconds{100});
  EXPECT_EQ(bench_.broker().record_count(), 2'003U);
  EXPECT_EQ(relay->stats().parked, 0);
  EXPECT_EQ(relay->stats().problem_code, "");
}

TEST_F(RelayParked, WhereTheOrderSpansLanesTheLimitHoldsTheRoute) {
  RouteOptions options = bench_.Options();
  options.order = OrderMode::kTenant;
  options.parked_max = 10;
  bench_.broker().FailTopic("orders", Rejected());
  for (int i = 0; i < 50; ++i) bench_.Append("k", "v", "t" + std::to_string(i));
  const auto relay = bench_.MakeRelay(options);
  bench_.Step({relay.get()}, 400, milliseconds{500});
  EXPECT_EQ(relay->stats().problem_code, "parked_limit");
  EXPECT_LT(relay->stats().dead_total, 50U);
  bench_.broker().ForgetFaults();
  bench_.Step({relay.get()}, 400, milliseconds{500});
  EXPECT_EQ(bench_.broker().record_count() + relay->stats().dead_total, 50U);
}

// Dead events wait for a person, and until then for nothing else: neither they nor the events behind them are looked
// at again.
TEST_F(RelayParked, DeadEventsAreNotLookedAtUntilAnOperatorDecides) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  for (int i = 0; i < 300; ++i) bench_.Append("k" + std::to_string(i), "bad");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  ASSERT_EQ(relay->stats().dead_total, 300U);
  const auto count = [&] {
    return bench_.faults().count(memory::LogCall::kReadParked) + bench_.faults().count(memory::LogCall::kTakeChanges);
  };
  const auto before = count();
  const auto settled = bench_.faults().count(memory::LogCall::kSettle);
  const auto read = bench_.faults().count(memory::LogCall::kBlockedUnits);
  bench_.Step({relay.get()}, 3'000);  // a minute
  EXPECT_EQ(count(), before);
  EXPECT_LE(bench_.faults().count(memory::LogCall::kBlockedUnits), read + 2) << "once a minute, to be sure";
  EXPECT_LE(bench_.faults().count(memory::LogCall::kSettle), settled + 3);
}

TEST_F(RelayParked, ThousandsThatAreRetriedGoInBatches) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  for (int i = 0; i < 3'000; ++i) bench_.Append("k" + std::to_string(i), "bad");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.broker().ForgetFaults();
  ASSERT_EQ(ValueOrThrow(bench_.dead_letters().Retry(DeadLetterFilter{.limit = 10'000}, {"ops", "repaired"})), 3'000);
  const auto read = bench_.faults().count(memory::LogCall::kReadParked);
  bench_.Step({relay.get()}, 300);
  EXPECT_EQ(bench_.broker().record_count(), 3'000U);
  EXPECT_LE(bench_.faults().count(memory::LogCall::kReadParked), read + 100);
  EXPECT_EQ(relay->stats().parked, 0);
  bench_.Append("k7", "next");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("k7"), ElementsAre("bad", "next"));
}

// The relay dies with one event of a key on its way and a later one parked; the later one is due for its successor.
TEST_F(RelayParked, ASuccessorRetriesNothingBeforeAnEarlierEventOfTheKey) {
  auto first = bench_.MakeRelay("relay-1");
  bench_.RunUntilQuiet(*first);
  bench_.broker().HoldDeliveries();
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "1"; },
                           {.failure = FailureClass::kOutage, .code = "timed_out"});
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "2"; }, Retryable());
  bench_.Append("b", "0");
  bench_.Append("a", "1");
  bench_.Append("a", "2");
  bench_.Step({first.get()}, 5);
  bench_.broker().ReleaseDeliveries();
  bench_.Step({first.get()}, 20);
  first.reset();
  bench_.Advance(seconds{30});
  bench_.broker().ForgetFaults();
  const auto second = bench_.MakeRelay("relay-2");
  bench_.RunUntilQuiet(*second);
  bench_.Step({second.get()}, 500);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "2"));
}

// Somebody wrote to the table by hand, or the word about a change was lost on the way.
TEST_F(RelayParked, AChangeThatWasNotToldIsFoundWithinMinutes) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; }, Rejected());
  const EventId bad = bench_.Append("a", "bad");
  bench_.Append("a", "2");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.faults().Fail(memory::LogCall::kTakeChanges, Error(ErrorKind::kUnavailable, "connection_lost", "cut"),
                       memory::LogFaults::When::kAfterTheWork);
  ASSERT_TRUE(bench_.dead_letters().Discard(bad, std::nullopt, {.actor = "ops", .reason = "obsolete"}));
  bench_.Step({relay.get()}, 500);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("2"));
}

// At the limit, what came back behind a failed event must not stand in that event's way.
TEST_F(RelayParked, AtTheLimitTheFirstOfAKeyIsStillTriedAgain) {
  RouteOptions options = bench_.Options();
  options.parked_max = 1;
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  bench_.broker().FailKey("a", Retryable(), 1);
  bench_.broker().HoldDeliveries();
  bench_.Append("a", "1");
  bench_.Append("a", "2");
  bench_.Step({relay.get()}, 5);
  bench_.broker().ReleaseDeliveries(1);
  bench_.Step({relay.get()}, 150);
  bench_.broker().ReleaseDeliveries();
  bench_.Step({relay.get()}, 600);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("1", "2"));
}

TEST_F(RelayParked, OneEventThatIsGoneFromTheLogStopsNoOther) {
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
