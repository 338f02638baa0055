#include "broker/held_message.hpp"

namespace sealane {
namespace {
constexpr std::size_t kBookkeepingBytes = 256;
constexpr std::size_t kHeaderBookkeepingBytes = 64;
}  // namespace

HeldMessage::HeldMessage(const OutgoingMessage& message)
    : token(message.token),
      event_id(message.event_id),
      topic(message.topic),
      key(message.key),
      value(message.value),
      size(HeldSize(message)) {
  headers.reserve(message.headers.size());
  for (const HeaderView& header : message.headers) {
    headers.push_back({.name = std::string(header.name), .value = std::string(header.value)});
  }
}

std::size_t HeldSize(const OutgoingMessage& message) {
  std::size_t size = kBookkeepingBytes + message.topic.size() + message.key.size() + message.value.size();
  for (const HeaderView& header : message.headers) {
    size += kHeaderBookkeepingBytes + header.name.size() + header.value.size();
  }
  return size;
}

Delivery AbandonedDelivery(std::uint64_t token, DeliveryStatus status) {
  return {.token = token,
          .status = status,
          .failure = FailureClass::kOutage,
          .code = "abandoned",
          .message = status == DeliveryStatus::kNotPersisted ? "given up before it was sent"
                                                             : "given up while its fate was not known"};
}

Delivery HeldBackDelivery(std::uint64_t token) {
  return {.token = token,
          .status = DeliveryStatus::kNotPersisted,
          .failure = FailureClass::kOutage,
          .code = "held_back",
          .message = "a message of the same key failed before it"};
}

}  // namespace sealane
