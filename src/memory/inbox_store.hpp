#pragma once

#include <memory>
#include <string>
#include <vector>

#include "inbox/inbox_store.hpp"
#include "memory/inbox_state.hpp"
#include "memory/inbox_store_faults.hpp"
#include "memory/memory_store.hpp"

namespace sealane::memory {

/// The inbox of one consumer, with the promises of the real ones. Times run by `clock`, so that tests own them;
/// `faults`, when given, decides which calls fail.
///
/// A batch keeps its writes to itself until Finish(). Two that file the same event, or look up the same aggregate,
/// wait for each other as long as the database lets them: with a `lock_wait` of zero the second one gets `store_busy`
/// (kConflict) at once, which is what a program with a single thread needs.
///
/// There is no SQL here: Execute() notes the statement, says that it changed one row, and lets it be seen once the
/// batch is committed; Query() is refused.
///
/// kMisconfigured (`inbox_mode_differs`) when the consumer was opened in another mode before.
Result<std::unique_ptr<InboxStore>> OpenInboxStore(std::shared_ptr<Database> database, std::string consumer,
                                                   InboxMode mode, Clock& clock,
                                                   std::shared_ptr<InboxFaults> faults = nullptr);
/// The same where the mode is known to be right.
std::unique_ptr<InboxStore> MakeInboxStore(std::shared_ptr<Database> database, std::string consumer, InboxMode mode,
                                           Clock& clock, std::shared_ptr<InboxFaults> faults = nullptr);

/// What handlers of all consumers have executed and committed, in that order.
std::vector<ExecutedStatement> ExecutedStatements(Database& database);
/// Gives a parked event up, as a person does: its followers go on without it.
void SkipParked(Database& database, const std::string& consumer, const EventId& id);

}  // namespace sealane::memory
