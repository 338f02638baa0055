#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sealane/result.hpp"

#include "broker/subscription.hpp"
#include "kafka/consumer.hpp"
#include "kafka/handles.hpp"

namespace sealane::kafka {

/// Questions about partitions, each answered within `limit`. kUnavailable (`broker_unreachable`) without an answer,
/// kUnavailable (`unknown_topic`) when a topic or a partition is not there; kMisconfigured when it is forbidden.

/// The end is that of a reader of committed messages: below a transaction that is still open. Topic ids are told by
/// librdkafka 2.3 and later, and brokers since 2.8.
Result<std::vector<PartitionFacts>> FactsOf(Consumer& consumer, std::span<const Partition> partitions,
                                            std::chrono::milliseconds limit);

Result<std::int64_t> OffsetAt(Consumer& consumer, const Partition& partition, Timestamp time,
                              std::chrono::milliseconds limit);

/// Makes the configuration of a consumer one that fetches little at a time.
Status FetchLittle(rd_kafka_conf_t& conf);

/// Reads with a client of its own of this configuration, in no group, that lives for this call.
Result<std::vector<std::optional<ReceivedMessage>>> MessagesAt(Consumer& consumer, const rd_kafka_conf_t& conf,
                                                               std::span<const PartitionOffset> places,
                                                               std::chrono::milliseconds limit);

}  // namespace sealane::kafka
