// What every subscription promises to the inbox: nothing is skipped, what was committed does not come again after a
// change of hands, a partition has one reader at a time and is handed over explicitly, and a broker that is away is
// waited for.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/kafka_cluster.hpp"
#include "support/subscription_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

constexpr std::size_t kManyBytes = std::size_t{4} << 20U;

class SubscriptionContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "kafka") SEALANE_REQUIRE_KAFKA();
    fixture_ = MakeSubscriptionFixture(GetParam());
  }
  /// One value per number, over many keys.
  std::vector<std::string> PublishNumbers(const std::string& topic, int from, int to) {
    std::vector<std::string> values;
    for (int i = from; i < to; ++i) {
      values.push_back(std::to_string(i));
      fixture_->Publish(topic, fmt::format("key-{}", i % 17), values.back());
    }
    return values;
  }
  Reader Join(const std::string& topic) { return Reader(fixture_->Join(group_, {topic})); }

  const std::string group_ = FreshName();
  std::unique_ptr<SubscriptionFixture> fixture_;
};

INSTANTIATE_TEST_SUITE_P(Subscription, SubscriptionContract, ::testing::ValuesIn(SubscriptionKinds()),
                         [](const auto& test) { return test.param; });

TEST_P(SubscriptionContract, ANewGroupBeginsAtTheOldestMessage) {
  const std::string topic = fixture_->MakeTopic(3);
  const auto values = PublishNumbers(topic, 0, 40);
  Reader reader = Join(topic);
  reader.ReadCount(40);
  EXPECT_THAT(reader.values(), UnorderedElementsAreArray(values));
  reader.Close();
}

TEST_P(SubscriptionContract, NothingComesBeforeStart) {
  const std::string topic = fixture_->MakeTopic(1);
  fixture_->Publish(topic, "k", "v");
  Reader reader = Join(topic);
  reader.DoNotStart();
  reader.AwaitPartitions(1);
  for (int i = 0; i < 10; ++i) reader.Step();
  EXPECT_THAT(reader.messages(), IsEmpty());
  ValueOrThrow(reader.subscription().Start(std::vector<PartitionStart>{{*reader.held().begin()}}));
  reader.ReadCount(1);
  EXPECT_THAT(reader.values(), ElementsAre("v"));
  reader.Close();
}

TEST_P(SubscriptionContract, StartsWhereItIsToldWhateverTheGroupCommitted) {
  const std::string topic = fixture_->MakeTopic(1);
  for (const char* value : {"0", "1", "2", "3", "4"}) fixture_->Publish(topic, "k", value);
  Reader first = Join(topic);
  first.ReadCount(5);
  first.CommitAll();
  first.Close();
  Reader second = Join(topic);
  second.DoNotStart();
  second.AwaitPartitions(1);
  ValueOrThrow(second.subscription().Start(
      std::vector<PartitionStart>{{.partition = *second.held().begin(), .offset = first.messages()[2].offset}}));
  second.ReadCount(3);
  EXPECT_THAT(second.values(), ElementsAre("2", "3", "4"));
  second.Close();
}

// Each may be started on its own: nothing of those that read already is lost or comes again.
TEST_P(SubscriptionContract, PartitionsCanBeStartedOneAfterTheOther) {
  const std::string topic = fixture_->MakeTopic(3);
  const auto values = PublishNumbers(topic, 0, 60);
  Reader reader = Join(topic);
  reader.DoNotStart();
  reader.AwaitPartitions(3);
  for (const Partition& partition : reader.held()) {
    const std::size_t before = reader.messages().size();
    ValueOrThrow(reader.subscription().Start(std::vector<PartitionStart>{{partition}}));
    reader.ReadCount(before + 1);
    EXPECT_EQ(reader.messages().back().partition, partition);
  }
  reader.ReadCount(60);
  EXPECT_THAT(reader.values(), UnorderedElementsAreArray(values));
  reader.Close();
}

