#include "broker_factory.hpp"

namespace sealane::cli {
namespace {

DestinationAddress DestinationOf(const Settings& broker) {
  DestinationAddress destination{
      .url = broker.Text(Key::kBrokerUrl),
      .kafka_properties = KafkaOptionsOf(broker).properties,
      .journal_partitions = static_cast<std::int32_t>(broker.Integer(Key::kBrokerJournalPartitions)),
      .http_ca_file = broker.Text(Key::kBrokerHttpCaFile),
      .http_timeout = broker.Duration(Key::kBrokerHttpTimeout)};
  if (broker.Truth(Key::kBrokerTopicsCreate)) {
    // 0 leaves the choice to the brokers.
    const auto number = [&](Key key) {
      const auto given = static_cast<std::int32_t>(broker.Integer(key));
      return given == 0 ? -1 : given;
    };
    TopicCreation creation{.partitions = number(Key::kBrokerTopicsPartitions),
                           .replication = number(Key::kBrokerTopicsReplication)};
    for (const auto& [name, value] : broker.Table(kTopicConfigTable)) creation.config.emplace_back(name, value.value);
    destination.kafka_create_topics = std::move(creation);
  }
  for (const auto& [name, header] : broker.Table(kHttpHeaderTable)) {
    destination.http_headers.push_back({name, header.value});
  }
  return destination;
}

}  // namespace

JournalOptions JournalOptionsOf(const Settings& broker, const BrokerTarget& target) {
  return {.path = target.location,
          .partitions = static_cast<std::int32_t>(broker.Integer(Key::kBrokerJournalPartitions))};
}

KafkaOptions KafkaOptionsOf(const Settings& broker) {
  KafkaOptions options{.url = broker.Text(Key::kBrokerUrl)};
  for (const auto& [name, property] : broker.Table(kKafkaTable))
    options.properties.emplace_back(name, property.value);
  return options;
}

Result<std::unique_ptr<Publisher>> OpenBroker(const Settings& broker, Clock& clock) {
  return OpenPublisherAt(DestinationOf(broker), clock);
}

}  // namespace sealane::cli
