#include "bench_inbox/bare_kafka.hpp"

#include <array>
#include <memory>

#include "bench_inbox/bare_loop.hpp"
#include "bench_inbox/feed.hpp"
#include "common/kafka_topic.hpp"
#include "common/session.hpp"
#include "kafka/consumer_conf.hpp"

namespace sealane::bench {
namespace {

constexpr int kTimeoutMs = 30'000;

using Message = std::unique_ptr<rd_kafka_message_t, kafka::Releaser<rd_kafka_message_destroy>>;
using PartitionList =
    std::unique_ptr<rd_kafka_topic_partition_list_t, kafka::Releaser<rd_kafka_topic_partition_list_destroy>>;

KafkaClient MakeReader(const Contestant& contestant) {
  auto conf = kafka::MakeConsumerConf(
      {.url = contestant.source, .group = "bare", .topics = {contestant.topic}, .properties = {}});
  if (!conf) Fail(conf.error().ToString());
  rd_kafka_conf_set_events(conf->get(), 0);
  std::array<char, 512> reason{};
  KafkaClient reader(rd_kafka_new(RD_KAFKA_CONSUMER, conf->get(), reason.data(), reason.size()));
  if (reader == nullptr) Fail(reason.data());
  (void)conf->release();  // the reader's now
  rd_kafka_poll_set_consumer(reader.get());
  return reader;
}

/// Takes the worker's partitions from their beginning and returns how many messages lie in them.
std::int64_t Assign(rd_kafka_t* reader, const Contestant& contestant, std::size_t worker) {
  const PartitionList mine(rd_kafka_topic_partition_list_new(kPartitions));
  std::int64_t messages = 0;
  for (std::int32_t i = 0; i < kPartitions; ++i) {
    if (static_cast<std::size_t>(i) % contestant.workers != worker) continue;
    rd_kafka_topic_partition_list_add(mine.get(), contestant.topic.c_str(), i)->offset = 0;
    std::int64_t low = 0;
    std::int64_t high = 0;
    if (rd_kafka_query_watermark_offsets(reader, contestant.topic.c_str(), i, &low, &high, kTimeoutMs) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
      Fail("the offsets of " + contestant.topic + " cannot be read");
    }
    messages += high;
  }
  if (rd_kafka_assign(reader, mine.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) Fail("no partitions could be assigned");
  return messages;
}

}  // namespace

Lap RunBareFromKafka(const Contestant& contestant) {
  return RunWorkers(contestant, [&](std::size_t worker, Meter& meter, const std::function<void()>& start) {
    BareLoop loop(contestant, meter);
    const KafkaClient reader = MakeReader(contestant);
    start();
    std::int64_t left = Assign(reader.get(), contestant, worker);
    std::string key;
    std::string value;
    while (left > 0) {
      const Message message(rd_kafka_consumer_poll(reader.get(), kTimeoutMs));
      if (message == nullptr) Fail("Kafka gave nothing for half a minute");
      if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) continue;
      if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_message_errstr(message.get()));
      key.assign(static_cast<const char*>(message->key), message->key_len);
      value.assign(static_cast<const char*>(message->payload), message->len);
      loop.Apply(key, value);
      --left;
    }
    loop.Finish();
  });
}

void FillTopic(const std::string& broker_url, const std::string& topic, std::size_t events) {
  const KafkaClient producer = MakeProducer(broker_url);
  const kafka::Queue reports(rd_kafka_queue_get_main(producer.get()));
  const kafka::TopicHandle handle(rd_kafka_topic_new(producer.get(), topic.c_str(), nullptr));
  std::size_t under_way = 0;
  const auto collect = [&](int wait_ms) {
    const kafka::Event event(rd_kafka_queue_poll(reports.get(), wait_ms));
    if (event == nullptr) return false;
    while (const rd_kafka_message_t* const report = rd_kafka_event_message_next(event.get())) {
      if (report->err != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_err2str(report->err));
      --under_way;
    }
    return true;
  };
  Feed feed;
  for (std::size_t i = 0; i < events; ++i) {
    const ReceivedMessage message = feed.Next();
    rd_kafka_headers_t* const headers = rd_kafka_headers_new(message.headers.size());
    for (const auto& [name, value] : message.headers) {
      rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                          static_cast<ssize_t>(value.size()));
    }
    while (under_way >= 5'000) collect(1'000);
    const auto error =
        rd_kafka_producev(producer.get(), RD_KAFKA_V_RKT(handle.get()),
                          RD_KAFKA_V_PARTITION(message.partition.number), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                          RD_KAFKA_V_KEY(const_cast<char*>(message.key.data()), message.key.size()),
                          RD_KAFKA_V_VALUE(const_cast<char*>(message.value.data()), message.value.size()),
                          RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_err2str(error));
    ++under_way;
  }
  while (under_way > 0) {
    if (!collect(kTimeoutMs)) Fail("Kafka did not acknowledge everything");
  }
}

}  // namespace sealane::bench
