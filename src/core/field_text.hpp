#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sealane/envelope.hpp"
#include "sealane/result.hpp"

namespace sealane {

/// What is wrong with one field of a message: kRejected, with the field's name.
Error MessageError(std::string code, std::string_view field, std::string_view what);

/// Fields of an event, read from the text of a header or an attribute. Errors are those of MessageError().
///
/// Text is UTF-8 (`invalid_utf8`) without NUL (`nul_in_text`).
Result<std::string> ReadFieldText(std::string_view field, std::string_view bytes);
/// Decimal digits alone: no sign, no space.
Result<std::int64_t> ReadFieldInteger(std::string_view field, std::string_view text, std::int64_t min,
                                      std::int64_t max);
Result<std::int32_t> ReadSchemaVersion(std::string_view field, std::string_view text);
Result<Timestamp> ReadFieldTime(std::string_view field, std::string_view text);
Result<EventKind> ReadFieldKind(std::string_view field, std::string_view text);
Result<PayloadHash> ReadFieldHash(std::string_view field, std::string_view text);

/// The key of a message as the text that an event's key is. Bytes that are no text become `0x` and hex digits.
std::string ReadRecordKey(std::string_view key);

/// Gives the envelope its payload and hash: the first candidate that has the hash, or the last one when none is
/// known. `payload_hash_mismatch` when no candidate has it.
Status SettlePayload(Envelope& envelope, std::span<const std::string_view> candidates,
                     const std::optional<PayloadHash>& hash);

}  // namespace sealane
