// Protects the embedded broker's reading side: members of a group share partitions without overlap, a dead member's
// partitions move on after its lease, a zombie is refused, and retention keeps what somebody still has to read.

#include "journal/journal_group.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/lane.hpp"
#include "journal/journal_publisher.hpp"
#include "journal/journal_reader.hpp"
#include "journal/journal_retention.hpp"
#include "support/courier.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::seconds;

constexpr int kPartitions = 4;
constexpr seconds kLease{10};

class JournalGroup : public ::testing::Test {
 protected:
  JournalGroup() { Publish("o-1", "first"); }

  JournalOptions options() const { return {.path = file_.folder() + "/journal.db", .partitions = kPartitions}; }
  void Publish(const std::string& key, const std::string& value, const std::string& topic = "orders") {
    const auto publisher = ValueOrThrow(OpenJournalPublisher(options(), clock_));
    Courier courier(*publisher);
    courier.Send(topic, key, value);
    courier.CollectAll();
  }
  std::unique_ptr<JournalGroupMember> Join(const std::string& member, std::vector<std::string> topics = {"orders"}) {
    return ValueOrThrow(JournalGroupMember::Join(
        options(), {.group = "billing", .member = member, .topics = std::move(topics), .lease = kLease}, clock_));
  }
  JournalPartition PartitionOf(const std::string& key) const {
    const auto reader = ValueOrThrow(JournalReader::Open(options(), SystemClock::Instance()));
    return ValueOrThrow(reader->Partitions("orders")).at(static_cast<std::size_t>(Number(key)));
  }
  static std::int32_t Number(const std::string& key) { return LaneOf(LaneHash(key), kPartitions); }

  SqliteFile file_;
  ManualClock clock_;
};

std::vector<int> PartitionsIn(const std::vector<JournalClaim>& claims) {
  std::vector<int> partitions;
  for (const JournalClaim& claim : claims) partitions.push_back(claim.partition);
  return partitions;
}

/// Keeps, gives back at once what is to be given back, and returns the rest.
std::vector<JournalClaim> KeepFairShare(JournalGroupMember& member) {
  std::vector<JournalClaim> claims = ValueOrThrow(member.Keep());
  for (const JournalClaim& claim : claims) {
    if (claim.leaving) ValueOrThrow(member.GiveBack(claim));
  }
  std::erase_if(claims, [](const JournalClaim& claim) { return claim.leaving; });
  return claims;
}

JournalClaim ClaimOn(const std::vector<JournalClaim>& claims, std::int32_t partition) {
  const auto found = std::ranges::find_if(claims, [&](const auto& claim) { return claim.partition == partition; });
  EXPECT_NE(found, claims.end()) << "partition " << partition << " is not held";
  return found == claims.end() ? JournalClaim{} : *found;
}

TEST_F(JournalGroup, OneMemberReadsEverythingAndRemembersHowFar) {
  const auto alone = Join("a");
  const auto claims = ValueOrThrow(alone->Keep());
  EXPECT_EQ(PartitionsIn(claims), (std::vector<int>{0, 1, 2, 3}));
  const JournalClaim claim = ClaimOn(claims, Number("o-1"));
  EXPECT_EQ(claim.next_offset, 0);
  ValueOrThrow(alone->Acknowledge(claim, 1));
  EXPECT_EQ(ClaimOn(ValueOrThrow(alone->Keep()), Number("o-1")).next_offset, 1);
  ValueOrThrow(alone->Acknowledge(claim, 0));
  EXPECT_EQ(ClaimOn(ValueOrThrow(alone->Keep()), Number("o-1")).next_offset, 1) << "never back";
}

