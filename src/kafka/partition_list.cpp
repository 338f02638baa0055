#include "kafka/partition_list.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/time_text.hpp"

namespace sealane::kafka {
namespace {

std::string Bytes(const void* data, std::size_t size) {
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

}  // namespace

Partition PartitionOf(const rd_kafka_message_t& message) {
  return {message.rkt == nullptr ? "" : rd_kafka_topic_name(message.rkt), message.partition};
}

ReceivedMessage CopyOf(const rd_kafka_message_t& message) {
  ReceivedMessage copy{.partition = PartitionOf(message),
                       .offset = message.offset,
                       .key = Bytes(message.key, message.key_len),
                       .value = Bytes(message.payload, message.len),
                       .headers = {}};
  rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
  const std::int64_t at = rd_kafka_message_timestamp(&message, &type);
  // A producer can name any time; no database takes all of them.
  constexpr auto kEarliest = std::chrono::duration_cast<std::chrono::milliseconds>(kTimestampMin.time_since_epoch());
  constexpr auto kLatest = std::chrono::duration_cast<std::chrono::milliseconds>(kTimestampMax.time_since_epoch());
  if (type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE) {
    copy.published_at = Timestamp{std::clamp(std::chrono::milliseconds{at}, kEarliest, kLatest)};
  }
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return copy;
  const std::size_t count = rd_kafka_header_cnt(headers);
  copy.headers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    if (rd_kafka_header_get_all(headers, i, &name, &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR) break;
    copy.headers.push_back({name, Bytes(value, size)});
  }
  return copy;
}

}  // namespace sealane::kafka
