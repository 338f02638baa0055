#include "store_factory.hpp"

#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"
#include "store_url.hpp"

namespace sealane::cli {
namespace {

Result<StoreTarget> TargetOf(const Config& config) {
  const std::string& url = config.Text(Key::kStoreUrl);
  if (url.empty()) {
    return Error(ErrorKind::kMisconfigured, "store_not_set", "no store is given")
        .WithHint("use --store sqlite:./sealane.db, set SEALANE_STORE__URL, or put store.url into sealane.toml")
        .WithField("store.url");
  }
  return ParseStoreUrl(url);
}

postgres::Options PostgresOptions(const Config& config, const StoreTarget& target) {
  return {.url = target.location,
          .password = config.password().Reveal(),
          .schema = config.Text(Key::kStoreSchema),
          .connect_timeout = config.Duration(Key::kStoreConnectTimeout),
          .statement_timeout = config.Duration(Key::kStoreStatementTimeout),
          .create_roles = config.Truth(Key::kStoreCreateRoles)};
}

sqlite::Options SqliteOptions(const Config& config, const StoreTarget& target) {
  return {.path = target.location, .busy_timeout = config.Duration(Key::kStoreConnectTimeout)};
}

}  // namespace

Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Config& config) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(config));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenOutboxStore(PostgresOptions(config, target));
  return sqlite::OpenOutboxStore(SqliteOptions(config, target));
}

Result<std::unique_ptr<Migrator>> OpenMigrator(const Config& config) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(config));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenMigrator(PostgresOptions(config, target));
  return sqlite::OpenMigrator(SqliteOptions(config, target));
}

}  // namespace sealane::cli
