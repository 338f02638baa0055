// Protects what becomes of events whose topic does not exist: they wait, in order and without an attempt, and every
// other topic flows. And what decides whether an event may leave: its topic and key, and the clock of the store.

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/relay_bench.hpp"
#include "support/store_fixture.hpp"

namespace sealane::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MemoryFault Missing() {
  return {.failure = FailureClass::kTopicMissing, .code = "unknown_topic", .message = "there is no topic 'lost'"};
}

std::vector<std::string> Numbers(int count) {
  std::vector<std::string> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

class RelayTopics : public ::testing::Test {
 protected:
  EventId AppendLost(const std::string& key, const std::string& value) {
    return bench_.Append(key, value, "", "lost");
  }
  /// Lets enough time pass for the topic to be tried again.
  void RunOn(RouteRelay& relay) {
    bench_.Advance(seconds{3});
    bench_.RunUntilQuiet(relay);
  }

  RelayBench bench_;
};

TEST_F(RelayTopics, AMissingTopicIsAnOutageOfThatTopicAlone) {
  bench_.broker().FailTopic("lost", Missing());
  const EventId first = AppendLost("a", "1");
  const EventId second = AppendLost("a", "2");
  bench_.Append("a", "x");  // the same key, and so the same lane
  bench_.Append("b", "y");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  RunOn(*relay);

  EXPECT_THAT(bench_.Published("a"), ElementsAre("x"));
  EXPECT_THAT(bench_.Published("b"), ElementsAre("y"));
  for (const EventId& id : {first, second}) {
    const RouteStatus status = bench_.StatusOf(id);
    EXPECT_EQ(status.state, DeliveryState::kPending);
    EXPECT_EQ(status.attempts, 0);
    EXPECT_EQ(status.last_error_code, "unknown_topic");
  }
  const RouteStats stats = relay->stats();
  EXPECT_EQ(stats.dead_total, 0U);
  EXPECT_EQ(stats.parked, 0);
  EXPECT_EQ(stats.waiting, 2);
  EXPECT_EQ(stats.missing_topics, 1);
  EXPECT_EQ(stats.state, RelayState::kRunning);
  EXPECT_EQ(stats.problem_code, "unknown_topic");
  EXPECT_THAT(stats.problem, HasSubstr("lost"));

  AppendLost("a", "3");
  bench_.RunUntilQuiet(*relay);
  bench_.broker().ForgetFaults();
  RunOn(*relay);
  EXPECT_THAT(bench_.Published("a", "lost"), ElementsAre("1", "2", "3"));
  EXPECT_EQ(bench_.StateOf(first), DeliveryState::kPublished);
  AppendLost("a", "4");
  RunOn(*relay);
  EXPECT_THAT(bench_.Published("a", "lost"), ElementsAre("1", "2", "3", "4"));
  EXPECT_EQ(relay->stats().missing_topics, 0);
  EXPECT_EQ(relay->stats().problem, "");
}

TEST_F(RelayTopics, MoreMayWaitThanMayBeParkedAndMemoryStaysFree) {
  constexpr int kMany = 2'500;
  bench_.broker().FailTopic("lost", Missing());
  RouteOptions options = bench_.Options();
  options.parked_max = 10;
  options.page_entries = 100;
  for (int i = 0; i < kMany; ++i) AppendLost("a", std::to_string(i));
  bench_.Append("a", "x");
  const auto relay = bench_.MakeRelay(options);
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("x"));
  EXPECT_EQ(relay->stats().inflight_bytes, 0U);
  EXPECT_EQ(relay->stats().inflight_messages, 0U);
  RunOn(*relay);
  EXPECT_LE(bench_.broker().arrived_count(), 120U) << "a page at first, and then one at a time";

  bench_.broker().ForgetFaults();
  RunOn(*relay);
  EXPECT_EQ(bench_.Published("a", "lost"), Numbers(kMany));
  EXPECT_EQ(relay->stats().inflight_bytes, 0U);
}

TEST_F(RelayTopics, ASuccessorKeepsWaitingAndKeepsTheOrder) {
  bench_.broker().FailTopic("lost", Missing());
  AppendLost("a", "1");
  AppendLost("a", "2");
  {
    const auto relay = bench_.MakeRelay("first");
    bench_.RunUntilQuiet(*relay);
    EXPECT_EQ(relay->Drain(), RelayEnd::kDrained);
  }
  const auto relay = bench_.MakeRelay("second");
  AppendLost("a", "3");
  bench_.broker().ForgetFaults();
  RunOn(*relay);
  RunOn(*relay);
  EXPECT_THAT(bench_.Published("a", "lost"), ElementsAre("1", "2", "3"));
}

