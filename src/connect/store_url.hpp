#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane {

enum class StoreKind : std::uint8_t { kPostgres, kSqlite };

/// Which database a person named.
struct StoreTarget {
  StoreKind kind = StoreKind::kSqlite;
  std::string location;  ///< the URL for PostgreSQL, the file's path for SQLite
};

/// Reads `postgres://...`, `postgresql://...`, `sqlite:PATH`, or a path that ends in `.db`. Errors are kMisconfigured
/// (`bad_store_url`) and show no password.
Result<StoreTarget> ParseStoreUrl(std::string_view url);

}  // namespace sealane
