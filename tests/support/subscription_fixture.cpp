#include "support/subscription_fixture.hpp"

#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "journal/journal_publisher.hpp"
#include "journal/journal_subscription.hpp"
#include "kafka/kafka_publisher.hpp"
#include "kafka/kafka_subscription.hpp"
#include "memory/memory_subscription.hpp"
#include "support/courier.hpp"
#include "support/kafka_cluster.hpp"
#include "support/kafka_transaction.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong{60};
constexpr std::size_t kMessagesMax = 1'000;
constexpr std::size_t kBytesMax = std::size_t{4} << 20U;

class MemoryFixture final : public SubscriptionFixture {
 public:
  void MakeTopic(const std::string& topic, int partitions) override { topics_.MakeTopic(topic, partitions); }
  void Publish(const std::string& topic, const std::string& key, const std::string& value,
               const Headers& headers) override {
    topics_.Publish(topic, key, value, headers);
  }
  void LeaveGap(const Partition& partition) override {
    topics_.SkipTo({partition, topics_.EndOffset(partition) + 3});
  }
  std::unique_ptr<Subscription> Join(const std::string& group, const std::vector<std::string>& topics) override {
    return topics_.Join(group, topics);
  }
  milliseconds session() const override { return kSession; }
  std::unique_ptr<Subscription> JoinAway() override {
    topics_.BeginOutage();
    return Join("away", {"orders"});
  }

 private:
  static constexpr milliseconds kSession{300};
  MemoryTopics topics_{SystemClock::Instance(), kSession};
};

class JournalFixture final : public SubscriptionFixture {
 public:
  void MakeTopic(const std::string& topic, int partitions) override { partitions_[topic] = partitions; }
  void Publish(const std::string& topic, const std::string& key, const std::string& value,
               const Headers& headers) override {
    JournalOptions options = Options();
    if (const auto found = partitions_.find(topic); found != partitions_.end()) options.partitions = found->second;
    std::unique_ptr<Publisher>& publisher = publishers_[options.partitions];
    if (publisher == nullptr) publisher = ValueOrThrow(OpenJournalPublisher(options, SystemClock::Instance()));
    Courier courier(*publisher);
    courier.Send(topic, key, value, headers);
    courier.CollectAll();
  }
  void LeaveGap(const Partition& /*partition*/) override {}
  std::unique_ptr<Subscription> Join(const std::string& group, const std::vector<std::string>& topics) override {
    return ValueOrThrow(OpenJournalSubscription(
        Options(),
        {.group = group, .member = FreshName(), .topics = topics, .lease = session(), .keep_every = milliseconds{20}},
        SystemClock::Instance()));
  }
  milliseconds session() const override { return seconds{3}; }
  std::unique_ptr<Subscription> JoinAway() override {
    Publish("orders", "k", "v", {});
    writer_ = std::make_unique<SqliteHandle>(Options().path, SQLITE_OPEN_READWRITE);
    auto subscription = Join("away", {"orders"});
    writer_->Execute("BEGIN IMMEDIATE");
    return subscription;
  }

 private:
  JournalOptions Options() const {
    JournalOptions options{.path = file_.folder() + "/journal.db"};
    options.busy_patience = milliseconds{writer_ ? 20 : 5'000};
    return options;
  }

  SqliteFile file_;
  std::map<std::string, int> partitions_;
  std::map<int, std::unique_ptr<Publisher>> publishers_;
  std::unique_ptr<SqliteHandle> writer_;
};

class KafkaFixture final : public SubscriptionFixture {
 public:
  void MakeTopic(const std::string& topic, int partitions) override { CreateTopic(KafkaUrl(), topic, partitions); }
  void Publish(const std::string& topic, const std::string& key, const std::string& value,
               const Headers& headers) override {
    // One for all tests, because connecting takes longer than most of them.
    static const std::unique_ptr<Publisher> publisher =
        ValueOrThrow(OpenKafkaPublisher({.url = KafkaUrl()}, SystemClock::Instance()));
    Courier courier(*publisher);
    courier.Send(topic, key, value, headers);
    courier.CollectAll();
  }
  void LeaveGap(const Partition& partition) override {
    SendTransaction(KafkaUrl(), partition.topic, partition.number, {"never", "said"}, TransactionEnd::kAbort);
  }
  std::unique_ptr<Subscription> Join(const std::string& group, const std::vector<std::string>& topics) override {
    return Open(KafkaUrl(), group, topics);
  }
  milliseconds session() const override { return seconds{6}; }
  std::unique_ptr<Subscription> JoinAway() override { return Open("kafka://127.0.0.1:1", FreshName(), {"orders"}); }

