// Protects the controls of topics in memory, which other tests rely on to make trouble. What it has in common with
// brokers is in the contract suite.

#include "memory/memory_subscription.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sealane {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Partition kFirst{"orders", 0};
const Partition kSecond{"orders", 1};

class MemorySubscription : public ::testing::Test {
 protected:
  MemorySubscription() { topics_.MakeTopic("orders", 2); }

  std::unique_ptr<Subscription> Join() { return topics_.Join("billing", {"orders"}); }
  static Polled Poll(Subscription& subscription) { return ValueOrThrow(subscription.Poll(100, 1'000'000, 0ms)); }
  /// A member that has started what it gained.
  std::unique_ptr<Subscription> Started() {
    auto subscription = Join();
    StartGained(*subscription);
    return subscription;
  }
  static void StartGained(Subscription& subscription) {
    std::vector<PartitionStart> starts;
    for (const Partition& partition : Poll(subscription).gained) starts.push_back({partition});
    ValueOrThrow(subscription.Start(starts));
  }
  static std::vector<std::string> Values(const Polled& polled) {
    std::vector<std::string> values;
    for (const ReceivedMessage& message : polled.messages) values.push_back(message.value);
    return values;
  }
  static std::vector<PartitionOffset> At(std::int64_t offset) { return {{kFirst, offset}}; }

  ManualClock clock_;
  MemoryTopics topics_{clock_, 10s};
};

TEST_F(MemorySubscription, ARebalanceTakesEverythingAndHandsItOutWhenAllIsReleased) {
  const auto subscription = Started();
  topics_.Rebalance("billing");
  EXPECT_THAT(Poll(*subscription).leaving, ElementsAre(kFirst, kSecond));
  ValueOrThrow(subscription->Release(std::vector{kFirst}));
  EXPECT_TRUE(Poll(*subscription).empty());
  ValueOrThrow(subscription->Release(std::vector{kSecond}));
  EXPECT_THAT(Poll(*subscription).gained, ElementsAre(kFirst, kSecond));
}

TEST_F(MemorySubscription, APartitionCanBeTakenAwayWithoutAsking) {
  const auto subscription = Started();
  topics_.Publish(kFirst, "k", "0");
  EXPECT_EQ(Poll(*subscription).messages.size(), 1U);
  topics_.HoldCommits();
  ValueOrThrow(subscription->Commit(At(1), false));
  topics_.TakeAway("billing", kFirst);
  topics_.LetCommits();
  EXPECT_EQ(topics_.Committed("billing", kFirst), std::nullopt);
  const Polled polled = Poll(*subscription);
  EXPECT_THAT(polled.lost, ElementsAre(kFirst));
  EXPECT_THAT(polled.gained, ElementsAre(kFirst)) << "nobody else is there";
  ValueOrThrow(subscription->Start(std::vector<PartitionStart>{{kFirst}}));
  EXPECT_THAT(Values(Poll(*subscription)), ElementsAre("0"));
}

TEST_F(MemorySubscription, ASleepingGroupLosesEverything) {
  const auto subscription = Started();
  topics_.LoseMembers("billing");
  const Polled polled = Poll(*subscription);
  EXPECT_THAT(polled.lost, ElementsAre(kFirst, kSecond));
  EXPECT_THAT(polled.gained, ElementsAre(kFirst, kSecond));
}

TEST_F(MemorySubscription, RedeliveryBeginsAtWhatIsCommitted) {
  const auto subscription = Started();
  for (const char* value : {"0", "1", "2"}) topics_.Publish(kFirst, "k", value);
  EXPECT_EQ(Poll(*subscription).messages.size(), 3U);
  ValueOrThrow(subscription->Commit(At(1), true));
  topics_.Redeliver("billing");
  EXPECT_THAT(Values(Poll(*subscription)), ElementsAre("1", "2"));
}

