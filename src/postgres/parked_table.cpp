#include "postgres/parked_table.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "postgres/connection.hpp"
#include "postgres/log_rows.hpp"
#include "postgres/session_settings.hpp"
#include "postgres/sql_state.hpp"
#include "postgres/sql_text.hpp"

namespace sealane::postgres {
namespace {

using nlohmann::json;

constexpr std::size_t kMessageMax = 2'000;

// JSON text must be UTF-8; error texts come from outside.
std::string Dump(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Shortened(const std::string& text) {
  return text.size() <= kMessageMax ? text : text.substr(0, kMessageMax) + "...";
}

}  // namespace

ParkedTable::ParkedTable(PGconn* connection, std::string quoted_schema, std::string route, std::string owner)
    : connection_(connection),
      schema_(std::move(quoted_schema)),
      route_(std::move(route)),
      owner_(std::move(owner)) {}

std::string ParkedTable::Sql(std::string_view text) const {
  return ReplaceAll(std::string(text), "{s}", schema_);
}

Status ParkedTable::Park(std::span<const ParkChange> changes) {
  if (changes.empty()) return Ok();
  json rows = json::array();
  for (const ParkChange& change : changes) {
    json row = {{"lane", change.lease.lane},
                {"epoch", change.lease.epoch},
                {"seq", change.seq},
                {"xid", std::to_string(change.place)},
                {"event_id", change.id.ToString()},
                {"unit", change.unit},
                {"key", change.key},
                {"tenant", change.tenant},
                {"topic", change.topic},
                {"state", ToString(change.state)},
                {"attempts", change.attempts},
                {"skipped", !change.holds_followers}};
    if (change.retry_after) row["retry_ms"] = change.retry_after->count();
    if (change.not_before) row["not_before"] = change.not_before->time_since_epoch().count();
    if (!change.waits_for.empty()) row["waits_for"] = change.waits_for;
    if (!change.error_code.empty()) {
      row["error_code"] = change.error_code;
      row["error_message"] = Shortened(change.error_message);
    }
    rows.push_back(std::move(row));
  }
  const std::vector<TextParameter> parameters = {route_, owner_, Dump(rows)};
  SEALANE_RETURN_IF_ERROR(Execute(
      connection_,
      Sql("insert into {s}.parked as p (route, lane, seq, xid, event_id, unit, key, tenant, topic, state, attempts,"
          "  skipped, next_attempt_at, first_failed_at, last_failed_at, error_code, error_message, waits_for) "
          "select $1, c.lane, c.seq, c.xid::xid8, c.event_id, c.unit, c.key, c.tenant, c.topic, c.state, c.attempts,"
          "  c.skipped, coalesce(clock_timestamp() + c.retry_ms * interval '1 millisecond',"
          "                      to_timestamp(c.not_before / 1000000.0)),"
          "  case when c.error_code is not null and c.waits_for is null then statement_timestamp() end,"
          "  case when c.error_code is not null and c.waits_for is null then statement_timestamp() end,"
          "  c.error_code, c.error_message, c.waits_for"
          "  from jsonb_to_recordset($3::jsonb) as c(lane smallint, epoch int8, seq int8, xid text, event_id uuid,"
          "       unit text, key text, tenant text, topic text, state text, attempts int, skipped boolean,"
          "       retry_ms int8, not_before int8, error_code text, error_message text, waits_for text)"
          "  join {s}.lane_state l on l.route = $1 and l.lane = c.lane and l.owner = $2 and l.epoch = c.epoch"
          "   and l.claimed_on = {s}.server_start() "
          "on conflict (route, seq) do update set state = excluded.state, attempts = excluded.attempts,"
          "  skipped = excluded.skipped, next_attempt_at = excluded.next_attempt_at,"
          "  first_failed_at = coalesce(p.first_failed_at, excluded.first_failed_at),"
          "  last_failed_at = coalesce(excluded.last_failed_at, p.last_failed_at),"
          "  error_code = coalesce(excluded.error_code, p.error_code),"
          "  error_message = coalesce(excluded.error_message, p.error_message),"
          // A topic that an operator chose in the meantime has the last word.
          "  waits_for = case when excluded.waits_for is not null then coalesce(p.destination, excluded.waits_for) "
          "end, unit = case when p.destination is null then excluded.unit else p.unit end"
          " where p.state <> 'DISCARDED'"
          "   and (excluded.state <> 'WAITING' or p.state = 'WAITING' or excluded.waits_for is not null)"),
      parameters));
  return Ok();
}

Status ParkedTable::Unpark(std::span<const sealane::Unpark> gone) {
  if (gone.empty()) return Ok();
  json rows = json::array();
  for (const sealane::Unpark& one : gone) {
    rows.push_back(
        {{"lane", one.lease.lane}, {"epoch", one.lease.epoch}, {"seq", one.seq}, {"waits_for", one.waits_for}});
  }
  const std::vector<TextParameter> parameters = {route_, owner_, Dump(rows)};
  SEALANE_RETURN_IF_ERROR(
      Execute(connection_,
              Sql("delete from {s}.parked p"
                  " using jsonb_to_recordset($3::jsonb) as c(lane smallint, epoch int8, seq int8, waits_for text)"
                  "  join {s}.lane_state l on l.route = $1 and l.lane = c.lane and l.owner = $2 and l.epoch = c.epoch"
                  "   and l.claimed_on = {s}.server_start()"
                  " where p.route = $1 and p.seq = c.seq and (c.waits_for = '' or p.waits_for = c.waits_for)"),
              parameters));
  return Ok();
}

Result<std::vector<DueUnit>> ParkedTable::Units(const std::string& sql, std::span<const LaneLease> leases,
                                                std::vector<TextParameter> parameters) {
  parameters.insert(parameters.begin(), {route_, NumberArray(leases, &LaneLease::lane)});
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, Execute(connection_, sql, parameters));
  std::vector<DueUnit> units;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    const auto lane = static_cast<Lane>(IntAt(result, row, 0));
    const auto lease =
        std::find_if(leases.begin(), leases.end(), [&](const LaneLease& one) { return one.lane == lane; });
    units.push_back({.lease = *lease, .unit = std::string(TextAt(result, row, 1))});
  }
  return units;
}

