// Protects the making and removing of topics: what is there already, what is gone already, and a Kafka that is away.

#include "kafka/kafka_topics.hpp"

#include <gtest/gtest.h>

#include "support/kafka_cluster.hpp"

namespace sealane {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{30'000};

TEST(KafkaTopics, AreMadeAndRemoved) {
  SEALANE_REQUIRE_KAFKA();
  const KafkaOptions kafka{.url = testing::KafkaUrl()};
  const std::vector<std::string> names = {testing::FreshTopicName(), testing::FreshTopicName()};
  const Status made = CreateKafkaTopics(kafka, names, 2, kPatience);
  ASSERT_TRUE(made) << made.error().ToString();
  for (const std::string& name : names) EXPECT_EQ(testing::CountRecords(kafka.url, name), 0U);

  const Status again = CreateKafkaTopics(kafka, names, 2, kPatience);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), "topic_exists");

  EXPECT_TRUE(DeleteKafkaTopics(kafka, names, kPatience));
  EXPECT_TRUE(DeleteKafkaTopics(kafka, names, kPatience)) << "what is gone is gone";
}

TEST(KafkaTopics, SayThatNobodyAnswers) {
  const Status made = CreateKafkaTopics({.url = "kafka://127.0.0.1:1"}, {"t"}, 1, milliseconds{300});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), "broker_unreachable");
  EXPECT_EQ(made.error().kind(), ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace sealane
