#include "postgres/parked_table.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/time_text.hpp"
#include "postgres/connection.hpp"
#include "postgres/log_rows.hpp"
#include "postgres/row_text.hpp"
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

// A number of that many bytes, as a binary result has it.
std::int64_t BinaryNumber(const char* raw, int size) {
  std::uint64_t value = 0;
  for (int i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(raw[i]);
  return static_cast<std::int64_t>(value);
}

// Whether the position of its lane, or of its tenant there, has passed a row. `row` names a table with route, lane,
// seq, xid and tenant.
std::string PositionOf(std::string_view row) {
  return fmt::format(
      " join {{s}}.lane_state l on l.route = {0}.route and l.lane = {0}.lane"
      " left join lateral (select (a ->> 'cursor')::pg_snapshot as cursor, (a ->> 'window')::pg_snapshot as until,"
      "   coalesce((a ->> 'seq')::int8, 0) as seq from jsonb_array_elements(l.apart) as a"
      "  where a -> 'tenants' ? {0}.tenant limit 1) f on l.apart is not null",
      row);
}
std::string Passed(std::string_view row) {
  return fmt::format(
      "(pg_visible_in_snapshot({0}.xid, coalesce(f.cursor, l.cursor_snapshot))"
      " or coalesce({0}.seq <= case when f.cursor is null then l.window_seq else f.seq end and "
      "pg_visible_in_snapshot("
      "{0}.xid, case when f.cursor is null then l.window_snapshot else f.until end), false))",
      row);
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
                {"appended_at", ToRfc3339(change.appended_at)},
                {"payload_size", change.payload_bytes},
                {"state", ToString(change.state)},
                {"attempts", change.attempts},
                {"skipped", !change.holds_followers}};
    if (change.retry_after) row["retry_ms"] = change.retry_after->count();
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
          "  skipped, next_attempt_at, first_failed_at, last_failed_at, error_code, error_message, waits_for,"
          "  appended_at, payload_size) "
          "select $1, c.lane, c.seq, c.xid::xid8, c.event_id, c.unit, c.key, c.tenant, c.topic, c.state, c.attempts,"
          "  c.skipped, clock_timestamp() + c.retry_ms * interval '1 millisecond',"
          "  case when c.error_code is not null and c.waits_for is null then statement_timestamp() end,"
          "  case when c.error_code is not null and c.waits_for is null then statement_timestamp() end,"
          "  c.error_code, c.error_message, c.waits_for, c.appended_at, c.payload_size"
          "  from jsonb_to_recordset($3::jsonb) as c(lane smallint, epoch int8, seq int8, xid text, event_id uuid,"
          "       unit text, key text, tenant text, topic text, state text, attempts int, skipped boolean,"
          "       retry_ms int8, error_code text, error_message text, waits_for text, appended_at timestamptz,"
          "       payload_size int)"
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

Status ParkedTable::Delay(std::span<const DelayChange> changes) {
  if (changes.empty()) return Ok();
  std::vector<std::string> tenants;
  std::vector<std::string> ids;
  std::vector<std::string> appended;
  std::vector<std::string> due;
  for (const DelayChange& change : changes) {
    tenants.push_back(change.tenant);
    ids.push_back(change.id.ToString());
    appended.push_back(ToRfc3339(change.appended_at));
    due.push_back(ToRfc3339(change.due_at));
  }
  const std::vector<TextParameter> parameters = {
      route_,
      owner_,
      NumberArray(changes, [](const DelayChange& change) { return change.lease.lane; }),
      NumberArray(changes, [](const DelayChange& change) { return change.lease.epoch; }),
      NumberArray(changes, &DelayChange::seq),
      NumberArray(changes, &DelayChange::place),
      TextArray(ids),
      TextArray(tenants),
      TextArray(appended),
      TextArray(due),
      NumberArray(changes, &DelayChange::payload_bytes)};
  SEALANE_RETURN_IF_ERROR(Execute(
      connection_,
      Sql("insert into {s}.delayed (route, seq, due_at, appended_at, xid, event_id, payload_size, lane, tenant) "
          "select $1, c.seq, c.due, c.appended, c.xid::text::xid8, c.event_id, c.bytes, c.lane, c.tenant"
          "  from unnest($3::smallint[], $4::int8[], $5::int8[], $6::int8[], $7::uuid[], $8::text[],"
          "              $9::timestamptz[], $10::timestamptz[], $11::int4[])"
          "       as c(lane, epoch, seq, xid, event_id, tenant, appended, due, bytes)"
          "  join {s}.lane_state l on l.route = $1 and l.lane = c.lane and l.owner = $2 and l.epoch = c.epoch"
          "   and l.claimed_on = {s}.server_start() "
          // Read again after a crash, and given up by an operator meanwhile.
          " where not exists (select from {s}.parked p where p.route = $1 and p.seq = c.seq)"
          " on conflict do nothing"),
      parameters));
  return Ok();
}

Status ParkedTable::Undelay(std::span<const sealane::Undelay> gone) {
  if (gone.empty()) return Ok();
  const std::vector<TextParameter> parameters = {
      route_, owner_, NumberArray(gone, [](const sealane::Undelay& one) { return one.lease.lane; }),
      NumberArray(gone, [](const sealane::Undelay& one) { return one.lease.epoch; }),
      NumberArray(gone, &sealane::Undelay::seq)};
  SEALANE_RETURN_IF_ERROR(
      Execute(connection_,
              Sql("delete from {s}.delayed d"
                  " using unnest($3::smallint[], $4::int8[], $5::int8[]) as c(lane, epoch, seq)"
                  "  join {s}.lane_state l on l.route = $1 and l.lane = c.lane and l.owner = $2 and l.epoch = c.epoch"
                  "   and l.claimed_on = {s}.server_start()"
                  " where d.route = $1 and d.seq = c.seq"),
              parameters));
  return Ok();
}

// lane, unit, tenant, seq, whether it is dead, milliseconds until it is due, events of the unit.
BlockedUnit ParkedTable::UnitAt(const PgResult& result, int row, LaneLease lease) {
  return {.lease = lease,
          .unit = std::string(TextAt(result, row, 1)),
          .tenant = std::string(TextAt(result, row, 2)),
          .seq = IntAt(result, row, 3),
          .dead = TextAt(result, row, 4) == "t",
          .due_in = std::chrono::milliseconds{std::max<std::int64_t>(IntAt(result, row, 5), 0)},
          .events = IntAt(result, row, 6)};
}

Result<std::vector<BlockedUnit>> ParkedTable::Blocked(std::span<const LaneLease> leases) {
  const std::vector<TextParameter> parameters = {route_, NumberArray(leases, &LaneLease::lane),
                                                 std::to_string(Membership::kBlockedUnitsMax + 1)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_,
              Sql("select distinct on (unit) lane, unit, tenant, seq, state = 'DEAD',"
                  "  coalesce(ceil(extract(epoch from next_attempt_at - clock_timestamp()) * 1000)::int8, 0),"
                  "  count(*) over (partition by unit)"
                  "  from {s}.parked where route = $1 and lane = any ($2::smallint[])"
                  "   and state <> 'DISCARDED' and not skipped and waits_for is null"
                  " order by unit, seq limit $3::int8"),
              parameters));
  std::vector<BlockedUnit> units;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    const auto lane = static_cast<Lane>(IntAt(result, row, 0));
    const auto lease =
        std::find_if(leases.begin(), leases.end(), [&](const LaneLease& one) { return one.lane == lane; });
    units.push_back(UnitAt(result, row, *lease));
  }
  return units;
}

