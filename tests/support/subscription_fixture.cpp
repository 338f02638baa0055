#include "support/subscription_fixture.hpp"

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include "journal/journal_group.hpp"
#include "journal/journal_publisher.hpp"
#include "journal/journal_subscription.hpp"
#include "journal/schema.hpp"
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

void SendNumbers(Publisher& publisher, const std::string& topic, const std::string& key, int count) {
  Courier courier(publisher);
  for (int i = 0; i < count; ++i) courier.Send(topic, key, std::to_string(i));
  courier.CollectAll();
}

class MemoryFixture final : public SubscriptionFixture {
 public:
  void MakeTopic(const std::string& topic, int partitions) override { topics_.MakeTopic(topic, partitions); }
  void Publish(const std::string& topic, const std::string& key, const std::string& value,
               const Headers& headers) override {
    topics_.Publish(topic, key, value, headers);
  }
  void PublishMany(const std::string& topic, const std::string& key, int count) override {
    for (int i = 0; i < count; ++i) topics_.Publish(topic, key, std::to_string(i));
  }
  void LeaveGap(const Partition& partition) override {
    topics_.SkipTo({partition, topics_.EndOffset(partition) + 3});
  }
  void Trim(const PartitionOffset& first_kept) override { topics_.Trim(first_kept); }
  void RecreateTopic(const std::string& topic, int partitions) override { topics_.RecreateTopic(topic, partitions); }
  void ForgetCommitted(const std::string& group, const std::string& topic) override {
    topics_.ForgetCommitted(group, topic);
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
    Courier courier(PublisherOf(topic));
    courier.Send(topic, key, value, headers);
    courier.CollectAll();
  }
  void PublishMany(const std::string& topic, const std::string& key, int count) override {
    SendNumbers(PublisherOf(topic), topic, key, count);
  }
  void LeaveGap(const Partition& /*partition*/) override {}
  void Trim(const PartitionOffset& first_kept) override {
    const SqliteHandle handle(Options().path, SQLITE_OPEN_READWRITE);
    const std::int64_t id = handle.Number(fmt::format(
        "SELECT partition_id FROM journal_partitions JOIN journal_topics USING (topic_id) WHERE name = '{}' "
        "AND partition = {}",
        first_kept.partition.topic, first_kept.partition.number));
    handle.Execute(
        fmt::format("BEGIN IMMEDIATE; DELETE FROM journal_messages WHERE place >= {} AND place < {}; "
                    "UPDATE journal_partitions SET first_offset = {} WHERE partition_id = {}; COMMIT",
                    journal::RowIdOf(id, 0), journal::RowIdOf(id, first_kept.offset), first_kept.offset, id));
  }
  void RecreateTopic(const std::string& topic, int partitions) override {
    publishers_.clear();
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(Options().path + suffix);
    MakeTopic(topic, partitions);
  }
  void ForgetCommitted(const std::string& group, const std::string& /*topic*/) override {
    ValueOrThrow(ForgetJournalGroup(Options(), group, SystemClock::Instance()));
  }
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
  Publisher& PublisherOf(const std::string& topic) {
    JournalOptions options = Options();
    if (const auto found = partitions_.find(topic); found != partitions_.end()) options.partitions = found->second;
    std::unique_ptr<Publisher>& publisher = publishers_[options.partitions];
    if (publisher == nullptr) publisher = ValueOrThrow(OpenJournalPublisher(options, SystemClock::Instance()));
    return *publisher;
  }
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
    Courier courier(SharedPublisher());
    courier.Send(topic, key, value, headers);
    courier.CollectAll();
  }
  void PublishMany(const std::string& topic, const std::string& key, int count) override {
    SendNumbers(SharedPublisher(), topic, key, count);
  }
  void LeaveGap(const Partition& partition) override {
    SendTransaction(KafkaUrl(), partition.topic, partition.number, {"never", "said"}, TransactionEnd::kAbort);
  }
  void Trim(const PartitionOffset& first_kept) override {
    TrimPartition(KafkaUrl(), first_kept.partition.topic, first_kept.partition.number, first_kept.offset);
  }
  void RecreateTopic(const std::string& topic, int partitions) override {
    DeleteTopic(KafkaUrl(), topic);
    CreateTopic(KafkaUrl(), topic, partitions);
  }
  void ForgetCommitted(const std::string& group, const std::string& topic) override {
    DeleteGroupOffsets(KafkaUrl(), group, topic);
  }
  bool TellsTopicIds() const override { return RD_KAFKA_VERSION >= 0x020300ff; }
  std::unique_ptr<Subscription> Join(const std::string& group, const std::vector<std::string>& topics) override {
    return Open(KafkaUrl(), group, topics);
  }
  milliseconds session() const override { return seconds{6}; }
  std::unique_ptr<Subscription> JoinAway() override { return Open("kafka://127.0.0.1:1", FreshName(), {"orders"}); }

 private:
  // One for all tests, because connecting takes longer than most of them.
  static Publisher& SharedPublisher() {
    static const std::unique_ptr<Publisher> publisher =
        ValueOrThrow(OpenKafkaPublisher({.url = KafkaUrl()}, SystemClock::Instance()));
    return *publisher;
  }
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

void Reader::StartAgain(const PartitionStart& start) {
  ValueOrThrow(subscription_->Start(std::vector{start}));
  positions_.erase(start.partition);
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

std::vector<std::int64_t> Reader::OffsetsAfter(std::size_t skipped, const Partition& partition) const {
  std::vector<std::int64_t> offsets;
  for (std::size_t i = skipped; i < messages_.size(); ++i) {
    if (messages_[i].partition == partition) offsets.push_back(messages_[i].offset);
  }
  return offsets;
}

}  // namespace sealane::testing