TEST_F(MemorySubscription, HeldCommitsAreRememberedLaterUnlessTheMemberVanishes) {
  auto subscription = Started();
  topics_.HoldCommits();
  ValueOrThrow(subscription->Commit(At(1), false));
  EXPECT_EQ(topics_.Committed("billing", kFirst), std::nullopt);
  topics_.LetCommits();
  EXPECT_EQ(topics_.Committed("billing", kFirst), 1);
  topics_.HoldCommits();
  ValueOrThrow(subscription->Commit(At(2), true));
  EXPECT_EQ(topics_.Committed("billing", kFirst), 2) << "it was waited for";
  ValueOrThrow(subscription->Commit(At(3), false));
  subscription.reset();
  topics_.LetCommits();
  EXPECT_EQ(topics_.Committed("billing", kFirst), 2);
}

TEST_F(MemorySubscription, CallsFailAsScripted) {
  const auto subscription = Started();
  const Error error(ErrorKind::kUnavailable, "injected", "a test asked for it");
  topics_.Fail(MemoryTopics::Call::kPoll, error, 2);
  topics_.Fail(MemoryTopics::Call::kCommit, error);
  EXPECT_FALSE(subscription->Poll(1, 1, 0ms));
  EXPECT_FALSE(subscription->Poll(1, 1, 0ms));
  EXPECT_TRUE(subscription->Poll(1, 1, 0ms));
  EXPECT_FALSE(subscription->Commit(At(1), true));
  EXPECT_EQ(topics_.Committed("billing", kFirst), std::nullopt);
  topics_.Fail(MemoryTopics::Call::kPause, error, MemoryTopics::kAlways);
  EXPECT_FALSE(subscription->Pause({}));
  topics_.ForgetFaults();
  EXPECT_TRUE(subscription->Pause({}));
}

TEST_F(MemorySubscription, AVanishedMemberIsMissedWhenItsSessionEnds) {
  auto gone = Started();
  const auto heir = Join();
  gone.reset();
  EXPECT_TRUE(Poll(*heir).empty());
  clock_.Advance(11s);
  EXPECT_EQ(Poll(*heir).gained.size(), 2U);
  EXPECT_EQ(topics_.MemberCount("billing"), 1U);
}

TEST_F(MemorySubscription, SessionsCanBeEndedByHand) {
  Started().reset();
  EXPECT_EQ(topics_.MemberCount("billing"), 1U);
  topics_.EndSessions("billing");
  EXPECT_EQ(topics_.MemberCount("billing"), 0U);
}

TEST_F(MemorySubscription, AnOutageIsWaitedFor) {
  const auto subscription = Started();
  topics_.Publish(kFirst, "k", "0");
  topics_.BeginOutage();
  EXPECT_TRUE(Poll(*subscription).empty());
  EXPECT_EQ(subscription->health().problem->code(), "broker_unreachable");
  EXPECT_FALSE(subscription->Commit(At(1), true));
  topics_.EndOutage();
  EXPECT_TRUE(subscription->health().reachable);
  EXPECT_THAT(Values(Poll(*subscription)), ElementsAre("0"));
}

TEST_F(MemorySubscription, WhatWasTrimmedUnreadIsAnErrorAndOffsetsMayJump) {
  const auto subscription = Started();
  for (const char* value : {"0", "1", "2"}) topics_.Publish(kFirst, "k", value);
  topics_.SkipTo({kFirst, 10});
  EXPECT_EQ(topics_.Publish(kFirst, "k", "10"), (PartitionOffset{kFirst, 10}));
  topics_.Trim({kFirst, 2});
  const auto polled = subscription->Poll(1, 1, 0ms);
  ASSERT_FALSE(polled);
  EXPECT_EQ(polled.error().code(), "offset_out_of_range");
  ValueOrThrow(subscription->Start(std::vector<PartitionStart>{{.partition = kFirst, .offset = 2}}));
  EXPECT_THAT(Values(Poll(*subscription)), ElementsAre("2", "10"));
}

