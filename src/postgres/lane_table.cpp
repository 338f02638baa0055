#include "postgres/lane_table.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "postgres/connection.hpp"
#include "postgres/snapshot.hpp"
#include "postgres/sql_text.hpp"

namespace sealane::postgres {
namespace {

using nlohmann::json;

std::string Milliseconds(std::chrono::milliseconds duration) {
  return fmt::format("{} milliseconds", duration.count());
}

std::string LaneArray(std::span<const LaneLease> leases) {
  return NumberArray(leases, &LaneLease::lane);
}
std::string EpochArray(std::span<const LaneLease> leases) {
  return NumberArray(leases, &LaneLease::epoch);
}

std::string PositionText(std::string_view snapshot, std::int64_t low, std::int64_t high, std::int64_t server) {
  return fmt::format("{}/{}/{}/{}", snapshot, low, high, server);
}

// Whether everything here was read in one life of the server, the one that `server` names.
bool AllOf(std::int64_t server, const Snapshot& cursor, const std::optional<Snapshot>& window) {
  return cursor.server == server && (!window || window->server == server);
}

json PositionJson(const ApartFlow& flow, const Snapshot& cursor, const std::optional<Snapshot>& window) {
  json made = {{"tenants", flow.tenants},
               {"cursor", cursor.Server()},
               {"cursor_low", cursor.low},
               {"cursor_high", cursor.high},
               {"seq", flow.position.seq}};
  if (window) {
    made["window"] = window->Server();
    made["window_low"] = window->low;
    made["window_high"] = window->high;
  }
  return made;
}

Result<std::optional<Snapshot>> OptionalSnapshot(const std::string& text) {
  if (text.empty()) return std::optional<Snapshot>();
  SEALANE_ASSIGN_OR_RETURN(Snapshot snapshot, Snapshot::Parse(text));
  return std::optional<Snapshot>(std::move(snapshot));
}

Error BadApart() {
  return Error(ErrorKind::kCorrupt, "bad_position", "lane_state.apart is not what a relay writes")
      .WithHint("somebody changed it by hand; restore it from a backup");
}

Result<std::vector<ApartFlow>> ParseApart(std::string_view text, std::int64_t server) {
  std::vector<ApartFlow> flows;
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_array()) return BadApart();
  for (const json& one : parsed) {
    if (!one.is_object() || !one.contains("tenants") || !one.contains("cursor") || !one["tenants"].is_array() ||
        !one["cursor"].is_string()) {
      return BadApart();
    }
    ApartFlow flow;
    for (const json& tenant : one["tenants"]) {
      if (!tenant.is_string()) return BadApart();
      flow.tenants.push_back(tenant.get<std::string>());
    }
    flow.position.cursor = PositionText(one["cursor"].get<std::string>(), one.value("cursor_low", std::int64_t{0}),
                                        one.value("cursor_high", std::int64_t{0}), server);
    if (one.contains("window") && one["window"].is_string()) {
      flow.position.window = PositionText(one["window"].get<std::string>(), one.value("window_low", std::int64_t{0}),
                                          one.value("window_high", std::int64_t{0}), server);
    }
    flow.position.seq = one.value("seq", std::int64_t{0});
    flows.push_back(std::move(flow));
  }
  return flows;
}

}  // namespace

LaneTable::LaneTable(PGconn* connection, std::string quoted_schema, std::string route, std::string owner)
    : connection_(connection),
      schema_(std::move(quoted_schema)),
      route_(std::move(route)),
      owner_(std::move(owner)) {}

std::string LaneTable::Sql(const char* text) const {
  return ReplaceAll(text, "{s}", schema_);
}

Status LaneTable::EnsureRoute() {
  const std::vector<TextParameter> parameters = {route_};
  SEALANE_ASSIGN_OR_RETURN(const PgResult found,
                           Execute(connection_, Sql("select 1 from {s}.route where name = $1"), parameters));
  if (PQntuples(found.get()) > 0) return Ok();
  SEALANE_RETURN_IF_ERROR(Execute(connection_, Sql("select {s}.add_route($1)"), parameters));
  return Ok();
}

