#include "support/kafka_cluster.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kafka/handles.hpp"

namespace sealane::testing {
namespace {

using kafka::Event;
using kafka::Queue;
using Client = std::unique_ptr<rd_kafka_t, kafka::Releaser<rd_kafka_destroy>>;
using std::chrono::steady_clock;

constexpr int kAdminTimeoutMs = 30'000;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Client Connect(rd_kafka_type_t type, const std::string& url,
               const std::map<std::string, std::string>& settings = {}) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  std::array<char, 512> reason{};
  std::map<std::string, std::string> all = settings;
  all["bootstrap.servers"] = kafka::BrokersOf(url).value();
  all["log_level"] = "2";
  for (const auto& [name, value] : all) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), reason.data(), reason.size()) != RD_KAFKA_CONF_OK) {
      Fail(reason.data());
    }
  }
  rd_kafka_t* client = rd_kafka_new(type, conf, reason.data(), reason.size());
  if (client == nullptr) Fail(reason.data());
  return Client(client);
}

kafka::Metadata MetadataOf(const Client& client, const std::string& topic) {
  const kafka::TopicHandle handle(rd_kafka_topic_new(client.get(), topic.c_str(), nullptr));
  const rd_kafka_metadata_t* metadata = nullptr;
  const auto error = rd_kafka_metadata(client.get(), 0, handle.get(), &metadata, kAdminTimeoutMs);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(fmt::format("metadata of {}: {}", topic, rd_kafka_err2str(error)));
  return kafka::Metadata(metadata);
}

bool EveryPartitionHasALeader(const rd_kafka_metadata_t& metadata, int partitions) {
  if (metadata.topic_cnt != 1 || metadata.topics[0].partition_cnt != partitions) return false;
  for (int i = 0; i < partitions; ++i) {
    if (metadata.topics[0].partitions[i].leader < 0) return false;
  }
  return true;
}

