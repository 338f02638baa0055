#include "inbox/incoming.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

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

/// What an index of a database takes easily, together with the names of an aggregate. Longer ones are known by their
/// hash. A key that is no text takes twice its room, and its topic with it.
constexpr std::size_t kUnitKeyMax = 256;
constexpr std::size_t kUnitBinaryKeyMax = 32;
constexpr std::size_t kLongKeyShown = 64;

/// The beginning of a long text, without a character that is cut in two.
std::string_view Beginning(std::string_view text) {
  std::size_t size = kLongKeyShown;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0U) == 0x80U) --size;
  return text.substr(0, size);
}

}  // namespace

std::string UnitOf(std::string_view topic, std::string_view key) {
  const bool is_text = IsUtf8(key) && key.find('\0') == std::string_view::npos;
  if (key.size() <= (is_text ? kUnitKeyMax : kUnitBinaryKeyMax)) return fmt::format("{}/{}", topic, key);
  return fmt::format("{}/{}...sha256:{}", topic, is_text ? Beginning(key) : "", ToHex(Sha256(key)));
}

std::string UnitAlone(const ReceivedMessage& message) {
  return fmt::format("{}#{}@{}", message.partition.topic, message.partition.number, message.offset);
}

std::string UnitOf(const ReceivedMessage& message) {
  return message.key.empty() ? UnitAlone(message) : UnitOf(message.partition.topic, message.key);
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
