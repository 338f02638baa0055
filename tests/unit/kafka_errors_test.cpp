// Protects what an error of Kafka does to an event: the wrong class would bury events during an outage, or retry for
// ever what can never succeed. And the options: a property that breaks a guarantee is refused, a secret is never
// shown.

#include "kafka/kafka_errors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "broker/held_message.hpp"
#include "kafka/kafka_options.hpp"
#include "kafka/kafka_publisher.hpp"
#include "kafka/message_size.hpp"
#include "kafka/topic_book.hpp"

namespace sealane {
namespace {

using kafka::BrokerProblem;
using kafka::BrokersOf;
using kafka::ClassifyKafkaError;
using ::testing::HasSubstr;
using ::testing::Not;

struct Expectation {
  rd_kafka_resp_err_t error;
  FailureClass failure;
  std::string_view code;
};

TEST(KafkaErrors, EveryErrorHasTheClassOfItsReaction) {
  const std::vector<Expectation> table = {
      {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, FailureClass::kForbidden, "topic_forbidden"},
      {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, FailureClass::kRejected, "message_too_large"},
      {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, FailureClass::kRejected, "message_too_large"},
      {RD_KAFKA_RESP_ERR_INVALID_RECORD, FailureClass::kRejected, "invalid_message"},
      {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, FailureClass::kMisconfigured, "clock_wrong"},
      {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, FailureClass::kTopicMissing, "unknown_topic"},
      {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, FailureClass::kTopicMissing, "unknown_topic"},
      {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, FailureClass::kRejected, "invalid_topic"},
      {RD_KAFKA_RESP_ERR__AUTHENTICATION, FailureClass::kMisconfigured, "login_refused"},
      {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, FailureClass::kMisconfigured, "login_refused"},
      {RD_KAFKA_RESP_ERR__SSL, FailureClass::kMisconfigured, "tls_failed"},
      {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, FailureClass::kMisconfigured, "not_permitted"},
      {RD_KAFKA_RESP_ERR__PURGE_QUEUE, FailureClass::kOutage, "abandoned"},
      {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, FailureClass::kOutage, "abandoned"},
      {RD_KAFKA_RESP_ERR__FATAL, FailureClass::kOutage, "producer_rebuilt"},
      {RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, FailureClass::kOutage, "producer_rebuilt"},
      {RD_KAFKA_RESP_ERR__FENCED, FailureClass::kOutage, "producer_rebuilt"},
      {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, FailureClass::kOutage, "producer_rebuilt"},
      {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, FailureClass::kOutage, "producer_rebuilt"},
      {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, FailureClass::kOutage, "producer_rebuilt"},
      {RD_KAFKA_RESP_ERR__TRANSPORT, FailureClass::kOutage, "broker_unreachable"},
      {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, FailureClass::kOutage, "broker_unreachable"},
      {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, FailureClass::kOutage, "broker_unreachable"},
      {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, FailureClass::kOutage, "broker_unreachable"},
      {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, FailureClass::kOutage, "not_enough_replicas"},
      {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, FailureClass::kOutage, "throttled"},
      {RD_KAFKA_RESP_ERR_UNKNOWN, FailureClass::kRetry, "kafka_error"},
      {RD_KAFKA_RESP_ERR_FETCH_SESSION_ID_NOT_FOUND, FailureClass::kRetry, "kafka_error"},
  };
  for (const Expectation& row : table) {
    const kafka::KafkaFailure failure = ClassifyKafkaError(row.error);
    EXPECT_EQ(failure.failure, row.failure) << rd_kafka_err2name(row.error);
    EXPECT_EQ(failure.code, row.code) << rd_kafka_err2name(row.error);
  }
}

TEST(KafkaErrors, ARefusedScramLoginWithAnOldLibraryNamesTheWaysOut) {
  const Error old =
      BrokerProblem(RD_KAFKA_RESP_ERR__AUTHENTICATION, "invalid credentials", "SCRAM-SHA-256", 0x020002ff);
  EXPECT_EQ(old.kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(old.code(), "login_refused");
  EXPECT_THAT(old.message(), HasSubstr("librdkafka 2.0.2 cannot log in to Kafka 4 with SCRAM-SHA-256"));
  EXPECT_THAT(old.hint(), HasSubstr("PLAIN over TLS"));
  EXPECT_THAT(old.hint(), HasSubstr("SEALANE_RDKAFKA_ROOT"));

  for (const auto& [mechanism, version] : {std::pair{"SCRAM-SHA-256", 0x020b01ff}, std::pair{"PLAIN", 0x020002ff}}) {
    const Error plain = BrokerProblem(RD_KAFKA_RESP_ERR__AUTHENTICATION, "invalid credentials", mechanism, version);
    EXPECT_EQ(plain.message(), "invalid credentials");
    EXPECT_THAT(plain.hint(), HasSubstr("password"));
  }
}

TEST(KafkaErrors, ABrokerThatIsAwayIsNobodysFault) {
  const Error problem = BrokerProblem(RD_KAFKA_RESP_ERR__TRANSPORT, "Connect failed: refused", "", 0x020002ff);
  EXPECT_EQ(problem.kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(problem.code(), "broker_unreachable");
  EXPECT_EQ(problem.native(), "_TRANSPORT");
}

// ---- addresses ----------------------------------------------------------------------------------------------------

TEST(KafkaUrl, NamesOneOrMoreBrokers) {
  EXPECT_EQ(*BrokersOf("kafka://localhost:9092"), "localhost:9092");
  EXPECT_EQ(*BrokersOf("kafka://a.example,b.example:9093/"), "a.example:9092,b.example:9093");
  EXPECT_EQ(*BrokersOf("kafka://[::1]:19092,[fe80::1]"), "[::1]:19092,[fe80::1]:9092");
}

TEST(KafkaUrl, ThatIsNoneIsAConfigurationErrorWithoutItsPassword) {
  for (const char* url :
       {"", "kafka://", "kafka:/a", "http://a:1", "kafka://a:0", "kafka://a:70000", "kafka://a:port", "kafka://a,,b",
        "kafka://a/topic", "kafka://user:geheim@a:9092", "kafka://a b:1"}) {
    const auto brokers = BrokersOf(url);
    ASSERT_FALSE(brokers) << url;
    EXPECT_EQ(brokers.error().kind(), ErrorKind::kMisconfigured) << url;
    EXPECT_EQ(brokers.error().code(), "invalid_broker_url") << url;
    EXPECT_THAT(brokers.error().ToString(), Not(HasSubstr("geheim")));
    EXPECT_NE(brokers.error().hint(), "");
  }
}

// ---- properties ---------------------------------------------------------------------------------------------------

Error ErrorOf(std::string name, std::string value) {
  auto publisher = OpenKafkaPublisher(
      {.url = "kafka://127.0.0.1:1", .properties = {{std::move(name), std::move(value)}}}, SystemClock::Instance());
  if (publisher) return Error(ErrorKind::kMisuse, "none", "it was taken");
  return std::move(publisher).error();
}

TEST(KafkaProperties, ThatBreakAGuaranteeAreRefusedWithTheReason) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"enable.idempotence", "false"},
           {"acks", "1"},
           {"request.required.acks", "0"},
           {"message.timeout.ms", "30000"},
           {"delivery.timeout.ms", "30000"},
           {"retries", "3"},
           {"partitioner", "random"},
           {"queuing.strategy", "lifo"},
           {"delivery.report.only.error", "true"},
           {"transactional.id", "x"},
           {"bootstrap.servers", "elsewhere:9092"},
       }) {
    const Error error = ErrorOf(name, value);
    EXPECT_EQ(error.kind(), ErrorKind::kMisconfigured) << name;
    EXPECT_EQ(error.code(), "kafka_property_refused") << name;
    EXPECT_EQ(error.field(), name);
    EXPECT_THAT(error.message(), HasSubstr(": ")) << "says why";
  }
  // librdkafka itself knows that five is the most.
  EXPECT_EQ(ErrorOf("max.in.flight", "6").kind(), ErrorKind::kMisconfigured);
}

