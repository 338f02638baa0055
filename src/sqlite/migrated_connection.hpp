#pragma once

#include "sqlite/connection.hpp"

namespace sealane::sqlite {

/// Opens the file in WAL mode, and refuses one that is missing (`database_missing`) or whose schema is missing, older
/// or newer than this program. When this process had another file open behind the path before, the new one is checked
/// (`store_corrupt`), and refused while the write-ahead log of the old one lies beside it (`foreign_wal`).
Result<Connection> OpenMigrated(const Options& options);

}  // namespace sealane::sqlite
