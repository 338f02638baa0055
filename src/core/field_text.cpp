#include "core/field_text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"

namespace sealane {

Error MessageError(std::string code, std::string_view field, std::string_view what) {
  return Error(ErrorKind::kRejected, std::move(code),
               fmt::format("message field {}: {}", EscapeForTerminal(field), what))
      .WithField(std::string(field));
}

Result<std::string> ReadFieldText(std::string_view field, std::string_view bytes) {
  if (const auto bad = FirstInvalidUtf8(bytes)) {
    return MessageError("invalid_utf8", field, fmt::format("it is not UTF-8 at byte {}", *bad));
  }
  if (const auto nul = bytes.find('\0'); nul != std::string_view::npos) {
    return MessageError("nul_in_text", field, fmt::format("it has a NUL at byte {}", nul));
  }
  return std::string(bytes);
}

Result<std::int64_t> ReadFieldInteger(std::string_view field, std::string_view text, std::int64_t min,
                                      std::int64_t max) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = problem == std::errc{} && end == text.data() + text.size();
  if (!whole || number < min || number > max) {
    return MessageError("field_invalid", field,
                        fmt::format("expected a whole number from {} to {}, found \"{}\"", min, max,
                                    EscapeForTerminal(text.substr(0, 40))));
  }
  return number;
}

Result<std::int32_t> ReadSchemaVersion(std::string_view field, std::string_view text) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t version,
                           ReadFieldInteger(field, text, 1, std::numeric_limits<std::int32_t>::max()));
  return static_cast<std::int32_t>(version);
}

Result<Timestamp> ReadFieldTime(std::string_view field, std::string_view text) {
  const auto time = ParseRfc3339(text);
  if (!time) {
    return MessageError("field_invalid", field,
                        "expected an RFC 3339 time from 1970 to 9999, for example 2024-05-06T07:08:09.123456Z");
  }
  return *time;
}

Result<EventKind> ReadFieldKind(std::string_view field, std::string_view text) {
  const auto kind = ParseEventKind(text);
  if (!kind) return MessageError("field_invalid", field, "expected \"event\" or \"command\"");
  return *kind;
}

Result<PayloadHash> ReadFieldHash(std::string_view field, std::string_view text) {
  PayloadHash hash{};
  const auto bytes = FromHex(text);
  if (!bytes || bytes->size() != hash.size()) return MessageError("field_invalid", field, "expected 64 hex digits");
  std::copy(bytes->begin(), bytes->end(), hash.begin());
  return hash;
}

std::string ReadRecordKey(std::string_view key) {
  if (IsUtf8(key) && key.find('\0') == std::string_view::npos) return std::string(key);
  std::string text = "0x";
  AppendHex(text, key);
  return text;
}

Status SettlePayload(Envelope& envelope, std::span<const std::string_view> candidates,
                     const std::optional<PayloadHash>& hash) {
  SEALANE_ASSERT(!candidates.empty(), "a payload has bytes to choose from");
  if (!hash) {
    envelope.payload = candidates.back();
    envelope.payload_hash = Sha256(envelope.payload);
    return Ok();
  }
  for (const std::string_view candidate : candidates) {
    if (Sha256(candidate) != *hash) continue;
    envelope.payload = candidate;
    envelope.payload_hash = *hash;
    return Ok();
  }
  return MessageError("payload_hash_mismatch", "payload", "its SHA-256 is not the one that the message states")
      .WithHint("something between producer and reader rewrote the payload; pass the bytes through untouched");
}

}  // namespace sealane