TEST_F(RelayTopics, TwoRelaysWaitEachForItsLanes) {
  bench_.broker().FailTopic("lost", Missing());
  const auto one = bench_.MakeRelay("one");
  const auto other = bench_.MakeRelay("other");
  for (int i = 0; i < 40; ++i) AppendLost("k" + std::to_string(i % 8), std::to_string(i));
  bench_.Step({one.get(), other.get()}, 300);
  EXPECT_EQ(bench_.broker().record_count(), 0U);
  bench_.broker().ForgetFaults();
  for (int i = 40; i < 80; ++i) AppendLost("k" + std::to_string(i % 8), std::to_string(i));
  bench_.Step({one.get(), other.get()}, 600);
  for (int k = 0; k < 8; ++k) {
    std::vector<std::string> expected;
    for (int i = k; i < 80; i += 8) expected.push_back(std::to_string(i));
    EXPECT_EQ(bench_.Published("k" + std::to_string(k), "lost"), expected) << k;
  }
}

TEST_F(RelayTopics, OrderHoldsWhileTheTopicComesAndGoesUnderLoad) {
  const auto relay = bench_.MakeRelay();
  int next = 0;
  for (int round = 0; round < 30; ++round) {
    if (round % 6 == 1) bench_.broker().FailTopic("lost", Missing());
    if (round % 6 == 4) bench_.broker().ForgetFaults();
    for (int i = 0; i < 10; ++i) AppendLost("a", std::to_string(next++));
    bench_.Step({relay.get()}, 20, milliseconds{50});
  }
  bench_.broker().ForgetFaults();
  RunOn(*relay);
  RunOn(*relay);
  EXPECT_EQ(bench_.Published("a", "lost"), Numbers(next));
}

TEST_F(RelayTopics, AnEventThatIsRefusedAfterTheWaitHoldsUpItsKeyAlone) {
  bench_.broker().FailTopic("lost", Missing());
  const auto relay = bench_.MakeRelay();
  AppendLost("a", "1");
  const EventId bad = AppendLost("a", "bad");
  const EventId follower = AppendLost("a", "3");
  AppendLost("b", "4");
  bench_.RunUntilQuiet(*relay);
  bench_.broker().ForgetFaults();
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; },
                           {.failure = FailureClass::kRejected, .code = "message_too_large"});
  RunOn(*relay);
  RunOn(*relay);
  EXPECT_THAT(bench_.Published("a", "lost"), ElementsAre("1"));
  EXPECT_THAT(bench_.Published("b", "lost"), ElementsAre("4"));
  EXPECT_EQ(bench_.StateOf(bad), DeliveryState::kDead);
  EXPECT_EQ(bench_.StateOf(follower), DeliveryState::kPending);
  bench_.broker().ForgetFaults();
  ASSERT_EQ(ValueOrThrow(bench_.dead_letters().Retry(bad, std::nullopt, {.actor = "ops", .reason = "limit raised"})),
            1);
  RunOn(*relay);
  EXPECT_THAT(bench_.Published("a", "lost"), ElementsAre("1", "bad", "3"));
}

// The first one that is tried is refused, and its copy goes to the dead-letter topic: whatever stands behind it must
// not wait for it to succeed.
TEST_F(RelayTopics, AFirstEventThatIsRefusedAfterTheWaitDoesNotStopItsTopic) {
  bench_.broker().FailTopic("lost", Missing());
  RouteOptions options = bench_.Options();
  options.failures.dead_letter_topic = "dead";
  const auto relay = bench_.MakeRelay(options);
  const EventId bad = AppendLost("a", "bad");
  AppendLost("b", "2");
  AppendLost("c", "3");
  bench_.RunUntilQuiet(*relay);
  bench_.broker().ForgetFaults();
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad" && record.topic == "lost"; },
                           {.failure = FailureClass::kRejected, .code = "message_too_large"});
  for (int i = 0; i < 5; ++i) RunOn(*relay);
  EXPECT_THAT(bench_.Published("b", "lost"), ElementsAre("2"));
  EXPECT_THAT(bench_.Published("c", "lost"), ElementsAre("3"));
  EXPECT_EQ(bench_.StateOf(bad), DeliveryState::kDead);
  EXPECT_EQ(relay->stats().missing_topics, 0);
}

TEST_F(RelayTopics, WhatIsSentElsewhereJustBeforeTheNextTryArrivesThere) {
  bench_.broker().FailTopic("lost", Missing());
  const auto relay = bench_.MakeRelay();
  AppendLost("a", "1");
  AppendLost("a", "2");
  bench_.RunUntilQuiet(*relay);
  RunOn(*relay);
  ASSERT_EQ(ValueOrThrow(bench_.dead_letters().Reroute({.topic = "lost", .to = "found", .waiting = true},
                                                       {.actor = "ops", .reason = "typo"})),
            2);
  for (int i = 0; i < 5; ++i) RunOn(*relay);
  EXPECT_THAT(bench_.Published("a", "found"), ElementsAre("1", "2"));
}

