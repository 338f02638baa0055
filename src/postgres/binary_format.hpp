#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <libpq-fe.h>

#include "sealane/clock.hpp"

namespace sealane::postgres {

// Type OIDs are fixed in PostgreSQL's catalogue.
inline constexpr Oid kBool = 16;
inline constexpr Oid kBytea = 17;
inline constexpr Oid kInt8 = 20;
inline constexpr Oid kInt4 = 23;
inline constexpr Oid kText = 25;
inline constexpr Oid kJson = 114;
inline constexpr Oid kTimestamptz = 1184;
inline constexpr Oid kUuid = 2950;
inline constexpr Oid kJsons = 199;
inline constexpr Oid kByteas = 1001;
inline constexpr Oid kInt4s = 1007;
inline constexpr Oid kTexts = 1009;
inline constexpr Oid kInt8s = 1016;
inline constexpr Oid kTimestamptzs = 1185;
inline constexpr Oid kUuids = 2951;

template <class Integer>
std::string BigEndian(Integer value) {
  std::string bytes(sizeof value, '\0');
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes[sizeof value - 1 - i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xffU);
  }
  return bytes;
}

/// Microseconds since PostgreSQL's epoch, 2000.
inline std::string BinaryTime(Timestamp value) {
  constexpr std::int64_t kEpochShift = 946'684'800'000'000;
  return BigEndian(value.time_since_epoch().count() - kEpochShift);
}

}  // namespace sealane::postgres
