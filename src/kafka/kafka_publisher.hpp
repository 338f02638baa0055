#pragma once

#include <memory>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "broker/publisher.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane {

/// Opens a publisher to a Kafka. Nothing is connected yet: a broker that is away shows in health(). Errors are about
/// the options. The clock must outlive the publisher.
///
/// Messages are acknowledged by all in-sync replicas, retries neither double nor reorder them, and nothing expires.
/// A key lies in the partition a Java producer would choose.
///
/// Before the first message of a topic goes out the brokers are asked about it, so a missing topic (`unknown_topic`),
/// a forbidden one (`topic_forbidden`) and a message over the topic's limit, measured uncompressed
/// (`message_too_large`), are known before others are handed over behind it. Reading the limit takes the right
/// DescribeConfigs on the topic. Without it a broker may refuse a whole batch: then everything under way comes back
/// with `producer_rebuilt` or `batch_refused`, both kOutage, and the messages of that topic go out one by one for a
/// while, so that only the one that is too large alone is rejected.
///
/// After an error from which librdkafka's producer cannot recover, everything without a delivery comes back as
/// kOutage with the code `producer_rebuilt`, and a new producer takes over.
Result<std::unique_ptr<Publisher>> OpenKafkaPublisher(const KafkaOptions& options, Clock& clock);

}  // namespace sealane
