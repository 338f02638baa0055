#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "inbox/inbox_store.hpp"
#include "ops/dead_letters.hpp"
#include "ops/inbox_desk.hpp"
#include "ops/route_desk.hpp"
#include "ops/task_desk.hpp"
#include "outbox/migration.hpp"
#include "outbox/outbox_log.hpp"
#include "outbox/outbox_store.hpp"
#include "tasks/task_store.hpp"

namespace sealane::sqlite {

struct Options {
  std::string path;
  std::chrono::milliseconds busy_timeout{5'000};
};

/// Opens the file in WAL mode with synchronous FULL, and refuses one that is missing (`database_missing`) or whose
/// schema is missing, older or newer than this program. A read-only file can be listed; Begin() is `store_read_only`.
Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Options& options);
/// The outbox for one relay. A route that does not exist is added; `owner` names the relay and is new with every
/// start. Leases run by the clock of this machine, as SQL tells it.
Result<std::unique_ptr<OutboxLog>> OpenOutboxLog(const Options& options, std::string route, std::string owner);
Result<std::unique_ptr<DeadLetters>> OpenDeadLetters(const Options& options);
Result<std::unique_ptr<InboxDesk>> OpenInboxDesk(const Options& options);
Result<std::unique_ptr<TaskDesk>> OpenTaskDesk(const Options& options);
Result<std::unique_ptr<RouteDesk>> OpenRouteDesk(const Options& options);
/// The tasks, for a dispatcher. Leases run by the clock of this machine, as SQL tells it.
Result<std::unique_ptr<TaskStore>> OpenTaskStore(const Options& options);
/// The inbox of one consumer, made when it is new. kMisconfigured (`inbox_mode_differs`) when it has another mode.
/// Handlers write parameters as ?1, ?2. The file has one writer: while a batch is open no other one is.
Result<std::unique_ptr<InboxStore>> OpenInboxStore(const Options& options, std::string consumer, InboxMode mode);
/// Nothing is opened yet: Examine() leaves a missing file missing, Up() makes it.
Result<std::unique_ptr<Migrator>> OpenMigrator(const Options& options);

/// Of the library, for example `3.40.1`.
std::string LibraryVersion();

}  // namespace sealane::sqlite