TEST_F(JournalGroup, TwoMembersShareWithoutOverlap) {
  const auto a = Join("a");
  ValueOrThrow(a->Keep());
  const auto b = Join("b");
  EXPECT_TRUE(ValueOrThrow(b->Keep()).empty()) << "the living are not robbed";
  const auto of_a = KeepFairShare(*a);
  const auto of_b = ValueOrThrow(b->Keep());
  EXPECT_EQ(of_a.size(), 2U);
  EXPECT_EQ(of_b.size(), 2U);
  std::vector<int> all = PartitionsIn(of_a);
  for (const int partition : PartitionsIn(of_b)) all.push_back(partition);
  EXPECT_THAT(all, ::testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(ValueOrThrow(a->Keep()), of_a) << "and then nothing moves";
  EXPECT_EQ(ValueOrThrow(b->Keep()), of_b);
}

TEST_F(JournalGroup, WhatLeavesIsOursUntilItIsGivenBack) {
  const auto a = Join("a");
  ValueOrThrow(a->Keep());
  const auto b = Join("b");
  const auto claims = ValueOrThrow(a->Keep());
  ASSERT_EQ(claims.size(), 4U);
  EXPECT_EQ(std::ranges::count_if(claims, &JournalClaim::leaving), 2);
  EXPECT_TRUE(ValueOrThrow(b->Keep()).empty());
  const JournalClaim leaving = *std::ranges::find_if(claims, &JournalClaim::leaving);
  ValueOrThrow(a->Acknowledge(leaving, 0));
  ValueOrThrow(a->GiveBack(leaving));
  EXPECT_EQ(a->Acknowledge(leaving, 1).error().code(), "claim_lost");
  EXPECT_EQ(PartitionsIn(ValueOrThrow(b->Keep())), std::vector<int>{leaving.partition});
  ValueOrThrow(a->GiveBack(leaving));
  EXPECT_EQ(ValueOrThrow(b->Keep()).size(), 1U) << "giving back what is somebody else's changes nothing";
}

TEST_F(JournalGroup, SeveralAcknowledgementsPassOverWhatIsLost) {
  const auto a = Join("a");
  const auto claims = ValueOrThrow(a->Keep());
  ValueOrThrow(a->GiveBack(claims[0]));
  ValueOrThrow(a->AcknowledgeAll(std::vector<std::pair<JournalClaim, std::int64_t>>{{claims[0], 7}, {claims[1], 5}}));
  const auto after = ValueOrThrow(a->Keep());
  EXPECT_EQ(after[0].next_offset, 0);
  EXPECT_EQ(after[1].next_offset, 5);
}

TEST_F(JournalGroup, TheDeadAreSucceededAfterTheirLeaseAndRefusedLater) {
  const auto dead = Join("dead");
  const auto before = ValueOrThrow(dead->Keep());
  const auto heir = Join("heir");
  clock_.Advance(kLease - seconds{1});
  EXPECT_TRUE(ValueOrThrow(heir->Keep()).empty());
  clock_.Advance(seconds{2});
  const auto after = ValueOrThrow(heir->Keep());
  EXPECT_EQ(after.size(), 4U);
  EXPECT_GT(after[0].epoch, before[0].epoch);

  const auto late = dead->Acknowledge(ClaimOn(before, Number("o-1")), 1);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind(), ErrorKind::kFenced);
  EXPECT_EQ(late.error().code(), "claim_lost");
  ValueOrThrow(heir->Acknowledge(ClaimOn(after, Number("o-1")), 1));
}

TEST_F(JournalGroup, ARestartedMemberFencesItsFormerSelf) {
  const auto former = Join("a");
  const auto before = ValueOrThrow(former->Keep());
  const auto restarted = Join("a");
  const auto after = ValueOrThrow(restarted->Keep());
  EXPECT_EQ(after.size(), 4U) << "without waiting for the lease";
  EXPECT_EQ(former->Acknowledge(before[0], 1).error().kind(), ErrorKind::kFenced);
  EXPECT_EQ(former->Keep().error().code(), "member_fenced") << "and it does not take anything back";
  ValueOrThrow(restarted->Acknowledge(after[0], 1));
  EXPECT_EQ(ValueOrThrow(restarted->Keep()).size(), 4U);
}

