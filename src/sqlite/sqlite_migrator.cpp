#include "sqlite/sqlite_migrator.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include "sqlite/statement.hpp"

namespace sealane::sqlite {
namespace {

Result<bool> HasMigrationTable(sqlite3* connection) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(connection,
                         "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'sealane_migration'"));
  return select.Step();
}

Error SchemaIsChanged(const AppliedMigration& migration) {
  return Error(ErrorKind::kCorrupt, "schema_changed",
               fmt::format("migration {} ({}) was applied with other content than this program carries",
                           migration.number, migration.name))
      .WithHint("use the release that made this schema; a released migration never changes");
}

Status ReadApplied(sqlite3* connection, const std::vector<Migration>& known, SchemaState& state) {
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Statement::Prepare(connection,
                                              "SELECT number, name, applied_at, checksum FROM sealane_migration"
                                              " ORDER BY number"));
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return Ok();
    RowReader row(select);
    AppliedMigration applied;
    applied.number = static_cast<int>(row.Int());
    applied.name = row.Text();
    applied.applied_at = row.Time();
    const auto script = std::ranges::find(known, applied.number, &Migration::number);
    if (script != known.end() && Checksum(script->script) != row.Text()) return SchemaIsChanged(applied);
    state.installed = applied.number;
    state.applied.push_back(std::move(applied));
  }
}

/// Keys and payloads given as text are stored as their UTF-8 bytes, which SQLite does only in a UTF-8 file.
Status CheckEncoding(sqlite3* connection) {
  SEALANE_ASSIGN_OR_RETURN(Statement pragma, Statement::Prepare(connection, "PRAGMA encoding"));
  SEALANE_RETURN_IF_ERROR(pragma.Step());
  const std::string encoding = pragma.Text(0);
  if (encoding == "UTF-8") return Ok();
  return Error(ErrorKind::kMisconfigured, "not_supported",
               fmt::format("Sealane needs a SQLite file with encoding UTF-8, this one has {}", encoding))
      .WithHint("make a new file and copy the data");
}

}  // namespace

Result<SchemaState> ReadSchemaState(sqlite3* connection, const std::vector<Migration>& known) {
  SchemaState state;
  state.known = known.empty() ? 0 : known.back().number;
  SEALANE_ASSIGN_OR_RETURN(const bool installed, HasMigrationTable(connection));
  if (installed) SEALANE_RETURN_IF_ERROR(ReadApplied(connection, known, state));
  std::ranges::copy_if(known, std::back_inserter(state.pending),
                       [&](const Migration& migration) { return migration.number > state.installed; });
  return state;
}

Result<SchemaState> SqliteMigrator::Examine() {
  std::error_code ignored;
  if (!std::filesystem::exists(options_.path, ignored)) {
    SchemaState nothing;
    nothing.known = known_.empty() ? 0 : known_.back().number;
    nothing.pending = known_;
    return nothing;
  }
  SEALANE_ASSIGN_OR_RETURN(const Connection connection, Connection::Open(options_, Connection::IfMissing::kFail));
  return ReadSchemaState(connection.get(), known_);
}

Result<std::vector<AppliedMigration>> SqliteMigrator::Up() {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options_, Connection::IfMissing::kMakeFile));
  SEALANE_RETURN_IF_ERROR(CheckEncoding(connection.get()));
  // Looked at before anything is touched, the journal mode included.
  SEALANE_ASSIGN_OR_RETURN(const SchemaState state, ReadSchemaState(connection.get(), known_));
  if (state.installed > state.known) return SchemaIsNewer(state.installed, state.known);

  SEALANE_RETURN_IF_ERROR(connection.UseWal());
  // The write lock makes a second migrator wait here; it then finds nothing pending.
  SEALANE_RETURN_IF_ERROR(Execute(connection.get(), "BEGIN IMMEDIATE"));
  auto applied = ApplyPending(connection.get());
  if (!applied) return applied;  // closing the connection rolls back
  SEALANE_RETURN_IF_ERROR(Execute(connection.get(), "COMMIT"));
  return applied;
}

Result<std::vector<AppliedMigration>> SqliteMigrator::ApplyPending(sqlite3* connection) const {
  SEALANE_ASSIGN_OR_RETURN(const SchemaState before, ReadSchemaState(connection, known_));
  if (before.installed > before.known) return SchemaIsNewer(before.installed, before.known);
  for (const Migration& migration : before.pending) {
    auto applied = Execute(connection, Render(migration));
    if (!applied) {
      return std::move(applied).error().WithContext(
          fmt::format("in migration {} ({})", migration.number, migration.name));
    }
  }
  SEALANE_ASSIGN_OR_RETURN(SchemaState after, ReadSchemaState(connection, known_));
  std::erase_if(after.applied, [&](const AppliedMigration& m) { return m.number <= before.installed; });
  return std::move(after.applied);
}

std::string SqliteMigrator::Render(const Migration& migration) const {
  return fmt::format(
      "{}\nINSERT INTO sealane_migration (number, name, checksum, applied_at)\nVALUES ({}, '{}', '{}', {});\n",
      migration.script, migration.number, migration.name, Checksum(migration.script), kNowSql);
}

}  // namespace sealane::sqlite
