#pragma once

#include <memory>

#include "broker/subscription.hpp"
#include "kafka/handles.hpp"

namespace sealane::kafka {

/// librdkafka's list of partitions, owned.
class PartitionList {
 public:
  PartitionList() : list_(rd_kafka_topic_partition_list_new(8)) {}

  void Add(const Partition& partition, std::int64_t offset = RD_KAFKA_OFFSET_INVALID) {
    rd_kafka_topic_partition_list_add(list_.get(), partition.topic.c_str(), partition.number)->offset = offset;
  }
  bool empty() const { return list_->cnt == 0; }
  rd_kafka_topic_partition_list_t* get() const { return list_.get(); }

 private:
  std::unique_ptr<rd_kafka_topic_partition_list_t, Releaser<rd_kafka_topic_partition_list_destroy>> list_;
};

inline Partition PartitionOf(const rd_kafka_topic_partition_t& entry) {
  return {entry.topic, entry.partition};
}

using MessageHandle = std::unique_ptr<rd_kafka_message_t, Releaser<rd_kafka_message_destroy>>;

/// Where a message, or a remark about a partition, belongs; without a topic when librdkafka does not say.
Partition PartitionOf(const rd_kafka_message_t& message);
/// A copy of a message that carries no error.
ReceivedMessage CopyOf(const rd_kafka_message_t& message);

}  // namespace sealane::kafka
