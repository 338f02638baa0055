// Protects what the Kafka publisher promises, on a real Kafka: bytes arrive unchanged, order per key holds, every
// message gets exactly one delivery of the right class. What happens while brokers are away is in kafka_outage_test.

#include "kafka/kafka_publisher.hpp"

#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include "kafka/kafka_probe.hpp"
#include "support/kafka_cluster.hpp"
#include "support/kafka_sender.hpp"

namespace sealane {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::AllowWrite;
using testing::CountRecords;
using testing::CreateTopic;
using ::testing::Each;
using testing::ExpectAllInOrder;
using testing::ExpectFailure;
using testing::FreshTopic;
using testing::FreshTopicName;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsPersisted;
using testing::KafkaRecord;
using testing::KafkaUrl;
using testing::kLong;
using testing::Letter;
using testing::Noise;
using ::testing::Not;
using testing::NumberedLetters;
using testing::ReadTopic;
using testing::SaslOptions;
using testing::Sender;
using State = PublisherHealth::State;

class KafkaPublisherTest : public ::testing::Test {
 protected:
  void SetUp() override { SEALANE_REQUIRE_KAFKA(); }
  const KafkaOptions options_{.url = KafkaUrl()};
};

/// Submits all in order without sending anything again; the deliveries by position.
std::vector<Delivery> Once(Sender& sender, const std::vector<Letter>& letters) {
  for (std::uint64_t i = 0; i < letters.size(); ++i) sender.Submit(letters[i], i);
  sender.CollectAll();
  std::vector<Delivery> fates(letters.size());
  for (Delivery& delivery : sender.TakeDeliveries()) fates[delivery.token] = std::move(delivery);
  return fates;
}

// ---- bytes and order ----------------------------------------------------------------------------------------------

TEST_F(KafkaPublisherTest, KeyValueAndHeadersArriveUnchanged) {
  const std::string topic = FreshTopic(KafkaUrl(), 1);
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  const std::vector<Letter> letters = {
      {topic, every_byte, every_byte, {{"all", every_byte}, {"empty", ""}, {"twice", "1"}, {"twice", "2"}}},
      {topic, "", "", {}},
  };
  Sender sender(options_);
  EXPECT_THAT(sender.Ship(letters), Each(IsPersisted()));

  const auto records = ReadTopic(KafkaUrl(), topic, letters.size());
  ASSERT_EQ(records.size(), letters.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    EXPECT_EQ(records[i].key, letters[i].key);
    EXPECT_EQ(records[i].value, letters[i].value);
    EXPECT_EQ(records[i].headers, letters[i].headers);
  }
}

TEST_F(KafkaPublisherTest, KeepsTheOrderOfEveryKey) {
  const std::string topic = FreshTopic(KafkaUrl(), 6);
  Sender sender(options_);
  EXPECT_THAT(sender.Ship(NumberedLetters(topic, 10'000, 37)), Each(IsPersisted()));
  const auto records = ReadTopic(KafkaUrl(), topic, 10'000);
  EXPECT_EQ(records.size(), 10'000U);
  ExpectAllInOrder(records, 10'000, 37);
  std::map<std::string, std::set<std::int32_t>> partitions;
  for (const KafkaRecord& record : records) partitions[record.key].insert(record.partition);
  for (const auto& [key, places] : partitions) EXPECT_EQ(places.size(), 1U) << key;
}

TEST_F(KafkaPublisherTest, PutsAKeyWhereJavaProducersPutIt) {
  const std::string topic = FreshTopic(KafkaUrl(), 7);
  Sender sender(options_);
  EXPECT_THAT(sender.Ship({{topic, "foobar", ""}, {topic, "foobar", ""}}), Each(IsPersisted()));
  const auto records = ReadTopic(KafkaUrl(), topic, 2);
  ASSERT_EQ(records.size(), 2U);
  // Java's Utils.murmur2("foobar") is -790332482.
  EXPECT_EQ(records[0].partition, (-790332482 & 0x7fffffff) % 7);
  EXPECT_EQ(records[1].partition, records[0].partition);
}

// ---- topics -------------------------------------------------------------------------------------------------------

TEST_F(KafkaPublisherTest, SaysThatATopicIsMissingAndOthersFlow) {
  const std::string topic = FreshTopic(KafkaUrl());
  const std::string unknown = FreshTopicName();
  Sender sender(options_);
  const auto fates = sender.Ship({{unknown, "k", "1"}, {topic, "k", "1"}, {unknown, "k", "2"}});
  ExpectFailure(fates[0], DeliveryStatus::kNotPersisted, FailureClass::kTopicMissing, "unknown_topic");
  EXPECT_THAT(fates[1], IsPersisted());
  ExpectFailure(fates[2], DeliveryStatus::kNotPersisted, FailureClass::kTopicMissing, "unknown_topic");
  EXPECT_EQ(sender.state(), State::kReady);
}

TEST_F(KafkaPublisherTest, FindsATopicThatWasMadeLater) {
  const std::string topic = FreshTopicName();
  KafkaOptions options = options_;
  options.missing_after = 0ms;
  options.ask_again_after = 100ms;
  Sender sender(options);
  ExpectFailure(sender.Ship({{topic, "k", "1"}})[0], DeliveryStatus::kNotPersisted, FailureClass::kTopicMissing,
                "unknown_topic");
  CreateTopic(KafkaUrl(), topic);
  const auto deadline = steady_clock::now() + kLong;
  while (sender.Ship({{topic, "k", "2"}})[0].status != DeliveryStatus::kPersisted) {
    ASSERT_LT(steady_clock::now(), deadline);
  }
}

TEST_F(KafkaPublisherTest, WaitsForATopicThatAppearsAMomentLater) {
  const std::string topic = FreshTopicName();
  KafkaOptions options = options_;
  options.missing_after = 30s;
  Sender sender(options);
  sender.Submit({topic, "k", "1"}, 0);
  sender.Submit({topic, "k", "2"}, 1);
  EXPECT_FALSE(sender.CollectUntil([&] { return !sender.deliveries().empty(); }, 500ms)) << "they wait";
  CreateTopic(KafkaUrl(), topic, 1);
  sender.CollectAll();
  EXPECT_THAT(sender.deliveries(), Each(IsPersisted()));
  const auto records = ReadTopic(KafkaUrl(), topic, 2);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].value, "1") << "those that waited leave in order";
}

TEST_F(KafkaPublisherTest, RejectsWhatCannotBeTheNameOfATopic) {
  Sender sender(options_);
  const auto fates = sender.Ship({{"", "k", "1"}, {"a topic", "k", "1"}});
  ExpectFailure(fates[0], DeliveryStatus::kNotPersisted, FailureClass::kRejected, "invalid_topic");
  ExpectFailure(fates[1], DeliveryStatus::kNotPersisted, FailureClass::kRejected, "invalid_topic");
}

// Right after a topic was made its brokers turn some requests away. librdkafka alone loses messages then, and reports
// them as persisted: see PartitionWarmth.
TEST_F(KafkaPublisherTest, WhatIsAcknowledgedIsThereAlsoInATopicMadeJustNow) {
  KafkaOptions options = options_;
  options.properties = {{"batch.num.messages", "1"}};
  for (int round = 0; round < 20; ++round) {
    const std::string topic = FreshTopic(KafkaUrl(), 20);
    Sender sender(options);
    EXPECT_THAT(sender.Ship(NumberedLetters(topic, 600, 60)), Each(IsPersisted()));
    const std::size_t held = CountRecords(KafkaUrl(), topic);
    ASSERT_EQ(held, 600U) << "none lost, none doubled";
    ExpectAllInOrder(ReadTopic(KafkaUrl(), topic, held), 600, 60);
  }
}

// ---- sizes --------------------------------------------------------------------------------------------------------

TEST_F(KafkaPublisherTest, RejectsOnlyTheMessageThatIsTooLargeForItsTopic) {
  const std::string topic = FreshTopic(KafkaUrl(), 1, {{"max.message.bytes", "2000"}});
  std::vector<Letter> letters;
  for (int i = 0; i < 40; ++i) letters.push_back({topic, "k", Noise(i == 20 ? 5'000 : 500, 7)});
  Sender sender(options_);
  const auto fates = sender.Ship(letters);
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (i == 20) {
      ExpectFailure(fates[i], DeliveryStatus::kNotPersisted, FailureClass::kRejected, "message_too_large");
    } else {
      EXPECT_THAT(fates[i], IsPersisted()) << i;
    }
  }
  EXPECT_EQ(CountRecords(KafkaUrl(), topic), 39U) << "none doubled";
}

TEST_F(KafkaPublisherTest, MakesBatchesThatFitTheTopic) {
  const std::string topic = FreshTopic(KafkaUrl(), 1, {{"max.message.bytes", "100000"}});
  std::vector<Letter> letters;
  for (int i = 0; i < 3'000; ++i) letters.push_back({topic, "k", Noise(500, 7)});
  KafkaOptions options = options_;
  options.properties = {{"compression.codec", "none"}, {"linger.ms", "50"}};
  Sender sender(options);
  EXPECT_THAT(sender.Ship(letters), Each(IsPersisted()));
  EXPECT_EQ(CountRecords(KafkaUrl(), topic), 3'000U) << "no batch was refused and sent again";
}

TEST_F(KafkaPublisherTest, TakesWhateverTheTopicTakes) {
  const std::string topic = FreshTopic(KafkaUrl(), 1, {{"max.message.bytes", "10000000"}});
  Sender sender(options_);
  EXPECT_THAT(sender.Ship({{topic, "k", Noise(3'000'000, 7)}, {topic, "k", "small"}}), Each(IsPersisted()));
  EXPECT_EQ(CountRecords(KafkaUrl(), topic), 2U);
}

// Whether they were sent at once or waited for their topic: nothing passes the refused one before its caller knows.
TEST_F(KafkaPublisherTest, RejectsWhatIsTooLargeForTheProducer) {
  const std::string topic = FreshTopic(KafkaUrl(), 1, {{"max.message.bytes", "10000000"}});
  KafkaOptions options = options_;
  options.properties = {{"message.max.bytes", "1000000"}};
  Sender sender(options);
  const std::vector<Letter> letters = {
      {topic, "k", "1"}, {topic, "k", std::string(1'200'000, 'x')}, {topic, "k", "2"}, {topic, "other", "3"}};
  for (const std::string_view state : {"asking", "open"}) {
    const auto fates = Once(sender, letters);
    EXPECT_THAT(fates[0], IsPersisted()) << state;
    ExpectFailure(fates[1], DeliveryStatus::kNotPersisted, FailureClass::kRejected, "message_too_large");
    ExpectFailure(fates[2], DeliveryStatus::kNotPersisted, FailureClass::kOutage, "held_back");
    EXPECT_THAT(fates[3], IsPersisted()) << state;
  }
  EXPECT_THAT(Once(sender, {letters[2]}), Each(IsPersisted())) << "the caller knows by now";
}

// The user `relay` may not read the settings of a topic, so the broker is the first to say that a batch is too large.
TEST_F(KafkaPublisherTest, ARefusedBatchCondemnsOnlyTheMessageAtFault) {
  const std::string topic = FreshTopic(KafkaUrl(), 1, {{"max.message.bytes", "20000"}});
  AllowWrite(KafkaUrl(), topic, true);
  std::vector<Letter> letters = NumberedLetters(topic, 1'000, 5);
  for (std::size_t i = 0; i < letters.size(); ++i) letters[i].headers = {{"padding", Noise(400, i)}};
  for (const std::size_t large : {300U, 301U, 700U}) letters[large].headers = {{"padding", Noise(30'000, large)}};
  KafkaOptions options = SaslOptions();
  options.properties.emplace_back("linger.ms", "50");
  Sender sender(options);
  const auto fates = sender.Ship(letters);
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (i == 300 || i == 301 || i == 700) {
      ExpectFailure(fates[i], DeliveryStatus::kNotPersisted, FailureClass::kRejected, "message_too_large");
    } else {
      EXPECT_THAT(fates[i], IsPersisted()) << i;
    }
  }
  ExpectAllInOrder(ReadTopic(KafkaUrl(), topic, CountRecords(KafkaUrl(), topic)), 997, 5);
}

// After a refused batch messages go one by one, and those behind wait inside. One of them is refused again: what
// waits behind it with its key must come back, not leave.
TEST_F(KafkaPublisherTest, NothingPassesAMessageThatIsRefusedAlone) {
  const std::string topic = FreshTopic(KafkaUrl(), 1, {{"max.message.bytes", "20000"}});
  AllowWrite(KafkaUrl(), topic, true);
  Sender sender(SaslOptions());
  ExpectFailure(sender.Ship({{topic, "first", Noise(30'000, 1)}})[0], DeliveryStatus::kNotPersisted,
                FailureClass::kRejected, "message_too_large");
  const auto fates = Once(sender, {{topic, "k", "1"},
                                   {topic, "k", Noise(30'000, 2)},
                                   {topic, "k", "2"},
                                   {topic, "other", "3"},
                                   {topic, "k", "4"}});
  EXPECT_THAT(fates[0], IsPersisted());
  ExpectFailure(fates[1], DeliveryStatus::kNotPersisted, FailureClass::kRejected, "message_too_large");
  ExpectFailure(fates[2], DeliveryStatus::kNotPersisted, FailureClass::kOutage, "held_back");
  EXPECT_THAT(fates[3], IsPersisted());
  ExpectFailure(fates[4], DeliveryStatus::kNotPersisted, FailureClass::kOutage, "held_back");
}

// ---- bounds, Abandon, Interrupt -----------------------------------------------------------------------------------

TEST_F(KafkaPublisherTest, IsFullAtItsBoundOfMessagesAndOfBytes) {
  KafkaOptions options{.url = "kafka://127.0.0.1:1"};
  options.messages_max = 10;
  Sender few(options);
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(few.TrySubmit({"orders", "k", "v"}, i), Submitted::kTaken);
  EXPECT_EQ(few.TrySubmit({"orders", "k", "v"}, 10), Submitted::kFull);

  options.messages_max = 1'000;
  options.bytes_max = 100'000;
  Sender small(options);
  int taken = 0;
  while (small.TrySubmit({"orders", "k", std::string(10'000, 'x')}, 0) == Submitted::kTaken) ++taken;
  EXPECT_EQ(taken, 9);
  small.publisher().Abandon();
  small.CollectUntil([&] { return small.deliveries().size() == 9; });
  EXPECT_EQ(small.TrySubmit({"orders", "k", std::string(200'000, 'x')}, 0), Submitted::kTaken)
      << "one message is taken however large it is";
}

TEST_F(KafkaPublisherTest, TakesMoreAfterCollecting) {
  const std::string topic = FreshTopic(KafkaUrl());
  KafkaOptions options = options_;
  options.messages_max = 100;
  Sender sender(options);
  EXPECT_THAT(sender.Ship(NumberedLetters(topic, 5'000, 10)), Each(IsPersisted()));
  ExpectAllInOrder(ReadTopic(KafkaUrl(), topic, 5'000), 5'000, 10);
}

TEST_F(KafkaPublisherTest, AbandonGivesEverythingBackOnceAndGoesOn) {
  const std::string topic = FreshTopic(KafkaUrl(), 1);
  KafkaOptions options = options_;
  options.properties = {{"linger.ms", "500"}};
  Sender sender(options);
  const auto letters = NumberedLetters(topic, 500, 3);
  for (std::uint64_t i = 0; i < letters.size(); ++i) sender.Submit(letters[i], i);
  sender.publisher().Abandon();
  sender.CollectOnce(0ms);
  const std::vector<Delivery> deliveries = sender.TakeDeliveries();
  ASSERT_EQ(deliveries.size(), letters.size()) << "all, from the one Collect()";
  std::set<std::uint64_t> tokens;
  for (const Delivery& delivery : deliveries) {
    tokens.insert(delivery.token);
    EXPECT_NE(delivery.status, DeliveryStatus::kPersisted);
    EXPECT_EQ(delivery.failure, FailureClass::kOutage);
    EXPECT_EQ(delivery.code, "abandoned");
  }
  EXPECT_EQ(tokens.size(), letters.size());

  EXPECT_THAT(sender.Ship(letters), Each(IsPersisted()));
  ExpectAllInOrder(ReadTopic(KafkaUrl(), topic, 500), 500, 3);
}

TEST_F(KafkaPublisherTest, AbandonUnderLoadKeepsOrderWhenAllIsSentAgain) {
  const std::string topic = FreshTopic(KafkaUrl(), 2);
  const auto letters = NumberedLetters(topic, 20'000, 11);
  Sender sender(options_);
  for (std::uint64_t i = 0; i < letters.size(); ++i) {
    sender.Submit(letters[i], i);
    if (i % 4'000 != 3'999) continue;
    // In the middle of things, with requests under way.
    sender.publisher().Abandon();
    sender.CollectAll();
    std::vector<std::uint64_t> again;
    for (const Delivery& delivery : sender.TakeDeliveries()) {
      if (delivery.status != DeliveryStatus::kPersisted) again.push_back(delivery.token);
    }
    std::sort(again.begin(), again.end());
    for (const std::uint64_t token : again) sender.Submit(letters[token], token);
  }
  sender.CollectAll();
  EXPECT_THAT(sender.deliveries(), Each(IsPersisted()));
  ExpectAllInOrder(ReadTopic(KafkaUrl(), topic, CountRecords(KafkaUrl(), topic)), 20'000, 11);
}

TEST_F(KafkaPublisherTest, InterruptEndsACollectThatWaitsAndTheNextOne) {
  Sender sender(options_);
  std::vector<Delivery> none;
  sender.publisher().Interrupt();
  const auto start = steady_clock::now();
  sender.publisher().Collect(none, kLong);
  std::jthread other([&] { sender.publisher().Interrupt(); });
  sender.publisher().Collect(none, kLong);
  EXPECT_LT(steady_clock::now() - start, kLong / 2);
  EXPECT_THAT(none, IsEmpty());
  sender.publisher().Collect(none, 1ms);
}

// ---- rights -------------------------------------------------------------------------------------------------------

TEST_F(KafkaPublisherTest, AWrongPasswordIsMisconfiguredAndMessagesWait) {
  Sender sender(SaslOptions("wrong-password"));
  sender.Submit({"allowed", "k", "1"}, 0);
  ASSERT_TRUE(sender.CollectUntil([&] { return sender.state() == State::kMisconfigured; }));
  const Error problem = *sender.publisher().health().problem;
  EXPECT_EQ(problem.code(), "login_refused");
  EXPECT_THAT(problem.hint(), HasSubstr("password"));
  EXPECT_THAT(problem.ToString(), Not(HasSubstr("wrong-password")));
  EXPECT_THAT(sender.deliveries(), IsEmpty()) << "not the event's fault";
}

TEST_F(KafkaPublisherTest, ScramWithAnOldLibraryIsNamed) {
  Sender sender(SaslOptions("right-password", "SCRAM-SHA-256"));
  sender.Submit({"allowed", "k", "1"}, 0);
  if (rd_kafka_version() >= 0x020b0000) {
    sender.CollectAll();
    EXPECT_THAT(sender.deliveries(), Each(IsPersisted()));
    return;
  }
  ASSERT_TRUE(sender.CollectUntil([&] { return sender.state() == State::kMisconfigured; }));
  EXPECT_THAT(sender.publisher().health().problem->message(), HasSubstr("cannot log in to Kafka 4"));
}

TEST_F(KafkaPublisherTest, AForbiddenTopicWaitsAndTheAllowedOneFlows) {
  Sender sender(SaslOptions());
  std::vector<Letter> letters;
  for (int i = 0; i < 300; ++i) {
    for (const char* topic : {"allowed", "denied", "read-only"}) letters.push_back({topic, "k", std::to_string(i)});
  }
  const auto fates = sender.Ship(letters);
  for (std::size_t i = 0; i < fates.size(); ++i) {
    if (letters[i].topic == "allowed") {
      EXPECT_THAT(fates[i], IsPersisted()) << i;
    } else {
      ExpectFailure(fates[i], DeliveryStatus::kNotPersisted, FailureClass::kForbidden, "topic_forbidden");
    }
  }
  EXPECT_EQ(sender.state(), State::kReady);
}

TEST_F(KafkaPublisherTest, AForbiddenTopicOpensWhenTheRightIsGiven) {
  const std::string topic = FreshTopic(KafkaUrl(), 1);
  KafkaOptions options = SaslOptions();
  options.ask_again_after = 100ms;
  Sender sender(options);
  const auto letters = NumberedLetters(topic, 50, 1);
  ExpectFailure(sender.Ship(letters)[0], DeliveryStatus::kNotPersisted, FailureClass::kForbidden, "topic_forbidden");
  AllowWrite(KafkaUrl(), topic, true);
  const auto deadline = steady_clock::now() + kLong;
  std::vector<Delivery> fates;
  do {
    ASSERT_LT(steady_clock::now(), deadline);
    fates = sender.Ship(letters);
  } while (fates[0].status != DeliveryStatus::kPersisted);
  EXPECT_THAT(fates, Each(IsPersisted())) << "and with the first all of them";
  ExpectAllInOrder(ReadTopic(KafkaUrl(), topic, 50), 50, 1);
}

// ---- a look, for doctor -------------------------------------------------------------------------------------------

TEST_F(KafkaPublisherTest, AProbeNamesClusterAndBrokersOrTheProblem) {
  const BrokerReport report = ValueOrThrow(ProbeKafka(options_, 10s, SystemClock::Instance()));
  EXPECT_FALSE(report.problem.has_value());
  EXPECT_EQ(report.cluster_id.size(), 22U);
  ASSERT_EQ(report.brokers.size(), 1U);
  EXPECT_EQ("kafka://" + report.brokers[0].address, KafkaUrl());
  EXPECT_EQ(report.library_version, rd_kafka_version_str());

  const BrokerReport refused = ValueOrThrow(ProbeKafka(SaslOptions("wrong"), 10s, SystemClock::Instance()));
  ASSERT_TRUE(refused.problem.has_value());
  EXPECT_EQ(refused.problem->code(), "login_refused");
  EXPECT_EQ(refused.problem->kind(), ErrorKind::kMisconfigured);

  const BrokerReport away = ValueOrThrow(ProbeKafka({.url = "kafka://127.0.0.1:1"}, 1s, SystemClock::Instance()));
  ASSERT_TRUE(away.problem.has_value());
  EXPECT_EQ(away.problem->code(), "broker_unreachable");
  EXPECT_NE(away.problem->hint(), "");
}

}  // namespace
}  // namespace sealane
