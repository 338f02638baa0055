#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sqlite/audit.hpp"
#include "sqlite/migrated_connection.hpp"
#include "sqlite/sqlite_store.hpp"
#include "sqlite/statement.hpp"
#include "sqlite/write_transaction.hpp"

namespace sealane::sqlite {
namespace {

/// Looks at everything in one read transaction, so that the figures belong together.
class SqliteRouteDesk final : public RouteDesk {
 public:
  explicit SqliteRouteDesk(Connection connection) : connection_(std::move(connection)) {}

  Result<RouteReport> Look() override {
    SEALANE_RETURN_IF_ERROR(connection_.RequireCurrent());
    SEALANE_RETURN_IF_ERROR(Execute(connection_.get(), "BEGIN"));
    Result<RouteReport> report = ReadAll();
    const Status ended = Execute(connection_.get(), "ROLLBACK");
    if (report && !ended) return ended.error();
    return report;
  }

  Status Add(const std::string& route, const RouteStart& start, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(CheckRouteName(route));
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
    SEALANE_ASSIGN_OR_RETURN(const bool exists, Exists("SELECT 1 FROM sealane_route WHERE name = ?", route));
    if (exists) return RouteExists(route);
    SEALANE_RETURN_IF_ERROR(Run("INSERT INTO sealane_route (name) VALUES (?)", route));
    // Numbers are given in the order of commits, so a place in time is a place in the log.
    SEALANE_ASSIGN_OR_RETURN(
        Statement insert,
        Statement::Prepare(connection_.get(),
                           "INSERT INTO sealane_cursor (route, published_seq) VALUES (?1, CASE ?2 WHEN 0 THEN 0 ELSE"
                           " coalesce((SELECT min(seq) - 1 FROM sealane_outbox WHERE ?2 = 2 AND appended_at >= ?3),"
                           " (SELECT seq FROM sqlite_sequence WHERE name = 'sealane_outbox'), 0) END)"));
    insert.Bind(route).Bind(static_cast<std::int64_t>(start.kind)).Bind(start.at.time_since_epoch().count());
    SEALANE_RETURN_IF_ERROR(insert.Run());
    SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "route.add", route, why));
    return transaction.Commit();
  }

