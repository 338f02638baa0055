// Protects what only a subscription to a Kafka has: outages and restarts of brokers, static members, positions that
// are gone, and users without a password or rights.

#include "kafka/kafka_subscription.hpp"

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/kafka_cluster.hpp"
#include "support/kafka_sender.hpp"
#include "support/kafka_transaction.hpp"
#include "support/subscription_fixture.hpp"

namespace sealane {
namespace {

using namespace std::chrono_literals;
using namespace sealane::testing;
using std::chrono::steady_clock;

constexpr std::size_t kMany = 1'000;
constexpr std::size_t kManyBytes = std::size_t{4} << 20U;

class KafkaSubscriptionTest : public ::testing::Test {
 protected:
  void SetUp() override { SEALANE_REQUIRE_KAFKA(); }

  KafkaSubscriptionOptions Options(const std::string& url, const std::string& topic) const {
    return {.url = url,
            .group = group_,
            .topics = {topic},
            .session = 6s,
            .properties = {{"heartbeat.interval.ms", "100"}, {"topic.metadata.refresh.interval.ms", "300"}}};
  }
  static Reader Open(const KafkaSubscriptionOptions& options) {
    return Reader(ValueOrThrow(OpenKafkaSubscription(options, SystemClock::Instance())));
  }
  /// The values `from` to `to` under one key.
  static void Publish(const std::string& url, const std::string& topic, int from, int to) {
    Sender sender({.url = url});
    std::vector<Letter> letters;
    for (int i = from; i < to; ++i) letters.push_back({topic, "key", std::to_string(i)});
    EXPECT_THAT(sender.Ship(letters), ::testing::Each(IsPersisted()));
  }
  /// Polls until it fails; starts what is gained.
  static Error FailureOf(Subscription& subscription) {
    const auto deadline = steady_clock::now() + kLong;
    while (steady_clock::now() < deadline) {
      const auto polled = subscription.Poll(kMany, kManyBytes, 50ms);
      if (!polled) return polled.error();
      std::vector<PartitionStart> starts;
      for (const Partition& partition : polled->gained) starts.push_back({partition});
      ValueOrThrow(subscription.Start(starts));
    }
    ADD_FAILURE() << "it does not fail";
    return Error(ErrorKind::kMisuse, "none", "");
  }