// Writes one small row. A lease that ran out, that another relay took lanes of, or that another life of the server
// gave out is not extended: a new one begins, under which no lane is held.
Result<Membership> LaneTable::Beat(std::chrono::milliseconds ttl) {
  const std::vector<TextParameter> parameters = {route_, owner_, Milliseconds(ttl)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_,
              Sql("with kept as ("
                  "  update {s}.relay_member set expires_at = clock_timestamp() + $3::interval"
                  "   where route = $1 and owner = $2 and lease is not null and expires_at > clock_timestamp()"
                  "     and joined_on = {s}.server_start() returning lease"
                  "), joined as ("
                  "  insert into {s}.relay_member (route, owner, expires_at, joined_on, lease)"
                  "  select $1, $2, clock_timestamp() + $3::interval, {s}.server_start(),"
                  "         pg_current_xact_id()::text::int8 where not exists (select from kept)"
                  "  on conflict (route, owner) do update"
                  "    set expires_at = excluded.expires_at, joined_on = excluded.joined_on, lease = excluded.lease"
                  ")"
                  "select (select count(*) from {s}.lane_state where route = $1),"
                  "  1 + (select count(*) from {s}.relay_member"
                  "        where route = $1 and owner <> $2 and expires_at > clock_timestamp()),"
                  "  exists (select from {s}.parked_change where route = $1),"
                  "  (select paused from {s}.route where name = $1),"
                  "  (select json_agg(json_build_object('tenant', tenant, 'paused', paused, 'rate_max', rate_max,"
                  "                                     'weight', weight) order by tenant)"
                  "     from {s}.tenant_rule where route = $1),"
                  "  (select json_agg(json_build_array(lane, epoch) order by lane) from {s}.lane_state"
                  "    where route = $1 and owner = $2 and lease = (select lease from kept))"),
              parameters));
  Membership membership{.lanes = static_cast<std::int32_t>(IntAt(result, 0, 0)),
                        .live_relays = static_cast<std::int32_t>(IntAt(result, 0, 1)),
                        .held = {},
                        .changes = TextAt(result, 0, 2) == "t",
                        .paused = TextAt(result, 0, 3) == "t",
                        .tenants = {}};
  if (!IsNull(result, 0, 4)) {
    for (const json& rule : json::parse(TextAt(result, 0, 4))) {
      membership.tenants.push_back({.tenant = rule["tenant"].get<std::string>(),
                                    .paused = rule["paused"].get<bool>(),
                                    .rate_max = rule["rate_max"].get<std::int64_t>(),
                                    .weight = rule["weight"].get<std::int32_t>()});
    }
  }
  if (!IsNull(result, 0, 5)) {
    for (const json& lease : json::parse(TextAt(result, 0, 5))) {
      membership.held.push_back({.lane = lease[0].get<Lane>(), .epoch = lease[1].get<std::int64_t>()});
    }
  }
  return membership;
}

// Positions are transaction numbers, and those mean something only on the server that hands them out.
Status LaneTable::CheckServer() {
  const std::vector<TextParameter> parameters = {route_};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_, Sql("select home, here, home_timeline, timeline, ahead, behind from {s}.check_server($1)"),
              parameters));
  if (PQntuples(result.get()) != 1) {
    return Error(ErrorKind::kCorrupt, "bad_position", "the row of log_server that names the outbox's server is gone")
        .WithHint("put the route's positions in order with: sealane route rebase");
  }
  if (IntAt(result, 0, 0) != IntAt(result, 0, 1)) {
    return Error(
               ErrorKind::kMisconfigured, "another_server",
               fmt::format("the positions of this outbox belong to PostgreSQL cluster {}, and this is cluster {}: it "
                           "was restored from a dump, replicated or upgraded into a new cluster",
                           IntAt(result, 0, 0), IntAt(result, 0, 1)))
        .WithHint(
            "nothing is published until they fit this server: see and then confirm what "
            "`sealane route rebase` will do");
  }
  if (TextAt(result, 0, 5) == "t") {
    return Error(
               ErrorKind::kCorrupt, "sequence_behind",
               fmt::format("the sequence {}.outbox_seq_seq stands before numbers that are published already, so new "
                           "events could not be told from them",
                           schema_))
        .WithHint("advance it beyond the highest number in use, as `sealane route rebase` says");
  }
  if (TextAt(result, 0, 4) == "t") {
    return Error(ErrorKind::kCorrupt, "position_ahead",
                 "a position of this route lies ahead of everything the server has begun: the server went back")
        .WithHint("put the positions in order with: sealane route rebase");
  }
  if (IntAt(result, 0, 2) != IntAt(result, 0, 3)) {
    SEALANE_ASSIGN_OR_RETURN(const PgResult noted, Execute(connection_, Sql("select {s}.note_timeline()")));
    if (!IsNull(noted, 0, 0)) {
      LogWarning(
          "the database goes on with a new timeline: a standby was promoted or a backup recovered. Positions "
          "are taken anew from the store; events may be published twice",
          {{"route", route_}, {"timeline_before", IntAt(noted, 0, 0)}, {"timeline", IntAt(result, 0, 3)}});
    }
  }
  return Ok();
}

