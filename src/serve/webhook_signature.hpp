#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/clock.hpp"

#include "base/log.hpp"

namespace sealane {

/// How a provider proves that a delivery is its own.
enum class SignatureScheme : std::uint8_t {
  kNone,         ///< not at all: whoever reaches the port is believed
  kHmac,         ///< HMAC-SHA256 of the body in a header
  kTimestamped,  ///< `t=SECONDS,v1=HEX,...`: HMAC-SHA256 of `SECONDS.body`, good for a while only
};
enum class SignatureEncoding : std::uint8_t { kHex, kBase64 };

struct SignatureRule {
  SignatureScheme scheme = SignatureScheme::kHmac;
  std::string header = {};                               ///< that carries it; names of headers have no case
  std::string prefix = {};                               ///< of kHmac: in front of the value, for example `sha256=`
  SignatureEncoding encoding = SignatureEncoding::kHex;  ///< of kHmac
  std::chrono::seconds tolerance = std::chrono::minutes{5};  ///< of kTimestamped: between their clock and ours
  std::vector<Secret> secrets = {};  ///< any of them will do, so that one can be exchanged without a gap
};

enum class SignatureVerdict : std::uint8_t {
  kGood,
  kMissing,    ///< no header, or several
  kMalformed,  ///< not of the scheme's shape
  kExpired,    ///< right or wrong, it is too old, or from the future
  kWrong,
};
/// `signature_missing`, ... as answers and metrics show it; `good`.
std::string_view ToString(SignatureVerdict verdict);

/// What can be said before the body is there: anything but kWrong.
SignatureVerdict CheckSignatureHead(const SignatureRule& rule, std::optional<std::string_view> value, Timestamp now);

/// The whole check. How much of a wrong signature is right takes no measurable time to find out.
SignatureVerdict CheckSignature(const SignatureRule& rule, std::optional<std::string_view> value,
                                std::string_view body, Timestamp now);

}  // namespace sealane
