#include "core/fingerprint.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "sealane/assert.hpp"

#include "base/sha256.hpp"

namespace sealane {
namespace {

Fingerprint Compute(UniqueKind kind, std::initializer_list<std::string_view> parts) {
  std::string bytes(1, static_cast<char>(kind));
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

}  // namespace sealane