TEST_F(RelayTopics, AFailedEventWhoseTopicGoesMissingWaitsWithItsFollowers) {
  bench_.broker().FailTopic("lost", {.failure = FailureClass::kRetry, .code = "receiver_said_500"});
  const auto relay = bench_.MakeRelay();
  AppendLost("a", "1");
  AppendLost("a", "2");
  bench_.RunUntilQuiet(*relay);
  bench_.broker().ForgetFaults();
  bench_.broker().FailTopic("lost", Missing());
  RunOn(*relay);
  AppendLost("a", "3");
  for (int i = 0; i < 10; ++i) RunOn(*relay);
  EXPECT_EQ(relay->stats().dead_total, 0U) << "attempts are not used up by a missing topic";
  bench_.broker().ForgetFaults();
  RunOn(*relay);
  RunOn(*relay);
  EXPECT_THAT(bench_.Published("a", "lost"), ElementsAre("1", "2", "3"));
}

TEST_F(RelayTopics, ADeadEventBlocksItsKeyWithinItsTopic) {
  bench_.broker().FailWhen([](const MemoryRecord& record) { return record.value == "bad"; },
                           {.failure = FailureClass::kRejected, .code = "message_too_large"});
  bench_.Append("a", "bad", "", "invoices");
  const EventId follower = bench_.Append("a", "2", "", "invoices");
  bench_.Append("a", "x");
  const auto relay = bench_.MakeRelay();
  bench_.RunUntilQuiet(*relay);
  bench_.Append("a", "y");
  bench_.RunUntilQuiet(*relay);
  EXPECT_THAT(bench_.Published("a"), ElementsAre("x", "y"));
  EXPECT_THAT(bench_.Published("a", "invoices"), IsEmpty());
  EXPECT_EQ(bench_.StateOf(follower), DeliveryState::kPending);
}

/// A clock that is set wrong.
class WrongClock final : public Clock {
 public:
  WrongClock(Clock& right, std::chrono::microseconds off) : right_(right), off_(off) {}
  Timestamp Now() const override { return right_.Now() + off_; }
  BootTime SinceBoot() const override { return right_.SinceBoot(); }
  bool SleepFor(std::chrono::nanoseconds time, std::stop_token stop) override {
    return right_.SleepFor(time, std::move(stop));
  }

 private:
  Clock& right_;
  const std::chrono::microseconds off_;
};

TEST_F(RelayTopics, WhetherAnEventMayLeaveIsSaidByTheClockOfTheStore) {
  for (const hours off : {hours{2}, hours{-2}}) {
    WrongClock clock(bench_.clock(), off);
    const std::string key = off > hours{0} ? "ahead" : "behind";
    bench_.AppendDelayed(key, "1", seconds{60});
    const auto relay = bench_.MakeRelay(bench_.Options(key), clock);
    bench_.RunUntilQuiet(*relay);
    bench_.Advance(seconds{50});
    bench_.RunUntilQuiet(*relay);
    EXPECT_THAT(bench_.Published(key), IsEmpty()) << key;
    bench_.Advance(seconds{12});
    bench_.RunUntilQuiet(*relay);
    EXPECT_THAT(bench_.Published(key), ElementsAre("1")) << key;
    // One whose time has come before it is read.
    bench_.AppendDelayed(key, "2", seconds{-1});
    bench_.RunUntilQuiet(*relay);
    EXPECT_THAT(bench_.Published(key), ElementsAre("1", "2")) << key;
    EXPECT_EQ(relay->Drain(), RelayEnd::kDrained);
  }
}

TEST_F(RelayTopics, AnotherOrderIsRefusedWhileEventsAreParkedByTheOldOne) {
  bench_.broker().FailKey("a", {.failure = FailureClass::kRejected, .code = "message_too_large"});
  const EventId bad = bench_.Append("a", "bad");
  {
    const auto relay = bench_.MakeRelay("first");
    bench_.RunUntilQuiet(*relay);
    EXPECT_EQ(relay->Drain(), RelayEnd::kDrained);
  }
  RouteOptions options = bench_.Options("second");
  options.order = OrderMode::kTenant;
  {
    const auto relay = bench_.MakeRelay(options);
    const auto refused = relay->RunOnce();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), "order_changed");
    EXPECT_EQ(refused.error().kind(), ErrorKind::kMisconfigured);
    EXPECT_THAT(refused.error().message(), HasSubstr("1 events are parked"));
    EXPECT_THAT(refused.error().hint(), HasSubstr("sealane dead"));
  }
  ASSERT_EQ(ValueOrThrow(bench_.dead_letters().Discard(bad, std::nullopt, {.actor = "ops", .reason = "obsolete"})),
            1);
  const auto relay = bench_.MakeRelay(options);
  EXPECT_TRUE(relay->RunOnce());
  options.order = OrderMode::kGlobal;
  options.owner = "third";
  const auto other = bench_.MakeRelay(options);
  const auto refused = other->RunOnce();
  ASSERT_FALSE(refused) << "a live relay runs it with another order";
  EXPECT_EQ(refused.error().code(), "order_changed");
}

}  // namespace
}  // namespace sealane::testing
