#include "kafka/kafka_probe.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/text.hpp"
#include "broker/wake_up.hpp"
#include "kafka/health_board.hpp"
#include "kafka/kafka_errors.hpp"
#include "kafka/producer.hpp"
#include "kafka/producer_conf.hpp"

namespace sealane {
namespace {

using kafka::Event;
using kafka::Producer;
using std::chrono::milliseconds;

constexpr milliseconds kTryMax{500};

/// Takes librdkafka's remarks until there are no more.
void Listen(Producer& producer, kafka::HealthBoard& board) {
  while (const Event event = producer.Next()) {
    if (rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_ERROR) {
      board.OnBrokerError(rd_kafka_event_error(event.get()), rd_kafka_event_error_string(event.get()));
    }
  }
}

kafka::Metadata LookAround(Producer& producer, milliseconds wait) {
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(producer.handle(), 0, nullptr, &metadata, static_cast<int>(wait.count())) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    return nullptr;
  }
  return kafka::Metadata(metadata);
}

void Describe(const rd_kafka_metadata_t& metadata, Producer& producer, BrokerReport& report) {
  for (int i = 0; i < metadata.broker_cnt; ++i) {
    const rd_kafka_metadata_broker_t& broker = metadata.brokers[i];
    report.brokers.push_back({broker.id, EscapeForTerminal(fmt::format("{}:{}", broker.host, broker.port))});
  }
  // Known since the metadata came.
  if (char* id = rd_kafka_clusterid(producer.handle(), 0)) {
    report.cluster_id = EscapeForTerminal(id);
    rd_kafka_mem_free(producer.handle(), id);
  }
}

void DescribeTopics(const std::vector<std::string>& topics, milliseconds limit, Producer& producer,
                    BrokerReport& report) {
  const int timeout = static_cast<int>(limit.count());
  auto found = kafka::DescribeTopics(producer, topics, timeout);
  report.topics_unanswered = !found;
  if (found) report.topics = *std::move(found);
  const bool missing = std::any_of(report.topics.begin(), report.topics.end(),
                                   [](const TopicReport& topic) { return !topic.is_there; });
  if (missing && !report.brokers.empty()) {
    report.makes_topics = kafka::MakesTopics(producer, report.brokers.front().id, timeout);
  }
}

}  // namespace

std::string KafkaLibraryVersion() {
  return rd_kafka_version_str();
}

Result<BrokerReport> ProbeKafka(const KafkaOptions& options, milliseconds timeout, Clock& clock,
                                const ProbeTargets& targets) {
  SEALANE_ASSIGN_OR_RETURN(const kafka::Conf conf, kafka::MakeProducerConf(options));
  SEALANE_ASSIGN_OR_RETURN(const WakeUp wake, WakeUp::Make());
  SEALANE_ASSIGN_OR_RETURN(const std::unique_ptr<Producer> producer,
                           Producer::Make(*conf, Producer::Kind::kBatching, 0, wake.descriptor()));
  kafka::HealthBoard board(kafka::PropertyOf(*conf, "sasl.mechanism"));
  BrokerReport report{.library_version = KafkaLibraryVersion()};
  const BootTime deadline = clock.SinceBoot() + timeout;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock.SinceBoot());
    if (left <= milliseconds{0}) break;
    if (const kafka::Metadata metadata = LookAround(*producer, std::min(left, kTryMax))) {
      Describe(*metadata, *producer, report);
      if (!targets.topics.empty()) DescribeTopics(targets.topics, timeout, *producer, report);
      for (const std::string& group : targets.groups) {
        if (auto lag = kafka::LagOf(*producer, group, static_cast<int>(timeout.count())))
          report.groups.push_back(*lag);
      }
      return report;
    }
    Listen(*producer, board);
    // A refused login stays refused; brokers that are away may be on their way back.
    if (board.Read().state == PublisherHealth::State::kMisconfigured) break;
  }
  report.problem = board.Read().problem;
  if (!report.problem) {
    report.problem = Error(ErrorKind::kUnavailable, "broker_unreachable",
                           fmt::format("no answer from {} within {} ms", RedactUrl(options.url), timeout.count()))
                         .WithHint("check the address, the network and whether the brokers run");
  }
  return report;
}

}  // namespace sealane
