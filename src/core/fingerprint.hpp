#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sealane/transaction.hpp"

namespace sealane {

/// What a caller asked to be unique. The letter is what the store keeps beside the fingerprint.
enum class UniqueKind : char { kEventId = 'i', kVersion = 'v', kDedupKey = 'd' };

/// 128 bits that stand for a value that must not come twice: the first half of the SHA-256 over the kind's letter and
/// the parts, each with its length before it (32 bits, big endian), so that no two different lists of parts collide.
///
/// Part of the stored format, the same in C++ and in SQL (`sealane.fingerprint`).
using Fingerprint = std::array<std::uint8_t, 16>;

Fingerprint FingerprintOfId(const EventId& id);
/// Tenant, aggregate type, aggregate id, aggregate version in decimal, event type.
Fingerprint FingerprintOfVersion(const Envelope& envelope);
/// Tenant and key.
Fingerprint FingerprintOfDedupKey(std::string_view tenant, std::string_view dedup_key);

/// The id here of an event of others whose id is no UUID: the fingerprint of its source and id with the letter `c`,
/// as a UUID of version 8. The same every time.
EventId ForeignEventId(std::string_view source, std::string_view id);

}  // namespace sealane
