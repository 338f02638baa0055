#pragma once

#include "sqlite/connection.hpp"

namespace sealane::sqlite {

/// Opens the file in WAL mode, and refuses one that is missing (`database_missing`) or whose schema is missing, older
/// or newer than this program.
Result<Connection> OpenMigrated(const Options& options);

}  // namespace sealane::sqlite
