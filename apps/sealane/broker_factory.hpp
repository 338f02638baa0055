#pragma once

#include <memory>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "broker/publisher.hpp"
#include "config/settings.hpp"
#include "connect/broker_url.hpp"
#include "connect/destination_address.hpp"
#include "journal/journal.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane::cli {

/// Opens the destination that a section names. A destination that is away is no error. The clock must outlive the
/// publisher.
Result<std::unique_ptr<Publisher>> OpenBroker(const Settings& broker, Clock& clock);
/// Of a broker that is a Kafka.
KafkaOptions KafkaOptionsOf(const Settings& broker);
/// Of a broker that is a journal.
JournalOptions JournalOptionsOf(const Settings& broker, const BrokerTarget& target);

}  // namespace sealane::cli
