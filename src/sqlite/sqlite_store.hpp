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

/// Opens the file (which must exist) in WAL mode with synchronous FULL.
Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Options& options);
/// Opens the file, made when missing, and migrates it.
Result<std::unique_ptr<Migrator>> OpenMigrator(const Options& options);

}  // namespace sealane::sqlite
