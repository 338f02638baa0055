#include "bench_inbox/feed.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "common/session.hpp"
#include "core/wire.hpp"

namespace sealane::bench {
namespace {

constexpr std::size_t kKeys = 5'000;
constexpr std::size_t kRun = 600;  // messages of one partition after each other

Event MakeEvent(std::size_t number, std::int32_t partition) {
  // The keys of a partition are those that leave its number when divided by the number of partitions.
  const std::size_t per_partition = kKeys / kPartitions;
  const std::size_t key_number = number * 7'919 % per_partition * kPartitions + static_cast<std::size_t>(partition);
  const std::string key = fmt::format("order-{}", key_number);
  return {.topic = kTopic,
          .key = key,
          .type = "OrderPlaced",
          .payload = fmt::format(R"({{"order":"{:0>10}","customer":"{:032x}","note":"{:x<218}"}})", number,
                                 number * 0x9e3779b97f4a7c15U, ""),
          .aggregate = {"order", key, std::nullopt},
          .correlation_id = fmt::format("c-{}", number),
          .traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
}

}  // namespace

Feed::Feed() : outbox_({.producer = "shop"}), offsets_(kPartitions) {}

ReceivedMessage Feed::Next() {
  const auto partition = static_cast<std::int32_t>(made_ / kRun % kPartitions);
  const auto entry = outbox_.Admit(MakeEvent(made_, partition));
  if (!entry) Fail(entry.error().ToString());
  WireMessage wire = ToWire(entry->envelope, WireProfile::kCloudEvents);
  ++made_;
  return {.partition = {kTopic, partition},
          .offset = offsets_[static_cast<std::size_t>(partition)]++,
          .published_at = entry->envelope.occurred_at,
          .key = std::move(wire.key),
          .value = std::move(wire.value),
          .headers = std::move(wire.headers)};
}

FeedSubscription::FeedSubscription(std::shared_ptr<const std::vector<ReceivedMessage>> messages)
    : messages_(std::move(messages)), events_(messages_->size()) {}

Result<Polled> FeedSubscription::Poll(std::size_t messages_max, std::size_t bytes_max,
                                      std::chrono::milliseconds wait) {
  Polled polled;
  if (!gained_) {
    for (std::int32_t i = 0; i < kPartitions; ++i) polled.gained.push_back({kTopic, i});
    gained_ = true;
    return polled;
  }
  if (!started_ || paused_ || given_ == events_) {
    std::this_thread::sleep_for(std::min(wait, std::chrono::milliseconds{5}));
    return polled;
  }
  std::size_t bytes = 0;
  while (given_ < events_ && polled.messages.size() < messages_max && bytes < bytes_max) {
    polled.messages.push_back(messages_ ? (*messages_)[given_] : feed_.Next());
    bytes += polled.messages.back().bytes();
    ++given_;
  }
  return polled;
}

// A feed that nothing has read yet, of a broker that does not tell ids: a consumer has no reason to look closer.
Result<std::vector<PartitionFacts>> FeedSubscription::Inspect(std::span<const Partition> partitions) {
  std::vector<PartitionFacts> facts;
  for (const Partition& partition : partitions) {
    facts.push_back({.partition = partition, .end = static_cast<std::int64_t>(events_)});
  }
  return facts;
}

Result<std::vector<std::optional<ReceivedMessage>>> FeedSubscription::MessagesAt(
    std::span<const PartitionOffset> places) {
  return std::vector<std::optional<ReceivedMessage>>(places.size());
}

Status FeedSubscription::Start(std::span<const PartitionStart>) {
  started_ = true;
  return Ok();
}

Status FeedSubscription::Pause(std::span<const Partition>) {
  paused_ = true;
  return Ok();
}

Status FeedSubscription::Resume(std::span<const Partition>) {
  paused_ = false;
  return Ok();
}

}  // namespace sealane::bench
