#pragma once

#include <string>
#include <vector>

#include "outbox/outbox_store.hpp"

namespace sealane::cli {

/// One word for the life of a message over all its routes: the one that most needs attention. Without routes it is
/// pending.
DeliveryState OverallState(const StoredMessage& message);

/// A message as a JSON object on one line. The payload, when it is there and wanted, stands as `payload` byte for
/// byte when it is JSON on one line, else as `payload_base64`.
std::string MessageJson(const StoredMessage& message, bool with_payload);

/// One aligned line per message.
std::string MessageTable(const std::vector<StoredMessage>& messages, bool with_payload, bool color);

/// Everything about one message, for people.
std::string MessageDetails(const StoredMessage& message, bool color);

}  // namespace sealane::cli
