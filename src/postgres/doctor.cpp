#include "postgres/doctor.hpp"

#include <array>

#include <fmt/format.h>

#include "postgres/connection.hpp"

namespace sealane::postgres {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Status ReadServer(PGconn* connection, Clock& clock, DoctorFacts& facts) {
  const Timestamp before = clock.Now();
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult row,
      Execute(connection,
              "select split_part(current_setting('server_version'), ' ', 1), current_user::text, "
              "pg_is_in_recovery()::int, "
              "(current_setting('fsync') = 'on')::int, (extract(epoch from clock_timestamp()) * 1000000)::bigint, "
              "current_setting('server_version_num')::int, (current_setting('synchronous_commit') <> 'off')::int, "
              "(current_setting('autovacuum') = 'on')::int, "
              "(select setting::bigint from pg_settings where name = 'idle_in_transaction_session_timeout'), "
              // Not by their type, which a user sees of the own sessions only.
              "(select count(*) from pg_stat_activity where datid is not null), "
              "current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"));
  const Timestamp after = clock.Now();
  facts.server_version = TextAt(row, 0, 0);
  facts.user = TextAt(row, 0, 1);
  facts.in_recovery = IntAt(row, 0, 2) == 1;
  facts.fsync = IntAt(row, 0, 3) == 1;
  facts.server_number = static_cast<std::int32_t>(IntAt(row, 0, 5));
  facts.synchronous_commit = IntAt(row, 0, 6) == 1;
  facts.autovacuum = IntAt(row, 0, 7) == 1;
  facts.idle_timeout = milliseconds{IntAt(row, 0, 8)};
  facts.connections = static_cast<std::int32_t>(IntAt(row, 0, 9));
  facts.connections_max = static_cast<std::int32_t>(IntAt(row, 0, 10));
  // The server looked at its clock somewhere between the two looks at ours.
  const Timestamp theirs{microseconds{IntAt(row, 0, 4)}};
  if (theirs < before) facts.clock_difference = std::chrono::duration_cast<milliseconds>(theirs - before);
  if (theirs > after) facts.clock_difference = std::chrono::duration_cast<milliseconds>(theirs - after);
  return Ok();
}

Status ReadLog(PGconn* connection, const std::string& schema, DoctorFacts& facts) {
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult row,
      Execute(
          connection,
          fmt::format("select (select seqcache from pg_sequence "
                      "         where seqrelid = pg_get_serial_sequence('{0}.outbox', 'seq')::regclass), "
                      "(select count(*) from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid "
                      "    and a.attnum = d.adnum "
                      "  where d.adrelid = '{0}.outbox'::regclass and a.attname = 'seq' "
                      "    and pg_get_expr(d.adbin, d.adrelid) ~ 'pg_current_xact_id.*THEN nextval'), "
                      // Partitions are named by their day; see ensure_partitions().
                      "(select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid "
                      "  where i.inhparent = '{0}.outbox'::regclass "
                      "    and c.relname > 'outbox_p' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD')), "
                      // Pages, not rows: the relay's and the operator's rights both suffice, and it is never slow.
                      "(select (pg_relation_size('{0}.outbox_default') > 0)::int)",
                      schema)));
  facts.sequence_cache = IntAt(row, 0, 0);
  facts.xid_before_seq = IntAt(row, 0, 1) == 1;
  facts.days_ahead = static_cast<std::int32_t>(IntAt(row, 0, 2));
  facts.default_partition_used = IntAt(row, 0, 3) == 1;
  return Ok();
}

Status ReadPositions(PGconn* connection, const std::string& schema, DoctorFacts& facts) {
  if (facts.in_recovery) return Ok();  // a standby takes the positions of its primary
  const std::vector<TextParameter> parameters = {schema + ".check_server(text)"};
  SEALANE_ASSIGN_OR_RETURN(const PgResult may,
                           Execute(connection, "select has_function_privilege($1, 'execute')", parameters));
  if (TextAt(may, 0, 0) != "t") return Ok();
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult row,
      Execute(connection, fmt::format("select min(c.home), min(c.here), bool_or(c.ahead), bool_or(c.behind)"
                                      "  from {0}.route r, {0}.check_server(r.name) c",
                                      schema)));
  facts.home = TextAt(row, 0, 0);
  facts.here = TextAt(row, 0, 1);
  facts.positions_ahead = TextAt(row, 0, 2) == "t";
  facts.sequence_behind = TextAt(row, 0, 3) == "t";
  return Ok();
}

struct Right {
  const char* table;
  const char* kind;
};

Status ReadRights(PGconn* connection, const std::string& schema, DoctorFacts& facts) {
  constexpr std::array<Right, 16> kNeeded = {{{"outbox", "select"},
                                              {"route", "select"},
                                              {"lane_state", "select"},
                                              {"tenant_rule", "select"},
                                              {"relay_member", "select"},
                                              {"relay_member", "insert"},
                                              {"relay_member", "update"},
                                              {"relay_member", "delete"},
                                              {"parked", "select"},
                                              {"parked", "insert"},
                                              {"parked", "update"},
                                              {"parked", "delete"},
                                              {"settlement", "select"},
                                              {"settlement", "insert"},
                                              {"settlement", "delete"},
                                              {"lane_state", "update"}}};
  for (const Right& right : kNeeded) {
    // The relay may change some columns of lane_state only.
    const std::string_view function =
        std::string_view(right.kind) == "delete" ? "has_table_privilege" : "has_any_column_privilege";
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult row,
        Execute(connection, fmt::format("select {}('{}.{}', '{}')::int", function, schema, right.table, right.kind)));
    if (IntAt(row, 0, 0) == 0) facts.missing_rights.push_back(fmt::format("{} on {}", right.kind, right.table));
  }
  return Ok();
}

