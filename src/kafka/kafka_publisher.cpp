#include "kafka/kafka_publisher.hpp"

#include "kafka/publisher_core.hpp"

namespace sealane {

Result<std::unique_ptr<Publisher>> OpenKafkaPublisher(const KafkaOptions& options, Clock& clock) {
  return kafka::PublisherCore::Open(options, clock);
}

}  // namespace sealane