Result<std::vector<DueUnit>> ParkedTable::Blocked(std::span<const LaneLease> leases) {
  return Units(Sql("select distinct lane, unit from {s}.parked"
                   " where route = $1 and lane = any ($2::smallint[]) and state <> 'DISCARDED' and not skipped"
                   "   and waits_for is null limit $3::int8"),
               leases, {std::to_string(Membership::kBlockedUnitsMax + 1)});
}

Result<std::vector<DueUnit>> ParkedTable::Due(std::span<const LaneLease> leases,
                                              std::span<const std::string> but_tenants, std::size_t limit) {
  return Units(Sql("select lane, unit from ("
                   "  select distinct on (unit) lane, unit, tenant, state, next_attempt_at from {s}.parked"
                   "   where route = $1 and lane = any ($2::smallint[]) and state <> 'DISCARDED' and not skipped"
                   "     and waits_for is null order by unit, seq) head"
                   " where state <> 'DEAD' and coalesce(next_attempt_at <= clock_timestamp(), true)"
                   "   and tenant <> all ($4::text[])"
                   " order by next_attempt_at nulls first limit $3::int8"),
               leases, {std::to_string(limit), TextArray(but_tenants)});
}

Result<Page> ParkedTable::Read(const DueUnit& unit, std::size_t limit, std::vector<ParkedEntry>& entries) {
  const std::string sql =
      Sql("select p.state, p.attempts, p.state <> 'DEAD' and coalesce(p.next_attempt_at <= clock_timestamp(), true),"
          "  p.event_id::text, coalesce(p.destination, ''), ") +
      LogColumns("o") +
      Sql(" from {s}.parked p left join {s}.outbox o on o.xid = p.xid and o.lane = p.lane and o.seq = p.seq"
          " where p.route = $1 and p.unit = $2 and p.state <> 'DISCARDED' and not p.skipped and p.waits_for is null"
          " order by p.seq limit $3::int8");
  const std::string count = std::to_string(limit);
  const std::array<const char*, 3> values = {route_.c_str(), unit.unit.c_str(), count.c_str()};
  const PgResult result(RunParams(connection_, sql, 3, nullptr, values.data(), nullptr, nullptr, 1));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection_, result.get()));
  entries.clear();
  LogRows rows;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    const bool due = *PQgetvalue(result.get(), row, 2) != 0;
    if (!due) break;
    constexpr int kFirstLogColumn = 5;
    if (PQgetisnull(result.get(), row, kFirstLogColumn) != 0) {
      return Error(ErrorKind::kCorrupt, "parked_row_missing",
                   fmt::format("event {} was set aside, but its row is gone from the log", TextAt(result, row, 3)))
          .WithHint("somebody removed it by hand; give it up with: sealane dead discard ID --reason ...");
    }
    SEALANE_RETURN_IF_ERROR(rows.Copy(result.get(), row, kFirstLogColumn));
    const auto* raw = reinterpret_cast<const unsigned char*>(PQgetvalue(result.get(), row, 1));
    const auto attempts =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(raw[0]) << 24 | raw[1] << 16 | raw[2] << 8 | raw[3]);
    entries.push_back({.entry = entries.size(),
                       .state = ParseParkedState(TextAt(result, row, 0)).value_or(ParkedState::kWaiting),
                       .attempts = attempts,
                       .destination = std::string(TextAt(result, row, 4))});
  }
  return std::move(rows).Finish();
}

