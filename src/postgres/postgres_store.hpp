#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "inbox/inbox_store.hpp"
#include "ops/consumer_grants.hpp"
#include "ops/dead_letters.hpp"
#include "ops/inbox_desk.hpp"
#include "ops/route_desk.hpp"
#include "ops/task_desk.hpp"
#include "outbox/migration.hpp"
#include "outbox/outbox_log.hpp"
#include "outbox/outbox_store.hpp"
#include "tasks/task_store.hpp"

namespace sealane::postgres {

struct Options {
  std::string url;                 ///< postgres://user@host:port/database?...
  std::string password = {};       ///< when not in the URL, the environment or a passfile
  std::string schema = "sealane";  ///< [a-z_][a-z0-9_]*, at most 40 characters
  std::string application_name = "sealane";
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds statement_timeout{30'000};
  bool pooled = false;       ///< take it for pooled without looking; false: find out (session_settings.hpp)
  bool create_roles = true;  ///< migrations make the writer, relay, consumer, dispatcher and operator roles
  /// What the names of those roles begin with when a schema is made new; empty: the schema's and the database's name,
  /// because roles belong to the whole server. A schema that exists keeps its names.
  std::string role_prefix = {};
};

/// Connects and refuses a schema that is missing, older or newer than this program.
Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Options& options);
/// The log as the relay `owner` sees it on `route`, which is added when it does not exist. The role that migrations
/// make for relays has every right it needs.
Result<std::unique_ptr<OutboxLog>> OpenOutboxLog(const Options& options, std::string route, std::string owner);
/// The inbox of a consumer, which is added when it does not exist; kMisconfigured (`inbox_mode_differs`) when it was
/// added with another mode. The role that migrations make for consumers has every right it needs; a handler's own
/// tables need rights of their own.
Result<std::unique_ptr<InboxStore>> OpenInboxStore(const Options& options, std::string consumer, InboxMode mode);
/// The tasks, for a dispatcher. The role that migrations make for dispatchers has every right it needs.
Result<std::unique_ptr<TaskStore>> OpenTaskStore(const Options& options);
/// For operators: the role that migrations make for them has every right that these five need.
Result<std::unique_ptr<DeadLetters>> OpenDeadLetters(const Options& options);
Result<std::unique_ptr<InboxDesk>> OpenInboxDesk(const Options& options);
Result<std::unique_ptr<TaskDesk>> OpenTaskDesk(const Options& options);
Result<std::unique_ptr<RouteDesk>> OpenRouteDesk(const Options& options);
Result<std::unique_ptr<ConsumerGrants>> OpenConsumerGrants(const Options& options);
Result<std::unique_ptr<Migrator>> OpenMigrator(const Options& options);

/// Of the client library, for example `15.14`.
std::string ClientVersion();

}  // namespace sealane::postgres