TEST_F(JournalGroup, LeavingHandsOverAtOnce) {
  const auto a = Join("a");
  const auto claims = ValueOrThrow(a->Keep());
  const auto b = Join("b");
  ValueOrThrow(a->Leave());
  EXPECT_EQ(ValueOrThrow(b->Keep()).size(), 4U);
  EXPECT_EQ(a->Acknowledge(claims[0], 1).error().kind(), ErrorKind::kFenced);
}

TEST_F(JournalGroup, TopicsThatAppearLaterAreRead) {
  const auto member = Join("a", {"orders", "mails"});
  EXPECT_EQ(ValueOrThrow(member->Keep()).size(), 4U);
  Publish("m-1", "hello", "mails");
  EXPECT_EQ(ValueOrThrow(member->Keep()).size(), 8U);
}

TEST_F(JournalGroup, MembersWithDifferentTopicsLeaveNothingUnread) {
  Publish("m-1", "hello", "mails");
  const auto orders = Join("orders", {"orders"});
  const auto mails = Join("mails", {"mails"});
  EXPECT_EQ(ValueOrThrow(orders->Keep()).size(), 4U);
  EXPECT_EQ(ValueOrThrow(mails->Keep()).size(), 4U);

  const auto both = Join("both", {"orders", "mails"});
  std::map<std::string, std::size_t> held;
  for (int round = 0; round < 2; ++round) {
    held["orders"] = KeepFairShare(*orders).size();
    held["mails"] = KeepFairShare(*mails).size();
    held["both"] = KeepFairShare(*both).size();
  }
  EXPECT_EQ(held, (std::map<std::string, std::size_t>{{"orders", 2}, {"mails", 2}, {"both", 4}}));
  ValueOrThrow(both->Leave());
  EXPECT_EQ(ValueOrThrow(orders->Keep()).size(), 4U);
}

// Also when there are fewer partitions than members in each topic.
TEST_F(JournalGroup, TopicsWithOnePartitionAreSharedToo) {
  for (const char* topic : {"t1", "t2", "t3", "t4"}) {
    JournalOptions one = options();
    one.partitions = 1;
    const auto publisher = ValueOrThrow(OpenJournalPublisher(one, clock_));
    Courier courier(*publisher);
    courier.Send(topic, "k", "v");
    courier.CollectAll();
  }
  const auto a = Join("a", {"t1", "t2", "t3", "t4"});
  const auto b = Join("b", {"t1", "t2", "t3", "t4"});
  EXPECT_EQ(ValueOrThrow(a->Keep()).size(), 2U);
  EXPECT_EQ(ValueOrThrow(b->Keep()).size(), 2U);
}

TEST_F(JournalGroup, RetentionByAgeSparesWhatIsUnread) {
  const auto member = Join("a");
  const auto claims = ValueOrThrow(member->Keep());
  clock_.Advance(std::chrono::hours{3});
  Publish("o-1", "second");
  const JournalRetention hour{.age_max = std::chrono::hours{1}};
  EXPECT_EQ(ValueOrThrow(SweepJournal(options(), hour, clock_)).messages, 0) << "nobody has read it";

  const auto fresh = ValueOrThrow(member->Keep());
  ValueOrThrow(member->Acknowledge(ClaimOn(fresh, Number("o-1")), 2));
  const JournalSweep swept = ValueOrThrow(SweepJournal(options(), hour, clock_));
  EXPECT_EQ(swept.messages, 1);
  EXPECT_EQ(PartitionOf("o-1").first_offset, 1);
  EXPECT_EQ(PartitionOf("o-1").next_offset, 2);
  const auto reader = ValueOrThrow(JournalReader::Open(options(), clock_));
  const auto left = ValueOrThrow(reader->Read("orders", Number("o-1"), 0));
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].value, "second");
}

