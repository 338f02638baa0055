#include "sqlite/migrated_connection.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/opened_files.hpp"
#include "base/text.hpp"
#include "sqlite/embedded_migrations.hpp"
#include "sqlite/sqlite_migrator.hpp"
#include "sqlite/statement.hpp"

namespace sealane::sqlite {
namespace {

Error ForeignLog(const std::string& path) {
  const std::string shown = EscapeForTerminal(path);
  return Error(
             ErrorKind::kMisconfigured, "foreign_wal",
             fmt::format("{0} was replaced, and {0}-wal beside it belongs to the file that was there before", shown))
      .WithHint(fmt::format(
          "stop what writes to it, remove {0}-wal and {0}-shm, and put the copy in its place once more", shown));
}

/// A copy of a file that was in use is often torn. Found out before anything is built on it.
Status CheckWhole(const Connection& connection) {
  SEALANE_ASSIGN_OR_RETURN(Statement check, Statement::Prepare(connection.get(), "PRAGMA quick_check(1)"));
  SEALANE_ASSIGN_OR_RETURN(const bool row, check.Step());
  const std::string result = row ? check.Text(0) : "";
  if (result == "ok") return Ok();
  return Error(ErrorKind::kCorrupt, "store_corrupt",
               fmt::format("{} was replaced by a file that is damaged: {}", EscapeForTerminal(connection.path()),
                           EscapeForTerminal(result)))
      .WithHint("restore it from another backup, made with: sqlite3 FILE \".backup COPY\"");
}

}  // namespace

Result<Connection> OpenMigrated(const Options& options) {
  const FileChange change = ChangeOf(options.path);
  if (change.foreign_log) return ForeignLog(options.path);
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options, Connection::IfMissing::kFail));
  SEALANE_ASSIGN_OR_RETURN(const SchemaState state, ReadSchemaState(connection.get(), EmbeddedMigrations()));
  if (state.installed == 0) return SchemaIsMissing(EscapeForTerminal(options.path));
  if (state.installed > state.known) return SchemaIsNewer(state.installed, state.known);
  if (state.installed < state.known) return SchemaIsOlder(state.installed, state.known);
  SEALANE_RETURN_IF_ERROR(connection.UseWal());
  if (change.replaced) {
    SEALANE_RETURN_IF_ERROR(CheckWhole(connection));
    LogWarning("a SQLite file was replaced and is opened again", {{"file", options.path}});
  }
  NoteOpened(options.path);
  // Not before: what was noted is then what is open.
  SEALANE_RETURN_IF_ERROR(connection.RequireCurrent());
  return connection;
}

}  // namespace sealane::sqlite
