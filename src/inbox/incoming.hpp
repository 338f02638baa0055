#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sealane/envelope.hpp"

#include "broker/subscription.hpp"
#include "inbox/inbox_store.hpp"

namespace sealane {

/// Reads a message as an event; the wire form is known to whoever made this.
using ReadEnvelope = std::function<Result<Envelope>(const ReceivedMessage&)>;

/// A message with everything the inbox has to know about it.
struct Incoming {
  ReceivedMessage message;
  std::optional<Envelope> envelope = {};
  std::optional<Error> unreadable = {};  ///< unless there is an envelope
  EventId id = {};
  PayloadHash hash{};
  Timestamp filed_at{};
  std::string unit = {};

  Arrival AsArrival() const { return {&message, envelope ? &*envelope : nullptr, id, hash, filed_at, unit}; }
};

/// Where events are filed whose id carries no time. Their receipts are never forgotten by age, because nothing would
/// tell a repetition that is older than the memory from a new event.
inline constexpr Timestamp kFiledWithoutTime{std::chrono::microseconds{253'370'764'800'000'000}};  // year 9999

/// Never fails: a message that cannot be read is one too, with an id made of its coordinates.
Incoming ReadIncoming(ReceivedMessage message, const ReadEnvelope& read);

/// What keeps order with the message: its topic and key. A message without a key is alone.
std::string UnitOf(const ReceivedMessage& message);
/// The same for a message that has a key. Bounded in length, whatever the key is, also where bytes that are no text
/// are written as two digits each.
std::string UnitOf(std::string_view topic, std::string_view key);
/// The unit of a message that keeps order with nobody.
std::string UnitAlone(const ReceivedMessage& message);

}  // namespace sealane