/// Calls `done` until it says yes.
template <class Condition>
void Await(const std::string& what, Condition done) {
  const auto deadline = steady_clock::now() + std::chrono::seconds{60};
  while (!done()) {
    if (steady_clock::now() > deadline) Fail("waited in vain: " + what);
    ::usleep(20'000);
  }
}

/// Has an administrator's request answered; `send` gives it to librdkafka with the queue for the answer.
template <class Send>
Event Ask(const Client& client, const std::string& what, Send send) {
  const Queue queue(rd_kafka_queue_new(client.get()));
  send(queue.get());
  Event event(rd_kafka_queue_poll(queue.get(), kAdminTimeoutMs));
  if (event == nullptr || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    Fail("could not " + what);
  }
  return event;
}

using AclBinding = std::unique_ptr<rd_kafka_AclBinding_t, kafka::Releaser<rd_kafka_AclBinding_destroy>>;

/// The right of the tests' user to write to a topic, or the filter that finds it.
template <class Make>
rd_kafka_AclBinding_t* AclOf(Make make, const std::string& topic) {
  std::array<char, 512> reason{};
  rd_kafka_AclBinding_t* const acl =
      make(RD_KAFKA_RESOURCE_TOPIC, topic.c_str(), RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:relay", "*",
           RD_KAFKA_ACL_OPERATION_WRITE, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, reason.data(), reason.size());
  if (acl == nullptr) Fail(reason.data());
  return acl;
}

int RunScript(const std::string& arguments) {
  const int status =
      std::system((SEALANE_TEST_SOURCE_DIR "/scripts/test_kafka " + arguments + " >/dev/null").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

KafkaRecord RecordOf(const rd_kafka_message_t& message) {
  KafkaRecord record{.partition = message.partition,
                     .offset = message.offset,
                     .key = std::string(static_cast<const char*>(message.key), message.key_len),
                     .value = std::string(static_cast<const char*>(message.payload), message.len),
                     .headers = {},
                     .timestamp_ms = rd_kafka_message_timestamp(&message, nullptr)};
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return record;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
       ++i) {
    record.headers.emplace_back(name, std::string(static_cast<const char*>(value), size));
  }
  return record;
}

}  // namespace

std::string KafkaUrl() {
  if (const char* url = std::getenv("SEALANE_TEST_KAFKA")) return url;
  std::string url = FirstLine(SEALANE_TEST_BUILD_DIR "/test-kafka.url");
  if (url.empty()) {
    std::fprintf(stderr, "NO KAFKA is running: use ./dev test, or scripts/test_kafka start %s --sasl\n",
                 SEALANE_TEST_BUILD_DIR "/test-kafka");
  }
  return url;
}

bool KafkaIsInstalled() {
  return RunScript("available 2>/dev/null") == 0;
}

std::string KafkaSaslUrl() {
  return FirstLine(SEALANE_TEST_BUILD_DIR "/test-kafka.sasl.url");
}

KafkaOptions SaslOptions(const std::string& password, const std::string& mechanism) {
  return {.url = KafkaSaslUrl(),
          .properties = {{"security.protocol", "SASL_PLAINTEXT"},
                         {"sasl.mechanism", mechanism},
                         {"sasl.username", "relay"}},
          .password = Secret(password)};
}

void CreateTopic(const std::string& url, const std::string& name, int partitions,
                 const std::map<std::string, std::string>& config) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  std::array<char, 512> reason{};
  const std::unique_ptr<rd_kafka_NewTopic_t, kafka::Releaser<rd_kafka_NewTopic_destroy>> topic(
      rd_kafka_NewTopic_new(name.c_str(), partitions, -1, reason.data(), reason.size()));
  if (topic == nullptr) Fail(reason.data());
  for (const auto& [key, value] : config) rd_kafka_NewTopic_set_config(topic.get(), key.c_str(), value.c_str());
  const Queue queue(rd_kafka_queue_new(client.get()));
  rd_kafka_NewTopic_t* topics[] = {topic.get()};
  rd_kafka_CreateTopics(client.get(), topics, 1, nullptr, queue.get());
  const Event event(rd_kafka_queue_poll(queue.get(), kAdminTimeoutMs));
  if (event == nullptr) Fail("CreateTopics: no answer");
  std::size_t count = 0;
  const rd_kafka_topic_result_t** results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
  if (count != 1) Fail(fmt::format("topic {}: {}", name, rd_kafka_event_error_string(event.get())));
  // A broker under load may take longer than its answer, or than the client's patience, which then asks again:
  // whether the topic is there shows below.
  const rd_kafka_resp_err_t error = rd_kafka_topic_result_error(results[0]);
  const bool slow = error == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT || error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS;
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR && !slow) Fail(fmt::format("topic {}: {}", name, rd_kafka_err2str(error)));
  Await("leaders of " + name, [&] { return EveryPartitionHasALeader(*MetadataOf(client, name), partitions); });
}

std::string FreshTopicName() {
  static std::atomic<int> counter{0};
  return fmt::format("t-{}-{}-{}", ::getpid(), steady_clock::now().time_since_epoch().count() % 1'000'000, ++counter);
}

std::string FreshTopic(const std::string& url, int partitions, const std::map<std::string, std::string>& config) {
  std::string name = FreshTopicName();
  CreateTopic(url, name, partitions, config);
  return name;
}

std::vector<std::string> TopicNames(const std::string& url) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  const rd_kafka_metadata_t* answer = nullptr;
  const auto error = rd_kafka_metadata(client.get(), 1, nullptr, &answer, kAdminTimeoutMs);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(fmt::format("list of topics: {}", rd_kafka_err2str(error)));
  const kafka::Metadata metadata(answer);
  std::vector<std::string> names;
  for (int i = 0; i < metadata->topic_cnt; ++i) names.emplace_back(metadata->topics[i].topic);
  return names;
}

