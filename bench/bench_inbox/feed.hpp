#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sealane/outbox.hpp"

#include "broker/subscription.hpp"

namespace sealane::bench {

inline constexpr std::int32_t kPartitions = 12;
inline constexpr const char* kTopic = "orders";

/// Makes messages as a relay with profile `cloudevents` would have sent them: 5,000 keys, JSON payloads of 300 bytes,
/// correlation and trace filled in. A key always has the same partition. They come in runs of one partition, as a
/// broker's client hands out what it has fetched.
class Feed {
 public:
  Feed();
  ReceivedMessage Next();

 private:
  Outbox outbox_;
  std::size_t made_ = 0;
  std::vector<std::int64_t> offsets_;  // the next one of each partition
};

/// The messages of a feed as a broker of this process would give them to the only member of a group.
class FeedSubscription final : public Subscription {
 public:
  /// The messages exist already, or are made one by one when they are asked for.
  explicit FeedSubscription(std::shared_ptr<const std::vector<ReceivedMessage>> messages);
  explicit FeedSubscription(std::size_t events) : events_(events) {}

  Result<Polled> Poll(std::size_t messages_max, std::size_t bytes_max, std::chrono::milliseconds wait) override;
  Result<std::vector<PartitionFacts>> Inspect(std::span<const Partition> partitions) override;
  Result<std::vector<std::optional<ReceivedMessage>>> MessagesAt(std::span<const PartitionOffset> places) override;
  Result<std::int64_t> OffsetAt(const Partition&, Timestamp) override { return 0; }
  Status Start(std::span<const PartitionStart> partitions) override;
  Status Release(std::span<const Partition>) override { return Ok(); }
  Status Commit(std::span<const PartitionOffset>, bool) override { return Ok(); }
  Status Pause(std::span<const Partition>) override;
  Status Resume(std::span<const Partition>) override;
  std::optional<std::int64_t> EndOffset(const Partition&) const override { return {}; }
  std::optional<std::int64_t> Position(const Partition&) const override { return {}; }
  Status Close() override { return Ok(); }
  void Interrupt() override {}
  Health health() const override { return {}; }

 private:
  std::shared_ptr<const std::vector<ReceivedMessage>> messages_;
  Feed feed_;
  std::size_t events_ = 0;
  std::size_t given_ = 0;
  bool gained_ = false;
  bool started_ = false;
  bool paused_ = false;
};

}  // namespace sealane::bench