Result<std::vector<WaitingTopic>> ParkedTable::WaitingTopics(std::span<const LaneLease> leases, std::size_t limit) {
  const std::vector<TextParameter> parameters = {route_, NumberArray(leases, &LaneLease::lane), std::to_string(limit),
                                                 std::to_string(WaitingTopic::kCountMax)};
  // From one name to the next through the index, however many rows wait for each.
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_,
              Sql("with recursive t(topic) as ("
                  "  (select waits_for from {s}.parked where route = $1 and waits_for is not null"
                  "     and state = 'WAITING' order by waits_for limit 1)"
                  "  union all"
                  "  select (select p.waits_for from {s}.parked p where p.route = $1 and p.waits_for > t.topic"
                  "            and p.waits_for is not null and p.state = 'WAITING' order by p.waits_for limit 1)"
                  "    from t where t.topic is not null)"
                  " select t.topic, c.events from t cross join lateral ("
                  "   select count(*) as events from (select from {s}.parked p where p.route = $1"
                  "     and p.waits_for = t.topic and p.state = 'WAITING' and p.lane = any ($2::smallint[])"
                  "     limit $4::int8) p) c"
                  "  where t.topic is not null and c.events > 0 limit $3::int8"),
              parameters));
  std::vector<WaitingTopic> topics;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    topics.push_back({std::string(TextAt(result, row, 0)), IntAt(result, row, 1)});
  }
  return topics;
}

Result<Page> ParkedTable::ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                                      std::span<const std::string> but_tenants, std::size_t limit,
                                      std::size_t bytes_max) {
  // One more than asked for tells whether there are more. Payloads are read only of those that fit.
  const std::string sql =
      Sql("with first as ("
          "  select p.seq, p.lane, p.xid from {s}.parked p"
          "    join {s}.outbox o on o.xid = p.xid and o.lane = p.lane and o.seq = p.seq"
          "   where p.route = $1 and p.waits_for = $2"
          "     and p.state = 'WAITING' and p.lane = any ($3::smallint[])"
          "     and p.tenant <> all ($6::text[]) order by p.seq limit $4::int8 + 1),"
          " sized as ("
          "  select f.seq, f.lane, f.xid, row_number() over w as place,"
          "         sum(o.payload_size + 512) over w as bytes"
          "    from first f join {s}.outbox o on o.xid = f.xid and o.lane = f.lane and o.seq = f.seq"
          "  window w as (order by f.seq rows unbounded preceding))"
          " select (select count(*) from first), ") +
      LogColumns("o") +
      Sql(" from sized s join {s}.outbox o on o.xid = s.xid and o.lane = s.lane and o.seq = s.seq"
          " where s.place <= $4::int8 and (s.place = 1 or s.bytes <= $5::int8) order by s.seq");
  const std::string lanes = NumberArray(leases, &LaneLease::lane);
  const std::string count = std::to_string(limit);
  const std::string bytes = std::to_string(bytes_max);
  const std::string tenants = TextArray(but_tenants);
  const std::array<const char*, 6> values = {route_.c_str(), topic.c_str(), lanes.c_str(),
                                             count.c_str(),  bytes.c_str(), tenants.c_str()};
  const PgResult result(RunParams(connection_, sql, 6, nullptr, values.data(), nullptr, nullptr, 1));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection_, result.get()));
  LogRows rows;
  std::int64_t waiting = 0;
  const int read = PQntuples(result.get());
  for (int row = 0; row < read; ++row) {
    const auto* raw = reinterpret_cast<const unsigned char*>(PQgetvalue(result.get(), row, 0));
    waiting = 0;
    for (int i = 0; i < 8; ++i) waiting = waiting << 8 | raw[i];
    SEALANE_RETURN_IF_ERROR(rows.Copy(result.get(), row, 1));
  }
  Page page = std::move(rows).Finish();
  page.caught_up = waiting <= read;
  return page;
}

Status ParkedTable::KeepOrder(std::string_view order) {
  const std::vector<TextParameter> parameters = {route_, std::string(order), owner_};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult refused,
      Execute(connection_, Sql("select recorded, parked, relays from {s}.keep_order($1, $2, $3)"), parameters));
  if (PQntuples(refused.get()) > 0) {
    return OrderChanged(route_, TextAt(refused, 0, 0), order, IntAt(refused, 0, 1), IntAt(refused, 0, 2));
  }
  SEALANE_ASSIGN_OR_RETURN(const PgResult lanes,
                           Execute(connection_,
                                   Sql("select s.value, l.lanes from {s}.setting s"
                                       " cross join (select count(*) as lanes from {s}.lane_state where route = $1) l"
                                       " where s.name = 'lanes' and s.value <> l.lanes::text"),
                                   std::vector<TextParameter>{route_}));
  if (PQntuples(lanes.get()) == 0) return Ok();
  return Error(ErrorKind::kMisconfigured, "lanes_changed",
               fmt::format("the setting lanes says {}, and route {} has {} lanes: the number was fixed when the "
                           "outbox was installed",
                           TextAt(lanes, 0, 0), route_, TextAt(lanes, 0, 1)))
      .WithHint("set the row lanes of the table setting back; for another number of lanes install a new outbox");
}

}  // namespace sealane::postgres