TEST(KafkaProperties, ThatSayWhatHoldsAnywayAreTaken) {
  EXPECT_EQ(ErrorOf("acks", "all").code(), "none");
  EXPECT_EQ(ErrorOf("enable.idempotence", "true").code(), "none");
  EXPECT_EQ(ErrorOf("compression.codec", "zstd").code(), "none");
  EXPECT_EQ(ErrorOf("linger.ms", "20").code(), "none");
}

TEST(KafkaProperties, AMisspeltOneNamesTheClosest) {
  const Error error = ErrorOf("compresion.codec", "zstd");
  EXPECT_EQ(error.code(), "unknown_kafka_property");
  EXPECT_THAT(error.hint(), HasSubstr("compression.codec"));
  EXPECT_EQ(ErrorOf("quite.something.else.entirely", "1").code(), "unknown_kafka_property");
}

TEST(KafkaProperties, AWrongValueIsNamedUnlessItIsASecret) {
  EXPECT_THAT(ErrorOf("linger.ms", "soon").message(), HasSubstr("soon"));
  EXPECT_TRUE(kafka::IsSecretProperty("sasl.oauthbearer.assertion.private.key.passphrase"));
  for (const char* name : {"ssl.key.pem", "ssl.keystore.password", "sasl.oauthbearer.client.secret"}) {
    EXPECT_THAT(ErrorOf(name, "geheim").ToString(), Not(HasSubstr("geheim"))) << name;
  }
}

