#include "sealane/event_id.hpp"

#include <algorithm>
#include <cstring>

#include "base/hex.hpp"

namespace sealane {
namespace {
constexpr std::size_t kTextSize = 36;
constexpr bool IsDashPosition(std::size_t i) {
  return i == 8 || i == 13 || i == 18 || i == 23;
}
constexpr unsigned kCounterBits = 12;
}  // namespace

std::optional<EventId> EventId::Parse(std::string_view text) {
  if (text.size() != kTextSize) return std::nullopt;
  std::string digits;
  digits.reserve(2 * kSize);
  for (std::size_t i = 0; i < kTextSize; ++i) {
    if (IsDashPosition(i)) {
      if (text[i] != '-') return std::nullopt;
    } else {
      digits.push_back(text[i]);
    }
  }
  const auto raw = FromHex(digits);
  if (!raw) return std::nullopt;
  Bytes bytes{};
  std::memcpy(bytes.data(), raw->data(), kSize);
  return EventId(bytes);
}

std::string EventId::ToString() const {
  const std::string digits = ToHex(bytes_);
  std::string text;
  text.reserve(kTextSize);
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (IsDashPosition(text.size())) text.push_back('-');
    text.push_back(digits[i]);
  }
  return text;
}

std::optional<Timestamp> EventId::CreatedAt() const {
  if (bytes_[6] >> 4 != 7) return std::nullopt;
  std::int64_t milliseconds = 0;
  for (std::size_t i = 0; i < 6; ++i) milliseconds = milliseconds << 8 | bytes_[i];
  return Timestamp{std::chrono::milliseconds{milliseconds}};
}

EventId EventIdGenerator::Next() {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Now().time_since_epoch()).count();
  EventId::Bytes bytes{};
  random_.Fill(std::as_writable_bytes(std::span{bytes}));

  std::uint64_t tick = static_cast<std::uint64_t>(std::max<std::int64_t>(now, 0)) << kCounterBits;
  {
    const std::lock_guard lock(mutex_);
    // The counter continues where the millisecond stands still or the calendar went back; when it overflows it
    // borrows the next millisecond. Either way the ordered bits grow.
    tick = std::max(tick, last_tick_ + 1);
    last_tick_ = tick;
  }
  const std::uint64_t milliseconds = tick >> kCounterBits;
  for (std::size_t i = 0; i < 6; ++i) bytes[i] = static_cast<std::uint8_t>(milliseconds >> (40 - 8 * i));
  bytes[6] = static_cast<std::uint8_t>(0x70U | (tick >> 8 & 0x0fU));
  bytes[7] = static_cast<std::uint8_t>(tick);
  bytes[8] = static_cast<std::uint8_t>(0x80U | (bytes[8] & 0x3fU));
  return EventId(bytes);
}

EventIdGenerator& EventIdGenerator::Instance() {
  static EventIdGenerator generator(SystemClock::Instance(), SystemRandom::Instance());
  return generator;
}

}  // namespace sealane

std::size_t std::hash<sealane::EventId>::operator()(const sealane::EventId& id) const noexcept {
  // The last eight bytes of a version 4 or 7 id are random but for two bits.
  std::size_t value = 0;
  std::memcpy(&value, id.bytes().data() + 8, sizeof value);
  return value;
}
