#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "broker/publisher.hpp"

namespace sealane::testing {

/// Sends messages through a publisher as the relay does: one thread, tokens that count up from 1, and Collect() when
/// the publisher is full.
class Courier {
 public:
  explicit Courier(Publisher& publisher) : publisher_(publisher) {}

  /// The token of the message, or 0 when the publisher is full.
  std::uint64_t TrySend(std::string_view topic, std::string_view key, std::string_view value,
                        const Headers& headers = {});
  /// Makes room by collecting when the publisher is full. Fails the test when there is none within a generous limit.
  std::uint64_t Send(std::string_view topic, std::string_view key, std::string_view value,
                     const Headers& headers = {});

  /// Collects until everything that was sent has a delivery. Fails the test when that does not happen within a
  /// generous limit.
  void CollectAll();
  /// Collects once, for at most so long.
  void Collect(std::chrono::milliseconds wait) { publisher_.Collect(deliveries_, wait); }

  /// Everything collected so far, in the order it came.
  const std::vector<Delivery>& deliveries() const { return deliveries_; }
  /// The one delivery of a message. Fails the test when there is none or there are two.
  Delivery DeliveryOf(std::uint64_t token) const;
  std::uint64_t sent() const { return sent_; }

 private:
  Publisher& publisher_;
  std::uint64_t sent_ = 0;
  std::vector<Delivery> deliveries_;
};

}  // namespace sealane::testing
