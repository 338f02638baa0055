// The one place where a consumer gets its store and its broker.
#include "daemon/consumer_setup.hpp"

#include "broker_factory.hpp"
#include "connect/source_address.hpp"
#include "store_factory.hpp"

namespace sealane::cli {

Status CheckSource(const ConsumerSetup& setup) {
  return CheckReadable(setup.broker.Text(Key::kBrokerUrl));
}

Result<std::unique_ptr<Subscription>> OpenSource(const ConsumerSetup& setup, Clock& clock, Random& random) {
  return OpenSubscriptionAt(
      {.url = setup.broker.Text(Key::kBrokerUrl),
       .group = setup.group,
       .member = setup.member,
       .topics = setup.topics,
       .session = setup.session,
       .kafka_properties = KafkaOptionsOf(setup.broker).properties,
       .journal_partitions = static_cast<std::int32_t>(setup.broker.Integer(Key::kBrokerJournalPartitions))},
      clock, random);
}

std::unique_ptr<Consumer> MakeConsumer(const ConsumerSetup& setup, Handling handling, Clock& clock, Random& random) {
  return std::make_unique<Consumer>(
      setup.options, std::move(handling), MakeEnvelopeReader(),
      [setup] { return OpenStoreInbox(setup.store, setup.options.consumer, setup.options.mode); },
      [setup, &clock, &random] { return OpenSource(setup, clock, random); }, clock, random);
}

}  // namespace sealane::cli
