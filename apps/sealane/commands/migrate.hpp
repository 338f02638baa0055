#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane migrate plan`: what `up` would do; with --sql, the statements.
std::unique_ptr<Command> MakeMigratePlanCommand();
/// `sealane migrate up`: brings the store's tables to the version this program knows.
std::unique_ptr<Command> MakeMigrateUpCommand();
/// `sealane migrate status`: 0 up to date, 3 pending, 12 newer than this program.
std::unique_ptr<Command> MakeMigrateStatusCommand();

}  // namespace sealane::cli
