#pragma once

#include <cstddef>
#include <string>

#include "kafka/handles.hpp"

namespace sealane::bench {

using KafkaClient = std::unique_ptr<rd_kafka_t, kafka::Releaser<rd_kafka_destroy>>;

/// A producer with exactly the properties that our publisher gives to librdkafka. Its reports come as events of the
/// main queue.
KafkaClient MakeProducer(const std::string& broker_url);

/// A topic of 12 partitions that nobody used before, deleted at the end.
class FreshTopic {
 public:
  /// `message_max` > 0: the broker refuses batches of more bytes.
  explicit FreshTopic(const std::string& broker_url, int message_max = 0);
  ~FreshTopic();
  FreshTopic(const FreshTopic&) = delete;
  FreshTopic& operator=(const FreshTopic&) = delete;

  const std::string& name() const { return name_; }
  /// How many messages lie in it.
  std::size_t Count() const;
  /// Another limit from now on.
  void SetMessageMax(int bytes) const;

 private:
  bool EveryPartitionHasALeader() const;

  KafkaClient client_;
  std::string name_;
};

}  // namespace sealane::bench
