#pragma once

#include <memory>
#include <string>

#include "config/settings.hpp"
#include "inbox/inbox_store.hpp"
#include "ops/consumer_grants.hpp"
#include "ops/dead_letters.hpp"
#include "ops/inbox_desk.hpp"
#include "ops/route_desk.hpp"
#include "ops/task_desk.hpp"
#include "outbox/migration.hpp"
#include "outbox/outbox_log.hpp"
#include "outbox/outbox_store.hpp"
#include "postgres/postgres_store.hpp"
#include "tasks/task_store.hpp"

namespace sealane::cli {

/// Opens the store that a section names: the only place of the program that knows which stores there are.
/// kMisconfigured (`store_not_set`) when it names none.
Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Settings& store);
Result<std::unique_ptr<Migrator>> OpenMigrator(const Settings& store);
/// The outbox as a relay named `owner` sees it on a route.
Result<std::unique_ptr<OutboxLog>> OpenStoreLog(const Settings& store, const std::string& route,
                                                const std::string& owner);
Result<std::unique_ptr<DeadLetters>> OpenDeadLetters(const Settings& store);
Result<std::unique_ptr<InboxDesk>> OpenInboxDesk(const Settings& store);
/// The inbox of a consumer; one connection.
Result<std::unique_ptr<InboxStore>> OpenStoreInbox(const Settings& store, const std::string& consumer,
                                                   InboxMode mode);
/// The tasks of a store; one connection.
Result<std::unique_ptr<TaskStore>> OpenStoreTasks(const Settings& store);
Result<std::unique_ptr<TaskDesk>> OpenTaskDesk(const Settings& store);
Result<std::unique_ptr<RouteDesk>> OpenRouteDesk(const Settings& store);
/// kRejected (`no_consumer_grants`) for a store without roles.
Result<std::unique_ptr<ConsumerGrants>> OpenConsumerGrants(const Settings& store);
/// Of a store that is a PostgreSQL.
postgres::Options PostgresOptionsOf(const Settings& store);

}  // namespace sealane::cli
