#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sqlite3.h>

#include "outbox/outbox_log.hpp"

namespace sealane::sqlite {

/// SQLite has one writer at a time, so seq is commit order and a position is one number: everything up to it is done.
Position PositionAt(std::int64_t seq);
/// kMisuse (`invalid_position`) for a text that no log of SQLite made.
Result<std::int64_t> SeqOf(std::string_view cursor);

/// `["a","b"]`
std::string TenantsJson(std::span<const std::string> tenants);
/// Every tenant that runs apart, in one list.
std::string TenantsJson(std::span<const ApartFlow> flows);

/// The column sealane_cursor.apart; a flow without tenants is left out.
Result<std::string> ApartToJson(std::span<const ApartFlow> flows);
Result<std::vector<ApartFlow>> ApartFromJson(sqlite3* connection, std::string_view json);

}  // namespace sealane::sqlite
