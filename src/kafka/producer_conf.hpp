#pragma once

#include <string>
#include <string_view>

#include "sealane/result.hpp"

#include "kafka/handles.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane::kafka {

/// The configuration every producer of a publisher starts from: our defaults, then the user's properties.
///
/// A property that would break a guarantee (acknowledged by all replicas, nothing lost or doubled by retries, order
/// per key, one report per message) is refused with the reason. A name that librdkafka does not know is an error that
/// names the closest one. Values of secret properties appear in no error.
Result<Conf> MakeProducerConf(const KafkaOptions& options);

/// Sets what this library decides itself.
Status SetProperty(rd_kafka_conf_t& conf, std::string_view name, std::string_view value);
/// The value in force, empty when there is none.
std::string PropertyOf(const rd_kafka_conf_t& conf, std::string_view name);
/// The value of a property that is a number.
std::size_t NumberOf(const rd_kafka_conf_t& conf, std::string_view name);

}  // namespace sealane::kafka
