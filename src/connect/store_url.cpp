#include "connect/store_url.hpp"

#include <fmt/format.h>

#include "base/file_id.hpp"
#include "base/text.hpp"

namespace sealane {
namespace {

constexpr std::string_view kForms = "use postgres://user@host:port/database, sqlite:PATH, or a path that ends in .db";

Error BadUrl(std::string message, std::string hint = std::string(kForms)) {
  return Error(ErrorKind::kMisconfigured, "bad_store_url", std::move(message)).WithHint(std::move(hint));
}

}  // namespace

Result<StoreTarget> ParseStoreUrl(std::string_view url) {
  if (url.find('\0') != std::string_view::npos) return BadUrl("the store URL contains a NUL");
  if (url.starts_with("postgres://") || url.starts_with("postgresql://")) {
    return StoreTarget{StoreKind::kPostgres, std::string(url)};
  }
  if (url.starts_with("sqlite://")) {
    return BadUrl("sqlite:// is not how a SQLite store is named",
                  "write sqlite:PATH, for example sqlite:./sealane.db");
  }
  const bool is_sqlite = url.starts_with("sqlite:");
  const std::string_view path = is_sqlite ? url.substr(7) : url;
  if (path == ":memory:") {
    return BadUrl("a SQLite store in memory would be gone at the end of the command",
                  "name a file: sqlite:./sealane.db");
  }
  if (is_sqlite && path.empty()) return BadUrl("the store URL names no file", "name a file: sqlite:./sealane.db");
  const bool is_path = url.ends_with(".db") && url.find("://") == std::string_view::npos;
  if (is_sqlite || is_path) return StoreTarget{StoreKind::kSqlite, std::string(path)};
  return BadUrl(fmt::format("`{}` is not a store URL", EscapeForTerminal(RedactUrl(url))));
}

std::string FixStoreUrl(const std::string& url) {
  const auto target = ParseStoreUrl(url);
  if (!target || target->kind != StoreKind::kSqlite) return url;
  return "sqlite:" + AbsolutePath(target->location);
}

}  // namespace sealane
