#include "kafka/producer.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "kafka/producer_conf.hpp"
#include "kafka/teardown.hpp"

namespace sealane::kafka {
namespace {

constexpr std::uint64_t kOne = 1;  // what an eventfd takes

Status Adapt(rd_kafka_conf_t& conf, Producer::Kind kind, std::size_t batch_bytes) {
  if (kind == Producer::Kind::kSingle) {
    SEALANE_RETURN_IF_ERROR(SetProperty(conf, "max.in.flight.requests.per.connection", "1"));
    SEALANE_RETURN_IF_ERROR(SetProperty(conf, "batch.num.messages", "1"));
    return SetProperty(conf, "linger.ms", "0");
  }
  if (batch_bytes != 0 && batch_bytes < NumberOf(conf, "batch.size")) {
    SEALANE_RETURN_IF_ERROR(SetProperty(conf, "batch.size", std::to_string(batch_bytes)));
  }
  // librdkafka calls it experimental, and the tests against a real broker hold it to its word. Without it, messages
  // behind a refused batch are sent before anybody here can know of the refusal.
  return SetProperty(conf, "enable.gapless.guarantee", "true");
}

/// Memory that librdkafka is told to copy; it takes a pointer to what it could change.
void* Borrow(std::string_view bytes) {
  // A key or value that is empty is not one that is absent.
  return const_cast<char*>(bytes.data() != nullptr ? bytes.data() : "");
}

}  // namespace

Result<std::unique_ptr<Producer>> Producer::Make(const rd_kafka_conf_t& base, Kind kind, std::size_t batch_bytes,
                                                 int wake) {
  Conf conf(rd_kafka_conf_dup(&base));
  SEALANE_RETURN_IF_ERROR(Adapt(*conf, kind, batch_bytes));
  std::array<char, 512> reason{};
  rd_kafka_t* handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf.get(), reason.data(), reason.size());
  if (handle == nullptr) {
    return Error(ErrorKind::kMisconfigured, "invalid_kafka_configuration", EscapeForTerminal(reason.data()))
        .WithHint("correct the Kafka properties; librdkafka's CONFIGURATION.md describes them");
  }
  (void)conf.release();  // the producer's now
  return std::unique_ptr<Producer>(new Producer(handle, wake));
}

Producer::Producer(rd_kafka_t* handle, int wake) : handle_(handle), queue_(rd_kafka_queue_get_main(handle)) {
  rd_kafka_queue_io_event_enable(queue_.get(), wake, &kOne, sizeof kOne);
}

Producer::~Producer() {
  rd_kafka_queue_io_event_enable(queue_.get(), -1, nullptr, 0);
  GiveUp(true);
  queue_.reset();
  Destroy(handle_, 0, "producer");
}

TopicHandle Producer::OpenTopic(std::string_view name) {
  return TopicHandle(rd_kafka_topic_new(handle_, std::string(name).c_str(), nullptr));
}

rd_kafka_resp_err_t Producer::Produce(rd_kafka_topic_t& topic, std::string_view key, std::string_view value,
                                      std::span<const HeaderView> headers, void* opaque) {
  Headers copies;
  if (!headers.empty()) {
    copies.reset(rd_kafka_headers_new(headers.size()));
    for (const HeaderView& header : headers) {
      rd_kafka_header_add(copies.get(), header.name.data(), static_cast<ssize_t>(header.name.size()),
                          Borrow(header.value), static_cast<ssize_t>(header.value.size()));
    }
  }
  // Not produceva(): before librdkafka 2.12 it frees the headers twice when it fails.
  const rd_kafka_resp_err_t error =
      copies == nullptr
          ? rd_kafka_producev(handle_, RD_KAFKA_V_RKT(&topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_KEY(Borrow(key), key.size()), RD_KAFKA_V_VALUE(Borrow(value), value.size()),
                              RD_KAFKA_V_OPAQUE(opaque), RD_KAFKA_V_END)
          : rd_kafka_producev(handle_, RD_KAFKA_V_RKT(&topic), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_KEY(Borrow(key), key.size()), RD_KAFKA_V_VALUE(Borrow(value), value.size()),
                              RD_KAFKA_V_HEADERS(copies.get()), RD_KAFKA_V_OPAQUE(opaque), RD_KAFKA_V_END);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) (void)copies.release();  // librdkafka's now
  return error;
}

void Producer::AskTopicConfig(std::string_view topic, void* opaque, int timeout_ms) {
  const ConfigResource resource(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, std::string(topic).c_str()));
  const AdminOptions options(rd_kafka_AdminOptions_new(handle_, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS));
  std::array<char, 128> reason{};
  rd_kafka_AdminOptions_set_request_timeout(options.get(), timeout_ms, reason.data(), reason.size());
  rd_kafka_AdminOptions_set_opaque(options.get(), opaque);
  rd_kafka_ConfigResource_t* resources[] = {resource.get()};
  rd_kafka_DescribeConfigs(handle_, resources, 1, options.get(), queue_.get());
}

Status Producer::AskNewTopic(const std::string& topic, const TopicCreation& creation, void* opaque, int timeout_ms) {
  std::array<char, 512> reason{};
  const NewTopic made(
      rd_kafka_NewTopic_new(topic.c_str(), creation.partitions, creation.replication, reason.data(), reason.size()));
  if (made == nullptr) return Error(ErrorKind::kMisconfigured, "topic_not_created", EscapeForTerminal(reason.data()));
  for (const auto& [name, value] : creation.config) {
    rd_kafka_NewTopic_set_config(made.get(), name.c_str(), value.c_str());
  }
  const AdminOptions options(rd_kafka_AdminOptions_new(handle_, RD_KAFKA_ADMIN_OP_CREATETOPICS));
  rd_kafka_AdminOptions_set_request_timeout(options.get(), timeout_ms, reason.data(), reason.size());
  rd_kafka_AdminOptions_set_opaque(options.get(), opaque);
  rd_kafka_NewTopic_t* topics[] = {made.get()};
  rd_kafka_CreateTopics(handle_, topics, 1, options.get(), queue_.get());
  return Ok();
}

void Producer::GiveUp(bool also_in_flight) {
  rd_kafka_purge(handle_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING |
                              (also_in_flight ? RD_KAFKA_PURGE_F_INFLIGHT : 0));
}

}  // namespace sealane::kafka
