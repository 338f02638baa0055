#include "demo/topic_watch.hpp"

#include <set>

#include "base/hex.hpp"
#include "broker_factory.hpp"
#include "connect/source_address.hpp"

namespace sealane::demo {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMessagesMax = 1'000;
constexpr std::size_t kBytesMax = std::size_t{8} << 20U;
constexpr milliseconds kWait{50};

}  // namespace

Result<std::unique_ptr<TopicWatch>> TopicWatch::Start(const Place& place, Clock& clock, Random& random,
                                                      FirstFailure& failure) {
  SEALANE_ASSIGN_OR_RETURN(auto subscription,
                           OpenSubscriptionAt({.url = place.broker_url(),
                                               .group = place.Named("demo-watch"),
                                               .topics = {place.Named(kOrders), place.Named(kPayments)}},
                                              clock, random));
  std::unique_ptr<TopicWatch> watch(new TopicWatch(std::move(subscription), failure));
  watch->thread_ = std::jthread([watch = watch.get()](std::stop_token stop) { watch->Watch(stop); });
  return watch;
}

TopicWatch::TopicWatch(std::unique_ptr<Subscription> subscription, FirstFailure& failure)
    : subscription_(std::move(subscription)), failure_(failure) {}

TopicWatch::~TopicWatch() {
  thread_.request_stop();
  subscription_->Interrupt();
}

void TopicWatch::Watch(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (const Status looked = LookOnce(); !looked) return failure_.Note(looked.error());
  }
  // Without this a Kafka waits for the end of our session; nothing else depends on it.
  static_cast<void>(subscription_->Close());
}

Status TopicWatch::LookOnce() {
  SEALANE_ASSIGN_OR_RETURN(const Polled polled, subscription_->Poll(kMessagesMax, kBytesMax, kWait));
  if (!polled.leaving.empty()) SEALANE_RETURN_IF_ERROR(subscription_->Release(polled.leaving));
  std::vector<PartitionStart> starts;
  for (const Partition& partition : polled.gained) starts.push_back({partition, next_[partition]});
  if (!starts.empty()) SEALANE_RETURN_IF_ERROR(subscription_->Start(starts));
  for (const ReceivedMessage& message : polled.messages) {
    SEALANE_RETURN_IF_ERROR(Remember(message));
    next_[message.partition] = message.offset + 1;
  }
  return Ok();
}

Status TopicWatch::Remember(const ReceivedMessage& message) {
  static const ReadEnvelope read = MakeEnvelopeReader();
  SEALANE_ASSIGN_OR_RETURN(const Envelope envelope, read(message));
  const std::string id = envelope.id.ToString();
  const std::lock_guard lock(mutex_);
  if (!once_.insert(id).second) twice_.insert(id);
  all_.push_back({.topic = message.partition.topic,
                  .partition = message.partition.number,
                  .offset = message.offset,
                  .published_at = message.published_at,
                  .id = id,
                  .hash = ToHex(envelope.payload_hash)});
  return Ok();
}

void TopicWatch::Count(Counts& counts) const {
  const std::lock_guard lock(mutex_);
  counts.deliveries = static_cast<std::int64_t>(all_.size());
  counts.delivered = static_cast<std::int64_t>(once_.size());
}

std::int64_t TopicWatch::twice() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(twice_.size());
}

std::vector<Delivered> TopicWatch::All() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

std::size_t TopicWatch::Partitions(std::string_view topic) const {
  std::set<std::int32_t> numbers;
  const std::lock_guard lock(mutex_);
  for (const Delivered& delivery : all_) {
    if (delivery.topic == topic) numbers.insert(delivery.partition);
  }
  return numbers.size();
}

}  // namespace sealane::demo
