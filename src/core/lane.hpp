#pragma once

#include <cstdint>
#include <string_view>

namespace sealane {

/// The hash behind lanes: the first two bytes, big endian, of the SHA-256 of the ordering key's UTF-8 bytes.
///
/// Part of the stored format, the same in C++ and in SQL (`sealane.lane_hash`), so that a C++ service and a SQL
/// client that append for one key meet in one lane. SHA-256 because every PostgreSQL has it built in, also under FIPS
/// rules, and because nobody can choose keys that crowd one lane by accident.
std::uint16_t LaneHash(std::string_view key);

/// The lane of a hash in an outbox of `lanes` lanes (fixed when the outbox is installed).
constexpr std::int32_t LaneOf(std::uint16_t hash, std::int32_t lanes) {
  return static_cast<std::int32_t>(hash) % lanes;
}

}  // namespace sealane
