#pragma once

#include <string>
#include <string_view>

#include <librdkafka/rdkafka.h>

#include "sealane/error.hpp"

#include "broker/delivery.hpp"

namespace sealane::kafka {

struct KafkaFailure {
  FailureClass failure;
  std::string_view code;
};

/// The one place that says what a message's error of librdkafka or of a broker means to us.
KafkaFailure ClassifyKafkaError(rd_kafka_resp_err_t error);

/// `TOPIC_AUTHORIZATION_FAILED`, `_TRANSPORT`, ...
std::string_view NameOf(rd_kafka_resp_err_t error);

/// What a problem with the brokers is, for health and `doctor`. `mechanism` is the configured `sasl.mechanism`;
/// `library_version` is rd_kafka_version().
Error BrokerProblem(rd_kafka_resp_err_t error, std::string_view text, std::string_view mechanism,
                    int library_version);

}  // namespace sealane::kafka
