#pragma once

#include <memory>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "broker/publisher.hpp"
#include "broker_url.hpp"
#include "config/settings.hpp"
#include "journal/journal.hpp"
#include "kafka/kafka_options.hpp"

namespace sealane::cli {

/// Opens the destination that a section names: the only place of the program that knows which destinations there are.
/// A destination that is away is no error. The clock must outlive the publisher.
Result<std::unique_ptr<Publisher>> OpenBroker(const Settings& broker, Clock& clock);
/// Of a broker that is a Kafka.
KafkaOptions KafkaOptionsOf(const Settings& broker);
/// Of a broker that is a journal.
JournalOptions JournalOptionsOf(const Settings& broker, const BrokerTarget& target);

}  // namespace sealane::cli
