#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/time_text.hpp"
#include "ops/operator_action.hpp"
#include "postgres/connection.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "postgres/row_text.hpp"
#include "postgres/session_settings.hpp"
#include "postgres/short_transaction.hpp"

namespace sealane::postgres {
namespace {

class PostgresRouteDesk final : public RouteDesk {
 public:
  PostgresRouteDesk(Connection connection, std::string quoted_schema)
      : connection_(std::move(connection)), schema_(std::move(quoted_schema)) {}

  Result<RouteReport> Look() override {
    RouteReport report;
    SEALANE_RETURN_IF_ERROR(ReadRoutes(report));
    SEALANE_RETURN_IF_ERROR(CountPending(report));
    SEALANE_RETURN_IF_ERROR(ReadTenants(report));
    SEALANE_RETURN_IF_ERROR(ReadRelays(report));
    return report;
  }

  Status Add(const std::string& route, const RouteStart& start, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(CheckRouteName(route));
    TextParameter from;
    if (start.kind == RouteStart::Kind::kNow) from = "infinity";  // later than everything that was appended
    if (start.kind == RouteStart::Kind::kTime) from = ToRfc3339(start.at);
    const std::vector<TextParameter> parameters = {route, from, why.actor, why.reason};
    SEALANE_ASSIGN_OR_RETURN(const PgResult added,
                             Change("select {s}.add_route_from($1, $2::timestamptz, $3, $4)", parameters));
    if (TextAt(added, 0, 0) != "t") return RouteExists(route);
    return Ok();
  }

  Status Remove(const std::string& route, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    const std::vector<TextParameter> parameters = {route, why.actor, why.reason};
    SEALANE_ASSIGN_OR_RETURN(const PgResult removed, Change("select {s}.remove_route($1, $2, $3)", parameters));
    if (IsNull(removed, 0, 0)) return UnknownRoute(route);
    if (TextAt(removed, 0, 0) != "t") return RouteBusy(route);
    return Ok();
  }

  Result<RebaseReport> PlanRebase() override {
    SEALANE_ASSIGN_OR_RETURN(RebaseReport report, CompareServers());
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult counted,
        Change("select r.name, count(o.seq) filter (where r.name = any (o.done)),"
               "       count(o.seq) filter (where r.name <> all (o.done))"
               "  from {s}.route r left join (select seq, {s}.done_on(seq, xid, lane, tenant, appended_at) as done"
               "                                from {s}.outbox) o on true"
               " group by r.name order by r.name collate \"C\"",
               {}));
    ReadCounts(counted, report);
    return report;
  }

  Result<RebaseReport> Rebase(const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_ASSIGN_OR_RETURN(RebaseReport report, CompareServers());
    const std::vector<TextParameter> parameters = {why.actor, why.reason};
    SEALANE_ASSIGN_OR_RETURN(const PgResult counted,
                             Change("select route, published, pending from {s}.rebase_log($1, $2)", parameters));
    ReadCounts(counted, report);
    return report;
  }

 private:
  // A statement that may take long, in a transaction of its own.
  Result<PgResult> Change(std::string_view sql, std::span<const TextParameter> parameters) {
    ShortTransaction transaction(connection_.get());
    SEALANE_RETURN_IF_ERROR(transaction.Begin());
    SEALANE_RETURN_IF_ERROR(Execute(connection_.get(), "set local statement_timeout = 0"));
    // The plans of small statements would make one over the whole log take hours.
    SEALANE_RETURN_IF_ERROR(Execute(connection_.get(), "set local enable_seqscan = on"));
    SEALANE_ASSIGN_OR_RETURN(
        PgResult result,
        Execute(connection_.get(), fmt::format(fmt::runtime(sql), fmt::arg("s", schema_)), parameters));
    SEALANE_RETURN_IF_ERROR(transaction.Commit());
    return result;
  }

  Result<RebaseReport> CompareServers() {
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Change("select min(c.home), min(c.here), bool_or(c.home <> c.here or c.ahead or c.behind)"
               "  from {s}.route r, {s}.check_server(r.name) c",
               {}));
    RebaseReport report;
    report.home = TextAt(result, 0, 0);
    report.here = TextAt(result, 0, 1);
    report.needed = TextAt(result, 0, 2) != "f";
    return report;
  }

  static void ReadCounts(const PgResult& counted, RebaseReport& report) {
    for (int row = 0; row < PQntuples(counted.get()); ++row) {
      report.routes.push_back({.route = std::string(TextAt(counted, row, 0)),
                               .published = IntAt(counted, row, 1),
                               .pending = IntAt(counted, row, 2)});
    }
  }

