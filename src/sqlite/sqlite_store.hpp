#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "outbox/migration.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::sqlite {

struct Options {
  std::string path;
  std::chrono::milliseconds busy_timeout{5'000};
};

/// Opens the file in WAL mode with synchronous FULL, and refuses one that is missing (`database_missing`) or whose
/// schema is missing, older or newer than this program. A read-only file can be listed; Begin() is `store_read_only`.
Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Options& options);
/// Nothing is opened yet: Examine() leaves a missing file missing, Up() makes it.
Result<std::unique_ptr<Migrator>> OpenMigrator(const Options& options);

/// Of the library, for example `3.40.1`.
std::string LibraryVersion();

}  // namespace sealane::sqlite
