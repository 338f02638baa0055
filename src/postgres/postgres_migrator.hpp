#pragma once

#include <string>
#include <vector>

#include "outbox/migration.hpp"
#include "postgres/connection.hpp"

namespace sealane::postgres {

/// The scripts of sql/postgres, compiled in.
std::vector<Migration> EmbeddedMigrations();

/// The number of lanes a new outbox gets; it never changes afterwards.
inline constexpr int kLanes = 64;

/// What the store's migration table says; installed = 0 when there is no such table.
Result<SchemaState> ReadSchemaState(PGconn* connection, const std::string& quoted_schema,
                                    const std::vector<Migration>& known);

/// The error for a schema that is missing, older or newer than this program.
Status RequireCurrentSchema(PGconn* connection, const std::string& quoted_schema, const Options& options);

/// What the names of a new schema's roles begin with: `<schema>_<database>` in characters that need no quotes. A name
/// that had to be changed or cut for that ends in a part of its hash, so that two databases never share roles.
std::string DefaultRolePrefix(std::string_view schema, std::string_view database);

class PostgresMigrator final : public Migrator {
 public:
  /// `known` is a parameter so that tests can play a newer or a changed program.
  PostgresMigrator(Connection connection, Options options, std::vector<Migration> known);

  Result<SchemaState> Examine() override;
  Result<std::vector<AppliedMigration>> Up() override;
  std::string Render(const Migration& migration) const override;

 private:
  Result<std::vector<AppliedMigration>> ApplyPending();

  Connection connection_;
  Options options_;
  std::string schema_;       // quoted
  std::string role_prefix_;  // what the names of the roles begin with, in this schema
  std::vector<Migration> known_;
};

}  // namespace sealane::postgres
