#pragma once

#include <string>
#include <utility>
#include <vector>

#include "outbox/migration.hpp"
#include "sqlite/connection.hpp"

namespace sealane::sqlite {

/// Where the schema of an open file stands, compared with the scripts a program knows. Errors: `schema_changed`.
Result<SchemaState> ReadSchemaState(sqlite3* connection, const std::vector<Migration>& known);

/// Migrates one file, which is made by Up() when it is missing. Opens it anew for every call.
class SqliteMigrator final : public Migrator {
 public:
  /// `known` is a parameter so that tests can play a newer or a changed program.
  SqliteMigrator(Options options, std::vector<Migration> known)
      : options_(std::move(options)), known_(std::move(known)) {}

  Result<SchemaState> Examine() override;
  Result<std::vector<AppliedMigration>> Up() override;
  /// The script and the row that records it: run by hand, in one transaction, it leaves what Up() would.
  std::string Render(const Migration& migration) const override;

 private:
  Result<std::vector<AppliedMigration>> ApplyPending(sqlite3* connection) const;

  Options options_;
  std::vector<Migration> known_;
};

}  // namespace sealane::sqlite
