#include "inbox/incoming.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"

namespace sealane {
namespace {

/// Version 8 ("made in our own way") with the right variant bits, so that nobody takes it for a random id.
EventId IdOfCoordinates(const ReceivedMessage& message) {
  const auto digest =
      Sha256(fmt::format("{}\n{}\n{}", message.partition.topic, message.partition.number, message.offset));
  EventId::Bytes bytes{};
  std::copy_n(digest.begin(), bytes.size(), bytes.begin());
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0fU) | 0x80U);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3fU) | 0x80U);
  return EventId(bytes);
}

/// What an index of a database takes easily. Longer ones are known by their hash.
constexpr std::size_t kUnitKeyMax = 512;
constexpr std::size_t kLongKeyShown = 64;

}  // namespace

std::string UnitOf(std::string_view topic, std::string_view key) {
  if (key.size() <= kUnitKeyMax) return fmt::format("{}/{}", topic, key);
  return fmt::format("{}/{}...sha256:{}", topic, key.substr(0, kLongKeyShown), ToHex(Sha256(key)));
}

std::string UnitOf(const ReceivedMessage& message) {
  if (message.key.empty()) {
    return fmt::format("{}#{}@{}", message.partition.topic, message.partition.number, message.offset);
  }
  return UnitOf(message.partition.topic, message.key);
}

Incoming ReadIncoming(ReceivedMessage message, const ReadEnvelope& read) {
  Incoming incoming;
  incoming.unit = UnitOf(message);
  auto envelope = read(message);
  if (envelope) {
    incoming.id = envelope->id;
    incoming.hash = envelope->payload_hash;
    // By the id alone: it is what every repetition has, whichever way it comes and whatever time the broker gives it.
    incoming.filed_at = std::min(envelope->id.CreatedAt().value_or(kFiledWithoutTime), kFiledWithoutTime);
    incoming.envelope = std::move(envelope).value();
  } else {
    incoming.unreadable = std::move(envelope).error();
    incoming.id = IdOfCoordinates(message);
    incoming.hash = Sha256(message.value);
    incoming.filed_at = message.published_at;
  }
  incoming.message = std::move(message);
  return incoming;
}

}  // namespace sealane
