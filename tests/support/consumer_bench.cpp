#include "support/consumer_bench.hpp"

#include <gtest/gtest.h>

#include "base/sha256.hpp"

namespace sealane::testing {

Result<Envelope> ReadJsonEnvelope(const ReceivedMessage& message) {
  return EnvelopeFromJson(message.value);
}

ConsumerBench::ConsumerBench(std::uint64_t seed, std::int32_t partitions)
    : random_(seed),
      ids_(clock_, random_),
      topics_(clock_),
      database_(memory::MakeDatabase(clock_, std::chrono::milliseconds{0})),
      faults_(std::make_shared<memory::InboxFaults>()) {
  topics_.MakeTopic(kTopic, partitions);
}

Envelope ConsumerBench::Make(const std::string& key, std::int64_t version, const std::string& payload) {
  Envelope event;
  event.id = ids_.Next();
  event.type = "OrderChanged";
  event.topic = kTopic;
  event.key = key;
  event.tenant = "t1";
  event.aggregate = {.type = "order", .id = key, .version = version};
  event.correlation_id = "c-1";
  event.content_type = "application/json";
  event.occurred_at = clock_.Now();
  event.payload = payload;
  event.payload_hash = Sha256(payload);
  return event;
}

PartitionOffset ConsumerBench::Publish(const Envelope& event) {
  return topics_.Publish(std::string(kTopic), event.key, ToJson(event));
}

PartitionOffset ConsumerBench::PublishBytes(const std::string& key, const std::string& value) {
  return topics_.Publish(std::string(kTopic), key, value);
}

ConsumerOptions ConsumerBench::Options() const {
  ConsumerOptions options;
  options.consumer = kGroup;
  options.workers = 2;
  options.batch_max = 10;
  options.commit_interval = std::chrono::milliseconds{0};
  options.retry_interval = std::chrono::milliseconds{0};
  options.retry = {
      .first = std::chrono::seconds{1}, .factor = 2, .max = std::chrono::seconds{10}, .jitter = 0, .attempts_max = 4};
  return options;
}

Handling ConsumerBench::Noting() const {
  return [](const Envelope& event, const ReceivedMessage&, HandlerTransaction& tx) {
    const std::vector<SqlValue> values = {event.key, event.aggregate.version.value_or(0), event.id.ToString(),
                                          event.payload};
    ValueOrThrow(tx.Execute("effect", values));
    return Decision::Done();
  };
}

std::unique_ptr<Consumer> ConsumerBench::Start(ConsumerOptions options, Handling handling) {
  const std::string consumer = options.consumer;
  const InboxMode mode = options.mode;
  return std::make_unique<Consumer>(
      std::move(options), std::move(handling), ReadJsonEnvelope,
      [this, consumer, mode] { return memory::OpenInboxStore(database_, consumer, mode, clock_, faults_); },
      [this, consumer]() -> Result<std::unique_ptr<Subscription>> { return topics_.Join(consumer, {kTopic}); },
      clock_, random_);
}

void ConsumerBench::Settle(Consumer& consumer) {
  for (int i = 0; i < 1'000; ++i) {
    const auto report = consumer.RunOnce();
    ASSERT_TRUE(report) << report.error().ToString();
    if (report->idle()) return;
    if (report->waits) clock_.Advance(std::chrono::milliseconds{500});
  }
  FAIL() << "the consumer does not come to rest";
}

void ConsumerBench::SettleOver(Consumer& consumer, std::chrono::milliseconds duration,
                               std::chrono::milliseconds step) {
  for (std::chrono::milliseconds passed{0}; passed < duration; passed += step) {
    Settle(consumer);
    clock_.Advance(step);
  }
  Settle(consumer);
}

std::vector<Effect> ConsumerBench::Effects() const {
  std::vector<Effect> effects;
  for (const auto& statement : memory::ExecutedStatements(*database_)) {
    effects.push_back({std::get<std::string>(statement.values.at(0)), std::get<std::int64_t>(statement.values.at(1)),
                       std::get<std::string>(statement.values.at(2)), std::get<std::string>(statement.values.at(3))});
  }
  return effects;
}

std::vector<std::int64_t> ConsumerBench::VersionsOf(const std::string& key) const {
  std::vector<std::int64_t> versions;
  for (const Effect& effect : Effects()) {
    if (effect.key == key) versions.push_back(effect.version);
  }
  return versions;
}

}  // namespace sealane::testing
