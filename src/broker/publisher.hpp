#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/error.hpp"

#include "broker/delivery.hpp"
#include "core/wire_encoder.hpp"

namespace sealane {

/// One message on its way out. Everything is borrowed for the length of the Submit() call.
struct OutgoingMessage {
  std::uint64_t token = 0;  ///< the caller's name for it; comes back with the delivery
  EventId event_id;         ///< for destinations with an idempotency key of their own
  std::string_view topic;
  std::string_view key;
  std::string_view value;
  std::span<const HeaderView> headers;
};

enum class Submitted : std::uint8_t {
  kTaken,  ///< copied; exactly one Delivery with its token will come out of Collect()
  kFull,   ///< not taken: Collect() first, then submit the same message again
};

/// How the destination is, as far as the publisher knows.
struct PublisherHealth {
  enum class State : std::uint8_t {
    kReady,          ///< or not tried yet
    kUnreachable,    ///< outage: what was submitted waits
    kMisconfigured,  ///< a person has to change something
  };
  State state = State::kReady;
  std::optional<Error> problem = {};  ///< the last one, unless kReady
};

/// Port: a destination that takes messages and says what became of each.
///
/// Order: messages with the same topic and key are persisted in the order of their Submit(). When one of them fails,
/// for whatever reason, those submitted behind it before its delivery was collected are not persisted either: they
/// come back as well, those that were never tried with the code `held_back`.
///
/// Bounded: a publisher holds a limited number of messages and bytes and then says kFull. A destination that is away
/// is not an error: messages wait inside for as long as it takes, health() tells, and Abandon() gets them back. What
/// would need a new connection or a new producer inside is done inside.
///
/// One thread calls Submit(), Collect() and Abandon(); Interrupt() and health() may be called from any.
class Publisher {
 public:
  virtual ~Publisher() = default;

  virtual Submitted Submit(const OutgoingMessage& message) = 0;
  /// Appends the deliveries that are known by now; waits for the first at most `wait`. A publisher that batches
  /// starts sending what it holds at the latest here.
  virtual void Collect(std::vector<Delivery>& out, std::chrono::milliseconds wait) = 0;
  /// Gives up every message that has no delivery yet. Each comes out of the next Collect(), as kNotPersisted when it
  /// certainly did not go, as kPossiblyPersisted when it may have, both with FailureClass::kOutage and code
  /// `abandoned`.
  virtual void Abandon() = 0;
  /// Lets a Collect() that waits, or the next one, return at once.
  virtual void Interrupt() = 0;
  virtual PublisherHealth health() const = 0;
};

}  // namespace sealane
