#include "serve/webhook_signature.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/hex.hpp"
#include "base/hmac.hpp"

namespace sealane {
namespace {

constexpr std::array<std::string_view, 5> kVerdictNames = {"good", "signature_missing", "signature_malformed",
                                                           "signature_expired", "signature_wrong"};
constexpr std::size_t kMacSize = 32;
// A provider that exchanges its secret signs with both; more than a few values only cost time.
constexpr std::size_t kValuesMax = 8;

/// A header of either scheme, taken apart.
struct Claimed {
  std::string time;  // as written, because it is part of what was signed
  std::int64_t seconds = 0;
  std::vector<std::string> macs;  // decoded
};

std::optional<std::string> DecodedMac(std::string_view text, SignatureEncoding encoding) {
  auto mac = encoding == SignatureEncoding::kHex ? FromHex(text) : FromBase64(text);
  if (!mac || mac->size() != kMacSize) return std::nullopt;
  return mac;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<Claimed> ReadHmac(const SignatureRule& rule, std::string_view value) {
  if (!value.starts_with(rule.prefix)) return std::nullopt;
  auto mac = DecodedMac(value.substr(rule.prefix.size()), rule.encoding);
  if (!mac) return std::nullopt;
  return Claimed{.time = {}, .seconds = 0, .macs = {*std::move(mac)}};
}

// Elements that are neither `t` nor `v1` belong to other versions of the scheme and are passed over.
std::optional<Claimed> ReadTimestamped(std::string_view value) {
  Claimed claimed;
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    const std::string_view element = Trimmed(value.substr(0, comma));
    value.remove_prefix(std::min(comma + 1, value.size()));
    const std::size_t equals = element.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = element.substr(0, equals);
    const std::string_view content = element.substr(equals + 1);
    if (name == "t") {
      const auto [end, error] = std::from_chars(content.data(), content.data() + content.size(), claimed.seconds);
      const bool whole = error == std::errc() && end == content.data() + content.size();
      if (!claimed.time.empty() || !whole || claimed.seconds < 0) return std::nullopt;
      claimed.time = content;
    } else if (name == "v1") {
      auto mac = DecodedMac(content, SignatureEncoding::kHex);
      if (!mac || claimed.macs.size() == kValuesMax) return std::nullopt;
      claimed.macs.push_back(*std::move(mac));
    }
  }
  if (claimed.time.empty() || claimed.macs.empty()) return std::nullopt;
  return claimed;
}

bool IsFresh(const SignatureRule& rule, const Claimed& claimed, Timestamp now) {
  const std::int64_t ours = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  // Both are small and not negative, so the difference cannot overflow.
  const std::int64_t apart = ours > claimed.seconds ? ours - claimed.seconds : claimed.seconds - ours;
  return apart <= rule.tolerance.count();
}

struct Head {
  SignatureVerdict verdict = SignatureVerdict::kGood;
  Claimed claimed = {};
};

Head ReadHead(const SignatureRule& rule, std::optional<std::string_view> value, Timestamp now) {
  if (rule.scheme == SignatureScheme::kNone) return {};
  if (!value) return {.verdict = SignatureVerdict::kMissing};
  auto claimed = rule.scheme == SignatureScheme::kHmac ? ReadHmac(rule, *value) : ReadTimestamped(*value);
  if (!claimed) return {.verdict = SignatureVerdict::kMalformed};
  if (rule.scheme == SignatureScheme::kTimestamped && !IsFresh(rule, *claimed, now)) {
    return {.verdict = SignatureVerdict::kExpired};
  }
  return {.verdict = SignatureVerdict::kGood, .claimed = *std::move(claimed)};
}

}  // namespace

std::string_view ToString(SignatureVerdict verdict) {
  return kVerdictNames.at(static_cast<std::size_t>(verdict));
}

SignatureVerdict CheckSignatureHead(const SignatureRule& rule, std::optional<std::string_view> value, Timestamp now) {
  return ReadHead(rule, value, now).verdict;
}

SignatureVerdict CheckSignature(const SignatureRule& rule, std::optional<std::string_view> value,
                                std::string_view body, Timestamp now) {
  const Head head = ReadHead(rule, value, now);
  if (head.verdict != SignatureVerdict::kGood || rule.scheme == SignatureScheme::kNone) return head.verdict;
  std::string dated;
  if (rule.scheme == SignatureScheme::kTimestamped) {
    dated = head.claimed.time;
    dated += '.';
    dated += body;
    body = dated;
  }
  bool good = false;
  for (const Secret& secret : rule.secrets) {
    const Sha256Digest mac = HmacSha256(secret.Reveal(), body);
    const std::string_view expected(reinterpret_cast<const char*>(mac.data()), mac.size());
    // All are compared, whichever is right.
    for (const std::string& claimed : head.claimed.macs) good = EqualInConstantTime(expected, claimed) || good;
  }
  return good ? SignatureVerdict::kGood : SignatureVerdict::kWrong;
}

}  // namespace sealane
