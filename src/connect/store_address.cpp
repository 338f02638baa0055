#include "connect/store_address.hpp"

#include "connect/store_url.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"

namespace sealane {
namespace {

sqlite::Options SqliteOptionsOf(const StoreAddress& address, const StoreTarget& target) {
  return {.path = target.location, .busy_timeout = address.connect_timeout};
}

postgres::Options PostgresOptionsOf(const StoreAddress& address, const StoreTarget& target) {
  return {.url = target.location,
          .password = address.password,
          .schema = address.schema,
          .application_name = address.application_name,
          .connect_timeout = address.connect_timeout,
          .statement_timeout = address.statement_timeout};
}

}  // namespace

Result<std::unique_ptr<InboxStore>> OpenInboxAt(const StoreAddress& address, const std::string& consumer,
                                                InboxMode mode) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, ParseStoreUrl(address.url));
  if (target.kind == StoreKind::kSqlite) {
    return sqlite::OpenInboxStore(SqliteOptionsOf(address, target), consumer, mode);
  }
  return postgres::OpenInboxStore(PostgresOptionsOf(address, target), consumer, mode);
}

Result<std::unique_ptr<OutboxLog>> OpenOutboxLogAt(const StoreAddress& address, const std::string& route,
                                                   const std::string& owner) {
  SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, ParseStoreUrl(address.url));
  if (target.kind == StoreKind::kSqlite) {
    return sqlite::OpenOutboxLog(SqliteOptionsOf(address, target), route, owner);
  }
  return postgres::OpenOutboxLog(PostgresOptionsOf(address, target), route, owner);
}

}  // namespace sealane
