#include "store_factory.hpp"

#include "connect/store_address.hpp"
#include "connect/store_url.hpp"
#include "sqlite/sqlite_store.hpp"

namespace sealane::cli {
namespace {

Result<StoreTarget> TargetOf(const Settings& store) {
  if (!store.Has(Key::kStoreUrl)) {
    return Error(ErrorKind::kMisconfigured, "store_not_set", "no store is given")
        .WithHint("use --store sqlite:./sealane.db, set SEALANE_STORE__URL, or put store.url into sealane.toml")
        .WithField("store.url");
  }
  return ParseStoreUrl(store.Text(Key::kStoreUrl));
}

sqlite::Options SqliteOptions(const Settings& store, const StoreTarget& target) {
  return {.path = target.location, .busy_timeout = store.Duration(Key::kStoreConnectTimeout)};
}

Result<StoreAddress> AddressOf(const Settings& store, std::string application_name) {
  SEALANE_RETURN_IF_ERROR(TargetOf(store));
  return StoreAddress{.url = store.Text(Key::kStoreUrl),
                      .password = store.password().Reveal(),
                      .schema = store.Text(Key::kStoreSchema),
                      .application_name = std::move(application_name),
                      .connect_timeout = store.Duration(Key::kStoreConnectTimeout),
                      .statement_timeout = store.Duration(Key::kStoreStatementTimeout)};
}

}  // namespace

postgres::Options PostgresOptionsOf(const Settings& store) {
  return {.url = store.Text(Key::kStoreUrl),
          .password = store.password().Reveal(),
          .schema = store.Text(Key::kStoreSchema),
          .connect_timeout = store.Duration(Key::kStoreConnectTimeout),
          .statement_timeout = store.Duration(Key::kStoreStatementTimeout),
          .create_roles = store.Truth(Key::kStoreCreateRoles)};
}

Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(store));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenOutboxStore(PostgresOptionsOf(store));
  return sqlite::OpenOutboxStore(SqliteOptions(store, target));
}

Result<std::unique_ptr<Migrator>> OpenMigrator(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(store));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenMigrator(PostgresOptionsOf(store));
  return sqlite::OpenMigrator(SqliteOptions(store, target));
}

Result<std::unique_ptr<OutboxLog>> OpenStoreLog(const Settings& store, const std::string& route,
                                                const std::string& owner) {
  SEALANE_ASSIGN_OR_RETURN(const StoreAddress address, AddressOf(store, "sealane-relay"));
  return OpenOutboxLogAt(address, route, owner);
}

Result<std::unique_ptr<InboxStore>> OpenStoreInbox(const Settings& store, const std::string& consumer,
                                                   InboxMode mode) {
  SEALANE_ASSIGN_OR_RETURN(const StoreAddress address, AddressOf(store, "sealane-consume"));
  return OpenInboxAt(address, consumer, mode);
}

Result<std::unique_ptr<DeadLetters>> OpenDeadLetters(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(store));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenDeadLetters(PostgresOptionsOf(store));
  return sqlite::OpenDeadLetters(SqliteOptions(store, target));
}

Result<std::unique_ptr<InboxDesk>> OpenInboxDesk(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(store));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenInboxDesk(PostgresOptionsOf(store));
  return sqlite::OpenInboxDesk(SqliteOptions(store, target));
}

Result<std::unique_ptr<TaskStore>> OpenStoreTasks(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(store));
  if (target.kind == StoreKind::kPostgres) {
    postgres::Options options = PostgresOptionsOf(store);
    options.application_name = "sealane-tasks";
    return postgres::OpenTaskStore(options);
  }
  return sqlite::OpenTaskStore(SqliteOptions(store, target));
}

Result<std::unique_ptr<TaskDesk>> OpenTaskDesk(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(store));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenTaskDesk(PostgresOptionsOf(store));
  return sqlite::OpenTaskDesk(SqliteOptions(store, target));
}

Result<std::unique_ptr<RouteDesk>> OpenRouteDesk(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(store));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenRouteDesk(PostgresOptionsOf(store));
  return sqlite::OpenRouteDesk(SqliteOptions(store, target));
}

Result<std::unique_ptr<ConsumerGrants>> OpenConsumerGrants(const Settings& store) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, TargetOf(store));
  if (target.kind == StoreKind::kPostgres) return postgres::OpenConsumerGrants(PostgresOptionsOf(store));
  return Error(ErrorKind::kRejected, "no_consumer_grants", "a SQLite file has no roles to grant a consumer to")
      .WithHint("a user who may write the file may work as any consumer: use the file's permissions");
}

}  // namespace sealane::cli
