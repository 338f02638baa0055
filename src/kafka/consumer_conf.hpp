#pragma once

#include "sealane/result.hpp"

#include "kafka/handles.hpp"
#include "kafka/kafka_subscription.hpp"
#include "kafka/properties.hpp"

namespace sealane::kafka {

/// The configuration of a subscription's consumer: our defaults, then the user's properties. A property that would
/// break a guarantee (nothing skipped, nothing committed but by us, partitions handed over explicitly) is refused.
Result<Conf> MakeConsumerConf(const KafkaSubscriptionOptions& options);

}  // namespace sealane::kafka
