#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "kafka/group_lag.hpp"
#include "kafka/kafka_options.hpp"
#include "kafka/topic_report.hpp"

namespace sealane {

/// What a look at a Kafka shows.
struct BrokerReport {
  struct Broker {
    std::int32_t id = 0;
    std::string address;
  };
  std::string library_version;
  std::string cluster_id = {};            ///< empty when nobody answered
  std::vector<Broker> brokers = {};       ///< those the cluster names
  std::optional<Error> problem = {};      ///< why nobody answered, with what to do
  std::vector<TopicReport> topics = {};   ///< those that were asked for
  bool topics_unanswered = false;         ///< no broker listed its topics in time
  std::optional<bool> makes_topics = {};  ///< brokers make a topic that is missing; empty: we may not know
  std::vector<GroupLag> groups = {};      ///< those that were asked for and are known
};

/// Of librdkafka, as it runs: `2.0.2`.
std::string KafkaLibraryVersion();

/// What else to look at.
struct ProbeTargets {
  std::vector<std::string> topics = {};
  std::vector<std::string> groups = {};
};

/// Connects, looks around and leaves, for `doctor`; makes none of the topics. Errors are about the options; that
/// nobody answers within `timeout` is a finding.
Result<BrokerReport> ProbeKafka(const KafkaOptions& options, std::chrono::milliseconds timeout, Clock& clock,
                                const ProbeTargets& targets = {});

}  // namespace sealane
