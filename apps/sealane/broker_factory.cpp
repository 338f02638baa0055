#include "broker_factory.hpp"

#include "broker/null_publisher.hpp"
#include "http/http_publisher.hpp"
#include "journal/journal_publisher.hpp"
#include "kafka/kafka_publisher.hpp"
#include "stdio/stdout_publisher.hpp"

namespace sealane::cli {
namespace {

HttpOptions HttpOptionsOf(const Settings& broker, const BrokerTarget& target) {
  HttpOptions options{.url = target.location,
                      .ca_file = broker.Text(Key::kBrokerHttpCaFile),
                      .timeout = broker.Duration(Key::kBrokerHttpTimeout)};
  for (const auto& [name, header] : broker.Table(kHttpHeaderTable)) options.headers.push_back({name, header.value});
  return options;
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
  SEALANE_ASSIGN_OR_RETURN(const BrokerTarget target, ParseBrokerUrl(broker.Text(Key::kBrokerUrl)));
  switch (target.kind) {
    case BrokerKind::kKafka:
      return OpenKafkaPublisher(KafkaOptionsOf(broker), clock);
    case BrokerKind::kJournal:
      return OpenJournalPublisher(JournalOptionsOf(broker, target), clock);
    case BrokerKind::kHttp: {
      SEALANE_ASSIGN_OR_RETURN(auto publisher, OpenHttpPublisher(HttpOptionsOf(broker, target), clock));
      return std::unique_ptr<Publisher>(std::move(publisher));
    }
    case BrokerKind::kStdout:
      return MakeStdoutPublisher({}, clock);
    case BrokerKind::kNull:
      return MakeNullPublisher();
  }
  SEALANE_ASSERT(false, "every kind of destination can be opened");
}

}  // namespace sealane::cli
