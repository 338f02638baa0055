#pragma once

#include "sealane/result.hpp"

#include "kafka/handles.hpp"
#include "kafka/kafka_options.hpp"
#include "kafka/properties.hpp"

namespace sealane::kafka {

/// The configuration every producer of a publisher starts from: our defaults, then the user's properties.
///
/// A property that would break a guarantee (acknowledged by all replicas, nothing lost or doubled by retries, order
/// per key, one report per message) is refused with the reason. A name that librdkafka does not know is an error that
/// names the closest one. Values of secret properties appear in no error.
Result<Conf> MakeProducerConf(const KafkaOptions& options);

}  // namespace sealane::kafka
