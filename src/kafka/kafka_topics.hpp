#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sealane/result.hpp"

#include "kafka/kafka_options.hpp"

namespace sealane {

/// Makes topics, each with so many partitions and as many replicas as the brokers choose. One that exists is an error
/// (kRejected, `topic_exists`); kUnavailable (`broker_unreachable`) when nobody answers in time. For tools that bring
/// topics of their own: a relay publishes to topics that somebody else looks after.
Status CreateKafkaTopics(const KafkaOptions& options, const std::vector<std::string>& names, std::int32_t partitions,
                         std::chrono::milliseconds timeout);

/// Removes topics with all that is in them. One that does not exist is no error.
Status DeleteKafkaTopics(const KafkaOptions& options, const std::vector<std::string>& names,
                         std::chrono::milliseconds timeout);

}  // namespace sealane
