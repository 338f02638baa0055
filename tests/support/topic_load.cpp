#include "support/topic_load.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/wire.hpp"
#include "kafka/kafka_publisher.hpp"
#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;

/// The same id, made so long ago.
EventId Older(const EventId& id, std::chrono::hours age) {
  EventId::Bytes bytes = id.bytes();
  std::uint64_t ms = 0;
  for (int i = 0; i < 6; ++i) ms = ms << 8U | bytes[static_cast<std::size_t>(i)];
  ms -= static_cast<std::uint64_t>(milliseconds(age).count());
  for (int i = 5; i >= 0; --i, ms >>= 8U) bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(ms);
  return EventId(bytes);
}

}  // namespace

TopicLoad::TopicLoad(std::string topic, std::uint64_t seed) : topic_(std::move(topic)) {
  thread_ = std::thread([this, seed] { Run(seed); });
}

TopicLoad::~TopicLoad() {
  stop_ = true;
  thread_.join();
}

void TopicLoad::Pause() {
  paused_ = true;
  EXPECT_TRUE(Eventually([&] { return !busy_; })) << "a publisher does not come to an end";
}

void TopicLoad::Resume() {
  limited_ = false;
  paused_ = false;
}

bool TopicLoad::AwaitMore(int count) {
  const std::int64_t wanted = arrived_ + count;
  return Eventually([&] { return arrived_ >= wanted; });
}

void TopicLoad::WriteMore(int count) {
  left_ = count;
  limited_ = true;
  paused_ = false;
  EXPECT_TRUE(Eventually([&] { return left_ <= 0; })) << "nothing can be published";
  Pause();
}

void TopicLoad::Change(const std::string& keys, std::chrono::hours age) {
  keys_ = keys;
  age_ = age;
  // A new one knows the partitions that the topic has now.
  publisher_.reset();
}

Envelope TopicLoad::NextEvent(int key) {
  const std::string name = fmt::format("{}{}", keys_, key);
  Envelope event = ChangeOf(name, ++versions_[name]);
  if (age_.count() > 0) event.id = Older(event.id, age_);
  return event;
}

int TopicLoad::Send(int count, std::uint64_t random) {
  if (!publisher_) publisher_ = ValueOrThrow(OpenKafkaPublisher({.url = KafkaUrl()}, SystemClock::Instance()));
  std::size_t taken = 0;
  for (int i = 0; i < count; ++i, random /= kKeys) {
    const WireMessage wire = ToWire(NextEvent(static_cast<int>(random % kKeys)), WireProfile::kEnvelope);
    std::vector<HeaderView> headers;
    for (const auto& [name, value] : wire.headers) headers.push_back({name, value});
    OutgoingMessage message;
    message.token = ++token_;
    message.topic = topic_;
    message.key = wire.key;
    message.value = wire.value;
    message.headers = headers;
    if (publisher_->Submit(message) == Submitted::kTaken) ++taken;
  }
  std::vector<Delivery> deliveries;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  while (deliveries.size() < taken && std::chrono::steady_clock::now() < end) {
    publisher_->Collect(deliveries, milliseconds{20});
  }
  const auto arrived = std::ranges::count_if(
      deliveries, [](const Delivery& delivery) { return delivery.status == DeliveryStatus::kPersisted; });
  // What is still on its way may arrive or not; with a new publisher nothing of it can overtake what comes next.
  if (arrived < count) publisher_.reset();
  return static_cast<int>(arrived);
}

void TopicLoad::Run(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  while (!stop_) {
    busy_ = true;
    if (paused_) {
      busy_ = false;
      std::this_thread::sleep_for(milliseconds{5});
      continue;
    }
    const int count = static_cast<int>(1 + random() % 6);
    const int arrived = Send(count, random());
    arrived_ += arrived;
    left_ -= arrived;
    if (limited_ && left_ <= 0) paused_ = true;
    busy_ = false;
    std::this_thread::sleep_for(milliseconds{random() % 10});
  }
}

}  // namespace sealane::testing
