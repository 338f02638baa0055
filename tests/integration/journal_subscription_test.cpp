// Protects what only a subscription to a journal has: leases of one file's group, retention that may remove what is
// unread, and a file that others hold.

#include "journal/journal_subscription.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "journal/journal_publisher.hpp"
#include "journal/journal_retention.hpp"
#include "support/courier.hpp"
#include "support/sqlite_file.hpp"
#include "support/subscription_fixture.hpp"

namespace sealane {
namespace {

using namespace std::chrono_literals;
using namespace sealane::testing;

constexpr std::size_t kMany = 1'000;
constexpr std::size_t kManyBytes = std::size_t{4} << 20U;

class JournalSubscriptionTest : public ::testing::Test {
 protected:
  JournalOptions options() const {
    return {.path = file_.folder() + "/journal.db", .partitions = 1, .busy_patience = 20ms};
  }
  void Publish(const std::string& value, const std::string& topic = "orders") {
    const auto publisher = ValueOrThrow(OpenJournalPublisher(options(), clock_));
    Courier courier(*publisher);
    courier.Send(topic, "k", value);
    courier.CollectAll();
  }
  std::unique_ptr<Subscription> Open(const std::string& member, const std::string& group = "billing",
                                     const std::vector<std::string>& topics = {"orders"}) {
    return ValueOrThrow(OpenJournalSubscription(
        options(), {.group = group, .member = member, .topics = topics, .lease = 10s, .keep_every = 1s}, clock_));
  }
  /// The clock stands still, so nothing is waited for.
  static Result<Polled> Poll(Subscription& subscription) { return subscription.Poll(kMany, kManyBytes, 0ms); }
  static std::vector<std::string> StartAndRead(Subscription& subscription) {
    std::vector<PartitionStart> starts;
    for (const Partition& partition : ValueOrThrow(Poll(subscription)).gained) starts.push_back({partition});
    ValueOrThrow(subscription.Start(starts));
    std::vector<std::string> values;
    for (const ReceivedMessage& message : ValueOrThrow(Poll(subscription)).messages) values.push_back(message.value);
    return values;
  }

  SqliteFile file_;
  ManualClock clock_;
};

TEST_F(JournalSubscriptionTest, OneThatSleptThroughItsLeaseLearnsThatItLostEverything) {
  Publish("0");
  const auto sleeper = Open("sleeper");
  EXPECT_THAT(StartAndRead(*sleeper), ::testing::ElementsAre("0"));
  const auto heir = Open("heir");
  clock_.Advance(11s);
  EXPECT_THAT(StartAndRead(*heir), ::testing::ElementsAre("0"));
  ValueOrThrow(sleeper->Commit(std::vector<PartitionOffset>{{{"orders", 0}, 1}}, true));
  Publish("1");
  const Polled polled = ValueOrThrow(Poll(*sleeper));
  EXPECT_THAT(polled.lost, ::testing::ElementsAre(Partition{"orders", 0}));
  EXPECT_THAT(polled.messages, ::testing::IsEmpty());
  ValueOrThrow(heir->Close());
  clock_.Advance(1s);
  EXPECT_THAT(StartAndRead(*sleeper), ::testing::ElementsAre("0", "1")) << "its late commit was refused";
}

TEST_F(JournalSubscriptionTest, ASecondMemberOfTheSameNameFencesTheFirst) {
  Publish("0");
  const auto first = Open("same");
  EXPECT_EQ(StartAndRead(*first).size(), 1U);
  const auto second = Open("same");
  EXPECT_EQ(StartAndRead(*second).size(), 1U) << "at once";
  clock_.Advance(1s);
  const auto polled = Poll(*first);
  ASSERT_FALSE(polled);
  EXPECT_EQ(polled.error().kind(), ErrorKind::kFenced);
  EXPECT_EQ(polled.error().code(), "member_fenced");
}

TEST_F(JournalSubscriptionTest, WhatIsGoneUnreadIsNeverSkippedSilently) {
  Publish("0");
  const auto subscription = Open("a");
  ASSERT_EQ(ValueOrThrow(Poll(*subscription)).gained.size(), 1U);
  clock_.Advance(3h);
  Publish("1");
  ValueOrThrow(SweepJournal(options(), {.age_max = std::chrono::hours{1}, .spare_unread = false}, clock_));
  ValueOrThrow(subscription->Start(std::vector<PartitionStart>{{{"orders", 0}}}));
  for (int round = 0; round < 2; ++round) {
    const auto polled = Poll(*subscription);
    ASSERT_FALSE(polled);
    EXPECT_EQ(polled.error().kind(), ErrorKind::kCorrupt);
    EXPECT_EQ(polled.error().code(), "offset_out_of_range");
  }
  const auto late = Open("a", "a new group");
  EXPECT_THAT(StartAndRead(*late), ::testing::ElementsAre("1")) << "which has missed nothing";
}

TEST_F(JournalSubscriptionTest, WhatAFailedPollHadReadIsDroppedWithItsPartition) {
  const std::vector<std::string> topics = {"mail", "orders"};
  Publish("read before the failure", "mail");
  Publish("not readable");
  const auto sleeper = Open("sleeper", "billing", topics);
  std::vector<PartitionStart> starts;
  for (const Partition& partition : ValueOrThrow(Poll(*sleeper)).gained) starts.push_back({partition});
  ASSERT_EQ(starts.size(), 2U);
  ValueOrThrow(sleeper->Start(starts));
  const SqliteHandle journal(options().path);
  journal.Execute("UPDATE journal_messages SET headers = '[' WHERE value = CAST('not readable' AS BLOB)");
  EXPECT_EQ(Poll(*sleeper).error().code(), "journal_corrupt");
  EXPECT_EQ(sleeper->Position({"mail", 0}), 0) << "not handed out yet";
  const auto heir = Open("heir", "billing", topics);
  clock_.Advance(11s);
  ASSERT_EQ(ValueOrThrow(Poll(*heir)).gained.size(), 2U);
  const Polled polled = ValueOrThrow(Poll(*sleeper));
  EXPECT_THAT(polled.lost, ::testing::SizeIs(2));
  EXPECT_THAT(polled.messages, ::testing::IsEmpty()) << "somebody else reads them";
}

TEST_F(JournalSubscriptionTest, AJournalThatOthersHoldIsWaitedFor) {
  Publish("0");
  const auto subscription = Open("a");
  const SqliteHandle writer(options().path, SQLITE_OPEN_READWRITE);
  writer.Execute("BEGIN IMMEDIATE");
  EXPECT_TRUE(ValueOrThrow(Poll(*subscription)).empty());
  EXPECT_EQ(subscription->health().problem->code(), "journal_busy");
  writer.Execute("ROLLBACK");
  EXPECT_THAT(StartAndRead(*subscription), ::testing::ElementsAre("0"));
  EXPECT_TRUE(subscription->health().reachable);

  // A commit that is not waited for is written later.
  writer.Execute("BEGIN IMMEDIATE");
  ValueOrThrow(subscription->Commit(std::vector<PartitionOffset>{{{"orders", 0}, 1}}, false));
  EXPECT_FALSE(subscription->Commit({}, true));
  writer.Execute("ROLLBACK");
  clock_.Advance(100ms);
  ValueOrThrow(Poll(*subscription));
  EXPECT_EQ(writer.Number("SELECT next_offset FROM journal_group_offsets"), 1);
}

}  // namespace
}  // namespace sealane