void AllowWrite(const std::string& url, const std::string& topic, bool allowed) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  const AclBinding filter(AclOf(rd_kafka_AclBindingFilter_new, topic));
  const AclBinding right(AclOf(rd_kafka_AclBinding_new, topic));
  rd_kafka_AclBinding_t* changed = allowed ? right.get() : filter.get();
  Ask(client, "change the rights to " + topic, [&](rd_kafka_queue_t* queue) {
    const auto change = allowed ? rd_kafka_CreateAcls : rd_kafka_DeleteAcls;
    change(client.get(), &changed, 1, nullptr, queue);
  });
  // The controller has answered; the broker that is to apply it learns of it a moment later.
  Await("rights to " + topic, [&] {
    const Event event = Ask(client, "see the rights to " + topic, [&](rd_kafka_queue_t* queue) {
      rd_kafka_DescribeAcls(client.get(), filter.get(), nullptr, queue);
    });
    std::size_t count = 0;
    rd_kafka_DescribeAcls_result_acls(rd_kafka_event_DescribeAcls_result(event.get()), &count);
    return (count > 0) == allowed;
  });
}

void TrimPartition(const std::string& url, const std::string& topic, std::int32_t partition, std::int64_t before) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  rd_kafka_topic_partition_list_t* offsets = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(offsets, topic.c_str(), partition)->offset = before;
  rd_kafka_DeleteRecords_t* request = rd_kafka_DeleteRecords_new(offsets);
  rd_kafka_topic_partition_list_destroy(offsets);
  Ask(client, "remove records of " + topic,
      [&](rd_kafka_queue_t* queue) { rd_kafka_DeleteRecords(client.get(), &request, 1, nullptr, queue); });
  rd_kafka_DeleteRecords_destroy(request);
}

void DeleteTopic(const std::string& url, const std::string& name) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  rd_kafka_DeleteTopic_t* topic = rd_kafka_DeleteTopic_new(name.c_str());
  Ask(client, "delete " + name,
      [&](rd_kafka_queue_t* queue) { rd_kafka_DeleteTopics(client.get(), &topic, 1, nullptr, queue); });
  rd_kafka_DeleteTopic_destroy(topic);
  Await("end of " + name, [&] {
    const std::vector<std::string> names = TopicNames(url);
    return std::find(names.begin(), names.end(), name) == names.end();
  });
}

void GrowTopic(const std::string& url, const std::string& name, int partitions) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  std::array<char, 512> reason{};
  rd_kafka_NewPartitions_t* growth =
      rd_kafka_NewPartitions_new(name.c_str(), static_cast<std::size_t>(partitions), reason.data(), reason.size());
  if (growth == nullptr) Fail(reason.data());
  Ask(client, "grow " + name,
      [&](rd_kafka_queue_t* queue) { rd_kafka_CreatePartitions(client.get(), &growth, 1, nullptr, queue); });
  rd_kafka_NewPartitions_destroy(growth);
  Await("leaders of " + name, [&] { return EveryPartitionHasALeader(*MetadataOf(client, name), partitions); });
}

void DeleteGroup(const std::string& url, const std::string& group) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  rd_kafka_DeleteGroup_t* groups[] = {rd_kafka_DeleteGroup_new(group.c_str())};
  // It is refused as long as the broker counts a member that is gone.
  Await("end of group " + group, [&] {
    const Event event = Ask(client, "delete group " + group, [&](rd_kafka_queue_t* queue) {
      rd_kafka_DeleteGroups(client.get(), groups, 1, nullptr, queue);
    });
    std::size_t count = 0;
    const rd_kafka_group_result_t** results =
        rd_kafka_DeleteGroups_result_groups(rd_kafka_event_DeleteGroups_result(event.get()), &count);
    const rd_kafka_error_t* error = count == 1 ? rd_kafka_group_result_error(results[0]) : nullptr;
    return count == 1 && (error == nullptr || rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND);
  });
  rd_kafka_DeleteGroup_destroy(groups[0]);
}

