#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "outbox/migration.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::postgres {

struct Options {
  std::string url;                 ///< postgres://user@host:port/database?...
  std::string password = {};       ///< when not in the URL, the environment or a passfile
  std::string schema = "sealane";  ///< [a-z_][a-z0-9_]*, at most 40 characters
  std::string application_name = "sealane";
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds statement_timeout{30'000};
  bool create_roles = true;  ///< migrations make the writer, relay and operator roles
};

/// Connects and refuses a schema that is missing, older or newer than this program.
Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Options& options);
Result<std::unique_ptr<Migrator>> OpenMigrator(const Options& options);

/// Of the client library, for example `15.14`.
std::string ClientVersion();

}  // namespace sealane::postgres
