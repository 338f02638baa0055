#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "inbox/consumer.hpp"
#include "memory/inbox_store.hpp"
#include "memory/memory_subscription.hpp"

namespace sealane::testing {

/// An effect that a handler of the bench committed.
struct Effect {
  std::string key;
  std::int64_t version = 0;
  std::string id;
  std::string payload;
};

/// Topics, an inbox and consumers in memory, on a clock that only the test moves.
class ConsumerBench {
 public:
  explicit ConsumerBench(std::uint64_t seed = 1, std::int32_t partitions = 3);

  ManualClock& clock() { return clock_; }
  MemoryTopics& topics() { return topics_; }
  const std::shared_ptr<memory::InboxFaults>& faults() { return faults_; }
  const std::shared_ptr<memory::Database>& database() { return database_; }

  /// An event about version `version` of the aggregate `key`, not published yet.
  Envelope Make(const std::string& key, std::int64_t version, const std::string& payload = "1");
  /// Publishes it as our JSON envelope.
  PartitionOffset Publish(const Envelope& event);
  PartitionOffset PublishBytes(const std::string& key, const std::string& value);

  ConsumerOptions Options() const;
  /// Notes the event as its effect.
  Handling Noting() const;
  std::unique_ptr<Consumer> Start(ConsumerOptions options, Handling handling);
  std::unique_ptr<Consumer> Start() { return Start(Options(), Noting()); }

  /// Steps until nothing happens any more; fails the test when that does not come.
  void Settle(Consumer& consumer);
  /// The same, with the clock moved in between so that what waits becomes due.
  void SettleOver(Consumer& consumer, std::chrono::milliseconds duration, std::chrono::milliseconds step);

  std::vector<Effect> Effects() const;
  std::vector<std::int64_t> VersionsOf(const std::string& key) const;

  static constexpr const char* kTopic = "orders";
  static constexpr const char* kGroup = "billing";

 private:
  ManualClock clock_;
  SeededRandom random_;
  EventIdGenerator ids_;
  MemoryTopics topics_;
  std::shared_ptr<memory::Database> database_;
  std::shared_ptr<memory::InboxFaults> faults_;
};

/// Reads what Publish() writes.
Result<Envelope> ReadJsonEnvelope(const ReceivedMessage& message);

}  // namespace sealane::testing