 private:
  std::unique_ptr<Subscription> Open(const std::string& url, const std::string& group,
                                     const std::vector<std::string>& topics) const {
    KafkaSubscriptionOptions options{.url = url, .group = group, .topics = topics, .session = session()};
    options.properties = {{"heartbeat.interval.ms", "100"}, {"topic.metadata.refresh.interval.ms", "300"}};
    return ValueOrThrow(OpenKafkaSubscription(options, SystemClock::Instance()));
  }
};

}  // namespace

std::string FreshName() {
  return FreshTopicName();
}

std::string SubscriptionFixture::MakeTopic(int partitions) {
  std::string name = FreshName();
  MakeTopic(name, partitions);
  return name;
}

std::vector<std::string> SubscriptionKinds() {
  return {"memory", "journal", "kafka"};
}

std::unique_ptr<SubscriptionFixture> MakeSubscriptionFixture(const std::string& kind) {
  if (kind == "memory") return std::make_unique<MemoryFixture>();
  if (kind == "journal") return std::make_unique<JournalFixture>();
  return std::make_unique<KafkaFixture>();
}

void Reader::Step(milliseconds wait) {
  Polled polled = ValueOrThrow(subscription_->Poll(kMessagesMax, kBytesMax, wait));
  const auto forget = [&](const Partition& partition) {
    held_.erase(partition);
    positions_.erase(partition);
  };
  lost_count_ += polled.lost.size();
  for (const Partition& partition : polled.lost) forget(partition);
  if (commits_ && !polled.leaving.empty()) CommitAll();
  for (const Partition& partition : polled.leaving) {
    if (releases_) {
      forget(partition);
    } else {
      leaving_.push_back(partition);
    }
  }
  if (releases_ && !polled.leaving.empty()) ValueOrThrow(subscription_->Release(polled.leaving));
  std::vector<PartitionStart> starts;
  for (const Partition& partition : polled.gained) {
    EXPECT_TRUE(held_.insert(partition).second) << "gained twice";
    starts.push_back({partition});
  }
  if (starts_ && !starts.empty()) ValueOrThrow(subscription_->Start(starts));
  for (ReceivedMessage& message : polled.messages) {
    EXPECT_TRUE(held_.contains(message.partition)) << "a message of a partition that is not ours";
    const auto before = positions_.find(message.partition);
    EXPECT_TRUE(before == positions_.end() || before->second <= message.offset) << "offsets go back";
    positions_[message.partition] = message.offset + 1;
    messages_.push_back(std::move(message));
  }
}

void Reader::StepUntil(const std::string& what, const std::function<bool()>& so) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!so()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "waited in vain: " << what;
    Step();
  }
}

void Reader::ReadCount(std::size_t count) {
  StepUntil(fmt::format("{} messages", count), [&] { return messages_.size() >= count; });
}

void Reader::AwaitPartitions(std::size_t count) {
  StepUntil(fmt::format("{} partitions", count), [&] { return held_.size() == count; });
}

void Reader::CommitAll(bool wait) {
  std::vector<PartitionOffset> positions;
  for (const auto& [partition, offset] : positions_) positions.push_back({partition, offset});
  ValueOrThrow(subscription_->Commit(positions, wait));
}

void Reader::Close() {
  ValueOrThrow(subscription_->Close());
}

std::vector<std::string> Reader::values() const {
  std::vector<std::string> values;
  for (const ReceivedMessage& message : messages_) values.push_back(message.value);
  return values;
}

}  // namespace sealane::testing