// One statement, in this order:
//   self    The relay's own row is locked before those of others, so that two that claim at once cannot wait for each
//           other in a circle.
//   dead    Leases that ran out, locked. A heartbeat under way has its row locked: it is skipped and counts as alive.
//   One
//           that was committed meanwhile is seen, because a locked row is looked at anew. One that comes now waits,
//           and finds its lease ended.
//   seen    Lanes whose lease is dead or does not exist any more. A lease is never given out twice, so what is not
//   there
//           does not come back.
//   free    Locked, if still what was seen: whoever claimed one meanwhile has raised its epoch.
//   ended   Whose lanes were taken cannot extend its lease, whatever the server's clock does.
Result<std::vector<LaneGrant>> LaneTable::Claim(std::int32_t max, std::chrono::milliseconds ttl) {
  SEALANE_RETURN_IF_ERROR(CheckServer());
  const std::vector<TextParameter> parameters = {route_, owner_, Milliseconds(ttl), std::to_string(max)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_,
              Sql("with self as materialized ("
                  "  select lease, lease is not null and expires_at > clock_timestamp()"
                  "         and joined_on = {s}.server_start() as counts"
                  "    from {s}.relay_member where route = $1 and owner = $2 for update"
                  "), dead as materialized ("
                  "  select owner, lease from {s}.relay_member"
                  "   where route = $1 and owner <> $2 and lease is not null and expires_at <= clock_timestamp()"
                  "     and (select count(*) from self) >= 0"
                  "     for update skip locked"
                  "), seen as materialized ("
                  "  select l.lane, l.epoch from {s}.lane_state l"
                  "   where l.route = $1 and (select home = here from {s}.check_server($1))"
                  "     and case when l.owner = $2"
                  "              then not exists (select from self s where s.counts and s.lease = l.lease)"
                  "              else exists (select from dead d where d.owner = l.owner and d.lease = l.lease)"
                  "                   or not exists (select from {s}.relay_member m where m.route = l.route"
                  "                                     and m.owner = l.owner and m.lease = l.lease) end"
                  "), free as materialized ("
                  "  select l.lane from {s}.lane_state l join seen s on s.lane = l.lane and s.epoch = l.epoch"
                  "   where l.route = $1 order by l.lane limit $4::int for update of l skip locked"
                  "), ended as ("
                  "  update {s}.relay_member m set lease = null from dead d"
                  "   where m.route = $1 and m.owner = d.owner and exists (select from free)"
                  "), joined as ("
                  "  insert into {s}.relay_member as m (route, owner, expires_at, joined_on, lease)"
                  "  select $1, $2, clock_timestamp() + $3::interval, {s}.server_start(),"
                  "         coalesce((select lease from self where counts), pg_current_xact_id()::text::int8)"
                  "   where exists (select from free)"
                  "  on conflict (route, owner) do update"
                  "    set expires_at = case when m.lease = excluded.lease"
                  "                          then greatest(m.expires_at, excluded.expires_at)"
                  "                          else excluded.expires_at end,"
                  "        joined_on = excluded.joined_on, lease = excluded.lease"
                  "  returning lease"
                  ")"
                  "update {s}.lane_state l"
                  // A former life of the server may have given out epochs that this one knows nothing of.
                  "   set owner = $2, lease = joined.lease, claimed_on = {s}.server_start(),"
                  "       epoch = l.epoch + case when l.claimed_on = {s}.server_start() then 1 else 1000000 end"
                  "  from free, joined where l.route = $1 and l.lane = free.lane "
                  "returning l.lane, l.epoch, l.cursor_snapshot, l.cursor_low, l.cursor_high, l.window_snapshot,"
                  "  l.window_low, l.window_high, l.window_seq, l.apart, l.claimed_on"),
              parameters));
  std::vector<LaneGrant> grants;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    const std::int64_t server = IntAt(result, row, 10);
    LaneGrant grant{.lease = {.lane = static_cast<Lane>(IntAt(result, row, 0)), .epoch = IntAt(result, row, 1)},
                    .positions = {}};
    Position& main = grant.positions.main;
    main.cursor = PositionText(TextAt(result, row, 2), IntAt(result, row, 3), IntAt(result, row, 4), server);
    if (!IsNull(result, row, 5)) {
      main.window = PositionText(TextAt(result, row, 5), IntAt(result, row, 6), IntAt(result, row, 7), server);
      main.seq = IntAt(result, row, 8);
    }
    if (!IsNull(result, row, 9)) {
      SEALANE_ASSIGN_OR_RETURN(grant.positions.apart, ParseApart(TextAt(result, row, 9), server));
    }
    grants.push_back(std::move(grant));
  }
  std::sort(grants.begin(), grants.end(),
            [](const LaneGrant& a, const LaneGrant& b) { return a.lease.lane < b.lease.lane; });
  return grants;
}

