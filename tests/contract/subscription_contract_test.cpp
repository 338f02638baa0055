// What every subscription promises to the inbox: nothing is skipped, what was committed does not come again after a
// change of hands, a partition has one reader at a time and is handed over explicitly, and a broker that is away is
// waited for.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
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
  /// As the broker tells it; it may need a moment after a topic was made.
  PartitionFacts FactsOf(Reader& reader, const Partition& partition) {
    std::vector<PartitionFacts> facts;
    reader.StepUntil("facts", [&] {
      auto answer = reader.subscription().Inspect(std::vector{partition});
      if (answer) facts = *std::move(answer);
      return !facts.empty();
    });
    return facts.at(0);
  }
  static std::optional<ReceivedMessage> MessageAt(Reader& reader, const PartitionOffset& place) {
    return ValueOrThrow(reader.subscription().MessagesAt(std::vector{place})).at(0);
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

void ExpectSame(const ReceivedMessage& one, const ReceivedMessage& other) {
  EXPECT_EQ(one.partition, other.partition);
  EXPECT_EQ(one.offset, other.offset);
  EXPECT_EQ(one.published_at, other.published_at);
  EXPECT_EQ(one.key, other.key);
  EXPECT_EQ(one.value, other.value);
  EXPECT_EQ(one.headers, other.headers);
}

std::vector<std::int64_t> Numbers(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = from; i < to; ++i) numbers.push_back(i);
  return numbers;
}

TEST_P(SubscriptionContract, FactsOfAnEmptyAFilledAndATrimmedPartition) {
  const std::string topic = fixture_->MakeTopic(3);
  const Partition partition{topic, 0};
  // A journal makes its topics with the first message.
  fixture_->Publish(topic, "k", "0");
  Reader reader = Join(topic);
  reader.DoNotStart();
  reader.AwaitPartitions(3);
  std::vector<Partition> all(reader.held().begin(), reader.held().end());
  std::ranges::reverse(all);
  const auto facts = ValueOrThrow(reader.subscription().Inspect(all));
  ASSERT_EQ(facts.size(), 3U);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(facts[i].partition, all[i]);
    EXPECT_EQ(facts[i].oldest, 0);
    EXPECT_EQ(facts[i].group, std::nullopt);
    EXPECT_EQ(facts[i].topic_id, facts[0].topic_id);
    EXPECT_EQ(facts[i].topic_id.empty(), !fixture_->TellsTopicIds());
    sum += facts[i].end;
  }
  EXPECT_EQ(sum, 1);
  EXPECT_THAT(ValueOrThrow(reader.subscription().Inspect({})), IsEmpty());
  const Partition filled = std::ranges::find(facts, 1, &PartitionFacts::end)->partition;
  for (int i = 1; i < 10; ++i) fixture_->Publish(topic, "k", std::to_string(i));
  EXPECT_EQ(FactsOf(reader, filled).end, 10);
  fixture_->Trim({filled, 4});
  EXPECT_EQ(FactsOf(reader, filled).oldest, 4);
  EXPECT_EQ(FactsOf(reader, filled).end, 10);
  fixture_->Trim({filled, 10});
  EXPECT_EQ(FactsOf(reader, filled).oldest, 10);
  EXPECT_EQ(FactsOf(reader, filled).end, 10);
  reader.Close();
}

TEST_P(SubscriptionContract, FactsTellWhereTheGroupStands) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  for (const char* value : {"0", "1", "2"}) fixture_->Publish(topic, "k", value);
  Reader first = Join(topic);
  first.ReadCount(3);
  EXPECT_EQ(FactsOf(first, partition).group, std::nullopt);
  ValueOrThrow(first.subscription().Commit(std::vector<PartitionOffset>{{partition, 2}}, true));
  EXPECT_EQ(FactsOf(first, partition).group, 2);
  EXPECT_EQ(FactsOf(first, partition).end, 3);
  first.Close();
  Reader second = Join(topic);
  second.DoNotStart();
  second.AwaitPartitions(1);
  EXPECT_EQ(FactsOf(second, partition).group, 2) << "also before it is started";
  second.Close();
  fixture_->ForgetCommitted(group_, topic);
  Reader third = Join(topic);
  third.AwaitPartitions(1);
  EXPECT_EQ(FactsOf(third, partition).group, std::nullopt);
  third.Close();
}

