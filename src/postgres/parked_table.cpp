#include "postgres/parked_table.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "postgres/connection.hpp"
#include "postgres/log_rows.hpp"
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
          "  skipped, next_attempt_at, first_failed_at, last_failed_at, error_code, error_message) "
          "select $1, c.lane, c.seq, c.xid::xid8, c.event_id, c.unit, c.key, c.tenant, c.topic, c.state, c.attempts,"
          "  c.skipped, coalesce(clock_timestamp() + c.retry_ms * interval '1 millisecond',"
          "                      to_timestamp(c.not_before / 1000000.0)),"
          "  case when c.error_code is not null then statement_timestamp() end,"
          "  case when c.error_code is not null then statement_timestamp() end, c.error_code, c.error_message"
          "  from jsonb_to_recordset($3::jsonb) as c(lane smallint, epoch int8, seq int8, xid text, event_id uuid,"
          "       unit text, key text, tenant text, topic text, state text, attempts int, skipped boolean,"
          "       retry_ms int8, not_before int8, error_code text, error_message text)"
          "  join {s}.lane_state l on l.route = $1 and l.lane = c.lane and l.owner = $2 and l.epoch = c.epoch "
          "on conflict (route, seq) do update set state = excluded.state, attempts = excluded.attempts,"
          "  skipped = excluded.skipped, next_attempt_at = excluded.next_attempt_at,"
          "  first_failed_at = coalesce(p.first_failed_at, excluded.first_failed_at),"
          "  last_failed_at = coalesce(excluded.last_failed_at, p.last_failed_at),"
          "  error_code = coalesce(excluded.error_code, p.error_code),"
          "  error_message = coalesce(excluded.error_message, p.error_message)"
          " where p.state <> 'DISCARDED' and (excluded.state <> 'WAITING' or p.state = 'WAITING')"),
      parameters));
  return Ok();
}

Status ParkedTable::Unpark(std::span<const sealane::Unpark> gone) {
  if (gone.empty()) return Ok();
  json rows = json::array();
  for (const sealane::Unpark& one : gone) {
    rows.push_back({{"lane", one.lease.lane}, {"epoch", one.lease.epoch}, {"seq", one.seq}});
  }
  const std::vector<TextParameter> parameters = {route_, owner_, Dump(rows)};
  SEALANE_RETURN_IF_ERROR(Execute(
      connection_,
      Sql("delete from {s}.parked p using jsonb_to_recordset($3::jsonb) as c(lane smallint, epoch int8, seq int8)"
          "  join {s}.lane_state l on l.route = $1 and l.lane = c.lane and l.owner = $2 and l.epoch = c.epoch"
          " where p.route = $1 and p.seq = c.seq"),
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
                   " limit $3::int8"),
               leases, {std::to_string(Membership::kBlockedUnitsMax + 1)});
}

Result<std::vector<DueUnit>> ParkedTable::Due(std::span<const LaneLease> leases,
                                              std::span<const std::string> but_tenants, std::size_t limit) {
  return Units(Sql("select lane, unit from ("
                   "  select distinct on (unit) lane, unit, tenant, state, next_attempt_at from {s}.parked"
                   "   where route = $1 and lane = any ($2::smallint[]) and state <> 'DISCARDED' and not skipped"
                   "   order by unit, seq) head"
                   " where state <> 'DEAD' and coalesce(next_attempt_at <= clock_timestamp(), true)"
                   "   and tenant <> all ($4::text[])"
                   " order by next_attempt_at nulls first limit $3::int8"),
               leases, {std::to_string(limit), TextArray(but_tenants)});
}

Result<Page> ParkedTable::Read(const DueUnit& unit, std::size_t limit, std::vector<ParkedEntry>& entries) {
  const std::string sql =
      Sql("select p.state, p.attempts, p.state <> 'DEAD' and coalesce(p.next_attempt_at <= clock_timestamp(), true),"
          "  p.event_id::text, ") +
      LogColumns("o") +
      Sql(" from {s}.parked p left join {s}.outbox o on o.xid = p.xid and o.lane = p.lane and o.seq = p.seq"
          " where p.route = $1 and p.unit = $2 and p.state <> 'DISCARDED' and not p.skipped"
          " order by p.seq limit $3::int8");
  const std::string count = std::to_string(limit);
  const std::array<const char*, 3> values = {route_.c_str(), unit.unit.c_str(), count.c_str()};
  const PgResult result(PQexecParams(connection_, sql.c_str(), 3, nullptr, values.data(), nullptr, nullptr, 1));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection_, result.get()));
  entries.clear();
  LogRows rows;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    const bool due = *PQgetvalue(result.get(), row, 2) != 0;
    if (!due) break;
    constexpr int kFirstLogColumn = 4;
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
                       .attempts = attempts});
  }
  return std::move(rows).Finish();
}

}  // namespace sealane::postgres