Status LaneTable::Release(std::span<const LaneLease> leases) {
  const std::vector<TextParameter> parameters = {route_, owner_, LaneArray(leases), EpochArray(leases)};
  SEALANE_RETURN_IF_ERROR(Execute(
      connection_,
      Sql("with mine as materialized ("
          "  select l.lane from {s}.lane_state l"
          "    join unnest($3::smallint[], $4::int8[]) as g(lane, epoch) on g.lane = l.lane and g.epoch = l.epoch"
          "   where l.route = $1 and l.owner = $2 order by l.lane for update of l"
          ")"
          "update {s}.lane_state l set owner = null, lease = null from mine"
          " where l.route = $1 and l.lane = mine.lane"),
      parameters));
  return Ok();
}

Status LaneTable::Leave() {
  const std::vector<TextParameter> parameters = {route_, owner_};
  SEALANE_RETURN_IF_ERROR(
      Execute(connection_,
              Sql("with mine as materialized ("
                  "  select lane from {s}.lane_state where route = $1 and owner = $2 order by lane for update"
                  "), freed as ("
                  "  update {s}.lane_state l set owner = null, lease = null from mine"
                  "   where l.route = $1 and l.lane = mine.lane"
                  ")"
                  "delete from {s}.relay_member where route = $1 and owner = $2"),
              parameters));
  return Ok();
}

Result<bool> LaneTable::OthersDone(std::span<const LaneLease> mine, const Horizon& horizon) {
  // On a server that the positions do not fit, they say nothing.
  SEALANE_RETURN_IF_ERROR(CheckServer());
  SEALANE_ASSIGN_OR_RETURN(const Snapshot until, Snapshot::Parse(horizon.cursor));
  const std::vector<TextParameter> parameters = {route_, LaneArray(mine), until.Server(),
                                                 std::to_string(until.server)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_,
              Sql("with other as materialized ("
                  "  select l.* from {s}.lane_state l where l.route = $1 and l.lane <> all ($2::smallint[])"
                  "), first as ("
                  "  select min(pg_snapshot_xmin(s)::text::int8)::text::xid8 as xid from ("
                  "    select cursor_snapshot as s from other union all"
                  "    select (f ->> 'cursor')::pg_snapshot from other, jsonb_array_elements(apart) as f) p"
                  ")"
                  "select {s}.server_start() = $4::int8 and not exists ("
                  "  select from {s}.parked p join other l on l.lane = p.lane"
                  "   where p.route = $1 and p.waits_for is not null and p.state = 'WAITING') and not exists ("
                  "  select from {s}.delayed d join other l on l.lane = d.lane"
                  "   where d.route = $1 and d.due_at <= statement_timestamp()) and not exists ("
                  "  select from {s}.outbox o join other l on l.lane = o.lane"
                  "  left join lateral ("
                  "    select (f ->> 'cursor')::pg_snapshot as cursor, (f ->> 'window')::pg_snapshot as until,"
                  "           (f ->> 'seq')::int8 as seq"
                  "      from jsonb_array_elements(l.apart) as f where f -> 'tenants' ? o.tenant limit 1) f on true"
                  "   where o.xid >= (select xid from first) and pg_visible_in_snapshot(o.xid, $3::pg_snapshot)"
                  "     and not pg_visible_in_snapshot(o.xid, coalesce(f.cursor, l.cursor_snapshot))"
                  "     and not coalesce(o.seq <= case when f.cursor is null then l.window_seq else f.seq end"
                  "           and pg_visible_in_snapshot(o.xid,"
                  "                 case when f.cursor is null then l.window_snapshot else f.until end), false))"),
              parameters));
  return TextAt(result, 0, 0) == "t";
}