TEST_P(SubscriptionContract, FactsEndWhereAReaderComesTo) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  fixture_->Publish(topic, "k", "0");
  fixture_->LeaveGap(partition);
  Reader reader = Join(topic);
  const std::int64_t end = FactsOf(reader, partition).end;
  reader.StepUntil("the end", [&] { return reader.subscription().Position(partition) == end; });
  EXPECT_EQ(reader.subscription().EndOffset(partition), end);
  reader.Close();
}

TEST_P(SubscriptionContract, AMessageIsReadAtItsPlaceAsPollBroughtIt) {
  const std::string topic = fixture_->MakeTopic(3);
  const std::string binary("a\0b\xff", 4);
  for (int i = 0; i < 60; ++i) {
    fixture_->Publish(topic, fmt::format("key-{}", i), fmt::format("value {}", i),
                      {{"ce_id", std::to_string(i)}, {"twice", "1"}, {"twice", "2"}, {"empty", ""}});
  }
  fixture_->Publish(topic, "binary", binary);
  fixture_->Publish(topic, "", "without a key");
  Reader reader = Join(topic);
  reader.ReadCount(62);
  for (std::size_t i = 0; i + 3 <= 62; i += 13) {
    // One of each partition.
    std::map<Partition, ReceivedMessage> chosen;
    for (std::size_t j = i; j < 62; ++j) chosen.emplace(reader.messages()[j].partition, reader.messages()[j]);
    std::vector<PartitionOffset> places;
    for (const auto& [partition, message] : chosen) places.push_back({partition, message.offset});
    const auto found = ValueOrThrow(reader.subscription().MessagesAt(places));
    ASSERT_EQ(found.size(), places.size());
    for (std::size_t j = 0; j < found.size(); ++j) {
      ASSERT_TRUE(found[j]);
      ExpectSame(*found[j], chosen.at(places[j].partition));
    }
  }
  for (const ReceivedMessage& message : reader.messages()) {
    if (message.key.starts_with("key-")) continue;
    const auto found = MessageAt(reader, {message.partition, message.offset});
    ASSERT_TRUE(found);
    ExpectSame(*found, message);
  }
  EXPECT_THAT(ValueOrThrow(reader.subscription().MessagesAt({})), IsEmpty());
  reader.Close();
}