void DeleteGroupOffsets(const std::string& url, const std::string& group, const std::string& topic) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  rd_kafka_topic_partition_list_t* offsets = rd_kafka_topic_partition_list_new(8);
  const kafka::Metadata metadata = MetadataOf(client, topic);
  for (int i = 0; i < metadata->topics[0].partition_cnt; ++i) {
    rd_kafka_topic_partition_list_add(offsets, topic.c_str(), i);
  }
  rd_kafka_DeleteConsumerGroupOffsets_t* request = rd_kafka_DeleteConsumerGroupOffsets_new(group.c_str(), offsets);
  rd_kafka_topic_partition_list_destroy(offsets);
  // It is refused as long as the broker counts a member that reads the topic.
  Await("end of the offsets of " + group, [&] {
    const Event event = Ask(client, "delete offsets of " + group, [&](rd_kafka_queue_t* queue) {
      rd_kafka_DeleteConsumerGroupOffsets(client.get(), &request, 1, nullptr, queue);
    });
    std::size_t count = 0;
    const rd_kafka_group_result_t** results = rd_kafka_DeleteConsumerGroupOffsets_result_groups(
        rd_kafka_event_DeleteConsumerGroupOffsets_result(event.get()), &count);
    if (count != 1 || rd_kafka_group_result_error(results[0]) != nullptr) return false;
    const rd_kafka_topic_partition_list_t* partitions = rd_kafka_group_result_partitions(results[0]);
    for (int i = 0; i < partitions->cnt; ++i) {
      if (partitions->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
    }
    return true;
  });
  rd_kafka_DeleteConsumerGroupOffsets_destroy(request);
}

namespace {

/// From the beginning until `done` says so after a record, or the time is over.
std::vector<KafkaRecord> ReadUntil(const std::string& url, const std::string& topic,
                                   const std::function<bool(const std::vector<KafkaRecord>&)>& done,
                                   std::chrono::seconds limit) {
  const Client client = Connect(RD_KAFKA_CONSUMER, url,
                                {{"group.id", "reader"},
                                 {"enable.auto.commit", "false"},
                                 {"fetch.wait.max.ms", "50"},
                                 {"auto.offset.reset", "earliest"},
                                 {"isolation.level", "read_uncommitted"}});
  rd_kafka_poll_set_consumer(client.get());
  const kafka::Metadata metadata = MetadataOf(client, topic);
  rd_kafka_topic_partition_list_t* partitions = rd_kafka_topic_partition_list_new(8);
  for (int i = 0; i < metadata->topics[0].partition_cnt; ++i) {
    rd_kafka_topic_partition_list_add(partitions, topic.c_str(), i)->offset = RD_KAFKA_OFFSET_BEGINNING;
  }
  rd_kafka_assign(client.get(), partitions);
  rd_kafka_topic_partition_list_destroy(partitions);
  std::vector<KafkaRecord> records;
  const auto deadline = steady_clock::now() + limit;
  while (!done(records) && steady_clock::now() < deadline) {
    rd_kafka_message_t* message = rd_kafka_consumer_poll(client.get(), 100);
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) records.push_back(RecordOf(*message));
    rd_kafka_message_destroy(message);
  }
  return records;
}

}  // namespace

std::vector<KafkaRecord> ReadTopic(const std::string& url, const std::string& topic, std::size_t count,
                                   std::chrono::seconds limit) {
  return ReadUntil(
      url, topic, [&](const std::vector<KafkaRecord>& records) { return records.size() >= count; }, limit);
}

std::vector<KafkaRecord> ReadWholeTopic(const std::string& url, const std::string& topic) {
  std::map<std::int32_t, std::int64_t> missing;  // offsets before the end that were not read yet
  {
    const Client client = Connect(RD_KAFKA_PRODUCER, url);
    const kafka::Metadata metadata = MetadataOf(client, topic);
    for (int i = 0; i < metadata->topics[0].partition_cnt; ++i) {
      std::int64_t low = 0;
      std::int64_t high = 0;
      Await("offsets of " + topic, [&] {
        return rd_kafka_query_watermark_offsets(client.get(), topic.c_str(), i, &low, &high, kAdminTimeoutMs) ==
               RD_KAFKA_RESP_ERR_NO_ERROR;
      });
      if (high > low) missing[i] = high;
    }
  }
  std::size_t looked_at = 0;
  return ReadUntil(
      url, topic,
      [&](const std::vector<KafkaRecord>& records) {
        for (; looked_at < records.size(); ++looked_at) {
          const auto end = missing.find(records[looked_at].partition);
          if (end != missing.end() && records[looked_at].offset + 1 >= end->second) missing.erase(end);
        }
        return missing.empty();
      },
      std::chrono::seconds{60});
}

