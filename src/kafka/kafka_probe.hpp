#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "kafka/kafka_options.hpp"

namespace sealane {

/// What a look at a Kafka shows.
struct BrokerReport {
  struct Broker {
    std::int32_t id = 0;
    std::string address;
  };
  std::string library_version;
  std::string cluster_id = {};        ///< empty when nobody answered
  std::vector<Broker> brokers = {};   ///< those the cluster names
  std::optional<Error> problem = {};  ///< why nobody answered, with what to do
};

/// Of librdkafka, as it runs: `2.0.2`.
std::string KafkaLibraryVersion();

/// Connects, looks around and leaves, for `doctor`. Errors are about the options; that nobody answers within
/// `timeout` is a finding.
Result<BrokerReport> ProbeKafka(const KafkaOptions& options, std::chrono::milliseconds timeout, Clock& clock);

}  // namespace sealane
