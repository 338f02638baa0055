#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

#include "kafka/handles.hpp"

namespace sealane::kafka {

/// A property of librdkafka that users may set to few values or none.
struct Refusal {
  std::string_view name;
  std::string_view allowed;  ///< the values that do no harm, divided by '|'; none when empty
  std::string_view why;
};

/// Refuses what would break a guarantee (`kafka_property_refused`), with the reason.
Status CheckHarmless(std::span<const Refusal> refusals, const std::string& name, const std::string& value);

/// A name that librdkafka does not know is an error that names the closest one. Values of secret properties appear in
/// no error.
Status SetProperty(rd_kafka_conf_t& conf, std::string_view name, std::string_view value);
/// The value in force, empty when there is none.
std::string PropertyOf(const rd_kafka_conf_t& conf, std::string_view name);
/// The value of a property that is a number.
std::size_t NumberOf(const rd_kafka_conf_t& conf, std::string_view name);

/// Sends librdkafka's remarks to our log.
void LogToUs(rd_kafka_conf_t& conf);

}  // namespace sealane::kafka
