#include "connect/destination_address.hpp"

#include "broker/null_publisher.hpp"
#include "connect/broker_url.hpp"
#include "http/http_publisher.hpp"
#include "journal/journal_publisher.hpp"
#include "kafka/kafka_publisher.hpp"
#include "stdio/stdout_publisher.hpp"

namespace sealane {

Result<std::unique_ptr<Publisher>> OpenPublisherAt(const DestinationAddress& address, Clock& clock) {
  SEALANE_ASSIGN_OR_RETURN(const BrokerTarget target, ParseBrokerUrl(address.url));
  switch (target.kind) {
    case BrokerKind::kKafka:
      return OpenKafkaPublisher(
          {.url = address.url, .properties = address.kafka_properties, .create_topics = address.kafka_create_topics},
          clock);
    case BrokerKind::kJournal:
      return OpenJournalPublisher({.path = target.location, .partitions = address.journal_partitions}, clock);
    case BrokerKind::kHttp: {
      SEALANE_ASSIGN_OR_RETURN(auto publisher, OpenHttpPublisher({.url = target.location,
                                                                  .headers = address.http_headers,
                                                                  .ca_file = address.http_ca_file,
                                                                  .timeout = address.http_timeout},
                                                                 clock));
      return std::unique_ptr<Publisher>(std::move(publisher));
    }
    case BrokerKind::kStdout:
      return MakeStdoutPublisher({}, clock);
    case BrokerKind::kNull:
      return MakeNullPublisher();
  }
  SEALANE_ASSERT(false, "every kind of destination can be opened");
}

}  // namespace sealane
