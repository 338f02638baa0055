#pragma once

#include <cstddef>
#include <string>

#include "bench_relay/bare_message.hpp"
#include "common/kafka_topic.hpp"

namespace sealane::bench {

/// librdkafka with the properties of our publisher and nothing around it but a count of what is under way.
class BareProducer {
 public:
  BareProducer(const std::string& broker_url, const std::string& topic);

  /// Waits while librdkafka's queue is full.
  void Produce(const BareMessage& message);
  /// Waits for the last acknowledgement, at most a minute.
  void Flush();

 private:
  void Collect(int wait_ms);

  KafkaClient client_;
  kafka::Queue queue_;
  kafka::TopicHandle topic_;
  std::size_t under_way_ = 0;
  std::size_t since_collect_ = 0;
};

}  // namespace sealane::bench
