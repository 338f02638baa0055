#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "broker/subscription.hpp"

namespace sealane::testing {

/// One broker of some kind, for the suite that says what every subscription promises.
class SubscriptionFixture {
 public:
  virtual ~SubscriptionFixture() = default;

  /// A topic under a new name. Journals make it with the first message.
  std::string MakeTopic(int partitions);
  virtual void MakeTopic(const std::string& topic, int partitions) = 0;
  /// By key; it is there when this returns.
  virtual void Publish(const std::string& topic, const std::string& key, const std::string& value,
                       const Headers& headers = {}) = 0;
  /// The numbers from 0 on as values of one key.
  virtual void PublishMany(const std::string& topic, const std::string& key, int count) = 0;
  /// Lets a partition end with offsets that hold no message, where the broker has such: a journal has none.
  virtual void LeaveGap(const Partition& partition) = 0;
  /// Removes what is before this offset, as retention does.
  virtual void Trim(const PartitionOffset& first_kept) = 0;
  /// Deletes a topic and makes it again, empty; the whole journal, for a journal. No member reads it meanwhile.
  virtual void RecreateTopic(const std::string& topic, int partitions) = 0;
  /// Forgets what a group without members has committed of a topic.
  virtual void ForgetCommitted(const std::string& group, const std::string& topic) = 0;
  /// Whether PartitionFacts have a topic_id.
  virtual bool TellsTopicIds() const { return true; }

  /// A further member. It is heard of no more when it is destroyed without Close(), and missed after session().
  virtual std::unique_ptr<Subscription> Join(const std::string& group, const std::vector<std::string>& topics) = 0;
  virtual std::chrono::milliseconds session() const = 0;
  /// A member whose broker is away.
  virtual std::unique_ptr<Subscription> JoinAway() = 0;
};

/// The kinds there are: `memory`, `journal`, `kafka`.
std::vector<std::string> SubscriptionKinds();
std::unique_ptr<SubscriptionFixture> MakeSubscriptionFixture(const std::string& kind);

/// A name for a topic or a group that nobody used before.
std::string FreshName();

/// What a careful caller does with a subscription: it starts what it gained, and releases what leaves.
class Reader {
 public:
  explicit Reader(std::unique_ptr<Subscription> subscription) : subscription_(std::move(subscription)) {}

  Subscription& subscription() { return *subscription_; }
  /// Polls once and does what is to be done. Fails the test when the poll fails.
  void Step(std::chrono::milliseconds wait = std::chrono::milliseconds{20});
  /// Steps until it is so; fails the test when it is not within a generous limit.
  void StepUntil(const std::string& what, const std::function<bool()>& so);
  void ReadCount(std::size_t count);
  /// Steps until it has this many partitions.
  void AwaitPartitions(std::size_t count);

  /// Begins again with a partition that it has.
  void StartAgain(const PartitionStart& start);

  /// Commits everything that was read of the partitions it has.
  void CommitAll(bool wait = true);
  void Close();
  /// What a crash looks like.
  void Vanish() { subscription_.reset(); }

  /// Before the first step: gained partitions are left to the test.
  void DoNotStart() { starts_ = false; }
  /// Leaving partitions are left to the test.
  void DoNotRelease() { releases_ = false; }
  /// Commits all that was read of a partition before it is released.
  void CommitBeforeRelease() { commits_ = true; }

  const std::vector<ReceivedMessage>& messages() const { return messages_; }
  std::vector<std::string> values() const;
  /// Of one partition, those that came after the first `skipped` messages of all.
  std::vector<std::int64_t> OffsetsAfter(std::size_t skipped, const Partition& partition) const;
  /// Those it may read: gained, not lost and not released.
  const std::set<Partition>& held() const { return held_; }
  const std::vector<Partition>& leaving() const { return leaving_; }
  std::size_t lost_count() const { return lost_count_; }
  /// The offset after the last message that was read of each partition.
  const std::map<Partition, std::int64_t>& positions() const { return positions_; }

 private:
  std::unique_ptr<Subscription> subscription_;
  std::vector<ReceivedMessage> messages_;
  std::set<Partition> held_;
  std::vector<Partition> leaving_;
  std::map<Partition, std::int64_t> positions_;
  std::size_t lost_count_ = 0;
  bool starts_ = true;
  bool releases_ = true;
  bool commits_ = false;
};

}  // namespace sealane::testing
