#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "ops/dead_letters.hpp"
#include "outbox/migration.hpp"
#include "outbox/outbox_log.hpp"
#include "outbox/outbox_store.hpp"

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
/// Nothing is opened yet: Examine() leaves a missing file missing, Up() makes it.
Result<std::unique_ptr<Migrator>> OpenMigrator(const Options& options);

/// Of the library, for example `3.40.1`.
std::string LibraryVersion();

}  // namespace sealane::sqlite
