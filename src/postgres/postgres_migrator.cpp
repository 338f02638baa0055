#include "postgres/postgres_migrator.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "postgres/sql_state.hpp"
#include "postgres/sql_text.hpp"

namespace sealane::postgres {
namespace {

/// The migration that brought the inbox.
constexpr int kInboxSince = 3;

Status RunScript(PGconn* connection, const std::string& script) {
  // PQexec takes several statements at once and PQexecParams does not. The script holds no values from outside.
  const PgResult result(PQexec(connection, script.c_str()));
  return CheckResult(connection, result.get());
}

Result<bool> HasMigrationTable(PGconn* connection, const std::string& quoted_schema) {
  const std::array<TextParameter, 1> parameters = {quoted_schema + ".migration"};
  // By the catalog: to_regclass() alone may answer from a cache that does not know yet what was committed while this
  // transaction waited for its turn. Reading a table brings the cache up to date first.
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection, "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = to_regclass($1))", parameters));
  return TextAt(result, 0, 0) == "t";
}

/// The names that a schema's roles have are kept in it. One from before that was kept has the schema's name alone.
Result<std::string> FindRolePrefix(PGconn* connection, const std::string& quoted_schema, const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(const bool installed, HasMigrationTable(connection, quoted_schema));
  if (installed) {
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Execute(connection, fmt::format("SELECT value FROM {}.setting WHERE name = 'role_prefix'", quoted_schema)));
    return PQntuples(result.get()) == 0 ? options.schema : std::string(TextAt(result, 0, 0));
  }
  if (!options.role_prefix.empty()) return options.role_prefix;
  return DefaultRolePrefix(options.schema, PQdb(connection));
}

}  // namespace

std::string DefaultRolePrefix(std::string_view schema, std::string_view database) {
  constexpr std::size_t kNameMax = 63 - std::string_view("_dispatcher").size();
  const std::string wanted = fmt::format("{}_{}", schema, database);
  std::string plain = wanted;
  std::ranges::replace_if(
      plain, [](char c) { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_'; }, '_');
  if (plain == wanted && plain.size() <= kNameMax) return plain;
  constexpr std::size_t kHashDigits = 8;
  return fmt::format("{}_{}", plain.substr(0, kNameMax - kHashDigits - 1),
                     ToHex(Sha256(wanted)).substr(0, kHashDigits));
}

Result<SchemaState> ReadSchemaState(PGconn* connection, const std::string& quoted_schema,
                                    const std::vector<Migration>& known) {
  SchemaState state;
  state.known = known.empty() ? 0 : known.back().number;
  SEALANE_ASSIGN_OR_RETURN(const bool installed, HasMigrationTable(connection, quoted_schema));
  if (installed) {
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Execute(connection,
                fmt::format("SELECT number, name, checksum, (extract(epoch FROM applied_at) * 1000000)::int8 "
                            "FROM {}.migration ORDER BY number",
                            quoted_schema)));
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      AppliedMigration applied{static_cast<int>(IntAt(result, row, 0)), std::string(TextAt(result, row, 1)),
                               TimeAt(result, row, 3)};
      const auto mine = std::ranges::find(known, applied.number, &Migration::number);
      if (mine != known.end() && Checksum(mine->script) != TextAt(result, row, 2)) {
        return Error(ErrorKind::kCorrupt, "schema_changed",
                     fmt::format("migration {} ({}) was applied with other content than this program carries",
                                 applied.number, applied.name))
            .WithHint("use the release that made this schema; a released migration never changes");
      }
      state.installed = std::max(state.installed, applied.number);
      state.applied.push_back(std::move(applied));
    }
  }
  std::ranges::copy_if(known, std::back_inserter(state.pending),
                       [&](const Migration& migration) { return migration.number > state.installed; });
  return state;
}

Status RequireCurrentSchema(PGconn* connection, const std::string& quoted_schema, const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(const SchemaState state, ReadSchemaState(connection, quoted_schema, EmbeddedMigrations()));
  if (state.installed == 0) {
    return SchemaIsMissing(fmt::format("schema {} of {}", quoted_schema, RedactUrl(options.url)));
  }
  if (state.installed > state.known) return SchemaIsNewer(state.installed, state.known);
  if (state.installed < state.known) return SchemaIsOlder(state.installed, state.known);
  return Ok();
}