Status ReadUser(PGconn* connection, const std::string& schema, DoctorFacts& facts) {
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult row,
      Execute(connection,
              fmt::format("select rolsuper::int, pg_has_role(current_user, c.relowner, 'member')::int "
                          "from pg_roles, pg_class c where rolname = current_user and c.oid = '{}.outbox'::regclass",
                          schema)));
  facts.is_superuser = IntAt(row, 0, 0) == 1;
  facts.owns_tables = IntAt(row, 0, 1) == 1;
  return Ok();
}

// Found by what it may do: a user whose rights are missing cannot read the prefix in the table of settings. An
// operator may have granted the same to a login of a similar name, which is not the role that the migrations made.
Status ReadRelayRole(PGconn* connection, const std::string& schema, DoctorFacts& facts) {
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult row,
      Execute(connection,
              fmt::format("select quote_ident(r.rolname) from pg_class c, aclexplode(c.relacl) a, pg_roles r "
                          "where c.oid = '{}.relay_member'::regclass and a.privilege_type = 'INSERT' "
                          "and r.oid = a.grantee and r.rolname like '%\\_relay' "
                          "order by r.rolcanlogin, r.oid limit 1",
                          schema)));
  facts.relay_role = PQntuples(row.get()) > 0 ? std::string(TextAt(row, 0, 0)) : facts.schema + "_relay";
  return Ok();
}

// Only a user who may relay sees who else does.
Status ReadRelays(PGconn* connection, const std::string& schema, DoctorFacts& facts) {
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult row,
      Execute(connection,
              fmt::format("select exists (select seq from {0}.outbox)::int, (select count(distinct owner) "
                          "from {0}.relay_member where expires_at > clock_timestamp())",
                          schema)));
  facts.has_events = IntAt(row, 0, 0) == 1;
  facts.live_relays = static_cast<std::int32_t>(IntAt(row, 0, 1));
  return Ok();
}

Status ReadTransactions(PGconn* connection, seconds limit, DoctorFacts& facts) {
  const std::array<TextParameter, 1> parameters = {fmt::format("{}", limit.count())};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult open,
      Execute(connection,
              "select count(*) over (), extract(epoch from clock_timestamp() - xact_start)::bigint, "
              "pid || ' (' || coalesce(nullif(application_name, ''), 'unnamed') || ')' from pg_stat_activity "
              "where datname = current_database() and pid <> pg_backend_pid() "
              "and xact_start < clock_timestamp() - make_interval(secs => $1::double precision) "
              "order by xact_start limit 1",
              parameters));
  if (PQntuples(open.get()) > 0) {
    facts.long_transactions = static_cast<std::int32_t>(IntAt(open, 0, 0));
    facts.longest_transaction = seconds{IntAt(open, 0, 1)};
    facts.longest_by = TextAt(open, 0, 2);
  }
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult prepared,
      Execute(connection,
              "select count(*), coalesce(max(extract(epoch from clock_timestamp() - prepared)), 0)::bigint "
              "from pg_prepared_xacts where database = current_database()"));
  facts.prepared_transactions = static_cast<std::int32_t>(IntAt(prepared, 0, 0));
  facts.oldest_prepared = seconds{IntAt(prepared, 0, 1)};
  return Ok();
}

void ReadTransport(PGconn* connection, DoctorFacts& facts) {
  PQconninfoOption* const options = PQconninfo(connection);
  std::string names;
  for (const PQconninfoOption* option = options; option != nullptr && option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    const std::string_view keyword = option->keyword;
    if (keyword == "host") names = option->val;
    if (keyword == "hostaddr") facts.hosts = option->val;
    if (keyword == "sslmode") facts.sslmode = option->val;
  }
  if (facts.hosts.empty()) facts.hosts = std::move(names);
  PQconninfoFree(options);
}

}  // namespace

Result<DoctorFacts> Examine(const Options& options, seconds long_transaction, Clock& clock) {
  SEALANE_ASSIGN_OR_RETURN(const std::string schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(const Connection connection, Connection::Open(options));
  DoctorFacts facts;
  facts.schema = options.schema;
  ReadTransport(connection.get(), facts);
  SEALANE_RETURN_IF_ERROR(ReadServer(connection.get(), clock, facts));
  SEALANE_RETURN_IF_ERROR(ReadPositions(connection.get(), schema, facts));
  SEALANE_RETURN_IF_ERROR(ReadLog(connection.get(), schema, facts));
  SEALANE_RETURN_IF_ERROR(ReadUser(connection.get(), schema, facts));
  SEALANE_RETURN_IF_ERROR(ReadRelayRole(connection.get(), schema, facts));
  SEALANE_RETURN_IF_ERROR(ReadRights(connection.get(), schema, facts));
  if (facts.missing_rights.empty()) SEALANE_RETURN_IF_ERROR(ReadRelays(connection.get(), schema, facts));
  SEALANE_RETURN_IF_ERROR(ReadTransactions(connection.get(), long_transaction, facts));
  return facts;
}

}  // namespace sealane::postgres
