#pragma once

#include <chrono>
#include <memory>

#include "outbox/migration.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::memory {

/// A database in memory with the promises of the real ones; shared by all stores opened on it, on any thread. For
/// unit tests of applications and of Sealane itself.
///
/// A transaction keeps its writes to itself until it commits; `seq` is given at the commit, so it is commit order.
/// What two transactions may not do at once is guarded by locks that last to the end of the transaction: an aggregate
/// being counted, an event id, version or dedup key being claimed. The second one waits for the first, at most
/// `lock_wait` of real time, then gets `store_busy` (kConflict) as from a deadlock. A request that another open
/// transaction began is kInProgress at once.
class Database;
std::shared_ptr<Database> MakeDatabase(Clock& clock = SystemClock::Instance(),
                                       std::chrono::milliseconds lock_wait = std::chrono::seconds{5});

Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(std::shared_ptr<Database> database);

}  // namespace sealane::memory
