#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "broker/delivery.hpp"
#include "broker/publisher.hpp"

namespace sealane {

/// A submitted message that the publisher owns until it has a delivery.
struct HeldMessage {
  explicit HeldMessage(const OutgoingMessage& message);

  std::uint64_t token;
  EventId event_id;
  std::string topic;
  std::string key;
  std::string value;
  Headers headers;
  std::size_t size;  ///< as HeldSize()
};

/// What a message counts against HoldLimits::bytes_max: its parts and the bookkeeping around them.
std::size_t HeldSize(const OutgoingMessage& message);

/// How much a publisher holds before Submit() says kFull. One message is always taken when nothing is held, so that
/// no message can be too large to ever be judged.
struct HoldLimits {
  std::size_t messages_max = 10'000;
  std::size_t bytes_max = std::size_t{16} << 20U;

  bool HasRoom(std::size_t held_messages, std::size_t held_bytes, std::size_t next_bytes) const {
    return held_messages == 0 || (held_messages < messages_max && held_bytes + next_bytes <= bytes_max);
  }
};

/// What Abandon() makes of a message that has no delivery yet.
Delivery AbandonedDelivery(std::uint64_t token, DeliveryStatus status);

/// What becomes of a message because one before it with the same topic and key failed and its caller does not know
/// yet: persisted now, it would overtake. kOutage with the code `held_back`.
Delivery HeldBackDelivery(std::uint64_t token);

/// The keys of messages that failed and whose deliveries have not been handed out yet.
class FailedKeys {
 public:
  void Add(std::string_view topic, std::string_view key) { keys_.emplace(topic, key); }
  bool Has(std::string_view topic, std::string_view key) const {
    return !keys_.empty() && keys_.contains({std::string(topic), std::string(key)});
  }
  bool empty() const { return keys_.empty(); }
  void Clear() { keys_.clear(); }

 private:
  std::set<std::pair<std::string, std::string>> keys_;
};

}  // namespace sealane