  const std::string group_ = FreshName();
};

TEST_F(KafkaSubscriptionTest, GoesOnAfterAnOutageWithoutLosingAnything) {
  const PrivateKafka kafka(1);
  const std::string topic = FreshTopic(kafka.url(), 1);
  Publish(kafka.url(), topic, 0, 10);
  Reader reader = Open(Options(kafka.url(), topic));
  reader.CommitBeforeRelease();
  reader.ReadCount(10);

  kafka.StopNode(1);
  reader.CommitAll(false);
  reader.StepUntil("health says it", [&] { return !reader.subscription().health().reachable; });
  ASSERT_TRUE(reader.subscription().health().problem);
  EXPECT_EQ(reader.subscription().health().problem->code(), "broker_unreachable");
  kafka.StartNode(1);
  reader.StepUntil("health says it is over", [&] { return reader.subscription().health().reachable; });
  Publish(kafka.url(), topic, 10, 20);
  reader.StepUntil("what came later", [&] { return std::ranges::count(reader.values(), "19") == 1; });
  // Those that were not committed in time come again; none is missing.
  for (int i = 0; i < 20; ++i) EXPECT_THAT(reader.values(), ::testing::Contains(std::to_string(i)));
  reader.CommitAll();
  reader.Close();

  Publish(kafka.url(), topic, 20, 21);
  Reader successor = Open(Options(kafka.url(), topic));
  successor.ReadCount(1);
  EXPECT_THAT(successor.values(), ::testing::ElementsAre("20"));
  successor.Close();
}

TEST_F(KafkaSubscriptionTest, ABrokerThatFallsSilentIsNoticed) {
  const PrivateKafka kafka(1);
  const std::string topic = FreshTopic(kafka.url(), 1);
  Publish(kafka.url(), topic, 0, 1);
  {
    Reader reader = Open(Options(kafka.url(), topic));
    reader.ReadCount(1);
    kafka.Freeze(1);
    reader.StepUntil("health says it", [&] { return !reader.subscription().health().reachable; });
    kafka.Thaw(1);
    reader.StepUntil("health says it is over", [&] { return reader.subscription().health().reachable; });
    Publish(kafka.url(), topic, 1, 2);
    reader.StepUntil("what came later", [&] { return reader.messages().back().value == "1"; });
    kafka.Freeze(1);
    const auto start = steady_clock::now();
    (void)reader.subscription().Close();
    EXPECT_LT(steady_clock::now() - start, 20s);
  }
  kafka.Thaw(1);
}

TEST_F(KafkaSubscriptionTest, AStaticMemberRestartsWithoutARebalance) {
  const std::string topic = FreshTopic(KafkaUrl(), 2);
  KafkaSubscriptionOptions options = Options(KafkaUrl(), topic);
  options.session = 30s;
  options.member = "first";
  Reader first = Open(options);
  options.member = "second";
  Reader second = Open(options);
  first.StepUntil("each has one", [&] {
    second.Step();
    return first.held().size() == 1 && second.held().size() == 1;
  });
  const auto before = first.held();
  second.DoNotRelease();

  for (const bool orderly : {true, false}) {
    if (orderly) first.Close();
    first.Vanish();
    options.member = "first";
    const auto start = steady_clock::now();
    first = Open(options);
    first.StepUntil("it is back", [&] {
      second.Step();
      return first.held() == before;
    });
    EXPECT_LT(steady_clock::now() - start, 15s) << "the session was not waited for";
    EXPECT_THAT(second.leaving(), ::testing::IsEmpty());
    EXPECT_EQ(second.lost_count(), 0U);
  }
  second.Close();
  first.Close();
}

TEST_F(KafkaSubscriptionTest, AStaticMemberThatComesBackWithOtherTopicsReadsThem) {
  const std::string before = FreshTopic(KafkaUrl(), 1);
  const std::string after = FreshTopic(KafkaUrl(), 1);
  KafkaSubscriptionOptions options = Options(KafkaUrl(), before);
  options.member = "same";
  Reader reader = Open(options);
  reader.AwaitPartitions(1);
  reader.Close();

  options.topics = {after};
  reader = Open(options);
  Publish(KafkaUrl(), after, 0, 3);
  reader.ReadCount(3);
  EXPECT_EQ(reader.values(), (std::vector<std::string>{"0", "1", "2"}));
  reader.Close();
}

TEST_F(KafkaSubscriptionTest, ASecondMemberOfTheSameNameFencesTheFirst) {
  const std::string topic = FreshTopic(KafkaUrl(), 1);
  KafkaSubscriptionOptions options = Options(KafkaUrl(), topic);
  options.member = "same";
  Reader first = Open(options);
  first.AwaitPartitions(1);
  Reader second = Open(options);
  second.AwaitPartitions(1);
  const Error error = FailureOf(first.subscription());
  EXPECT_EQ(error.kind(), ErrorKind::kFenced);
  EXPECT_EQ(error.code(), "member_fenced");
  EXPECT_NE(error.hint(), "");
  second.Close();
}

TEST_F(KafkaSubscriptionTest, WhatIsGoneUnreadIsNeverSkippedSilently) {
  const std::string topic = FreshTopic(KafkaUrl(), 1);
  Publish(KafkaUrl(), topic, 0, 10);
  Reader first = Open(Options(KafkaUrl(), topic));
  first.ReadCount(10);
  ValueOrThrow(first.subscription().Commit(std::vector<PartitionOffset>{{{topic, 0}, 3}}, true));
  first.Close();
  TrimPartition(KafkaUrl(), topic, 0, 6);

  const auto second = ValueOrThrow(OpenKafkaSubscription(Options(KafkaUrl(), topic), SystemClock::Instance()));
  for (int round = 0; round < 2; ++round) {
    const Error error = FailureOf(*second);
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_EQ(error.code(), "offset_out_of_range");
    EXPECT_NE(error.hint(), "");
  }
  ValueOrThrow(second->Close());

  // A new group has missed nothing.
  KafkaSubscriptionOptions options = Options(KafkaUrl(), topic);
  options.group = FreshName();
  Reader third = Open(options);
  third.ReadCount(4);
  EXPECT_THAT(third.values(), ::testing::ElementsAre("6", "7", "8", "9"));
  third.Close();
}

// Whether the client notices that the topic was away or not, the facts tell it, and the new topic can be read.
TEST_F(KafkaSubscriptionTest, ATopicThatIsMadeAgainWhileItIsReadIsReadFromItsBeginning) {
  for (const char* refresh : {"300", "60000"}) {
    const std::string topic = FreshTopic(KafkaUrl(), 1);
    const Partition partition{topic, 0};
    Publish(KafkaUrl(), topic, 0, 10);
    KafkaSubscriptionOptions options = Options(KafkaUrl(), topic);
    options.properties.back().second = refresh;
    Reader reader = Open(options);
    reader.ReadCount(10);
    DeleteTopic(KafkaUrl(), topic);
    if (std::string_view(refresh) == "300") {
      for (int i = 0; i < 20; ++i) (void)reader.subscription().Poll(kMany, kManyBytes, 50ms);
    }
    CreateTopic(KafkaUrl(), topic, 1);
    Publish(KafkaUrl(), topic, 100, 103);
    std::vector<std::string> values;
    const auto deadline = steady_clock::now() + kLong;
    while (values.size() < 3 && steady_clock::now() < deadline) {
      const auto polled = reader.subscription().Poll(kMany, kManyBytes, 50ms);
      if (!polled) {
        EXPECT_EQ(polled.error().code(), "offset_out_of_range");
        const auto facts = reader.subscription().Inspect(std::vector{partition});
        ASSERT_TRUE(facts || facts.error().kind() == ErrorKind::kUnavailable) << facts.error().ToString();
        if (!facts) continue;
        EXPECT_EQ(facts->front().end, 3);
        ValueOrThrow(reader.subscription().Start(std::vector<PartitionStart>{{.partition = partition, .offset = 0}}));
        continue;
      }
      ValueOrThrow(reader.subscription().Release(polled->leaving));
      std::vector<PartitionStart> starts;
      for (const Partition& gained : polled->gained) starts.push_back({.partition = gained, .offset = 0});
      ValueOrThrow(reader.subscription().Start(starts));
      for (const ReceivedMessage& message : polled->messages) values.push_back(message.value);
    }
    EXPECT_THAT(values, ::testing::ElementsAre("100", "101", "102")) << refresh;
    reader.Close();
  }
}

TEST_F(KafkaSubscriptionTest, AWrongPasswordAndMissingRightsAreErrors) {
  for (const auto& [password, code] :
       {std::pair{"wrong-password", "login_refused"}, std::pair{"right-password", "group_forbidden"}}) {
    const KafkaOptions login = SaslOptions(password);
    KafkaSubscriptionOptions options = Options(login.url, "allowed");
    options.properties.insert(options.properties.end(), login.properties.begin(), login.properties.end());
    options.password = login.password;
    const auto subscription = ValueOrThrow(OpenKafkaSubscription(options, SystemClock::Instance()));
    const Error error = FailureOf(*subscription);
    EXPECT_EQ(error.kind(), ErrorKind::kMisconfigured);
    EXPECT_EQ(error.code(), code) << error.ToString();
    EXPECT_NE(error.hint(), "");
    EXPECT_EQ(error.ToString().find(password), std::string::npos);
  }
}

TEST_F(KafkaSubscriptionTest, AMissingTopicShowsInHealthUntilItIsThere) {
  const std::string topic = FreshTopicName();
  Reader reader = Open(Options(KafkaUrl(), topic));
  reader.StepUntil("health says it", [&] { return !reader.subscription().health().reachable; });
  EXPECT_EQ(reader.subscription().health().problem->code(), "unknown_topic");
  CreateTopic(KafkaUrl(), topic, 1);
  reader.AwaitPartitions(1);
  EXPECT_TRUE(reader.subscription().health().reachable);
  reader.Close();
}

// The standby of a topic with one partition gets nothing of it, and is well all the same.
TEST_F(KafkaSubscriptionTest, ATopicThatIsThereIsNoLongerMissingForThoseWhoGetNothingOfIt) {
  const std::string topic = FreshName();
  Reader first = Open(Options(KafkaUrl(), topic));
  Reader second = Open(Options(KafkaUrl(), topic));
  const auto reachable = [](Reader& reader) { return reader.subscription().health().reachable; };
  const auto both = [&](const std::string& what, const std::function<bool()>& so) {
    first.StepUntil(what, [&] {
      second.Step();
      return so();
    });
  };
  both("both miss it", [&] { return !reachable(first) && !reachable(second); });
  CreateTopic(KafkaUrl(), topic, 1);
  both("one has it and both are well",
       [&] { return first.held().size() + second.held().size() == 1 && reachable(first) && reachable(second); });
  first.Close();
  second.Close();
}

TEST_F(KafkaSubscriptionTest, TheEndsOfTransactionsAreRead) {
  const std::string topic = FreshTopic(KafkaUrl(), 1);
  const Partition partition{topic, 0};
  SendTransaction(KafkaUrl(), topic, 0, {"0", "1"}, TransactionEnd::kCommit);
  SendTransaction(KafkaUrl(), topic, 0, {"never"}, TransactionEnd::kAbort);
  Reader reader = Open(Options(KafkaUrl(), topic));
  reader.StepUntil("the end", [&] { return reader.subscription().Position(partition) == 5; });
  EXPECT_EQ(reader.subscription().EndOffset(partition), 5)
      << "two messages, one undone, and two ends of transactions";
  SendTransaction(KafkaUrl(), topic, 0, {"2"}, TransactionEnd::kCommit);
  reader.StepUntil("the new end", [&] { return reader.subscription().Position(partition) == 7; });
  EXPECT_EQ(reader.subscription().EndOffset(partition), 7);
  EXPECT_THAT(reader.values(), ::testing::ElementsAre("0", "1", "2"));
  reader.CommitAll();
  reader.Close();

  Reader successor = Open(Options(KafkaUrl(), topic));
  successor.StepUntil("the end", [&] { return successor.subscription().Position(partition) == 7; });
  EXPECT_THAT(successor.messages(), ::testing::IsEmpty());
  successor.Close();
}

TEST_F(KafkaSubscriptionTest, ClosingWhileTheBrokerIsAwayEndsSoon) {
  const auto subscription =
      ValueOrThrow(OpenKafkaSubscription(Options("kafka://127.0.0.1:1", "orders"), SystemClock::Instance()));
  ValueOrThrow(subscription->Poll(kMany, kManyBytes, 50ms));
  const auto start = steady_clock::now();
  (void)subscription->Close();
  EXPECT_LT(steady_clock::now() - start, 20s);
}

TEST_F(KafkaSubscriptionTest, PropertiesThatWouldBreakAPromiseAreRefused) {
  for (const auto& [name, value] :
       {std::pair{"enable.auto.commit", "true"}, std::pair{"auto.offset.reset", "latest"},
        std::pair{"isolation.level", "read_uncommitted"},
        std::pair{"partition.assignment.strategy", "cooperative-sticky"}, std::pair{"group.id", "other"}}) {
    KafkaSubscriptionOptions options = Options(KafkaUrl(), "orders");
    options.properties = {{name, value}};
    const auto opened = OpenKafkaSubscription(options, SystemClock::Instance());
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code(), "kafka_property_refused");
    EXPECT_EQ(opened.error().field(), name);
  }
  KafkaSubscriptionOptions options = Options(KafkaUrl(), "orders");
  options.group = "";
  EXPECT_EQ(OpenKafkaSubscription(options, SystemClock::Instance()).error().code(), "invalid_group");
}

}  // namespace
}  // namespace sealane
