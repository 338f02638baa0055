#pragma once

#include <vector>

#include "outbox/migration.hpp"

namespace sealane::sqlite {

/// The scripts of sql/sqlite in their order, compiled in by the build.
std::vector<Migration> EmbeddedMigrations();

}  // namespace sealane::sqlite
