#include "sqlite/migrated_connection.hpp"

#include "base/text.hpp"
#include "sqlite/embedded_migrations.hpp"
#include "sqlite/sqlite_migrator.hpp"

namespace sealane::sqlite {

Result<Connection> OpenMigrated(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options, Connection::IfMissing::kFail));
  SEALANE_ASSIGN_OR_RETURN(const SchemaState state, ReadSchemaState(connection.get(), EmbeddedMigrations()));
  if (state.installed == 0) return SchemaIsMissing(EscapeForTerminal(options.path));
  if (state.installed > state.known) return SchemaIsNewer(state.installed, state.known);
  if (state.installed < state.known) return SchemaIsOlder(state.installed, state.known);
  SEALANE_RETURN_IF_ERROR(connection.UseWal());
  return connection;
}

}  // namespace sealane::sqlite