Result<std::vector<Lane>> LaneTable::Write(std::span<const SettleRequest::Progress> progress) {
  std::vector<Lane> written;
  // Lanes mostly stand at the same place, and then one statement moves all of them.
  std::vector<bool> done(progress.size(), false);
  for (std::size_t i = 0; i < progress.size(); ++i) {
    if (done[i]) continue;
    std::vector<LaneLease> leases;
    for (std::size_t j = i; j < progress.size(); ++j) {
      if (done[j] || !(progress[j].positions == progress[i].positions) || progress[j].window != progress[i].window) {
        continue;
      }
      done[j] = true;
      leases.push_back(progress[j].lease);
    }
    const Position& main = progress[i].positions.main;
    SEALANE_ASSIGN_OR_RETURN(const Snapshot cursor, Snapshot::Parse(main.cursor));
    // A window that is being published is shown as one of which nothing is done.
    SEALANE_ASSIGN_OR_RETURN(const std::optional<Snapshot> window,
                             OptionalSnapshot(main.window.empty() ? progress[i].window : main.window));
    bool together = AllOf(cursor.server, cursor, window);
    json apart = json::array();
    for (const ApartFlow& flow : progress[i].positions.apart) {
      SEALANE_ASSIGN_OR_RETURN(const Snapshot flow_cursor, Snapshot::Parse(flow.position.cursor));
      SEALANE_ASSIGN_OR_RETURN(const std::optional<Snapshot> flow_window, OptionalSnapshot(flow.position.window));
      together = together && AllOf(cursor.server, flow_cursor, flow_window);
      apart.push_back(PositionJson(flow, flow_cursor, flow_window));
    }
    if (!together) continue;  // a server that was changed in between: those lanes are lost
    const std::vector<TextParameter> parameters = {route_,
                                                   owner_,
                                                   LaneArray(leases),
                                                   EpochArray(leases),
                                                   cursor.Server(),
                                                   std::to_string(cursor.low),
                                                   std::to_string(cursor.high),
                                                   window ? TextParameter(window->Server()) : TextParameter(),
                                                   std::to_string(window ? window->low : 0),
                                                   std::to_string(window ? window->high : 0),
                                                   std::to_string(main.window.empty() ? 0 : main.seq),
                                                   apart.empty() ? TextParameter() : TextParameter(apart.dump()),
                                                   std::to_string(cursor.server)};
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult result,
        Execute(
            connection_,
            Sql("with mine as materialized ("
                "  select l.lane from {s}.lane_state l"
                "    join unnest($3::smallint[], $4::int8[]) as g(lane, epoch)"
                "      on g.lane = l.lane and g.epoch = l.epoch"
                "   where l.route = $1 and l.owner = $2 and l.claimed_on = $13::int8"
                "     and {s}.server_start() = $13::int8 order by l.lane for update of l"
                "), moved as ("
                "  update {s}.lane_state l set cursor_snapshot = $5::pg_snapshot, cursor_low = $6::int8,"
                "         cursor_high = $7::int8, window_snapshot = $8::pg_snapshot, window_low = $9::int8,"
                "         window_high = $10::int8, window_seq = $11::int8, apart = $12::jsonb,"
                "         settled_at = clock_timestamp()"
                "    from mine where l.route = $1 and l.lane = mine.lane returning l.lane"
                "), noted as ("
                "  insert into {s}.settlement (route, lanes, tenants, except_tenants, cursor_snapshot,"
                "                              window_snapshot, window_seq)"
                "  select $1, lanes, f.tenants, f.except_tenants, f.cursor_snapshot, f.window_snapshot, f.seq"
                "    from (select array_agg(lane) as lanes from moved) m,"
                "         (select null::text[] as tenants,"
                "                 coalesce((select array_agg(t) from jsonb_array_elements($12::jsonb) as a,"
                "                           jsonb_array_elements_text(a -> 'tenants') as t), '{}') as except_tenants,"
                "                 $5::pg_snapshot as cursor_snapshot, $8::pg_snapshot as window_snapshot,"
                "                 $11::int8 as seq"
                "          union all"
                "          select array(select jsonb_array_elements_text(a -> 'tenants')), '{}',"
                "                 (a ->> 'cursor')::pg_snapshot, (a ->> 'window')::pg_snapshot, (a ->> 'seq')::int8"
                "            from jsonb_array_elements($12::jsonb) as a) f"
                "   where m.lanes is not null"
                ")"
                "select lane from moved"),
            parameters));
    for (int row = 0; row < PQntuples(result.get()); ++row)
      written.push_back(static_cast<Lane>(IntAt(result, row, 0)));
  }
  return written;
}

}  // namespace sealane::postgres
