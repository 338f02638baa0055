#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sealane/envelope.hpp"
#include "sealane/handler.hpp"

#include "inbox/message_context.hpp"

namespace sealane {

/// What a script can name of an event and of the message it came in.
enum class SqlParameter : std::uint8_t {
  kEventId,
  kTenant,
  kKind,
  kType,
  kVersion,  ///< of the payload's schema
  kKey,
  kTopic,  ///< that the message was read from: the one in which partition and offset count
  kAggregateType,
  kAggregateId,
  kAggregateVersion,
  kCorrelationId,
  kCausationId,
  kTraceparent,
  kTracestate,
  kProducer,
  kSchemaId,
  kContentType,
  kPayload,       ///< text when it is one, else bytes
  kPayloadBytes,  ///< bytes, always
  kPayloadHash,   ///< 64 hex digits
  kHeaders,       ///< a JSON object of texts
  kOccurredAt,    ///< RFC 3339 in UTC
  kPartition,
  kOffset,
  kConsumer,
};
/// `event_id`, `tenant`, ..., as written in a script behind a colon.
std::string_view ToString(SqlParameter parameter);
std::optional<SqlParameter> ParseSqlParameter(std::string_view name);
/// All of them, in the order above.
std::span<const std::string_view> SqlParameterNames();

/// The value for a statement. What an event does not have is null, not an empty text.
SqlValue ValueOf(SqlParameter parameter, const Envelope& event, const MessageContext& context);

}  // namespace sealane
