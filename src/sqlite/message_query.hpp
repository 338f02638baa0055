#pragma once

#include <optional>
#include <vector>

#include <sqlite3.h>

#include "outbox/outbox_store.hpp"

namespace sealane::sqlite {

Result<std::vector<StoredMessage>> QueryMessages(sqlite3* connection, const MessageFilter& filter);
Result<std::optional<StoredMessage>> QueryMessage(sqlite3* connection, const EventId& id);

}  // namespace sealane::sqlite
