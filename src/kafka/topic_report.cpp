#include "kafka/topic_report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string_view>

namespace sealane::kafka {
namespace {

using Resources = std::vector<rd_kafka_ConfigResource_t*>;

void DescribeOne(const rd_kafka_metadata_topic_t& topic, TopicReport& report) {
  report.is_there = topic.err == RD_KAFKA_RESP_ERR_NO_ERROR && topic.partition_cnt > 0;
  report.partitions = static_cast<std::size_t>(std::max(topic.partition_cnt, 0));
  for (std::size_t i = 0; i < report.partitions; ++i) {
    const rd_kafka_metadata_partition_t& partition = topic.partitions[i];
    const auto replicas = static_cast<std::size_t>(partition.replica_cnt);
    report.replicas = i == 0 ? replicas : std::min(report.replicas, replicas);
    if (partition.leader < 0) ++report.without_leader;
    if (partition.isr_cnt < partition.replica_cnt) ++report.under_replicated;
  }
}

std::optional<std::int64_t> Number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  std::int64_t number = 0;
  const auto [rest, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return failure == std::errc{} ? std::optional(number) : std::nullopt;
}

/// Asks for the settings of resources and hands each setting of each of them out. What nobody answers is left out.
void ReadSettings(Producer& producer, Resources resources, int timeout_ms,
                  const std::function<void(std::string_view, std::string_view, const char*)>& take) {
  rd_kafka_t* const handle = producer.handle();
  const AdminOptions options(rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS));
  std::array<char, 128> reason{};
  rd_kafka_AdminOptions_set_request_timeout(options.get(), timeout_ms, reason.data(), reason.size());
  const Queue queue(rd_kafka_queue_new(handle));
  rd_kafka_DescribeConfigs(handle, resources.data(), resources.size(), options.get(), queue.get());
  // Longer than the request itself may take: its failure is an answer too.
  const Event event(rd_kafka_queue_poll(queue.get(), timeout_ms + 1'000));
  if (event == nullptr) return;
  const rd_kafka_DescribeConfigs_result_t* const result = rd_kafka_event_DescribeConfigs_result(event.get());
  if (result == nullptr || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  std::size_t count = 0;
  const rd_kafka_ConfigResource_t** const found = rd_kafka_DescribeConfigs_result_resources(result, &count);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t settings = 0;
    const rd_kafka_ConfigEntry_t** const entries = rd_kafka_ConfigResource_configs(found[i], &settings);
    for (std::size_t j = 0; j < settings; ++j) {
      take(rd_kafka_ConfigResource_name(found[i]), rd_kafka_ConfigEntry_name(entries[j]),
           rd_kafka_ConfigEntry_value(entries[j]));
    }
  }
}

void ReadTopicSettings(Producer& producer, std::vector<TopicReport>& topics, int timeout_ms) {
  std::vector<ConfigResource> owned;
  Resources resources;
  for (const TopicReport& topic : topics) {
    if (!topic.is_there) continue;
    owned.emplace_back(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.name.c_str()));
    resources.push_back(owned.back().get());
  }
  if (resources.empty()) return;
  ReadSettings(producer, resources, timeout_ms, [&](std::string_view name, std::string_view key, const char* value) {
    const auto topic =
        std::find_if(topics.begin(), topics.end(), [&](const TopicReport& report) { return report.name == name; });
    if (topic == topics.end()) return;
    if (key == "max.message.bytes") topic->message_bytes_max = Number(value);
    if (key == "min.insync.replicas") topic->insync_min = Number(value);
  });
}

}  // namespace

std::optional<std::vector<TopicReport>> DescribeTopics(Producer& producer, const std::vector<std::string>& names,
                                                       int timeout_ms) {
  const rd_kafka_metadata_t* raw = nullptr;
  if (rd_kafka_metadata(producer.handle(), 1, nullptr, &raw, timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return std::nullopt;
  }
  const Metadata metadata(raw);
  std::vector<TopicReport> topics;
  for (const std::string& name : names) {
    TopicReport& report = topics.emplace_back(TopicReport{.name = name});
    for (int i = 0; i < metadata->topic_cnt; ++i) {
      if (name == metadata->topics[i].topic) DescribeOne(metadata->topics[i], report);
    }
  }
  ReadTopicSettings(producer, topics, timeout_ms);
  return topics;
}

std::optional<bool> MakesTopics(Producer& producer, std::int32_t broker_id, int timeout_ms) {
  const std::string name = std::to_string(broker_id);
  const ConfigResource resource(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_BROKER, name.c_str()));
  std::optional<bool> makes;
  ReadSettings(producer, {resource.get()}, timeout_ms,
               [&](std::string_view, std::string_view key, const char* value) {
                 if (key == "auto.create.topics.enable" && value != nullptr)
                   makes = std::string_view(value) == "true";
               });
  return makes;
}

}  // namespace sealane::kafka
