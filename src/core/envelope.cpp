#include "sealane/envelope.hpp"

#include "core/headers_json.hpp"
#include "core/wire_encoder.hpp"

namespace sealane {

std::string ToJson(const Envelope& envelope) {
  const std::string headers_json = HeadersToJson(envelope.headers);
  WireEncoder encoder(WireProfile::kEnvelope);
  return std::string(encoder.Encode(ViewOf(envelope, headers_json), envelope.unknown).value);
}

}  // namespace sealane
