#pragma once

#include <memory>

#include "outbox/migration.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::memory {

/// A database in memory with the promises of the real ones; shared by all stores opened on it.
class Database;
std::shared_ptr<Database> MakeDatabase(Clock& clock = SystemClock::Instance());

Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(std::shared_ptr<Database> database);

}  // namespace sealane::memory
