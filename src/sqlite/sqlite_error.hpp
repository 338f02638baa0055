#pragma once

#include <string_view>

#include "sealane/error.hpp"

struct sqlite3;

namespace sealane::sqlite {

/// The one place that translates SQLite's result codes. `code` is the extended one. The names of our CHECK
/// constraints and the messages of our triggers carry our own codes.
Error ErrorFromSqlite(int code, std::string_view message);

/// The error of the last call on this connection.
Error LastError(sqlite3* connection);

}  // namespace sealane::sqlite