PostgresMigrator::PostgresMigrator(Connection connection, Options options, std::vector<Migration> known)
    : connection_(std::move(connection)), options_(std::move(options)), known_(std::move(known)) {
  auto quoted = QuoteSchema(options_.schema);
  SEALANE_ASSERT(quoted.has_value(), "a connection is opened with a checked schema name only");
  schema_ = *std::move(quoted);
  // Once, because a schema that is half made already has no names yet. A login that may not read them cannot migrate
  // either, and is told so by the first statement of a migration.
  role_prefix_ = FindRolePrefix(connection_.get(), schema_, options_)
                     .value_or(DefaultRolePrefix(options_.schema, PQdb(connection_.get())));
}

Result<SchemaState> PostgresMigrator::Examine() {
  return ReadSchemaState(connection_.get(), schema_, known_);
}

Result<std::vector<AppliedMigration>> PostgresMigrator::Up() {
  PGconn* const connection = connection_.get();
  SEALANE_RETURN_IF_ERROR(Execute(connection, "BEGIN"));
  auto applied = ApplyPending();
  if (!applied) {
    // Best effort: a broken connection has rolled back by itself.
    (void)Execute(connection, "ROLLBACK");
    return std::move(applied).error();
  }
  SEALANE_RETURN_IF_ERROR(Execute(connection, "COMMIT"));
  return applied;
}

Result<std::vector<AppliedMigration>> PostgresMigrator::ApplyPending() {
  PGconn* const connection = connection_.get();
  // Making tables can wait for other transactions and may take longer than a query should.
  SEALANE_RETURN_IF_ERROR(Execute(connection,
                                  "SELECT set_config('statement_timeout', '0', true), "
                                  "set_config('client_min_messages', 'error', true)"));
  // Whoever comes second waits here until the first has committed, then finds nothing to do. Serialised for the whole
  // database, not per schema, because roles are shared.
  SEALANE_RETURN_IF_ERROR(
      Execute(connection, "SELECT pg_advisory_xact_lock(hashtextextended('sealane.migrate', 0))"));
  SEALANE_ASSIGN_OR_RETURN(const SchemaState state, Examine());
  if (state.installed > state.known) return SchemaIsNewer(state.installed, state.known);

  for (const Migration& migration : state.pending) {
    auto status = RunScript(connection, Render(migration));
    if (!status) {
      return std::move(status).error().WithContext(
          fmt::format("in migration {} ({})", migration.number, migration.name));
    }
  }
  // Also when nothing is pending, so that a scheduled `migrate up` keeps partitions ready.
  SEALANE_RETURN_IF_ERROR(Execute(connection, fmt::format("SELECT {}.ensure_partitions()", schema_)));
  SEALANE_ASSIGN_OR_RETURN(SchemaState after, Examine());
  if (after.installed >= kInboxSince) {
    SEALANE_RETURN_IF_ERROR(Execute(connection, fmt::format("SELECT {}.inbox_ensure_partitions()", schema_)));
  }
  std::erase_if(after.applied, [&](const AppliedMigration& m) { return m.number <= state.installed; });
  return std::move(after.applied);
}

std::string PostgresMigrator::Render(const Migration& migration) const {
  std::string script = ReplaceAll(std::string(migration.script), "{schema}", schema_);
  script = ReplaceAll(std::move(script), "{lanes}", std::to_string(kLanes));
  for (const std::string_view role : {"writer", "relay", "operator", "consumer", "dispatcher"}) {
    script = ReplaceAll(std::move(script), fmt::format("{{{}}}", role), fmt::format("\"{}_{}\"", role_prefix_, role));
  }
  script = ReplaceAll(std::move(script), "{role_prefix}", role_prefix_);
  script = ReplaceAll(std::move(script), "{create_roles}", options_.create_roles ? "true" : "false");
  // With its bookkeeping, so that a schema made by hand counts as applied. Nothing here comes from outside: the name
  // is a file's of ours and the checksum is hex.
  return fmt::format(
      "create schema if not exists {0};\n"
      "create table if not exists {0}.migration (\n"
      "  number integer primary key,\n"
      "  name text not null,\n"
      "  checksum text not null,\n"
      "  applied_at timestamptz not null default clock_timestamp(),\n"
      "  applied_by text not null default current_user\n"
      ");\n\n"
      "{1}\n"
      "insert into {0}.migration (number, name, checksum) values ({2}, '{3}', '{4}');\n",
      schema_, script, migration.number, migration.name, Checksum(migration.script));
}

Result<std::unique_ptr<Migrator>> OpenMigrator(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  return std::unique_ptr<Migrator>(
      std::make_unique<PostgresMigrator>(std::move(connection), options, EmbeddedMigrations()));
}

}  // namespace sealane::postgres