std::size_t CountRecords(const std::string& url, const std::string& topic) {
  const Client client = Connect(RD_KAFKA_PRODUCER, url);
  const kafka::Metadata metadata = MetadataOf(client, topic);
  std::size_t sum = 0;
  for (int i = 0; i < metadata->topics[0].partition_cnt; ++i) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    // Right after a change of leader a broker may not know yet that it is the one.
    Await("offsets of " + topic, [&] {
      return rd_kafka_query_watermark_offsets(client.get(), topic.c_str(), i, &low, &high, kAdminTimeoutMs) ==
             RD_KAFKA_RESP_ERR_NO_ERROR;
    });
    sum += static_cast<std::size_t>(high - low);
  }
  return sum;
}

std::map<std::int32_t, std::int64_t> CommittedOffsets(const std::string& url, const std::string& group,
                                                      const std::string& topic, int partitions) {
  const Client client = Connect(RD_KAFKA_CONSUMER, url, {{"group.id", group}});
  rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(partitions);
  for (int p = 0; p < partitions; ++p) rd_kafka_topic_partition_list_add(list, topic.c_str(), p);
  const auto error = rd_kafka_committed(client.get(), list, kAdminTimeoutMs);
  std::map<std::int32_t, std::int64_t> offsets;
  for (int i = 0; i < list->cnt; ++i) {
    if (list->elems[i].offset >= 0) offsets[list->elems[i].partition] = list->elems[i].offset;
  }
  rd_kafka_topic_partition_list_destroy(list);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) Fail(rd_kafka_err2str(error));
  return offsets;
}

PrivateKafka::PrivateKafka(int nodes) {
  static std::atomic<int> counter{0};
  folder_ = fmt::format("{}/test-kafka-{}-{}", SEALANE_TEST_BUILD_DIR, ::getpid(), ++counter);
  if (RunScript(fmt::format("start {} --nodes {}", folder_, nodes)) != 0)
    Fail("no Kafka could be started in " + folder_);
  url_ = FirstLine(folder_ + ".url");
}

PrivateKafka::~PrivateKafka() {
  RunScript("remove " + folder_);
}

void PrivateKafka::StopNode(int node) const {
  EXPECT_EQ(RunScript(fmt::format("stop-node {} {}", folder_, node)), 0);
}

void PrivateKafka::StartNode(int node) const {
  EXPECT_EQ(RunScript(fmt::format("start-node {} {}", folder_, node)), 0);
}

// Each thread stops on its own; until all have, the broker still answers.
void PrivateKafka::Freeze(int node) const {
  Signal(node, SIGSTOP);
  const std::string tasks = fmt::format("/proc/{}/task", FirstLine(fmt::format("{}/node-{}/pid", folder_, node)));
  const auto runs = [](const std::filesystem::path& task) {
    const std::string line = FirstLine(task / "stat");
    const std::size_t name_end = line.rfind(')');
    return name_end != std::string::npos && line.substr(name_end + 2, 1) != "T";
  };
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (std::chrono::steady_clock::now() < limit) {
    const std::filesystem::directory_iterator all(tasks);
    if (std::none_of(begin(all), end(all), [&](const auto& task) { return runs(task.path()); })) return;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  ADD_FAILURE() << "the broker did not stop";
}

void PrivateKafka::Thaw(int node) const {
  Signal(node, SIGCONT);
}

void PrivateKafka::Signal(int node, int signal) const {
  const std::string pid = FirstLine(fmt::format("{}/node-{}/pid", folder_, node));
  EXPECT_EQ(::kill(std::stoi(pid), signal), 0) << pid;
}

}  // namespace sealane::testing
