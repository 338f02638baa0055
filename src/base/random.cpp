#include "sealane/random.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/random.h>

#include "sealane/assert.hpp"

namespace sealane {

std::uint64_t Random::NextU64() {
  std::uint64_t value = 0;
  Fill(std::as_writable_bytes(std::span{&value, 1}));
  return value;
}

std::uint64_t Random::Below(std::uint64_t bound) {
  SEALANE_ASSERT(bound > 0, "a random choice needs at least one possibility");
  // Values in the incomplete last copy of [0, bound) would favour small results; draw again.
  const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % bound;
  std::uint64_t value = NextU64();
  while (value >= limit) value = NextU64();
  return value % bound;
}

void SystemRandom::Fill(std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  while (!bytes.empty()) {
    if (left_ == 0) {
      ssize_t got = 0;
      do {
        got = getrandom(buffer_, sizeof buffer_, 0);
      } while (got < 0 && errno == EINTR);
      SEALANE_ASSERT(got == static_cast<ssize_t>(sizeof buffer_), "the kernel fills small random requests whole");
      left_ = sizeof buffer_;
    }
    const std::size_t count = std::min(left_, bytes.size());
    std::byte* const from = buffer_ + (sizeof buffer_ - left_);
    std::memcpy(bytes.data(), from, count);
    std::memset(from, 0, count);  // handed out once
    left_ -= count;
    bytes = bytes.subspan(count);
  }
}

SystemRandom& SystemRandom::Instance() {
  static SystemRandom random;
  return random;
}

void SeededRandom::Fill(std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  while (!bytes.empty()) {
    // The splitmix64 step: full period, and any seed will do.
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
    mixed ^= mixed >> 31;
    const std::size_t count = std::min(sizeof mixed, bytes.size());
    std::memcpy(bytes.data(), &mixed, count);
    bytes = bytes.subspan(count);
  }
}

}  // namespace sealane
