#include "support/kafka_transaction.hpp"

#include <array>
#include <memory>
#include <stdexcept>

#include <librdkafka/rdkafka.h>

#include "kafka/handles.hpp"
#include "support/kafka_cluster.hpp"

namespace sealane::testing {
namespace {

constexpr int kLimitMs = 60'000;
constexpr std::size_t kSchemeLength = std::string_view("kafka://").size();

void Set(rd_kafka_conf_t& conf, const char* name, const std::string& value) {
  std::array<char, 512> reason{};
  if (rd_kafka_conf_set(&conf, name, value.c_str(), reason.data(), reason.size()) != RD_KAFKA_CONF_OK) {
    throw std::runtime_error(reason.data());
  }
}

void Check(rd_kafka_error_t* error) {
  if (error == nullptr) return;
  const std::string text = rd_kafka_error_string(error);
  rd_kafka_error_destroy(error);
  throw std::runtime_error(text);
}

}  // namespace

void SendTransaction(const std::string& url, const std::string& topic, std::int32_t partition,
                     const std::vector<std::string>& values, TransactionEnd end) {
  kafka::Conf conf(rd_kafka_conf_new());
  Set(*conf, "bootstrap.servers", url.substr(kSchemeLength));
  Set(*conf, "transactional.id", FreshTopicName());
  std::array<char, 512> reason{};
  const std::unique_ptr<rd_kafka_t, kafka::Releaser<rd_kafka_destroy>> producer(
      rd_kafka_new(RD_KAFKA_PRODUCER, conf.get(), reason.data(), reason.size()));
  if (producer == nullptr) throw std::runtime_error(reason.data());
  (void)conf.release();
  Check(rd_kafka_init_transactions(producer.get(), kLimitMs));
  Check(rd_kafka_begin_transaction(producer.get()));
  const kafka::TopicHandle handle(rd_kafka_topic_new(producer.get(), topic.c_str(), nullptr));
  for (const std::string& value : values) {
    std::string copy = value;
    if (rd_kafka_produce(handle.get(), partition, RD_KAFKA_MSG_F_COPY, copy.data(), copy.size(), nullptr, 0,
                         nullptr) != 0) {
      throw std::runtime_error(rd_kafka_err2str(rd_kafka_last_error()));
    }
  }
  // An abort drops what was not sent yet, and would leave no trace.
  if (rd_kafka_flush(producer.get(), kLimitMs) != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error("not sent");
  Check(end == TransactionEnd::kCommit ? rd_kafka_commit_transaction(producer.get(), kLimitMs)
                                       : rd_kafka_abort_transaction(producer.get(), kLimitMs));
}

}  // namespace sealane::testing
