#pragma once

#include <memory>
#include <string>

#include "config/config.hpp"
#include "outbox/migration.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::cli {

/// Opens the store that the configuration names: the only place of the program that knows which stores there are.
/// kMisconfigured (`store_not_set`) when it names none.
Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Config& config);
Result<std::unique_ptr<Migrator>> OpenMigrator(const Config& config);

}  // namespace sealane::cli