Result<std::vector<BlockedUnit>> ParkedTable::Blocked(std::span<const DueUnit> units) {
  std::vector<std::string> names;
  for (const DueUnit& unit : units) names.push_back(unit.unit);
  const std::vector<TextParameter> parameters = {route_, TextArray(names)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(
          connection_,
          Sql("select u.place, p.unit, p.tenant, p.seq, p.state = 'DEAD',"
              "  coalesce(ceil(extract(epoch from p.next_attempt_at - clock_timestamp()) * 1000)::int8, 0), c.events"
              "  from unnest($2::text[]) with ordinality as u(unit, place)"
              " cross join lateral (select * from {s}.parked p where p.route = $1 and p.unit = u.unit"
              "    and p.state <> 'DISCARDED' and not p.skipped and p.waits_for is null order by p.seq limit 1) p"
              " cross join lateral (select count(*) as events from {s}.parked p where p.route = $1"
              "    and p.unit = u.unit and p.state <> 'DISCARDED' and not p.skipped and p.waits_for is null) c"),
          parameters));
  std::vector<BlockedUnit> found;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    found.push_back(UnitAt(result, row, units[static_cast<std::size_t>(IntAt(result, row, 0)) - 1].lease));
  }
  return found;
}

Result<std::vector<DueUnit>> ParkedTable::TakeChanges(std::span<const LaneLease> leases, std::size_t limit) {
  const std::vector<TextParameter> parameters = {route_, NumberArray(leases, &LaneLease::lane),
                                                 std::to_string(limit)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult result,
      Execute(connection_,
              Sql("with taken as ("
                  "  delete from {s}.parked_change where id in ("
                  "    select id from {s}.parked_change where route = $1 and lane = any ($2::smallint[])"
                  "     order by id limit $3::int8 for update skip locked) returning lane, unit)"
                  " select distinct lane, unit from taken"),
              parameters));
  std::vector<DueUnit> units;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    const auto lane = static_cast<Lane>(IntAt(result, row, 0));
    const auto lease =
        std::find_if(leases.begin(), leases.end(), [&](const LaneLease& one) { return one.lane == lane; });
    units.push_back({.lease = *lease, .unit = std::string(TextAt(result, row, 1))});
  }
  return units;
}