TEST_P(SubscriptionContract, WhereThereIsNoMessageNoneIsRead) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  for (int i = 0; i < 10; ++i) fixture_->Publish(topic, "k", std::to_string(i));
  fixture_->LeaveGap(partition);
  Reader reader = Join(topic);
  reader.ReadCount(10);
  fixture_->Publish(topic, "k", "last");
  reader.ReadCount(11);
  const std::int64_t last = reader.messages().back().offset;
  if (last > 10) {
    EXPECT_EQ(MessageAt(reader, {partition, 10}), std::nullopt) << "a gap";
  }
  EXPECT_EQ(MessageAt(reader, {partition, last})->value, "last");
  EXPECT_EQ(MessageAt(reader, {partition, last + 1}), std::nullopt) << "the end";
  EXPECT_EQ(MessageAt(reader, {partition, last + 1'000}), std::nullopt) << "beyond the end";
  EXPECT_EQ(MessageAt(reader, {partition, -1}), std::nullopt);
  fixture_->Trim({partition, 4});
  EXPECT_EQ(MessageAt(reader, {partition, 3}), std::nullopt) << "removed";
  EXPECT_EQ(MessageAt(reader, {partition, 4})->value, "4");
  fixture_->Publish(topic, "k", "afterwards");
  reader.ReadCount(12);
  EXPECT_EQ(reader.values().back(), "afterwards");
  reader.Close();
}

TEST_P(SubscriptionContract, LookingDoesNotDisturbReading) {
  const std::string topic = fixture_->MakeTopic(2);
  const auto values = PublishNumbers(topic, 0, 200);
  Reader reader = Join(topic);
  reader.AwaitPartitions(2);
  const std::vector<Partition> all(reader.held().begin(), reader.held().end());
  std::size_t seen = 0;
  while (seen < 200) {
    Polled polled = ValueOrThrow(reader.subscription().Poll(25, kManyBytes, milliseconds{200}));
    for (const ReceivedMessage& message : polled.messages) {
      EXPECT_EQ(std::ranges::count(values, message.value), 1);
    }
    if (polled.messages.empty()) continue;
    seen += polled.messages.size();
    const Partition& partition = polled.messages.back().partition;
    const auto position = reader.subscription().Position(partition);
    ExpectSame(*MessageAt(reader, {partition, 0}), *MessageAt(reader, {partition, 0}));
    ASSERT_TRUE(reader.subscription().Inspect(all));
    ASSERT_TRUE(reader.subscription().OffsetAt(partition, polled.messages.back().published_at));
    EXPECT_EQ(reader.subscription().Position(partition), position);
  }
  EXPECT_EQ(seen, 200U);
  for (int i = 0; i < 5; ++i) reader.Step();
  EXPECT_EQ(reader.messages().size(), 0U) << "nothing came twice";
  EXPECT_EQ(reader.lost_count(), 0U);
  reader.Close();
}

TEST_P(SubscriptionContract, ATimeHasAnOffset) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  for (int i = 0; i < 5; ++i) {
    fixture_->Publish(topic, "k", std::to_string(i));
    std::this_thread::sleep_for(milliseconds{5});
  }
  Reader reader = Join(topic);
  reader.ReadCount(5);
  Subscription& subscription = reader.subscription();
  for (const ReceivedMessage& message : reader.messages()) {
    EXPECT_EQ(ValueOrThrow(subscription.OffsetAt(partition, message.published_at)), message.offset);
    EXPECT_EQ(ValueOrThrow(subscription.OffsetAt(partition, message.published_at - std::chrono::microseconds{1})),
              message.offset);
    EXPECT_EQ(ValueOrThrow(subscription.OffsetAt(partition, message.published_at + std::chrono::microseconds{1})),
              message.offset + 1);
  }
  EXPECT_EQ(ValueOrThrow(subscription.OffsetAt(partition, Timestamp{})), 0);
  EXPECT_EQ(ValueOrThrow(subscription.OffsetAt(partition, SystemClock::Instance().Now() + std::chrono::hours{1})), 5);
  fixture_->Trim({partition, 2});
  EXPECT_EQ(ValueOrThrow(subscription.OffsetAt(partition, Timestamp{})), 2);
  reader.Close();
}

TEST_P(SubscriptionContract, WhatIsNotThereCannotBeAsked) {
  const std::string topic = fixture_->MakeTopic(1);
  fixture_->Publish(topic, "k", "v");
  Reader reader = Join(topic);
  reader.ReadCount(1);
  const auto start = steady_clock::now();
  for (const Partition& missing : {Partition{FreshName(), 0}, Partition{topic, 7}}) {
    const auto facts = reader.subscription().Inspect(std::vector{Partition{topic, 0}, missing});
    ASSERT_FALSE(facts);
    EXPECT_EQ(facts.error().kind(), ErrorKind::kUnavailable);
    EXPECT_EQ(facts.error().code(), "unknown_topic");
    EXPECT_NE(facts.error().hint(), "");
    const auto message = reader.subscription().MessagesAt(std::vector<PartitionOffset>{{missing, 0}});
    ASSERT_FALSE(message);
    EXPECT_EQ(message.error().code(), "unknown_topic");
    const auto offset = reader.subscription().OffsetAt(missing, Timestamp{});
    ASSERT_FALSE(offset);
    EXPECT_EQ(offset.error().code(), "unknown_topic");
  }
  EXPECT_LT(steady_clock::now() - start, seconds{30});
  fixture_->Publish(topic, "k", "w");
  reader.ReadCount(2);
  reader.Close();
}

TEST_P(SubscriptionContract, ATopicMadeAgainLooksDifferent) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  for (int i = 0; i < 10; ++i) fixture_->Publish(topic, "k", std::to_string(i));
  Reader first = Join(topic);
  first.ReadCount(10);
  first.CommitAll();
  const PartitionFacts before = FactsOf(first, partition);
  EXPECT_EQ(FactsOf(first, partition).topic_id, before.topic_id);
  first.Close();
  first.Vanish();
  Reader same = Join(topic);
  same.AwaitPartitions(1);
  EXPECT_EQ(FactsOf(same, partition).topic_id, before.topic_id) << "another member, the same topic";
  same.Close();
  same.Vanish();

  fixture_->RecreateTopic(topic, 1);
  for (int i = 0; i < 5; ++i) fixture_->Publish(topic, "k", fmt::format("new {}", i));
  Reader second = Join(topic);
  second.DoNotStart();
  second.AwaitPartitions(1);
  PartitionFacts after = FactsOf(second, partition);
  if (fixture_->TellsTopicIds()) {
    EXPECT_NE(after.topic_id, before.topic_id);
  }
  EXPECT_EQ(after.end, 5);
  EXPECT_EQ(MessageAt(second, {partition, 9}), std::nullopt);
  for (int i = 5; i < 20; ++i) fixture_->Publish(topic, "k", fmt::format("new {}", i));
  EXPECT_EQ(MessageAt(second, {partition, 9})->value, "new 9");
  second.Close();
}

