#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sealane {

/// What the broker's side knows about one message.
enum class DeliveryStatus : std::uint8_t {
  kPersisted,          ///< acknowledged: it will not be lost
  kNotPersisted,       ///< certainly not taken
  kPossiblyPersisted,  ///< sent, and no answer came: sending it again may double it
};
/// `persisted`, `not_persisted`, `possibly_persisted`.
std::string_view ToString(DeliveryStatus status);

/// Why a message was not persisted, in the classes that have a reaction of their own.
enum class FailureClass : std::uint8_t {
  /// Nobody's fault that lasts: broker away, timeout, throttled, given up by Abandon(). The same message is sent
  /// again as often as it takes; the event is not counted against and nothing is set aside.
  kOutage,
  /// The set-up of the whole destination is wrong: login refused, certificate not trusted. As kOutage, but slow and
  /// with an alert.
  kMisconfigured,
  /// This topic is closed to us (not authorised). The key waits and is retried slowly without limit; other topics
  /// flow.
  kForbidden,
  /// This message failed and may succeed later (the receiver said 500). The key waits; retried by the retry policy,
  /// dead when its attempts are used up.
  kRetry,
  /// This message will never be taken as it is: too large, malformed. Dead at once.
  kRejected,
  /// The destination has no such topic. An outage of that topic: its events wait, in order, for as long as it takes;
  /// other topics flow.
  kTopicMissing,
};
/// `outage`, `misconfigured`, `forbidden`, `retry`, `rejected`, `topic_missing`.
std::string_view ToString(FailureClass failure);
std::optional<FailureClass> ParseFailureClass(std::string_view text);

/// The fate of one submitted message.
struct Delivery {
  std::uint64_t token = 0;  ///< OutgoingMessage::token
  DeliveryStatus status = DeliveryStatus::kPersisted;
  FailureClass failure = FailureClass::kOutage;  ///< unless persisted
  std::string code = {};     ///< unless persisted: a stable snake_case word, for example `message_too_large`
  std::string message = {};  ///< unless persisted: for people; never contains a secret or a payload
};

}  // namespace sealane
