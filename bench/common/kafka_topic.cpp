#include "common/kafka_topic.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "common/session.hpp"
#include "kafka/producer_conf.hpp"

namespace sealane::bench {
namespace {

constexpr int kPartitions = 12;
constexpr int kTimeoutMs = 30'000;
constexpr const char* kMessageMax = "max.message.bytes";

using NewTopic = std::unique_ptr<rd_kafka_NewTopic_t, kafka::Releaser<rd_kafka_NewTopic_destroy>>;
using DeleteTopic = std::unique_ptr<rd_kafka_DeleteTopic_t, kafka::Releaser<rd_kafka_DeleteTopic_destroy>>;

}  // namespace

KafkaClient MakeProducer(const std::string& broker_url) {
  auto conf = kafka::MakeProducerConf({.url = broker_url});
  if (!conf) Fail(conf.error().ToString());
  std::array<char, 512> reason{};
  KafkaClient producer(rd_kafka_new(RD_KAFKA_PRODUCER, conf->get(), reason.data(), reason.size()));
  if (producer == nullptr) Fail(reason.data());
  (void)conf->release();  // the producer's now
  return producer;
}

FreshTopic::FreshTopic(const std::string& broker_url, int message_max) : client_(MakeProducer(broker_url)) {
  static std::atomic<int> counter{0};
  name_ = fmt::format("bench-{}-{}", ::getpid(), ++counter);
  std::array<char, 512> reason{};
  const NewTopic topic(rd_kafka_NewTopic_new(name_.c_str(), kPartitions, 1, reason.data(), reason.size()));
  if (message_max > 0) {
    rd_kafka_NewTopic_set_config(topic.get(), kMessageMax, std::to_string(message_max).c_str());
  }
  const kafka::Queue queue(rd_kafka_queue_new(client_.get()));
  rd_kafka_NewTopic_t* topics[] = {topic.get()};
  rd_kafka_CreateTopics(client_.get(), topics, 1, nullptr, queue.get());
  const kafka::Event event(rd_kafka_queue_poll(queue.get(), kTimeoutMs));
  if (event == nullptr || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Fail("the topic " + name_ + " could not be made");
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{kTimeoutMs};
  while (!EveryPartitionHasALeader()) {
    if (std::chrono::steady_clock::now() > deadline) Fail("the topic " + name_ + " has no leaders");
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
}

FreshTopic::~FreshTopic() {
  const DeleteTopic topic(rd_kafka_DeleteTopic_new(name_.c_str()));
  const kafka::Queue queue(rd_kafka_queue_new(client_.get()));
  rd_kafka_DeleteTopic_t* topics[] = {topic.get()};
  rd_kafka_DeleteTopics(client_.get(), topics, 1, nullptr, queue.get());
  const kafka::Event event(rd_kafka_queue_poll(queue.get(), kTimeoutMs));
}

bool FreshTopic::EveryPartitionHasALeader() const {
  const kafka::TopicHandle handle(rd_kafka_topic_new(client_.get(), name_.c_str(), nullptr));
  const rd_kafka_metadata_t* raw = nullptr;
  if (rd_kafka_metadata(client_.get(), 0, handle.get(), &raw, kTimeoutMs) != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  const kafka::Metadata metadata(raw);
  if (metadata->topic_cnt != 1 || metadata->topics[0].partition_cnt != kPartitions) return false;
  for (int i = 0; i < kPartitions; ++i) {
    if (metadata->topics[0].partitions[i].leader < 0) return false;
  }
  return true;
}

std::size_t FreshTopic::Count() const {
  std::int64_t sum = 0;
  for (int i = 0; i < kPartitions; ++i) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    if (rd_kafka_query_watermark_offsets(client_.get(), name_.c_str(), i, &low, &high, kTimeoutMs) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
      Fail("the offsets of " + name_ + " cannot be read");
    }
    sum += high - low;
  }
  return static_cast<std::size_t>(sum);
}

void FreshTopic::SetMessageMax(int bytes) const {
  const kafka::ConfigResource resource(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name_.c_str()));
  rd_kafka_ConfigResource_set_config(resource.get(), kMessageMax, std::to_string(bytes).c_str());
  const kafka::Queue queue(rd_kafka_queue_new(client_.get()));
  rd_kafka_ConfigResource_t* resources[] = {resource.get()};
  rd_kafka_AlterConfigs(client_.get(), resources, 1, nullptr, queue.get());
  const kafka::Event event(rd_kafka_queue_poll(queue.get(), kTimeoutMs));
  if (event == nullptr || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Fail("the limit of " + name_ + " could not be changed");
  }
  std::size_t count = 0;
  const rd_kafka_ConfigResource_t** const results =
      rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(event.get()), &count);
  if (count != 1 || rd_kafka_ConfigResource_error(results[0]) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Fail("the limit of " + name_ + " was not changed");
  }
}

}  // namespace sealane::bench
