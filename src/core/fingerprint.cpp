#include "core/fingerprint.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "sealane/assert.hpp"

#include "base/sha256.hpp"

namespace sealane {
namespace {

// Of a CloudEvent's source and id. Beside the letters of UniqueKind, so that the two never mean the same.
constexpr char kForeignId = 'c';

Fingerprint Compute(char letter, std::initializer_list<std::string_view> parts) {
  std::string bytes(1, letter);
  for (const std::string_view part : parts) {
    const auto size = static_cast<std::uint32_t>(part.size());
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(size >> shift & 0xffU));
    bytes += part;
  }
  const Sha256Digest digest = Sha256(bytes);
  Fingerprint fingerprint{};
  std::copy_n(digest.begin(), fingerprint.size(), fingerprint.begin());
  return fingerprint;
}

Fingerprint Compute(UniqueKind kind, std::initializer_list<std::string_view> parts) {
  return Compute(static_cast<char>(kind), parts);
}

}  // namespace

Fingerprint FingerprintOfId(const EventId& id) {
  return Compute(UniqueKind::kEventId, {id.ToString()});
}

Fingerprint FingerprintOfVersion(const Envelope& envelope) {
  SEALANE_ASSERT(envelope.aggregate.version.has_value(), "only a given version can be asked to be unique");
  return Compute(UniqueKind::kVersion, {envelope.tenant, envelope.aggregate.type, envelope.aggregate.id,
                                        std::to_string(*envelope.aggregate.version), envelope.type});
}

Fingerprint FingerprintOfDedupKey(std::string_view tenant, std::string_view dedup_key) {
  return Compute(UniqueKind::kDedupKey, {tenant, dedup_key});
}

EventId ForeignEventId(std::string_view source, std::string_view id) {
  EventId::Bytes bytes = Compute(kForeignId, {source, id});
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0fU) | 0x80U);  // version 8: made in a way of one's own
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3fU) | 0x80U);  // the variant of all UUIDs today
  return EventId(bytes);
}

}  // namespace sealane
