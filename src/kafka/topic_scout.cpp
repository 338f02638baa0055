#include "kafka/topic_scout.hpp"

#include <charconv>
#include <string_view>

namespace sealane::kafka {
namespace {

constexpr int kSettingsTimeoutMs = 2'000;
constexpr int kMetadataTimeoutMs = 250;

std::size_t NumberIn(const char* text) {
  if (text == nullptr) return 0;
  const std::string_view digits(text);
  std::size_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::size_t MessageLimitIn(const rd_kafka_ConfigResource_t& resource) {
  std::size_t count = 0;
  const rd_kafka_ConfigEntry_t** entries = rd_kafka_ConfigResource_configs(&resource, &count);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::string_view(rd_kafka_ConfigEntry_name(entries[i])) == "max.message.bytes") {
      return NumberIn(rd_kafka_ConfigEntry_value(entries[i]));
    }
  }
  return 0;
}

/// The metadata also makes brokers create the topic where they do that on request.
TopicFinding AskMetadata(Producer& producer, const Topic& topic) {
  using Kind = TopicFinding::Kind;
  const TopicHandle handle = producer.OpenTopic(topic.name);
  if (handle == nullptr) return {Kind::kInvalidName};
  const rd_kafka_metadata_t* raw = nullptr;
  const rd_kafka_resp_err_t error = rd_kafka_metadata(producer.handle(), 0, handle.get(), &raw, kMetadataTimeoutMs);
  const Metadata metadata(raw);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return {.kind = Kind::kNoAnswer, .brokers_are_silent = true};
  if (metadata->topic_cnt < 1) return {Kind::kNoAnswer};
  const rd_kafka_metadata_topic_t& found = metadata->topics[0];
  switch (found.err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
      if (found.partition_cnt <= 0) return {Kind::kNoAnswer};
      return {.kind = Kind::kThere, .partitions = static_cast<std::size_t>(found.partition_cnt)};
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
      return {Kind::kMissing};
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      return {Kind::kForbidden};
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
      return {Kind::kInvalidName};
    default:
      return {Kind::kNoAnswer};
  }
}

}  // namespace

void AskAboutTopic(Producer& producer, const Topic& topic) {
  producer.AskTopicConfig(topic.name, reinterpret_cast<void*>(static_cast<std::uintptr_t>(topic.id)),
                          kSettingsTimeoutMs);
}

TopicFinding ReadTopicAnswer(Producer& producer, const Topic& topic, rd_kafka_event_t& answer,
                             bool settings_can_wait) {
  using Kind = TopicFinding::Kind;
  // Also when nobody answered: settings come from the broker that the last metadata called the controller, and when
  // that one is gone, nothing but new metadata makes librdkafka ask another.
  TopicFinding finding = AskMetadata(producer, topic);
  if (finding.kind != Kind::kThere) return finding;
  if (rd_kafka_event_error(&answer) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return settings_can_wait ? TopicFinding{Kind::kNoAnswer} : finding;
  }
  const rd_kafka_DescribeConfigs_result_t* result = rd_kafka_event_DescribeConfigs_result(&answer);
  std::size_t count = 0;
  const rd_kafka_ConfigResource_t** resources = rd_kafka_DescribeConfigs_result_resources(result, &count);
  if (count == 1 && rd_kafka_ConfigResource_error(resources[0]) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    finding.message_bytes_max = MessageLimitIn(*resources[0]);
  }
  return finding;
}

}  // namespace sealane::kafka
