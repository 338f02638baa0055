#include "connect/source_address.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "connect/broker_url.hpp"
#include "core/wire_reader.hpp"
#include "journal/journal_subscription.hpp"
#include "kafka/kafka_subscription.hpp"

namespace sealane {
namespace {

Error NotReadable() {
  return Error(ErrorKind::kMisconfigured, "broker_not_readable", "nothing can be read from this broker")
      .WithHint("use kafka://host:port or journal:PATH")
      .WithField("broker.url");
}

}  // namespace

Status CheckReadable(std::string_view url) {
  SEALANE_ASSIGN_OR_RETURN(const BrokerTarget target, ParseBrokerUrl(url));
  if (target.kind != BrokerKind::kKafka && target.kind != BrokerKind::kJournal) return NotReadable();
  return Ok();
}

Result<std::unique_ptr<Subscription>> OpenSubscriptionAt(const SourceAddress& address, Clock& clock, Random& random) {
  SEALANE_ASSIGN_OR_RETURN(const BrokerTarget target, ParseBrokerUrl(address.url));
  switch (target.kind) {
    case BrokerKind::kKafka:
      return OpenKafkaSubscription({.url = address.url,
                                    .group = address.group,
                                    .member = address.member,
                                    .topics = address.topics,
                                    .session = address.session,
                                    .properties = address.kafka_properties},
                                   clock);
    case BrokerKind::kJournal: {
      const std::string member =
          address.member.empty() ? fmt::format("{}-{:x}", ::getpid(), random.NextU64()) : address.member;
      return OpenJournalSubscription(
          {.path = target.location, .partitions = address.journal_partitions},
          {.group = address.group, .member = member, .topics = address.topics, .lease = address.session}, clock);
    }
    case BrokerKind::kHttp:
    case BrokerKind::kStdout:
    case BrokerKind::kNull:
      break;
  }
  return NotReadable();
}

ReadEnvelope MakeEnvelopeReader() {
  return [](const ReceivedMessage& message) {
    return FromWire({.topic = message.partition.topic,
                     .key = message.key,
                     .value = message.value,
                     .headers = message.headers,
                     .published_at = message.published_at});
  };
}

}  // namespace sealane
