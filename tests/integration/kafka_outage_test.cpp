// Protects the events while brokers are away, silent or replaced: what was submitted waits, health says so, and
// afterwards everything is there once and in order. Each test has a Kafka of its own to hurt.

#include <chrono>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/kafka_publisher.hpp"
#include "support/kafka_cluster.hpp"
#include "support/kafka_sender.hpp"

namespace sealane {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::CountRecords;
using ::testing::Each;
using testing::ExpectAllInOrder;
using testing::FreshTopic;
using testing::IsPersisted;
using testing::kLong;
using testing::NumberedLetters;
using testing::PrivateKafka;
using testing::ReadTopic;
using testing::Sender;
using State = PublisherHealth::State;

class KafkaOutageTest : public ::testing::Test {
 protected:
  void SetUp() override { SEALANE_REQUIRE_KAFKA(); }
};

TEST_F(KafkaOutageTest, NothingIsLostWhileTheBrokerIsAway) {
  const PrivateKafka kafka(1);
  const std::string topic = FreshTopic(kafka.url(), 3);
  Sender sender({.url = kafka.url()});
  const auto letters = NumberedLetters(topic, 2'000, 7);
  for (std::uint64_t i = 0; i < 1'000; ++i) sender.Submit(letters[i], i);
  sender.CollectAll();

  kafka.StopNode(1);
  for (std::uint64_t i = 1'000; i < 2'000; ++i) sender.Submit(letters[i], i);
  ASSERT_TRUE(sender.CollectUntil([&] { return sender.state() == State::kUnreachable; }));
  EXPECT_NE(sender.publisher().health().problem->hint(), "");
  EXPECT_EQ(sender.deliveries().size(), 1'000U) << "what was submitted waits";

  kafka.StartNode(1);
  sender.CollectAll();
  EXPECT_THAT(sender.deliveries(), Each(IsPersisted()));
  EXPECT_EQ(sender.state(), State::kReady);
  ExpectAllInOrder(ReadTopic(kafka.url(), topic, 2'000), 2'000, 7);
}

TEST_F(KafkaOutageTest, ABrokerThatFallsSilentIsNoticed) {
  const PrivateKafka kafka(1);
  const std::string topic = FreshTopic(kafka.url(), 3);
  KafkaOptions options{.url = kafka.url()};
  options.stall_after = 500ms;
  const auto letters = NumberedLetters(topic, 200, 7);
  {
    Sender sender(options);
    for (std::uint64_t i = 0; i < 100; ++i) sender.Submit(letters[i], i);
    sender.CollectAll();

    kafka.Freeze(1);
    for (std::uint64_t i = 100; i < 200; ++i) sender.Submit(letters[i], i);
    ASSERT_TRUE(sender.CollectUntil([&] { return sender.state() == State::kUnreachable; }));
    EXPECT_EQ(sender.publisher().health().problem->code(), "broker_silent");
    EXPECT_EQ(sender.deliveries().size(), 100U);

    kafka.Thaw(1);
    sender.CollectAll();
    EXPECT_THAT(sender.deliveries(), Each(IsPersisted()));
    EXPECT_EQ(sender.state(), State::kReady);

    kafka.Freeze(1);
    sender.Submit(letters[0], 0);
    const auto start = steady_clock::now();
    sender.publisher().Abandon();
    sender.TakeDeliveries();
    sender.CollectOnce(0ms);
    ASSERT_EQ(sender.deliveries().size(), 1U);
    EXPECT_EQ(sender.deliveries()[0].code, "abandoned");
    sender.Submit(letters[0], 0);
    EXPECT_LT(steady_clock::now() - start, 10s);
  }  // with a message under way to a broker that does not answer, the end is not long in coming
  kafka.Thaw(1);
}

TEST_F(KafkaOutageTest, LosingOneOfThreeBrokersUnderLoadLosesAndReordersNothing) {
  const PrivateKafka kafka(3);
  const std::string topic = FreshTopic(kafka.url(), 6);
  constexpr int kCount = 60'000;
  constexpr int kKeys = 50;
  const auto letters = NumberedLetters(topic, kCount, kKeys);
  Sender sender({.url = kafka.url()});
  for (std::uint64_t i = 0; i < letters.size(); ++i) {
    sender.Submit(letters[i], i);
    if (i % 500 == 0) sender.CollectOnce(5ms);  // messages flow while brokers go
    if (i == 20'000) kafka.StopNode(2);
    if (i == 40'000) kafka.StartNode(2);
    if (i == 50'000) kafka.StopNode(3);
  }
  sender.CollectAll(2 * kLong);
  EXPECT_THAT(sender.deliveries(), Each(IsPersisted()));
  const std::size_t held = CountRecords(kafka.url(), topic);
  EXPECT_EQ(held, static_cast<std::size_t>(kCount)) << "and doubled nothing either";
  ExpectAllInOrder(ReadTopic(kafka.url(), topic, held, 60s), kCount, kKeys);
}

// The settings of a topic come from one broker of the cluster. That it is gone must not keep the topic closed.
TEST_F(KafkaOutageTest, ABrokerThatGoesBeforeTheFirstMessageOnlyDelaysIt) {
  const PrivateKafka kafka(3);
  const std::string topic = FreshTopic(kafka.url(), 6);
  for (const int node : {1, 2, 3}) {
    Sender sender({.url = kafka.url()});
    sender.CollectOnce(500ms);  // the brokers are known by now
    kafka.StopNode(node);
    EXPECT_THAT(sender.Ship(NumberedLetters(topic, 100, 10)), Each(IsPersisted())) << "without node " << node;
    kafka.StartNode(node);
  }
}

}  // namespace
}  // namespace sealane