TEST_P(SubscriptionContract, BeginsAgainWhereItIsTold) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  for (int i = 0; i < 50; ++i) fixture_->Publish(topic, "k", std::to_string(i));
  Reader reader = Join(topic);
  reader.ReadCount(50);
  for (const std::int64_t offset : {11, 0, 49, 50, 31}) {
    const std::size_t before = reader.messages().size();
    reader.StartAgain({.partition = partition, .offset = offset});
    EXPECT_EQ(reader.subscription().Position(partition), offset);
    reader.ReadCount(before + 50 - static_cast<std::size_t>(offset));
    for (int i = 0; i < 5; ++i) reader.Step();
    EXPECT_EQ(reader.OffsetsAfter(before, partition), Numbers(offset, 50));
    reader.StepUntil("the end", [&] { return reader.subscription().EndOffset(partition) == 50; });
  }
  // Where the group stands.
  ValueOrThrow(reader.subscription().Commit(std::vector<PartitionOffset>{{partition, 40}}, true));
  const std::size_t before = reader.messages().size();
  reader.StartAgain({partition});
  reader.ReadCount(before + 10);
  EXPECT_EQ(reader.OffsetsAfter(before, partition), Numbers(40, 50));
  reader.Close();
}

TEST_P(SubscriptionContract, BeginsAgainWhileMuchIsReadAhead) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  constexpr int kCount = 3'000;
  fixture_->PublishMany(topic, "k", kCount);
  Reader reader = Join(topic);
  reader.AwaitPartitions(1);
  Subscription& subscription = reader.subscription();
  const auto read_to = [&](std::int64_t from, std::int64_t to) {
    std::int64_t next = from;
    const auto deadline = steady_clock::now() + seconds{60};
    while (next < to && steady_clock::now() < deadline) {
      const auto limit = static_cast<std::size_t>(std::min<std::int64_t>(to - next, 20));
      for (const ReceivedMessage& message :
           ValueOrThrow(subscription.Poll(limit, kManyBytes, milliseconds{50})).messages) {
        ASSERT_EQ(message.offset, next);
        ++next;
      }
    }
    ASSERT_EQ(next, to);
  };
  read_to(0, 31);
  const auto again = [&](std::int64_t offset) {
    ValueOrThrow(subscription.Start(std::vector<PartitionStart>{{.partition = partition, .offset = offset}}));
  };
  // Each time something else is under way inside: nothing yet, a part, much.
  for (int round = 0; round < 20; ++round) {
    again(11);
    read_to(11, 11 + round * 7);
    std::this_thread::sleep_for(milliseconds{round % 4 * 20});
  }
  again(2'000);
  read_to(2'000, 2'010);
  again(11);
  again(12);
  again(11);
  read_to(11, kCount);
  again(11);
  again(12);
  reader.Vanish();
}

TEST_P(SubscriptionContract, BeginsAgainWhileItIsPaused) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  for (int i = 0; i < 50; ++i) fixture_->Publish(topic, "k", std::to_string(i));
  Reader reader = Join(topic);
  reader.AwaitPartitions(1);
  Subscription& subscription = reader.subscription();
  std::int64_t next = 0;
  while (next < 31) {
    for (const ReceivedMessage& message : ValueOrThrow(subscription.Poll(1, kManyBytes, milliseconds{50})).messages) {
      next = message.offset + 1;
    }
  }
  std::size_t before = 0;
  for (const std::int64_t offset : {11, 35, 3}) {
    ValueOrThrow(subscription.Pause(std::vector{partition}));
    for (int i = 0; i < 3; ++i) reader.Step();
    before = reader.messages().size();
    reader.StartAgain({.partition = partition, .offset = offset});
    for (int i = 0; i < 5; ++i) reader.Step();
    EXPECT_EQ(reader.messages().size(), before) << "it is paused";
    EXPECT_EQ(subscription.Position(partition), offset);
    ValueOrThrow(subscription.Resume(std::vector{partition}));
    reader.ReadCount(before + 50 - static_cast<std::size_t>(offset));
    for (int i = 0; i < 3; ++i) reader.Step();
    EXPECT_EQ(reader.OffsetsAfter(before, partition), Numbers(offset, 50));
  }
  reader.Close();
}

