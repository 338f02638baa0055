#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "base/log.hpp"
#include "broker/subscription.hpp"

namespace sealane {

/// How to reach a Kafka and what to read there for whom.
struct KafkaSubscriptionOptions {
  /// `kafka://host:port[,host:port...]`; without a port 9092 is meant.
  std::string url;
  std::string group;
  /// With a name the membership is static (`group.instance.id`): a member that comes back within its session has its
  /// partitions again at once, and nobody else notices. It is then not handed over by Close() either, but only when
  /// the session is over. A second member of the same name and topics fences the first. Without a name a member that
  /// is killed can keep the others waiting for as long as `max.poll.interval.ms`, so give one wherever it stays
  /// unique.
  std::string member = {};
  std::vector<std::string> topics = {};
  /// Others take over after a member was silent for this long. Brokers permit 6 s and more.
  std::chrono::milliseconds session = std::chrono::seconds{10};
  /// Messages that wait in memory for Poll(), roughly.
  std::size_t prefetch_bytes_max = std::size_t{16} << 20U;
  /// Properties of librdkafka, stronger than the defaults of this library. Those that would break a guarantee are
  /// refused.
  std::vector<std::pair<std::string, std::string>> properties = {};
  /// For `sasl.password`, so that it need not be among the properties.
  Secret password = {};
};

/// Joins a group of a Kafka. Nothing is connected yet: a broker that is away shows in health(). Errors are about the
/// options. The clock must outlive the subscription.
///
/// Partitions are shared eagerly (`range`): whenever a member comes or goes, all partitions of all members leave and
/// are handed out again. Only committed transactions are read. A group that has never committed begins at the oldest
/// message; a position that the topic no longer has is an error. A topic that is not there is waited for, and
/// health() says so.
///
/// Inspect(), MessagesAt() and OffsetAt() wait for at most 5 s each; mostly it is 0.2 s, because the questions queue
/// behind fetches. Topic ids are told with librdkafka 2.3 and later only. The end is that of committed messages: an
/// open transaction is beyond it. MessagesAt() connects a second client for the call, which joins no group.
Result<std::unique_ptr<Subscription>> OpenKafkaSubscription(const KafkaSubscriptionOptions& options, Clock& clock);

}  // namespace sealane
