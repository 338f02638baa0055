#include "kafka/group_lag.hpp"

#include <algorithm>
#include <array>

namespace sealane::kafka {
namespace {

using GroupQuestion =
    std::unique_ptr<rd_kafka_ListConsumerGroupOffsets_t, Releaser<rd_kafka_ListConsumerGroupOffsets_destroy>>;

/// The answer about a group; null when none came.
Event AskForOffsets(rd_kafka_t* handle, const std::string& group, int timeout_ms) {
  const GroupQuestion question(rd_kafka_ListConsumerGroupOffsets_new(group.c_str(), nullptr));
  const AdminOptions options(rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS));
  std::array<char, 128> reason{};
  rd_kafka_AdminOptions_set_request_timeout(options.get(), timeout_ms, reason.data(), reason.size());
  const Queue queue(rd_kafka_queue_new(handle));
  rd_kafka_ListConsumerGroupOffsets_t* questions[] = {question.get()};
  rd_kafka_ListConsumerGroupOffsets(handle, questions, 1, options.get(), queue.get());
  // Longer than the request itself may take: its failure is an answer too.
  return Event(rd_kafka_queue_poll(queue.get(), timeout_ms + 1'000));
}

}  // namespace

std::optional<GroupLag> LagOf(Producer& producer, const std::string& group, int timeout_ms) {
  const Event event = AskForOffsets(producer.handle(), group, timeout_ms);
  const auto* const result = event ? rd_kafka_event_ListConsumerGroupOffsets_result(event.get()) : nullptr;
  if (result == nullptr) return std::nullopt;
  std::size_t count = 0;
  const rd_kafka_group_result_t** const groups = rd_kafka_ListConsumerGroupOffsets_result_groups(result, &count);
  if (count == 0 || rd_kafka_group_result_error(groups[0]) != nullptr) return std::nullopt;
  const rd_kafka_topic_partition_list_t* const offsets = rd_kafka_group_result_partitions(groups[0]);
  if (offsets == nullptr) return std::nullopt;

  GroupLag lag{.group = group};
  for (int i = 0; i < offsets->cnt && lag.partitions < kLagPartitionsMax; ++i) {
    const rd_kafka_topic_partition_t& partition = offsets->elems[i];
    std::int64_t first = 0;
    std::int64_t end = 0;
    if (partition.offset < 0 ||
        rd_kafka_query_watermark_offsets(producer.handle(), partition.topic, partition.partition, &first, &end,
                                         timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR) {
      continue;
    }
    // What retention has removed can no longer be read.
    lag.messages += std::max<std::int64_t>(end - std::max(partition.offset, first), 0);
    ++lag.partitions;
  }
  return lag.partitions == 0 ? std::nullopt : std::optional(lag);
}

}  // namespace sealane::kafka