TEST_P(SubscriptionContract, OthersGoOnWhenOneBeginsAgain) {
  const std::string topic = fixture_->MakeTopic(3);
  const auto values = PublishNumbers(topic, 0, 90);
  Reader reader = Join(topic);
  reader.ReadCount(30);
  const Partition again = reader.messages()[0].partition;
  const std::size_t before = reader.messages().size();
  reader.StartAgain({.partition = again, .offset = 0});
  const auto at_the_end = [&] {
    return std::ranges::all_of(reader.held(), [&](const Partition& partition) {
      const auto position = reader.subscription().Position(partition);
      return position && position == FactsOf(reader, partition).end;
    });
  };
  reader.StepUntil("the end of all", at_the_end);
  for (const Partition& partition : reader.held()) {
    const auto offsets = reader.OffsetsAfter(partition == again ? before : 0, partition);
    EXPECT_EQ(offsets, Numbers(0, FactsOf(reader, partition).end)) << partition.number;
  }
  reader.Close();
}

TEST_P(SubscriptionContract, WhatIsOutOfRangeIsToldUntilItBeginsElsewhere) {
  const std::string topic = fixture_->MakeTopic(1);
  const Partition partition{topic, 0};
  for (int i = 0; i < 20; ++i) fixture_->Publish(topic, "k", std::to_string(i));
  fixture_->Trim({partition, 10});
  Reader reader(fixture_->Join(group_, {topic}));
  reader.DoNotStart();
  reader.AwaitPartitions(1);
  for (const std::int64_t wrong : {5, 1'000, 5}) {
    ValueOrThrow(reader.subscription().Start(std::vector<PartitionStart>{{.partition = partition, .offset = wrong}}));
    std::optional<Error> told;
    const auto deadline = steady_clock::now() + seconds{60};
    while (!told && steady_clock::now() < deadline) {
      auto polled = reader.subscription().Poll(10, kManyBytes, milliseconds{50});
      if (!polled) told = polled.error();
    }
    ASSERT_TRUE(told);
    EXPECT_EQ(told->kind(), ErrorKind::kCorrupt);
    EXPECT_EQ(told->code(), "offset_out_of_range");
    EXPECT_FALSE(reader.subscription().Poll(10, kManyBytes, milliseconds{0})) << "it is told again";
    const std::size_t before = reader.messages().size();
    reader.StartAgain({.partition = partition, .offset = 10});
    reader.ReadCount(before + 10);
    EXPECT_EQ(reader.OffsetsAfter(before, partition), Numbers(10, 20));
  }
  // Nothing of a wrong place is told when it begins elsewhere before it was told.
  for (int round = 0; round < 10; ++round) {
    ValueOrThrow(reader.subscription().Start(std::vector<PartitionStart>{{.partition = partition, .offset = 5}}));
    std::this_thread::sleep_for(milliseconds{round * 30});
    const std::size_t before = reader.messages().size();
    reader.StartAgain({.partition = partition, .offset = 12});
    reader.ReadCount(before + 8);
    EXPECT_EQ(reader.OffsetsAfter(before, partition), Numbers(12, 20));
  }
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
  if (GetParam() == "journal") return;  // a writer in the way does not keep others from reading
  const auto start = steady_clock::now();
  const Partition partition{"orders", 0};
  for (const Error& error : {subscription->Inspect(std::vector{partition}).error(),
                             subscription->MessagesAt(std::vector<PartitionOffset>{{partition, 0}}).error(),
                             subscription->OffsetAt(partition, Timestamp{}).error()}) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_EQ(error.code(), "broker_unreachable");
    EXPECT_NE(error.hint(), "");
  }
  EXPECT_LT(steady_clock::now() - start, seconds{30});
}

}  // namespace
}  // namespace sealane