  Result<PgResult> Ask(std::string_view sql, std::int64_t limit) {
    const std::array<TextParameter, 1> parameters = {std::to_string(limit)};
    return Execute(connection_.get(), fmt::format(fmt::runtime(sql), fmt::arg("s", schema_)), parameters);
  }

  static RouteSummary* Find(RouteReport& report, const std::string& name) {
    const auto found = std::ranges::find(report.routes, name, &RouteSummary::route);
    return found == report.routes.end() ? nullptr : &*found;
  }

  Status ReadRoutes(RouteReport& report) {
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Ask("select (extract(epoch from clock_timestamp()) * 1000000)::bigint,"
            "  (select case when is_called then last_value else 0 end from {s}.outbox_seq_seq),"
            "  r.name, r.paused, l.lanes, l.leased,"
            "  (select count(*) from {s}.relay_member m where m.route = r.name and m.expires_at > clock_timestamp()),"
            "  p.seen, p.waiting, p.failed, p.dead"
            " from {s}.route r"
            " cross join lateral (select count(*) as lanes,"
            "    count(*) filter (where m.expires_at > clock_timestamp()) as leased"
            "   from {s}.lane_state s left join {s}.relay_member m using (route, owner, lease)"
            "  where s.route = r.name) l"
            " cross join lateral (select count(*) as seen, count(*) filter (where state = 'WAITING') as waiting,"
            "    count(*) filter (where state = 'FAILED') as failed, count(*) filter (where state = 'DEAD') as dead"
            "   from (select state from {s}.parked where route = r.name and state <> 'DISCARDED' and not skipped"
            "          union all select 'WAITING' from {s}.delayed where route = r.name limit $1::int8) a) p"
            " order by r.name collate \"C\"",
            kAsideMax));
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      FieldReader field(result, row);
      report.at = field.Time();
      report.seq_high = field.Int();
      RouteSummary& route = report.routes.emplace_back();
      route.route = field.Text();
      route.paused = field.Truth();
      route.lanes = static_cast<std::int32_t>(field.Int());
      route.leased = static_cast<std::int32_t>(field.Int());
      route.live_relays = static_cast<std::int32_t>(field.Int());
      route.aside_exact = field.Int() < kAsideMax;
      route.waiting = field.Int();
      route.failed = field.Int();
      route.dead = field.Int();
    }
    return Ok();
  }

  // Lanes that stand at the same position are one flow, and so are tenants apart that do. What a flow has not come to
  // is what its snapshot does not show: transactions that were open then, and those that began later. In the middle
  // of a long window it is what the window does not show, and of the window what has a higher number than was
  // reached. Each of the three is found through an index and read up to a bound of its own, so that what was
  // published meanwhile, however much that is, stands in front of nothing.
  Status CountPending(RouteReport& report) {
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Ask("with flow as ("
            "  select l.route, l.lane, l.cursor_snapshot::text as cursor, l.window_snapshot::text as until,"
            "         l.window_seq as seq, l.window_high as high, l.cursor_high as mark, null::text[] as tenants,"
            "         array(select t from jsonb_array_elements(l.apart) f,"
            "               jsonb_array_elements_text(f -> 'tenants') t order by 1) as others"
            "    from {s}.lane_state l"
            "  union all"
            "  select l.route, l.lane, f ->> 'cursor', f ->> 'window', coalesce((f ->> 'seq')::int8, 0),"
            "         coalesce((f ->> 'window_high')::int8, 0), coalesce((f ->> 'cursor_high')::int8, 0),"
            "         array(select jsonb_array_elements_text(f -> 'tenants') order by 1), '{{}}'"
            "    from {s}.lane_state l, jsonb_array_elements(l.apart) f),"
            " grouped as ("
            "  select route, cursor::pg_snapshot as cursor, case when seq > 0 then until::pg_snapshot end as until, "
            "seq,"
            "         high, mark, coalesce(case when seq > 0 then until end, cursor)::pg_snapshot as edge, tenants, "
            "others,"
            "         array_agg(lane) as lanes, greatest($1::int8 / count(*) over (partition by route), 500) as most"
            "    from flow group by route, flow.cursor, flow.until, seq, high, mark, tenants, others),"
            " moved as (select s.system_identifier <> c.system_identifier as yes"
            "             from {s}.log_server s, pg_control_system() c)"
            " select g.route, sum(c.pending), bool_and(c.opened < g.most and c.later < g.most"
            "                                         and (g.until is null or g.seq + g.most >= g.high)),"
            "  (extract(epoch from clock_timestamp() - min(c.oldest)) * 1000000)::bigint"
            " from grouped g cross join lateral ("
            "  select count(*) filter (where part = 1) as opened, count(*) filter (where part = 2) as later,"
            "         count(*) filter (where waits) as pending,"
            "         min(appended_at) filter (where waits and not exists (select 1 from {s}.tenant_rule t"
            "           where t.route = g.route and t.tenant = p.tenant and (t.paused or t.rate_max > 0))) as oldest"
            "    from (select part, appended_at, tenant,"
            "                 lane = any (g.lanes) and (g.tenants is null or tenant = any (g.tenants))"
            "                 and tenant <> all (g.others)"
            "                 and not exists (select 1 from {s}.parked a where a.route = g.route and a.seq = r.seq) "
            "as waits"
            "            from ((select 1 as part, o.appended_at, o.lane, o.tenant, o.seq from {s}.outbox o"
            "                    where o.xid = any (array(select pg_snapshot_xip(g.edge))) limit g.most)"
            "                  union all"
            "                  (select 2, o.appended_at, o.lane, o.tenant, o.seq from {s}.outbox o"
            "                    where o.xid >= pg_snapshot_xmax(g.edge) order by o.xid limit g.most)"
            "                  union all"
            "                  (select 3, o.appended_at, o.lane, o.tenant, o.seq from {s}.outbox o"
            "                    where g.until is not null and o.seq > g.seq and o.seq <= least(g.seq + g.most, "
            "g.high)"
            "                      and pg_visible_in_snapshot(o.xid, g.until)"
            "                      and not pg_visible_in_snapshot(o.xid, g.cursor))"
            "                  union all"
            // Written after a restore into another cluster: by its number it is new, whatever its transaction says.
            "                  (select 4, o.appended_at, o.lane, o.tenant, o.seq from {s}.outbox o"
            "                    where (select yes from moved) and o.seq > greatest(g.mark, g.seq)"
            "                      and pg_visible_in_snapshot(o.xid, g.edge) limit g.most)) r) p) c"
            " group by g.route",
            kPendingMax));
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      FieldReader field(result, row);
      RouteSummary* route = Find(report, field.Text());
      if (route == nullptr) continue;  // made since
      route->pending = field.Int();
      route->pending_exact = field.Truth();
      if (const auto waited = field.OptionalInt()) {
        route->oldest_pending = std::chrono::microseconds{std::max<std::int64_t>(*waited, 0)};
      }
    }
    return Ok();
  }

  Status ReadTenants(RouteReport& report) {
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Ask("select r.name, t.tenant, t.paused, t.rate_max, t.weight from {s}.route r cross join lateral"
            "  (select * from {s}.tenant_rule where route = r.name order by tenant collate \"C\" limit $1::int8) t"
            " order by r.name collate \"C\", t.tenant collate \"C\"",
            kTenantsMax));
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      FieldReader field(result, row);
      RouteSummary* route = Find(report, field.Text());
      if (route == nullptr) continue;
      TenantRule& rule = route->tenants.emplace_back();
      rule.tenant = field.Text();
      rule.paused = field.Truth();
      rule.rate_max = field.Int();
      rule.weight = static_cast<std::int32_t>(field.Int());
    }
    return Ok();
  }

  Status ReadRelays(RouteReport& report) {
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Ask("select m.route, m.owner, (extract(epoch from m.started_at) * 1000000)::bigint,"
            "  (extract(epoch from m.expires_at) * 1000000)::bigint, m.expires_at > clock_timestamp(),"
            "  (select count(*) from {s}.lane_state l where l.route = m.route and l.owner = m.owner"
            "    and l.lease = m.lease and m.expires_at > clock_timestamp())"
            " from {s}.relay_member m order by m.route collate \"C\", m.owner collate \"C\" limit $1::int8",
            kRelaysMax));
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      FieldReader field(result, row);
      RelayMember& relay = report.relays.emplace_back();
      relay.route = field.Text();
      relay.owner = field.Text();
      relay.started_at = field.Time();
      relay.expires_at = field.Time();
      relay.live = field.Truth();
      relay.lanes = static_cast<std::int32_t>(field.Int());
    }
    return Ok();
  }

  Connection connection_;
  std::string schema_;
};

}  // namespace

Result<std::unique_ptr<RouteDesk>> OpenRouteDesk(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(std::string quoted_schema, QuoteSchema(options.schema));
  SEALANE_ASSIGN_OR_RETURN(Connection connection, Connection::Open(options));
  SEALANE_RETURN_IF_ERROR(RequireCurrentSchema(connection.get(), quoted_schema, options));
  // The plans must not depend on statistics, which a fresh partition has none of.
  const std::array<Setting, 2> settings = {Setting{"enable_seqscan", "off"},
                                           {"max_parallel_workers_per_gather", "0"}};
  SEALANE_RETURN_IF_ERROR(AddSettings(connection.get(), settings));
  return std::unique_ptr<RouteDesk>(
      std::make_unique<PostgresRouteDesk>(std::move(connection), std::move(quoted_schema)));
}

}  // namespace sealane::postgres
