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

/// The URL with the absolute path of its file when it names one, for what is opened again later: the process may have
/// changed its directory by then. Others, wrong ones too, stay as they are.
std::string FixStoreUrl(const std::string& url);

}  // namespace sealane