TEST_F(MemorySubscription, FactsOfAPartitionAreToldWithoutReadingIt) {
  const auto subscription = Started();
  for (const char* value : {"0", "1", "2"}) topics_.Publish(kFirst, "k", value, {{"h", value}});
  topics_.Trim({kFirst, 1});
  const auto facts = ValueOrThrow(subscription->Inspect(std::vector{kFirst, kSecond}));
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[0].partition, kFirst);
  EXPECT_EQ(facts[0].topic_id, topics_.TopicId("orders"));
  EXPECT_EQ(std::pair(facts[0].oldest, facts[0].end), std::pair(std::int64_t{1}, std::int64_t{3}));
  EXPECT_EQ(facts[0].group, std::nullopt);
  EXPECT_EQ(std::pair(facts[1].oldest, facts[1].end), std::pair(std::int64_t{0}, std::int64_t{0}));
  ValueOrThrow(subscription->Commit(At(2), true));
  EXPECT_EQ(ValueOrThrow(subscription->Inspect(std::vector{kFirst}))[0].group, 2);
  topics_.ForgetCommitted("billing");
  EXPECT_EQ(ValueOrThrow(subscription->Inspect(std::vector{kFirst}))[0].group, std::nullopt);
}

TEST_F(MemorySubscription, ATopicMadeAgainHasAnotherIdUnlessIdsAreNotTold) {
  const auto subscription = Started();
  topics_.Publish(kFirst, "k", "old");
  EXPECT_THAT(Values(Poll(*subscription)), ElementsAre("old"));
  ValueOrThrow(subscription->Commit(At(1), true));
  const std::string before = topics_.TopicId("orders");
  topics_.RecreateTopic("orders");
  const auto facts = ValueOrThrow(subscription->Inspect(std::vector{kFirst}))[0];
  EXPECT_NE(facts.topic_id, before);
  EXPECT_EQ(facts.end, 0);
  EXPECT_EQ(facts.group, std::nullopt);
  EXPECT_EQ(topics_.PartitionCount("orders"), 2);
  EXPECT_EQ(subscription->Poll(10, 1'000, 0ms).error().code(), "offset_out_of_range");
  // Not noticed any more once the new topic is as long as the old one was.
  topics_.Publish(kFirst, "k", "new");
  EXPECT_TRUE(Poll(*subscription).empty());
  EXPECT_EQ(ValueOrThrow(subscription->MessagesAt(At(0)))[0]->value, "new");
  topics_.TellTopicIds(false);
  EXPECT_EQ(ValueOrThrow(subscription->Inspect(std::vector{kFirst}))[0].topic_id, "");
}

TEST_F(MemorySubscription, APartitionThatIsGoneIsLostAndUnknown) {
  const auto subscription = Started();
  topics_.RecreateTopic("orders", 1);
  EXPECT_THAT(Poll(*subscription).lost, ElementsAre(kSecond));
  EXPECT_EQ(subscription->Inspect(std::vector{kSecond}).error().code(), "unknown_topic");
  topics_.DeleteTopic("orders");
  EXPECT_THAT(Poll(*subscription).lost, ElementsAre(kFirst));
  EXPECT_EQ(subscription->OffsetAt(kFirst, clock_.Now()).error().kind(), ErrorKind::kUnavailable);
  topics_.MakeTopic("orders", 1);
  EXPECT_THAT(Poll(*subscription).gained, ElementsAre(kFirst));
}

TEST_F(MemorySubscription, HeldMessagesComeLater) {
  const auto subscription = Started();
  topics_.Publish("orders", "k", "0");
  topics_.HoldMessages();
  EXPECT_THAT(Poll(*subscription).messages, IsEmpty());
  topics_.LetMessages();
  EXPECT_THAT(Values(Poll(*subscription)), ElementsAre("0"));
}

TEST_F(MemorySubscription, NewPartitionsAreHandedOutEvenly) {
  const auto a = Started();
  topics_.MakeTopic("orders", 6);
  EXPECT_EQ(Poll(*a).gained.size(), 4U);
  const auto b = Join();
  const auto leaving = Poll(*a).leaving;
  EXPECT_EQ(leaving.size(), 3U);
  ValueOrThrow(a->Release(leaving));
  EXPECT_EQ(Poll(*b).gained.size(), 3U);
}

}  // namespace
}  // namespace sealane