  Status Remove(const std::string& route, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(connection_.get()));
    SEALANE_ASSIGN_OR_RETURN(const bool exists, Exists("SELECT 1 FROM sealane_route WHERE name = ?", route));
    if (!exists) return UnknownRoute(route);
    SEALANE_ASSIGN_OR_RETURN(
        const bool busy,
        Exists(fmt::format("SELECT 1 FROM sealane_relay_member WHERE route = ? AND expires_at > {}", kNowSql),
               route));
    if (busy) return RouteBusy(route);
    // Foreign keys are not enforced on every connection.
    for (const char* table : {"sealane_relay_member", "sealane_settlement", "sealane_parked", "sealane_rerouted",
                              "sealane_tenant_rule", "sealane_cursor"}) {
      SEALANE_RETURN_IF_ERROR(Run(fmt::format("DELETE FROM {} WHERE route = ?", table), route));
    }
    SEALANE_RETURN_IF_ERROR(Run("DELETE FROM sealane_route WHERE name = ?", route));
    SEALANE_RETURN_IF_ERROR(NoteAudit(connection_.get(), "route.remove", route, why));
    return transaction.Commit();
  }

  // A position is a number in the same file, so it always fits.
  Result<RebaseReport> PlanRebase() override {
    SEALANE_ASSIGN_OR_RETURN(const RouteReport report, Look());
    RebaseReport plan{.needed = false, .home = "this file", .here = "this file"};
    for (const RouteSummary& route : report.routes) {
      plan.routes.push_back(
          {.route = route.route, .published = report.seq_high - route.pending, .pending = route.pending});
    }
    return plan;
  }
  Result<RebaseReport> Rebase(const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    return PlanRebase();
  }

 private:
  Result<bool> Exists(const std::string& sql, const std::string& route) {
    SEALANE_ASSIGN_OR_RETURN(Statement select, Statement::Prepare(connection_.get(), sql));
    select.Bind(route);
    return select.Step();
  }
  Status Run(const std::string& sql, const std::string& route) {
    SEALANE_ASSIGN_OR_RETURN(Statement statement, Statement::Prepare(connection_.get(), sql));
    statement.Bind(route);
    return statement.Run();
  }
  Result<RouteReport> ReadAll() {
    RouteReport report;
    SEALANE_RETURN_IF_ERROR(ReadRoutes(report));
    for (RouteSummary& route : report.routes) {
      SEALANE_RETURN_IF_ERROR(CountPending(report.at, route));
      SEALANE_RETURN_IF_ERROR(CountAside(route));
      SEALANE_RETURN_IF_ERROR(ReadTenants(route));
    }
    SEALANE_RETURN_IF_ERROR(ReadRelays(report));
    return report;
  }

  Status ReadRoutes(RouteReport& report) {
    SEALANE_ASSIGN_OR_RETURN(
        Statement select,
        Statement::Prepare(
            connection_.get(),
            fmt::format("SELECT {0}, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'sealane_outbox'), 0),"
                        " r.name, r.paused, coalesce(c.expires_at > {0}, 0),"
                        " (SELECT count(*) FROM sealane_relay_member m WHERE m.route = r.name AND m.expires_at > {0})"
                        " FROM sealane_route r LEFT JOIN sealane_cursor c ON c.route = r.name ORDER BY r.name",
                        kNowSql)));
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) return Ok();
      RowReader row(select);
      report.at = row.Time();
      report.seq_high = row.Int();
      RouteSummary& route = report.routes.emplace_back();
      route.route = row.Text();
      route.paused = row.Int() != 0;
      route.lanes = 1;
      route.leased = static_cast<std::int32_t>(row.Int());
      route.live_relays = static_cast<std::int32_t>(row.Int());
    }
  }

  // From the position that is furthest back. Tenants that run apart have positions of their own.
  Status CountPending(Timestamp now, RouteSummary& route) {
    SEALANE_ASSIGN_OR_RETURN(
        Statement select,
        Statement::Prepare(
            connection_.get(),
            "WITH flow AS (SELECT t.value AS tenant, json_extract(f.value, '$.seq') AS seq FROM sealane_cursor c,"
            "  json_each(c.apart) f, json_each(f.value, '$.tenants') t WHERE c.route = ?1),"
            " start AS (SELECT published_seq AS main, min(published_seq, coalesce((SELECT min(seq) FROM flow),"
            "  published_seq)) AS lowest FROM sealane_cursor WHERE route = ?1)"
            " SELECT count(*), count(CASE WHEN waits THEN 1 END), min(CASE WHEN waits AND NOT held THEN appended_at "
            "END)"
            " FROM (SELECT o.appended_at, o.seq > coalesce((SELECT f.seq FROM flow f WHERE f.tenant = o.tenant),"
            "   (SELECT main FROM start)) AND NOT EXISTS (SELECT 1 FROM sealane_parked p WHERE p.route = ?1"
            "   AND p.seq = o.seq) AS waits, EXISTS (SELECT 1 FROM sealane_tenant_rule t WHERE t.route = ?1"
            "   AND t.tenant = o.tenant AND (t.paused OR t.rate_max > 0)) AS held"
            "   FROM sealane_outbox o WHERE o.seq > (SELECT lowest FROM start) ORDER BY o.seq LIMIT ?2)"));
    select.Bind(route.route).Bind(kPendingMax);
    SEALANE_RETURN_IF_ERROR(select.Step());
    RowReader row(select);
    route.pending_exact = row.Int() < kPendingMax;
    route.pending = row.Int();
    if (const auto oldest = row.OptionalTime()) {
      route.oldest_pending = std::max(now - *oldest, std::chrono::microseconds{0});
    }
    return Ok();
  }

  Status CountAside(RouteSummary& route) {
    SEALANE_ASSIGN_OR_RETURN(
        Statement select,
        Statement::Prepare(connection_.get(),
                           "SELECT count(*), count(CASE WHEN state = 'WAITING' THEN 1 END),"
                           " count(CASE WHEN state = 'FAILED' THEN 1 END), count(CASE WHEN state = 'DEAD' THEN 1 END)"
                           " FROM (SELECT state FROM sealane_parked WHERE route = ?1 AND state <> 'DISCARDED'"
                           " AND skipped = 0 UNION ALL SELECT 'WAITING' FROM sealane_delayed WHERE route = ?1"
                           " LIMIT ?2)"));
    select.Bind(route.route).Bind(kAsideMax);
    SEALANE_RETURN_IF_ERROR(select.Step());
    RowReader row(select);
    route.aside_exact = row.Int() < kAsideMax;
    route.waiting = row.Int();
    route.failed = row.Int();
    route.dead = row.Int();
    return Ok();
  }

  Status ReadTenants(RouteSummary& route) {
    SEALANE_ASSIGN_OR_RETURN(Statement select,
                             Statement::Prepare(connection_.get(),
                                                "SELECT tenant, paused, rate_max, weight FROM sealane_tenant_rule"
                                                " WHERE route = ?1 ORDER BY tenant LIMIT ?2"));
    select.Bind(route.route).Bind(kTenantsMax);
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) return Ok();
      RowReader row(select);
      TenantRule& rule = route.tenants.emplace_back();
      rule.tenant = row.Text();
      rule.paused = row.Int() != 0;
      rule.rate_max = row.Int();
      rule.weight = static_cast<std::int32_t>(row.Int());
    }
  }

  Status ReadRelays(RouteReport& report) {
    SEALANE_ASSIGN_OR_RETURN(
        Statement select,
        Statement::Prepare(connection_.get(),
                           fmt::format("SELECT m.route, m.owner, m.started_at, m.expires_at, m.expires_at > {0},"
                                       " (SELECT count(*) FROM sealane_cursor c WHERE c.route = m.route"
                                       "   AND c.owner = m.owner AND c.expires_at > {0})"
                                       " FROM sealane_relay_member m ORDER BY m.route, m.owner LIMIT ?1",
                                       kNowSql)));
    select.Bind(kRelaysMax);
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) return Ok();
      RowReader row(select);
      RelayMember& relay = report.relays.emplace_back();
      relay.route = row.Text();
      relay.owner = row.Text();
      relay.started_at = row.Time();
      relay.expires_at = row.Time();
      relay.live = row.Int() != 0;
      relay.lanes = static_cast<std::int32_t>(row.Int());
    }
  }

  Connection connection_;
};

}  // namespace

Result<std::unique_ptr<RouteDesk>> OpenRouteDesk(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, OpenMigrated(options));
  return std::unique_ptr<RouteDesk>(std::make_unique<SqliteRouteDesk>(std::move(connection)));
}

}  // namespace sealane::sqlite