Result<ParkedBatch> ParkedTable::Read(std::span<const DueUnit> units, std::size_t limit, std::size_t bytes_max) {
  using Rest = ParkedUnit::Rest;
  // Of each unit what is ready, and the first that is not. Payloads are read only of those that fit.
  const std::string sql =
      Sql("with head as materialized ("
          "  select u.place, p.*,"
          "         bool_and(p.ready) over w and row_number() over w <= $3::int8 as goes"
          "    from unnest($2::text[]) with ordinality as u(unit, place)"
          "   cross join lateral (select p.seq, p.state, p.attempts, p.event_id, p.destination, p.xid, p.lane,"
          "       p.appended_at, coalesce(p.payload_size, 0) + 512 as bytes,"
          "       p.state <> 'DEAD' and coalesce(p.next_attempt_at <= clock_timestamp(), true) and ") +
      Passed("p") +
      Sql(" as ready,"
          "       coalesce(ceil(extract(epoch from p.next_attempt_at - clock_timestamp()) * 1000)::int8, 0) as due_in"
          "     from {s}.parked p" +
          PositionOf("p") +
          " where p.route = $1 and p.unit = u.unit and p.state <> 'DISCARDED'"
          "      and not p.skipped and p.waits_for is null order by p.seq limit $3::int8 + 1) p"
          "  window w as (partition by u.place order by p.seq rows unbounded preceding)),"
          " sized as ("
          "  select h.*, h.goes and (sum(h.bytes) filter (where h.goes) over w <= $4::int8"
          "                          or count(*) filter (where h.goes) over w = 1) as fits"
          "    from head h window w as (order by h.place, h.seq rows unbounded preceding))"
          " select s.place, s.due_in, s.state, s.attempts, s.ready, s.goes, s.fits, s.event_id::text,"
          "        coalesce(s.destination, ''), ") +
      LogColumns("o") +
      Sql(" from sized s left join {s}.outbox o on s.fits and o.appended_at = s.appended_at and o.xid = s.xid"
          "  and o.lane = s.lane and o.seq = s.seq"
          " order by s.place, s.seq");
  std::vector<std::string> names;
  for (const DueUnit& unit : units) names.push_back(unit.unit);
  const std::array<std::string, 4> texts = {route_, TextArray(names), std::to_string(limit),
                                            std::to_string(bytes_max)};
  std::array<const char*, 4> values{};
  std::transform(texts.begin(), texts.end(), values.begin(), [](const std::string& text) { return text.c_str(); });
  const PgResult result(RunParams(connection_, sql, 4, nullptr, values.data(), nullptr, nullptr, 1));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection_, result.get()));
  enum { kPlace, kDueIn, kState, kAttempts, kReady, kGoes, kFits, kEventId, kDestination, kFirstLogColumn };
  const auto truth = [&](int row, int column) { return *PQgetvalue(result.get(), row, column) != 0; };
  ParkedBatch batch;
  LogRows rows;
  // A unit without rows holds back nothing.
  batch.units.resize(units.size());
  std::size_t ended = 0;  // the number of the unit whose rest is known
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    const auto place = static_cast<std::size_t>(BinaryNumber(PQgetvalue(result.get(), row, kPlace), 8));
    ParkedUnit& unit = batch.units[place - 1];
    if (ended == place) continue;
    if (truth(row, kGoes) && !truth(row, kFits)) {
      // The page is full. What was begun is told; the units after it are asked for again.
      unit.rest = Rest::kMore;
      batch.units.resize(unit.entries.empty() ? place - 1 : place);
      break;
    }
    if (truth(row, kGoes) && PQgetisnull(result.get(), row, kFirstLogColumn) == 0) {
      SEALANE_RETURN_IF_ERROR(rows.Copy(result.get(), row, kFirstLogColumn));
      unit.entries.push_back(
          {.entry = rows.size() - 1,
           .state = ParseParkedState(TextAt(result, row, kState)).value_or(ParkedState::kWaiting),
           .attempts = static_cast<std::int32_t>(BinaryNumber(PQgetvalue(result.get(), row, kAttempts), 4)),
           .destination = std::string(TextAt(result, row, kDestination))});
      continue;
    }
    ended = place;
    if (truth(row, kGoes)) {
      unit.rest = Rest::kGone;
      const auto id = EventId::Parse(TextAt(result, row, kEventId));
      if (id) unit.gone = *id;
    } else if (truth(row, kReady)) {
      unit.rest = Rest::kMore;
    } else if (TextAt(result, row, kState) == "DEAD") {
      unit.rest = Rest::kDead;
    } else {
      unit.rest = Rest::kLater;
      // Of one whose time has come the position has not.
      const std::chrono::milliseconds due_in{BinaryNumber(PQgetvalue(result.get(), row, kDueIn), 8)};
      unit.due_in = due_in.count() > 0 ? due_in : kBehindPosition;
    }
  }
  batch.page = std::move(rows).FinishAsRead();
  return batch;
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
          "  select p.seq, p.lane, p.xid, ") +
      Passed("p") +
      Sql(" as passed from {s}.parked p"
          "    join {s}.outbox o on o.xid = p.xid and o.lane = p.lane and o.seq = p.seq" +
          PositionOf("p") +
          "   where p.route = $1 and p.waits_for = $2"
          "     and p.state = 'WAITING' and p.lane = any ($3::smallint[])"
          "     and p.tenant <> all ($6::text[]) order by p.seq limit $4::int8 + 1),"
          " sized as ("
          "  select f.seq, f.lane, f.xid, f.passed, row_number() over w as place,"
          "         sum(o.payload_size + 512) over w as bytes"
          "    from first f join {s}.outbox o on o.xid = f.xid and o.lane = f.lane and o.seq = f.seq"
          "  window w as (order by f.seq rows unbounded preceding))"
          " select (select count(*) from first), ") +
      LogColumns("o") +
      Sql(" from sized s join {s}.outbox o on o.xid = s.xid and o.lane = s.lane and o.seq = s.seq"
          " where s.place <= $4::int8 and (s.place = 1 or s.bytes <= $5::int8) and s.passed order by s.seq");
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
    waiting = BinaryNumber(PQgetvalue(result.get(), row, 0), 8);
    SEALANE_RETURN_IF_ERROR(rows.Copy(result.get(), row, 1));
  }
  Page page = std::move(rows).Finish();
  // Without a row nothing is known of how many there are: those that are left out may be the first.
  if (read == 0) {
    const std::vector<TextParameter> parameters = {route_, topic, lanes, tenants};
    SEALANE_ASSIGN_OR_RETURN(
        const PgResult any,
        Execute(
            connection_,
            Sql("select exists (select from {s}.parked p where p.route = $1 and p.waits_for = $2"
                " and p.state = 'WAITING' and p.lane = any ($3::smallint[]) and p.tenant <> all ($4::text[])"
                " and exists (select from {s}.outbox o where o.xid = p.xid and o.lane = p.lane and o.seq = p.seq))"),
            parameters));
    page.caught_up = TextAt(any, 0, 0) == "f";
    return page;
  }
  page.caught_up = waiting <= read;
  return page;
}