TEST_P(SubscriptionContract, CarriesMessagesUnchangedAndInOrder) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte.push_back(static_cast<char>(i));
  const std::vector<std::string> values = {every_byte, "", "{\"a\" : 1.10}\n", std::string(300'000, 'x'), "last"};
  const std::string key = "Gr\xc3\xbc\xc3\x9f\x65 / 100% \"k\"";
  const Headers headers = {{"name", "1"}, {"empty", ""}, {"name", "2"}, {"text", "Stra\xc3\x9f\x65"}};
  const std::string topic = fixture_->MakeTopic(1);
  const auto before = std::chrono::system_clock::now() - seconds{60};
  for (const std::string& value : values) fixture_->Publish(topic, key, value, headers);
  fixture_->Publish(topic, "", "no key");
  Reader reader = Join(topic);
  reader.ReadCount(values.size() + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ReceivedMessage& message = reader.messages()[i];
    EXPECT_EQ(message.partition, (Partition{topic, 0}));
    EXPECT_EQ(message.offset, static_cast<std::int64_t>(i));
    EXPECT_EQ(message.key, key);
    EXPECT_TRUE(message.value == values[i]) << "value " << i << " has changed";
    EXPECT_EQ(message.headers, headers);
    EXPECT_GT(message.published_at, before);
  }
  EXPECT_EQ(reader.messages().back().key, "");
  EXPECT_THAT(reader.messages().back().headers, IsEmpty());
  reader.Close();
}

TEST_P(SubscriptionContract, PollKeepsToItsLimitsButAlwaysBringsOne) {
  const std::string topic = fixture_->MakeTopic(1);
  for (int i = 0; i < 10; ++i) fixture_->Publish(topic, "k", std::string(1'000, 'x'));
  Reader reader = Join(topic);
  reader.DoNotStart();
  reader.AwaitPartitions(1);
  Subscription& subscription = reader.subscription();
  ValueOrThrow(subscription.Start(std::vector<PartitionStart>{{*reader.held().begin()}}));
  std::int64_t next = 0;
  const auto poll = [&](std::size_t messages_max, std::size_t bytes_max) {
    const auto deadline = steady_clock::now() + seconds{60};
    while (steady_clock::now() < deadline) {
      const auto polled = ValueOrThrow(subscription.Poll(messages_max, bytes_max, milliseconds{100}));
      std::size_t bytes = 0;
      for (const ReceivedMessage& message : polled.messages) {
        EXPECT_EQ(message.offset, next++);
        bytes += message.bytes();
      }
      EXPECT_TRUE(polled.messages.size() <= 1 || bytes <= bytes_max) << bytes;
      EXPECT_LE(polled.messages.size(), messages_max);
      if (!polled.messages.empty()) return polled.messages.size();
    }
    ADD_FAILURE() << "nothing came";
    return std::size_t{0};
  };
  EXPECT_EQ(poll(1, kManyBytes), 1U);
  EXPECT_EQ(poll(100, 10), 1U) << "larger than the limit, but one";
  EXPECT_LE(poll(100, 3'500), 3U);
  EXPECT_LE(poll(2, kManyBytes), 2U);
  while (next < 10) poll(100, kManyBytes);
  EXPECT_EQ(next, 10);
  reader.Close();
}

TEST_P(SubscriptionContract, ASuccessorBeginsWhereTheGroupStands) {
  const std::string topic = fixture_->MakeTopic(1);
  for (const char* value : {"0", "1", "2", "3"}) fixture_->Publish(topic, "k", value);
  Reader first = Join(topic);
  first.ReadCount(4);
  ValueOrThrow(first.subscription().Commit(
      std::vector<PartitionOffset>{{first.messages()[2].partition, first.messages()[2].offset}}, true));
  first.Close();
  Reader second = Join(topic);
  second.ReadCount(2);
  EXPECT_THAT(second.values(), ElementsAre("2", "3")) << "what was not committed comes again, and nothing else";
  second.CommitAll(false);
  second.Close();
  fixture_->Publish(topic, "k", "4");
  Reader third = Join(topic);
  third.ReadCount(1);
  EXPECT_THAT(third.values(), ElementsAre("4")) << "a commit that was not waited for is there at the end";
  third.Close();
}

TEST_P(SubscriptionContract, GroupsDoNotDisturbEachOther) {
  const std::string topic = fixture_->MakeTopic(2);
  const auto values = PublishNumbers(topic, 0, 20);
  Reader one = Join(topic);
  Reader other(fixture_->Join(FreshName(), {topic}));
  one.ReadCount(20);
  one.CommitAll();
  other.ReadCount(20);
  EXPECT_THAT(other.values(), UnorderedElementsAreArray(values));
  one.Close();
  other.Close();
}

TEST_P(SubscriptionContract, ReadsSeveralTopics) {
  const std::string orders = fixture_->MakeTopic(2);
  const std::string mails = fixture_->MakeTopic(1);
  PublishNumbers(orders, 0, 10);
  PublishNumbers(mails, 10, 20);
  Reader reader(fixture_->Join(group_, {orders, mails}));
  reader.ReadCount(20);
  EXPECT_EQ(reader.held(), (std::set<Partition>{{orders, 0}, {orders, 1}, {mails, 0}}));
  reader.Close();
}

TEST_P(SubscriptionContract, ASecondMemberGetsItsShareOnlyAfterTheFirstReleasedIt) {
  const std::string topic = fixture_->MakeTopic(4);
  PublishNumbers(topic, 0, 40);
  Reader first = Join(topic);
  first.ReadCount(40);
  first.DoNotRelease();
  Reader second = Join(topic);
  first.StepUntil("something leaves", [&] {
    second.Step();
    return !first.leaving().empty();
  });
  PublishNumbers(topic, 40, 80);
  for (int i = 0; i < 10; ++i) {
    second.Step();
    first.Step();
  }
  EXPECT_THAT(second.held(), IsEmpty()) << "it is not released";
  const std::vector<Partition> leaving = first.leaving();
  EXPECT_EQ(std::ranges::count_if(
                first.messages().begin() + 40, first.messages().end(),
                [&](const ReceivedMessage& message) { return std::ranges::count(leaving, message.partition) != 0; }),
            0)
      << "nothing more comes of what leaves";
  first.CommitAll();
  ValueOrThrow(first.subscription().Release(leaving));

  // Everything that leaves now, and what is gained again, goes its way.
  std::set<Partition> of_first;
  const auto deadline = steady_clock::now() + seconds{60};
  for (const Partition& partition : first.held()) {
    if (std::ranges::count(leaving, partition) == 0) of_first.insert(partition);
  }
  std::vector<std::string> read = first.values();
  while (steady_clock::now() < deadline && (of_first.size() != 2 || second.held().size() != 2)) {
    const Polled polled = ValueOrThrow(first.subscription().Poll(1'000, kManyBytes, milliseconds{20}));
    EXPECT_THAT(polled.leaving, IsEmpty());
    std::vector<PartitionStart> starts;
    for (const Partition& partition : polled.gained) {
      of_first.insert(partition);
      starts.push_back({partition});
    }
    ValueOrThrow(first.subscription().Start(starts));
    for (const ReceivedMessage& message : polled.messages) read.push_back(message.value);
    second.Step();
  }
  ASSERT_EQ(of_first.size(), 2U);
  ASSERT_EQ(second.held().size(), 2U);
  for (const Partition& partition : second.held()) EXPECT_FALSE(of_first.contains(partition)) << "two readers";
  while (steady_clock::now() < deadline && read.size() + second.messages().size() < 80) {
    for (const ReceivedMessage& message :
         ValueOrThrow(first.subscription().Poll(1'000, kManyBytes, milliseconds{20})).messages) {
      read.push_back(message.value);
    }
    second.Step();
  }
  for (const std::string& value : second.values()) read.push_back(value);
  std::vector<std::string> all;
  for (int i = 0; i < 80; ++i) all.push_back(std::to_string(i));
  EXPECT_THAT(read, UnorderedElementsAreArray(all)) << "each once, because all was committed before the release";
  first.Close();
  second.Close();
}

TEST_P(SubscriptionContract, MembersThatComeAndGoLoseNothing) {
  const std::string topic = fixture_->MakeTopic(4);
  std::vector<std::string> expected = PublishNumbers(topic, 0, 50);
  Reader first = Join(topic);
  first.CommitBeforeRelease();
  first.ReadCount(50);
  Reader second = Join(topic);
  second.CommitBeforeRelease();
  const auto both = [&](const std::string& what, const std::function<bool()>& so) {
    first.StepUntil(what, [&] {
      second.Step();
      return so();
    });
  };
  both("an even share", [&] { return first.held().size() == 2 && second.held().size() == 2; });
  for (const std::string& value : PublishNumbers(topic, 50, 100)) expected.push_back(value);
  both("all", [&] { return first.messages().size() + second.messages().size() >= 100; });
  first.CommitAll();
  first.Close();
  second.AwaitPartitions(4);
  for (const std::string& value : PublishNumbers(topic, 100, 120)) expected.push_back(value);
  second.ReadCount(expected.size() - first.messages().size());
  std::vector<std::string> read = first.values();
  for (const std::string& value : second.values()) read.push_back(value);
  EXPECT_THAT(read, UnorderedElementsAreArray(expected));
  EXPECT_EQ(first.lost_count() + second.lost_count(), 0U);
  second.Close();
}

TEST_P(SubscriptionContract, AMemberThatClosesHandsOverAtOnce) {
  const std::string topic = fixture_->MakeTopic(2);
  PublishNumbers(topic, 0, 10);
  Reader first = Join(topic);
  first.ReadCount(10);
  first.Close();
  const auto start = steady_clock::now();
  Reader second = Join(topic);
  second.AwaitPartitions(2);
  EXPECT_LT(steady_clock::now() - start, std::max<steady_clock::duration>(fixture_->session(), seconds{1}));
  second.Close();
}

TEST_P(SubscriptionContract, AMemberThatVanishesIsSucceededAfterItsSession) {
  const std::string topic = fixture_->MakeTopic(2);
  const auto values = PublishNumbers(topic, 0, 10);
  Reader first = Join(topic);
  first.ReadCount(10);
  const auto last_sign = steady_clock::now();
  first.Vanish();
  Reader second = Join(topic);
  second.AwaitPartitions(2);
  // It may have been heard of for the last time a moment before.
  EXPECT_GT(steady_clock::now() - last_sign, fixture_->session() / 2);
  second.ReadCount(10);
  EXPECT_THAT(second.values(), UnorderedElementsAreArray(values)) << "nothing was committed";
  second.Close();
}

TEST_P(SubscriptionContract, PausingLosesAndDoublesNothing) {
  const std::string topic = fixture_->MakeTopic(2);
  std::vector<std::string> expected = PublishNumbers(topic, 0, 60);
  Reader reader = Join(topic);
  reader.AwaitPartitions(2);
  const std::vector<Partition> one = {*reader.held().begin()};
  const auto of_paused = [&] {
    return std::ranges::count(reader.messages(), one[0], [](const auto& message) { return message.partition; });
  };
  // Before anything was read, then after some was.
  for (int round = 0; round < 3; ++round) {
    ValueOrThrow(reader.subscription().Pause(one));
    const auto before = of_paused();
    const auto more = PublishNumbers(topic, 60 + round * 30, 90 + round * 30);
    expected.insert(expected.end(), more.begin(), more.end());
    for (int i = 0; i < 5; ++i) reader.Step();
    EXPECT_EQ(of_paused(), before) << "round " << round;
    ValueOrThrow(reader.subscription().Resume(one));
    // A few messages at a time, so that the pause comes in the middle.
    const Polled polled = ValueOrThrow(reader.subscription().Poll(0, 0, milliseconds{0}));
    EXPECT_LE(polled.messages.size(), 1U);
    for (const ReceivedMessage& message : polled.messages) std::erase(expected, message.value);
    reader.StepUntil("some more", [&] { return of_paused() > before; });
  }
  reader.ReadCount(expected.size());
  for (int i = 0; i < 5; ++i) reader.Step();
  EXPECT_THAT(reader.values(), UnorderedElementsAreArray(expected));
  reader.Close();
}

TEST_P(SubscriptionContract, WhatIsGoneIsPassedOver) {
  const std::string topic = fixture_->MakeTopic(1);
  fixture_->Publish(topic, "k", "v");
  Reader reader = Join(topic);
  reader.ReadCount(1);
  const Partition gone{topic, 7};
  EXPECT_TRUE(reader.subscription().Commit(std::vector<PartitionOffset>{{gone, 3}}, true));
  EXPECT_TRUE(reader.subscription().Commit(std::vector<PartitionOffset>{{gone, 3}}, false));
  EXPECT_TRUE(reader.subscription().Commit({}, true));
  EXPECT_TRUE(reader.subscription().Start(std::vector<PartitionStart>{{gone}}));
  EXPECT_TRUE(reader.subscription().Release(std::vector<Partition>{gone}));
  EXPECT_TRUE(reader.subscription().Pause(std::vector<Partition>{gone}));
  EXPECT_TRUE(reader.subscription().Resume(std::vector<Partition>{gone}));
  fixture_->Publish(topic, "k", "w");
  reader.ReadCount(2);
  EXPECT_THAT(reader.values(), ElementsAre("v", "w"));
  reader.Close();
}

TEST_P(SubscriptionContract, InterruptEndsAPoll) {
  const std::string topic = fixture_->MakeTopic(1);
  Reader reader = Join(topic);
  Subscription& subscription = reader.subscription();
  const auto start = steady_clock::now();
  subscription.Interrupt();
  while (!ValueOrThrow(subscription.Poll(10, kManyBytes, seconds{60})).empty()) subscription.Interrupt();
  for (int round = 0; round < 3; ++round) {
    // The other thread may come before or after the wait began; both must end it.
    const std::jthread other([&] { subscription.Interrupt(); });
    while (!ValueOrThrow(subscription.Poll(10, kManyBytes, seconds{60})).empty()) subscription.Interrupt();
  }
  EXPECT_LT(steady_clock::now() - start, seconds{30});
  reader.Close();
}

TEST_P(SubscriptionContract, KnowsTheEnd) {
  const std::string topic = fixture_->MakeTopic(1);
  for (const char* value : {"0", "1", "2"}) fixture_->Publish(topic, "k", value);
  Reader reader = Join(topic);
  reader.ReadCount(3);
  EXPECT_EQ(reader.subscription().EndOffset({topic, 0}), 3);
  EXPECT_EQ(reader.subscription().EndOffset({"unheard of", 0}), std::nullopt);
  fixture_->Publish(topic, "k", "3");
  reader.ReadCount(4);
  EXPECT_EQ(reader.subscription().EndOffset({topic, 0}), 4);
  reader.Close();
}

TEST_P(SubscriptionContract, APositionIsBehindWhatWasHandedOut) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  for (int i = 0; i < 10; ++i) fixture_->Publish(topic, "k", std::to_string(i));
  Reader reader = Join(topic);
  reader.DoNotStart();
  EXPECT_EQ(reader.subscription().Position(partition), std::nullopt) << "nobody knows whose it is";
  reader.AwaitPartitions(1);
  for (int i = 0; i < 5; ++i) reader.Step();
  EXPECT_EQ(reader.subscription().Position(partition), std::nullopt) << "it is not started";
  EXPECT_EQ(reader.subscription().Position({topic, 7}), std::nullopt) << "it is not there";
  Subscription& subscription = reader.subscription();
  ValueOrThrow(subscription.Start(std::vector<PartitionStart>{{.partition = partition, .offset = 2}}));
  EXPECT_EQ(subscription.Position(partition), 2) << "where it was told to begin";
  std::int64_t next = 2;
  const auto deadline = steady_clock::now() + seconds{60};
  while (next < 10 && steady_clock::now() < deadline) {
    // More are read ahead than the limits let through.
    for (const ReceivedMessage& message : ValueOrThrow(subscription.Poll(3, kManyBytes, milliseconds{50})).messages) {
      next = message.offset + 1;
    }
    ASSERT_EQ(subscription.Position(partition), next);
  }
  EXPECT_EQ(next, 10);
  EXPECT_EQ(subscription.EndOffset(partition), 10);
  ValueOrThrow(subscription.Pause(std::vector<Partition>{partition}));
  fixture_->Publish(topic, "k", "10");
  for (int i = 0; i < 5; ++i) reader.Step();
  EXPECT_EQ(subscription.Position(partition), 10) << "it is paused";
  ValueOrThrow(subscription.Resume(std::vector<Partition>{partition}));
  reader.ReadCount(1);
  EXPECT_EQ(subscription.Position(partition), 11);
  reader.Close();
}

TEST_P(SubscriptionContract, APositionIsKnownAlsoWhereNothingComes) {
  const std::string topic = fixture_->MakeTopic(3);
  fixture_->Publish(topic, "k", "in one of three");
  const auto at_the_end = [](Reader& reader) {
    return std::ranges::all_of(reader.held(), [&](const Partition& partition) {
      const auto position = reader.subscription().Position(partition);
      const auto end = reader.subscription().EndOffset(partition);
      return position && end && *position == *end;
    });
  };
  Reader first = Join(topic);
  first.AwaitPartitions(3);
  first.StepUntil("two empty ones and one that was read", [&] { return at_the_end(first); });
  EXPECT_THAT(first.values(), ElementsAre("in one of three"));
  first.CommitAll();
  first.Close();
  Reader second = Join(topic);
  second.AwaitPartitions(3);
  second.StepUntil("a group that has read everything", [&] { return at_the_end(second); });
  EXPECT_THAT(second.messages(), IsEmpty());
  const std::int64_t sum = std::ranges::count_if(
      second.held(), [&](const Partition& partition) { return second.subscription().Position(partition) == 1; });
  EXPECT_EQ(sum, 1) << "one stands behind its message, the others at their beginning";
  second.Close();
}

TEST_P(SubscriptionContract, APositionPassesOffsetsThatHoldNoMessage) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  fixture_->Publish(topic, "k", "0");
  fixture_->LeaveGap(partition);
  Reader reader = Join(topic);
  const auto at_the_end = [&] {
    const auto position = reader.subscription().Position(partition);
    return position && position == reader.subscription().EndOffset(partition);
  };
  reader.ReadCount(1);
  reader.StepUntil("the end", at_the_end);
  fixture_->Publish(topic, "k", "1");
  reader.ReadCount(2);
  fixture_->LeaveGap(partition);
  const std::int64_t before = reader.messages().back().offset + 1;
  EXPECT_GE(reader.subscription().Position(partition), before);
  reader.StepUntil("the new end", at_the_end);
  EXPECT_THAT(reader.values(), ElementsAre("0", "1"));
  reader.Close();
}

// What it knew of the end before somebody else had the partition is no end.
TEST_P(SubscriptionContract, APositionIsComparedWithAnEndOfTheSameTime) {
  const std::string topic = fixture_->MakeTopic(2);
  PublishNumbers(topic, 0, 40);
  Reader reader = Join(topic);
  reader.CommitBeforeRelease();
  reader.ReadCount(40);
  Reader other = Join(topic);
  const auto both = [&](const std::string& what, const std::function<bool()>& so) {
    reader.StepUntil(what, [&] {
      other.Step();
      return so();
    });
  };
  both("each has one", [&] { return reader.held().size() == 1 && other.held().size() == 1; });
  const Partition moved = *other.held().begin();
  PublishNumbers(topic, 40, 80);
  both("all", [&] { return reader.messages().size() + other.messages().size() == 80; });
  other.CommitAll();
  const auto before = other.subscription().Position(moved);
  reader.DoNotStart();
  other.Close();
  reader.AwaitPartitions(2);
  ValueOrThrow(reader.subscription().Start(std::vector<PartitionStart>{{moved}}));
  const auto end = reader.subscription().EndOffset(moved);
  EXPECT_TRUE(!end || end >= before) << *end;
  reader.StepUntil("the end", [&] {
    const auto position = reader.subscription().Position(moved);
    return position && position == reader.subscription().EndOffset(moved);
  });
  EXPECT_EQ(reader.subscription().Position(moved), before);
  reader.Close();
}

TEST_P(SubscriptionContract, ATopicThatAppearsLaterIsFound) {
  const std::string orders = fixture_->MakeTopic(1);
  const std::string mails = FreshName();
  fixture_->Publish(orders, "k", "order");
  Reader reader(fixture_->Join(group_, {orders, mails}));
  reader.ReadCount(1);
  reader.CommitBeforeRelease();
  fixture_->MakeTopic(mails, 1);
  fixture_->Publish(mails, "k", "mail");
  reader.ReadCount(2);
  EXPECT_THAT(reader.values(), ElementsAre("order", "mail"));
  reader.Close();
}

TEST_P(SubscriptionContract, ABrokerThatIsAwayIsWaitedFor) {
  const auto subscription = fixture_->JoinAway();
  const auto deadline = steady_clock::now() + seconds{60};
  while (subscription->health().reachable && steady_clock::now() < deadline) {
    EXPECT_TRUE(ValueOrThrow(subscription->Poll(10, kManyBytes, milliseconds{50})).messages.empty());
  }
  const auto health = subscription->health();
  EXPECT_FALSE(health.reachable);
  ASSERT_TRUE(health.problem);
  EXPECT_NE(health.problem->hint(), "");
}

}  // namespace
}  // namespace sealane