// ---- sizes and names ----------------------------------------------------------------------------------------------

TEST(KafkaMessageSize, IsThatOfABatchWithOneRecord) {
  // 61 bytes of batch header; the record: its length (1), attributes and two deltas (3), key (1 + 1), value (1 + 5),
  // number of headers (1), header name (1 + 1) and value (1 + 2).
  const std::vector<HeaderView> headers = {{"h", "ab"}};
  OutgoingMessage message;
  message.key = "k";
  message.value = "12345";
  message.headers = headers;
  EXPECT_EQ(kafka::WireSizeOf(message), 61U + 1 + 3 + 2 + 6 + 1 + 2 + 3);
  EXPECT_GE(HeldSize(message), kafka::WireSizeOf(message));

  const std::string large(8'192, 'x');  // its length takes three bytes, and so does the record's
  message.value = large;
  EXPECT_EQ(kafka::WireSizeOf(message), 61U + 3 + 3 + 2 + 3 + large.size() + 1 + 2 + 3);
}

TEST(KafkaTopicName, IsWhatBrokersTake) {
  for (const char* name : {"orders", "a", "A.b_c-1", "..."}) EXPECT_TRUE(kafka::IsTopicName(name)) << name;
  for (const char* name : {"", ".", "..", "a b", "a/b", "ä"}) EXPECT_FALSE(kafka::IsTopicName(name)) << name;
  EXPECT_TRUE(kafka::IsTopicName(std::string(249, 'x')));
  EXPECT_FALSE(kafka::IsTopicName(std::string(250, 'x')));
}

TEST(KafkaTopicBook, MakesRoomByForgettingTheIdleTopicUsedLongestAgo) {
  kafka::TopicBook book(2);
  kafka::Topic* first = book.FindOrMake("first");
  const std::uint64_t first_id = first->id;
  first->in_flight = 1;
  const std::uint64_t second_id = book.FindOrMake("second")->id;
  book.FindOrMake("third");
  EXPECT_EQ(book.Find(second_id), nullptr) << "idle";
  EXPECT_NE(book.Find(first_id), nullptr) << "busy";
  book.FindOrMake("third")->in_flight = 1;
  EXPECT_EQ(book.FindOrMake("fourth"), nullptr) << "all are busy";
}

}  // namespace
}  // namespace sealane
