#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"

namespace sealane {

/// Identity of an event from append to effect: a UUID. It is the outbox id, the message id and the inbox's dedup key.
class EventId {
 public:
  static constexpr std::size_t kSize = 16;
  using Bytes = std::array<std::uint8_t, kSize>;

  /// The nil UUID, which no event may have.
  constexpr EventId() = default;
  constexpr explicit EventId(const Bytes& bytes) : bytes_(bytes) {}

  /// Accepts the 36-character form in either case; nothing else (no braces, no missing dashes).
  static std::optional<EventId> Parse(std::string_view text);
  /// Lower case, 36 characters.
  std::string ToString() const;

  const Bytes& bytes() const { return bytes_; }
  bool is_nil() const { return *this == EventId{}; }
  /// The creation time that a version 7 id carries; empty for other versions.
  std::optional<Timestamp> CreatedAt() const;

  friend constexpr auto operator<=>(const EventId&, const EventId&) = default;

 private:
  Bytes bytes_{};
};

/// Makes version 7 ids that strictly grow within this generator, also when the calendar steps back or more than
/// 4,096 are asked for in a millisecond. Thread-safe.
class EventIdGenerator {
 public:
  EventIdGenerator(Clock& clock, Random& random) : clock_(clock), random_(random) {}
  EventId Next();

  /// The one of this process.
  static EventIdGenerator& Instance();

 private:
  Clock& clock_;
  Random& random_;
  std::mutex mutex_;
  std::uint64_t last_tick_ = 0;  // milliseconds << 12 | counter: the 60 ordered bits of the last id
};

}  // namespace sealane

template <>
struct std::hash<sealane::EventId> {
  std::size_t operator()(const sealane::EventId& id) const noexcept;
};
