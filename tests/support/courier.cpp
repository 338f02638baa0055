#include "support/courier.hpp"

#include <gtest/gtest.h>

#include "support/sample_events.hpp"

namespace sealane::testing {
namespace {
constexpr std::chrono::seconds kLimit{30};
constexpr std::chrono::milliseconds kCollectWait{50};

bool Passed(std::chrono::steady_clock::time_point deadline) {
  return std::chrono::steady_clock::now() >= deadline;
}
}  // namespace

std::uint64_t Courier::TrySend(std::string_view topic, std::string_view key, std::string_view value,
                               const Headers& headers) {
  std::vector<HeaderView> views;
  for (const Header& header : headers) views.push_back({header.name, header.value});
  const OutgoingMessage message{
      .token = sent_ + 1, .event_id = FreshId(), .topic = topic, .key = key, .value = value, .headers = views};
  return publisher_.Submit(message) == Submitted::kTaken ? ++sent_ : 0;
}

std::uint64_t Courier::Send(std::string_view topic, std::string_view key, std::string_view value,
                            const Headers& headers) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (true) {
    if (const std::uint64_t token = TrySend(topic, key, value, headers)) return token;
    Collect(kCollectWait);
    if (Passed(deadline)) {
      ADD_FAILURE() << "the publisher stays full";
      return 0;
    }
  }
}

void Courier::CollectAll() {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (deliveries_.size() < sent_ && !Passed(deadline)) Collect(kCollectWait);
  EXPECT_EQ(deliveries_.size(), sent_) << "not every message has its one delivery";
}

Delivery Courier::DeliveryOf(std::uint64_t token) const {
  std::vector<Delivery> found;
  for (const Delivery& delivery : deliveries_) {
    if (delivery.token == token) found.push_back(delivery);
  }
  EXPECT_EQ(found.size(), 1U) << "deliveries of message " << token;
  return found.empty() ? Delivery{} : found.front();
}

}  // namespace sealane::testing
