#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/event.hpp"
#include "sealane/result.hpp"

#include "broker/publisher.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane {

/// Where events go. Of what is there for one kind of destination the others take no notice.
struct DestinationAddress {
  std::string url;                                                         ///< as ParseBrokerUrl() takes it
  std::vector<std::pair<std::string, std::string>> kafka_properties = {};  ///< of librdkafka
  std::optional<TopicCreation> kafka_create_topics = {};  ///< how missing topics are made; not set: they are not
  std::int32_t journal_partitions = 16;                   ///< of topics that are made new
  Headers http_headers = {};                              ///< sent with every request
  std::string http_ca_file = {};                          ///< PEM; empty: the system's certificates
  std::chrono::milliseconds http_timeout = std::chrono::seconds{30};
};

/// The publisher at that address: the only place that knows which destinations there are. One that is away is no
/// error; kMisconfigured for a URL that is none (`bad_broker_url`) and for what its client does not take. The clock
/// must outlive it.
Result<std::unique_ptr<Publisher>> OpenPublisherAt(const DestinationAddress& address, Clock& clock);

}  // namespace sealane
