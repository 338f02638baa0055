#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "memory/outbox_log_faults.hpp"
#include "ops/dead_letters.hpp"
#include "ops/inbox_desk.hpp"
#include "ops/route_desk.hpp"
#include "ops/task_desk.hpp"
#include "outbox/migration.hpp"
#include "outbox/outbox_log.hpp"
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
                                       std::chrono::milliseconds lock_wait = std::chrono::seconds{5},
                                       std::int32_t lanes = 8);

/// What is committed at this moment, and the way back to it.
struct Snapshot;
std::shared_ptr<const Snapshot> TakeSnapshot(const Database& database);
/// Plays a failover or a restore: what was committed since the snapshot is gone, and the database begins another life
/// (see InboxStore::life()). Transactions that are open end with kUnavailable (`store_changed`), and so does
/// everything that inbox stores opened before are asked. A restart without a loss is a Restore() of a snapshot just
/// taken.
void Restore(Database& database, const Snapshot& snapshot);

Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(std::shared_ptr<Database> database);

/// The outbox for one relay. A route that does not exist is added. Leases run by `clock`, so that tests own them; the
/// status of events takes the database's own. `faults`, when given, decides which calls fail.
std::unique_ptr<OutboxLog> MakeOutboxLog(std::shared_ptr<Database> database, const std::string& route,
                                         std::string owner, Clock& clock,
                                         std::shared_ptr<LogFaults> faults = nullptr);
Result<std::unique_ptr<DeadLetters>> OpenDeadLetters(std::shared_ptr<Database> database);
/// Times run by the clock of the database.
Result<std::unique_ptr<InboxDesk>> OpenInboxDesk(std::shared_ptr<Database> database);
Result<std::unique_ptr<TaskDesk>> OpenTaskDesk(std::shared_ptr<Database> database);
Result<std::unique_ptr<RouteDesk>> OpenRouteDesk(std::shared_ptr<Database> database);

}  // namespace sealane::memory