TEST_F(JournalGroup, WhatWasRemovedUnreadShowsInThePosition) {
  const auto member = Join("a");
  ValueOrThrow(member->Keep());
  clock_.Advance(std::chrono::hours{3});
  ValueOrThrow(SweepJournal(options(), {.age_max = std::chrono::hours{1}, .spare_unread = false}, clock_));
  const auto claims = ValueOrThrow(member->Keep());
  EXPECT_EQ(ClaimOn(claims, Number("o-1")).next_offset, 0);
  EXPECT_EQ(PartitionOf("o-1").first_offset, 1);

  const auto late = ValueOrThrow(JournalGroupMember::Join(
      options(), {.group = "late", .member = "a", .topics = {"orders"}, .lease = kLease}, clock_));
  EXPECT_EQ(ClaimOn(ValueOrThrow(late->Keep()), Number("o-1")).next_offset, 1) << "a new group missed nothing";
}

TEST_F(JournalGroup, RetentionByBytesKeepsTheNewest) {
  const auto publisher = ValueOrThrow(OpenJournalPublisher(options(), clock_));
  Courier courier(*publisher);
  for (int i = 0; i < 2'500; ++i) courier.Send("orders", "big", std::string(1'000, 'x'));
  courier.CollectAll();
  const std::int64_t before = PartitionOf("big").bytes;
  const JournalSweep swept = ValueOrThrow(SweepJournal(options(), {.partition_bytes_max = 100'000}, clock_));
  const JournalPartition after = PartitionOf("big");
  EXPECT_LE(after.bytes, 100'000);
  EXPECT_GT(after.bytes, 90'000);
  EXPECT_EQ(swept.bytes, before - after.bytes);
  EXPECT_EQ(after.next_offset - after.first_offset,
            2'500 + (Number("big") == Number("o-1") ? 1 : 0) - swept.messages);

  Publish("big", "goes on");
  EXPECT_EQ(PartitionOf("big").next_offset, after.next_offset + 1);
}

TEST_F(JournalGroup, RetentionDoesNotWaitForAForgottenGroup) {
  const auto member = Join("a");
  ValueOrThrow(member->Keep());
  EXPECT_EQ(ForgetJournalGroup(options(), "billing", clock_).error().code(), "group_in_use");
  clock_.Advance(std::chrono::hours{3});
  const JournalRetention hour{.age_max = std::chrono::hours{1}};
  EXPECT_EQ(ValueOrThrow(SweepJournal(options(), hour, clock_)).messages, 0);
  ValueOrThrow(ForgetJournalGroup(options(), "billing", clock_));
  EXPECT_EQ(ValueOrThrow(SweepJournal(options(), hour, clock_)).messages, 1);
}

TEST_F(JournalGroup, ShowsWhatItHasNotAcknowledged) {
  Publish("o-1", "second");
  Publish("o-1", "of another topic", "refunds");
  const auto reader = ValueOrThrow(JournalReader::Open(options(), clock_));
  EXPECT_EQ(ValueOrThrow(reader->Unread("billing", "orders")), 2) << "a group that nobody joined";
  const auto member = Join("a");
  const auto claims = ValueOrThrow(member->Keep());
  const auto mine = std::find_if(claims.begin(), claims.end(),
                                 [](const JournalClaim& claim) { return claim.partition == Number("o-1"); });
  ASSERT_NE(mine, claims.end());
  EXPECT_EQ(ValueOrThrow(reader->Unread("billing", "orders")), 2);
  ValueOrThrow(member->Acknowledge(*mine, 1));
  EXPECT_EQ(ValueOrThrow(reader->Unread("billing", "orders")), 1);
  ValueOrThrow(member->Acknowledge(*mine, 2));
  EXPECT_EQ(ValueOrThrow(reader->Unread("billing", "orders")), 0);
  EXPECT_EQ(ValueOrThrow(reader->Unread("shipping", "orders")), 2) << "groups do not know of each other";
}

}  // namespace
}  // namespace sealane