Result<DelayedPage> ParkedTable::ReadDelayed(const DelayedRequest& request) {
  // The time of the statement and not of the clock: only that can bound a walk through the index. Payloads are read
  // only of those that fit.
  const std::string sql =
      Sql("with scanned as materialized ("
          "  select d.seq, d.due_at, d.appended_at, d.xid, d.lane, d.payload_size,"
          "         d.lane = any ($5::smallint[]) and d.tenant <> all ($6::text[]) as ours, ") +
      Passed("d") +
      Sql(" as passed"
          "    from {s}.delayed d" +
          PositionOf("d") +
          "   where d.route = $1 and d.due_at <= statement_timestamp()"
          "     and (d.due_at, d.seq) > ($2::timestamptz, $3::int8)"
          "   order by d.due_at, d.seq limit $4::int8 + 1),"
          " sized as ("
          "  select s.*, row_number() over w as place, sum(s.payload_size + 512) over w as bytes"
          "    from scanned s where s.ours and s.passed window w as (order by s.due_at, s.seq rows unbounded "
          "preceding))"
          " select s.seq, ") +
      Micros("s.due_at") +
      Sql(", s.lane::int8, s.ours and s.passed, s.ours and not s.passed,"
          "        z.place = 1 or z.bytes <= $7::int8, ") +
      LogColumns("o") +
      Sql(" from scanned s left join sized z on z.seq = s.seq"
          " left join {s}.outbox o on (z.place = 1 or z.bytes <= $7::int8)"
          "  and o.appended_at = s.appended_at and o.xid = s.xid and o.lane = s.lane and o.seq = s.seq"
          " order by s.due_at, s.seq");
  const std::array<std::string, 7> texts = {route_,
                                            ToRfc3339(request.from.due_at),
                                            std::to_string(request.from.seq),
                                            std::to_string(request.rows_max),
                                            NumberArray(request.leases, &LaneLease::lane),
                                            TextArray(request.but_tenants),
                                            std::to_string(request.bytes_max)};
  std::array<const char*, 7> values{};
  std::transform(texts.begin(), texts.end(), values.begin(), [](const std::string& text) { return text.c_str(); });
  const PgResult result(RunParams(connection_, sql, 7, nullptr, values.data(), nullptr, nullptr, 1));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection_, result.get()));
  const auto number = [&](int row, int column) { return BinaryNumber(PQgetvalue(result.get(), row, column), 8); };
  DelayedPage read{.page = {}, .next = request.from, .caught_up = true, .gone = {}};
  LogRows rows;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    constexpr int kFirstLogColumn = 6;
    const std::int64_t seq = number(row, 0);
    const DelayedPlace place{Timestamp{std::chrono::microseconds{number(row, 1)}}, seq};
    const bool wanted = *PQgetvalue(result.get(), row, 3) != 0;
    const bool fits = !wanted || *PQgetvalue(result.get(), row, 5) != 0;
    if (static_cast<std::size_t>(row) == request.rows_max || !fits) {
      read.caught_up = false;
      break;
    }
    if (wanted && PQgetisnull(result.get(), row, kFirstLogColumn) != 0) {
      const auto lane = static_cast<Lane>(number(row, 2));
      const auto lease = std::find_if(request.leases.begin(), request.leases.end(),
                                      [&](const LaneLease& one) { return one.lane == lane; });
      read.gone.push_back({*lease, seq});
    } else if (wanted) {
      SEALANE_RETURN_IF_ERROR(rows.Copy(result.get(), row, kFirstLogColumn));
    }
    if (*PQgetvalue(result.get(), row, 4) != 0 && !read.behind) read.behind = place;
    read.next = place;
  }
  read.page = std::move(rows).Finish();
  SortByTime(read.page);
  if (!read.caught_up) return read;
  const std::vector<TextParameter> parameters = {route_, ToRfc3339(read.next.due_at), std::to_string(read.next.seq)};
  SEALANE_ASSIGN_OR_RETURN(
      const PgResult next,
      Execute(connection_,
              Sql("select ceil(extract(epoch from d.due_at - clock_timestamp()) * 1000)::int8 from {s}.delayed d"
                  " where d.route = $1"
                  "   and (d.due_at, d.seq) > ($2::timestamptz, $3::int8)"
                  " order by d.due_at, d.seq limit 1"),
              parameters));
  if (PQntuples(next.get()) > 0) {
    read.next_due_in = std::chrono::milliseconds{std::max<std::int64_t>(IntAt(next, 0, 0), 0)};
  }
  return read;
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
