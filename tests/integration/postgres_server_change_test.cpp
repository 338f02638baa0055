// Protects what an outbox on PostgreSQL does when the server under it is another one: positions of another life of
// the server are refused, leases of it do not count, and a log that was moved to another cluster publishes nothing
// before its positions fit, and then exactly what was not published before.

#include <algorithm>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/postgres_store.hpp"
#include "support/log_fixture.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::chrono::minutes kLease{10};

// Payloads are JSON strings.
std::string Unquoted(std::string_view payload) {
  return std::string(payload.substr(1, payload.size() - 2));
}

class ServerChangePostgres : public ::testing::Test {
 protected:
  std::unique_ptr<OutboxLog> OpenLog(const std::string& route = "main", const std::string& owner = "relay-1") {
    return ValueOrThrow(postgres::OpenOutboxLog({.url = database_.url()}, route, owner));
  }
  std::unique_ptr<RouteDesk> OpenRoutes() { return ValueOrThrow(postgres::OpenRouteDesk({.url = database_.url()})); }
  void Emit(PgSession& session, const std::string& key, const std::string& value, const std::string& tenant = "") {
    session.Exec("select sealane.emit('t', '" + key + "', 'T', '\"" + value + "\"'::text, tenant => '" + tenant +
                 "')");
  }
  void Emit(const std::string& key, const std::string& value, const std::string& tenant = "") {
    Emit(session_, key, value, tenant);
  }
  std::string Status(const std::string& value, const std::string& route = "main") {
    return session_.Exec(
        "select s.status from sealane.outbox_status s join sealane.outbox o using (seq) where s.route = '" + route +
        "' and convert_from(o.payload, 'UTF8') = '\"" + value + "\"'");
  }

  /// A relay of a route that has every lane.
  struct Holder {
    std::unique_ptr<OutboxLog> log;
    std::vector<LaneGrant> grants;
  };
  Holder Hold(const std::string& route = "main") {
    Holder holder{OpenLog(route), {}};
    ValueOrThrow(holder.log->Beat(kLease));
    holder.grants = TakeAll(*holder.log, kLease);
    EXPECT_FALSE(holder.grants.empty());
    return holder;
  }
  /// Publishes everything there is, lane by lane, and returns it in the order of reading.
  std::vector<std::string> Ship(Holder& holder) {
    std::vector<std::string> shipped;
    std::map<std::int64_t, std::string> by_seq;
    for (LaneGrant& grant : holder.grants) {
      const ReadOut out = ReadToEnd(*holder.log, {.lanes = {grant.lease.lane}, .from = grant.positions.main});
      for (const ReadEvent& event : out.events) by_seq[event.entry.seq] = Unquoted(event.envelope.payload);
      grant.positions.main = out.at;
      EXPECT_THAT(SettleAt(*holder.log, {grant}, out.at).fenced, IsEmpty());
    }
    for (const auto& [seq, payload] : by_seq) shipped.push_back(payload);
    return shipped;
  }

  /// Makes the log look as if it was written on another cluster whose transaction numbers are a thousand million
  /// higher, and then restored from a dump here.
  void PretendRestore() {
    session_.Exec("set session_replication_role = replica");
    session_.Exec("update sealane.outbox set xid = (xid::text::bigint + 1000000000)::text::xid8");
    session_.Exec("update sealane.parked set xid = (xid::text::bigint + 1000000000)::text::xid8");
    session_.Exec("set session_replication_role = origin");
    session_.Exec(R"sql(
      create function shifted(s pg_snapshot) returns pg_snapshot language sql as $$
        select case when s::text = '1:1:' then s else
          ((pg_snapshot_xmin(s)::text::bigint + 1000000000) || ':' || (pg_snapshot_xmax(s)::text::bigint + 1000000000)
           || ':' || coalesce((select string_agg((x::text::bigint + 1000000000)::text, ',' order by x::text::bigint)
                                 from pg_snapshot_xip(s) x), ''))::pg_snapshot end $$)sql");
    session_.Exec(
        "update sealane.lane_state set cursor_snapshot = shifted(cursor_snapshot),"
        " window_snapshot = shifted(window_snapshot), owner = null, lease = null, apart ="
        " (select jsonb_agg(f || jsonb_build_object('cursor', shifted((f ->> 'cursor')::pg_snapshot)::text))"
        "    from jsonb_array_elements(apart) f)");
    session_.Exec("update sealane.log_server set system_identifier = 42");
  }

  ScratchDatabase database_{kMigrated};
  PgSession session_{database_.url()};
};

TEST_F(ServerChangePostgres, ALeaseOfAnotherLifeOfTheServerDoesNotCount) {
  Emit("k", "1");
  Holder relay = Hold();
  const ReadOut out = ReadToEnd(*relay.log, {.lanes = LanesOf(relay.grants), .from = relay.grants[0].positions.main});
  ASSERT_EQ(out.events.size(), 1U);
  session_.Exec("update sealane.lane_state set claimed_on = claimed_on - 1");
  session_.Exec("update sealane.relay_member set joined_on = joined_on - 1");

  EXPECT_EQ(SettleAt(*relay.log, relay.grants, out.at).fenced.size(), relay.grants.size());
  SettleRequest request;
  request.park.push_back(ParkOf(relay.grants, out.events[0], ParkedState::kDead));
  ValueOrThrow(relay.log->Settle(request));
  EXPECT_EQ(Status("1"), "PENDING");
  EXPECT_THAT(ValueOrThrow(relay.log->Beat(kLease)).held, IsEmpty()) << "they are given back";
  const std::vector<LaneGrant> again = TakeAll(*relay.log, kLease);
  ASSERT_EQ(again.size(), relay.grants.size()) << "and free at once";
  EXPECT_GT(again[0].lease.epoch, relay.grants[0].lease.epoch + 1'000)
      << "the server before may have counted further than this one knows";
}

TEST_F(ServerChangePostgres, APositionOfAnotherLifeOfTheServerIsRefused) {
  Emit("k", "1");
  Holder relay = Hold();
  const std::vector<Lane> lanes = LanesOf(relay.grants);
  const Horizon horizon = ValueOrThrow(relay.log->Look());
  Position other = relay.grants[0].positions.main;
  other.cursor += "9";  // the last part names the server
  const auto page = relay.log->Read({.lanes = lanes, .from = &other, .horizon = &horizon});
  ASSERT_FALSE(page.has_value());
  EXPECT_EQ(page.error().kind(), ErrorKind::kFenced);
  EXPECT_EQ(page.error().code(), "server_changed");
  EXPECT_EQ(SettleAt(*relay.log, relay.grants, other).fenced.size(), relay.grants.size());

  // A pooler may hand the statement that reads to another server than the one that was looked at.
  Horizon elsewhere = horizon;
  elsewhere.cursor += "9";
  const Page none = ValueOrThrow(relay.log->Read({.lanes = lanes, .from = &other, .horizon = &elsewhere}));
  EXPECT_TRUE(none.entries.empty());
}

TEST_F(ServerChangePostgres, APositionAheadOfTheServerIsRefused) {
  const auto refused = [&](const std::string& change) {
    session_.Exec("begin");
    session_.Exec("update sealane.lane_state set " + change + " where lane = 7");
    session_.Exec("commit");
    const auto log = OpenLog();
    ValueOrThrow(log->Beat(kLease));
    const auto claimed = log->Claim(1'000, kLease);
    session_.Exec(
        "update sealane.lane_state set cursor_snapshot = '1:1:', window_snapshot = null, window_seq = 0, apart = "
        "null");
    return claimed ? std::string("taken") : claimed.error().code();
  };
  EXPECT_EQ(refused("cursor_snapshot = '900000000:900000000:'"), "position_ahead");
  EXPECT_EQ(refused("window_snapshot = '900000000:900000000:'"), "position_ahead");
  EXPECT_EQ(
      refused(
          R"(apart = '[{"tenants":["a"],"cursor":"900000000:900000000:","cursor_low":0,"cursor_high":0,"seq":0}]')"),
      "position_ahead");
  EXPECT_EQ(refused("cursor_high = 5, cursor_snapshot = '3:3:'"), "sequence_behind");
  session_.Exec("update sealane.lane_state set cursor_high = 0");
  EXPECT_EQ(refused("epoch = epoch"), "taken");
}

TEST_F(ServerChangePostgres, ANewTimelineIsNotedAndGoesOn) {
  session_.Exec("update sealane.log_server set timeline = timeline + 1");
  Emit("k", "1");
  Holder relay = Hold();
  EXPECT_THAT(Ship(relay), ElementsAre("1"));
  EXPECT_EQ(session_.Exec("select timeline from sealane.log_server"), "1");
}

TEST_F(ServerChangePostgres, ARestoredLogStopsAndPublishesExactlyTheRestAfterARebase) {
  ValueOrThrow(OpenRoutes()->Add("late", {.kind = RouteStart::Kind::kBeginning}, {.actor = "me", .reason = "test"}));
  PgSession open(database_.url());
  open.Exec("begin");
  Emit(open, "k0", "open long");
  for (int i = 1; i <= 5; ++i) Emit("k" + std::to_string(i), "a" + std::to_string(i));
  {
    Holder relay = Hold();
    EXPECT_EQ(Ship(relay).size(), 5U);
  }
  open.Exec("commit");  // its number is lower than those that are published
  Emit("k6", "b1");
  {
    Holder late = Hold("late");
    EXPECT_EQ(Ship(late).size(), 7U);
  }
  Emit("k7", "c1");
  PretendRestore();
  Emit("k7", "new 1");
  Emit("k1", "new 2");

  for (const char* done : {"a1", "a5"}) EXPECT_EQ(Status(done), "PUBLISHED") << done;
  for (const char* open_one : {"open long", "b1", "c1", "new 1", "new 2"})
    EXPECT_EQ(Status(open_one), "PENDING") << open_one;
  EXPECT_EQ(Status("b1", "late"), "PUBLISHED");
  EXPECT_EQ(Status("new 2", "late"), "PENDING");
  const RouteReport report = ValueOrThrow(OpenRoutes()->Look());
  for (const RouteSummary& route : report.routes)
    EXPECT_EQ(route.pending, route.route == "main" ? 5 : 3) << route.route;

  const auto log = OpenLog();
  ValueOrThrow(log->Beat(kLease));
  const auto claimed = log->Claim(1'000, kLease);
  ASSERT_FALSE(claimed.has_value());
  EXPECT_EQ(claimed.error().code(), "another_server");
  EXPECT_THAT(claimed.error().hint(), ::testing::HasSubstr("sealane route rebase"));
  // Time alone resolves nothing.
  session_.Exec("update sealane.lane_state set cursor_snapshot = '3:3:' where cursor_snapshot::text = '1:1:'");
  EXPECT_FALSE(log->Claim(1'000, kLease).has_value());

  const auto routes = OpenRoutes();
  const RebaseReport plan = ValueOrThrow(routes->PlanRebase());
  EXPECT_TRUE(plan.needed);
  EXPECT_EQ(plan.home, "42");
  ASSERT_EQ(plan.routes.size(), 2U);
  EXPECT_EQ(plan.routes[0].route, "late");
  EXPECT_EQ(plan.routes[0].pending, 3);
  EXPECT_EQ(plan.routes[1].pending, 5);
  EXPECT_EQ(Status("new 1"), "PENDING") << "a plan changes nothing";

  const RebaseReport done = ValueOrThrow(routes->Rebase({.actor = "me", .reason = "restored"}));
  EXPECT_EQ(done.routes[1].published, 5);
  EXPECT_EQ(done.routes[1].pending, 5);
  EXPECT_FALSE(ValueOrThrow(routes->PlanRebase()).needed);
  EXPECT_EQ(session_.Exec("select actor || ' ' || action || ' ' || target || ' ' || reason from sealane.audit"
                          " order by id desc limit 1"),
            "me route.rebase late, main restored");
  Emit("k1", "later");

  Holder relay = Hold();
  EXPECT_THAT(Ship(relay), ElementsAre("open long", "b1", "c1", "new 1", "new 2", "later"));
  EXPECT_THAT(Ship(relay), IsEmpty());
  Holder late = Hold("late");
  EXPECT_THAT(Ship(late), ElementsAre("c1", "new 1", "new 2", "later"));
  for (const char* value : {"a1", "open long", "new 1", "later"}) EXPECT_EQ(Status(value), "PUBLISHED") << value;
  ASSERT_FALSE(session_.Exec("select count(*) from sealane.outbox").empty());
}

TEST_F(ServerChangePostgres, ARebaseKeepsIsolatedTenantsAndParkedEvents) {
  Emit("k1", "a1", "slow");
  Emit("k2", "b1", "quick");
  Emit("k3", "c1", "quick");
  {
    Holder relay = Hold();
    for (LaneGrant& grant : relay.grants) {
      const ReadOut out = ReadToEnd(*relay.log, {.lanes = {grant.lease.lane}, .from = grant.positions.main});
      SettleRequest request;
      for (const ReadEvent& event : out.events) {
        if (Unquoted(event.envelope.payload) != "c1") continue;
        request.park.push_back(FailureOf(relay.grants, event, ParkedState::kDead, 3, "broken"));
      }
      request.progress.push_back({grant.lease, {out.at, {{{"slow"}, grant.positions.main}}}, ""});
      ValueOrThrow(relay.log->Settle(request));
    }
  }
  EXPECT_EQ(Status("a1"), "PENDING");
  EXPECT_EQ(Status("c1"), "DEAD");
  PretendRestore();
  ValueOrThrow(OpenRoutes()->Rebase({.actor = "me", .reason = "restored"}));
  EXPECT_EQ(Status("a1"), "PENDING");
  EXPECT_EQ(Status("b1"), "PUBLISHED");
  EXPECT_EQ(Status("c1"), "DEAD");
  const auto letters = ValueOrThrow(postgres::OpenDeadLetters({.url = database_.url()}));
  EXPECT_EQ(ValueOrThrow(letters->Retry({.route = "main"}, {.actor = "me", .reason = "test"})), 1);

  Holder relay = Hold();
  const std::vector<BlockedUnit> blocked = ValueOrThrow(relay.log->BlockedUnits(LeasesOf(relay.grants)));
  ASSERT_EQ(blocked.size(), 1U);
  const std::vector<DueUnit> due = {{blocked[0].lease, blocked[0].unit}};
  const Page page = ValueOrThrow(relay.log->ReadParked(due, 10, 1'000'000)).page;
  ASSERT_EQ(page.entries.size(), 1U) << "its row is found by the new number";
  EXPECT_EQ(Unquoted(page.entries[0].event.payload), "c1");
  EXPECT_THAT(Ship(relay), ElementsAre("a1"));
}

TEST_F(ServerChangePostgres, ARebaseRefusesASequenceThatWasLeftBehind) {
  for (int i = 0; i < 3; ++i) Emit("k", "a");
  {
    Holder relay = Hold();
    Ship(relay);
  }
  PretendRestore();
  session_.Exec("select setval('sealane.outbox_seq_seq', 1)");
  const auto done = OpenRoutes()->Rebase({.actor = "me", .reason = "restored"});
  ASSERT_FALSE(done.has_value());
  EXPECT_THAT(done.error().ToString(), ::testing::HasSubstr("setval"));
}

TEST_F(ServerChangePostgres, ARebaseGoesOnBesideWriters) {
  for (int i = 0; i < 200; ++i) Emit("k", "a" + std::to_string(i));
  PretendRestore();
  std::jthread writer([&](const std::stop_token& stop) {
    PgSession session(database_.url());
    for (int i = 0; !stop.stop_requested(); ++i) Emit(session, "w", "w" + std::to_string(i));
  });
  const auto routes = OpenRoutes();
  for (int i = 0; i < 20; ++i) {
    const auto done = routes->Rebase({.actor = "me", .reason = "restored"});
    ASSERT_TRUE(done.has_value()) << done.error().ToString();
  }
}

TEST_F(ServerChangePostgres, RowsStayImmutableForEverybodyElse) {
  Emit("k", "1");
  EXPECT_EQ(session_.Try("update sealane.outbox set topic = 'other'"), "23001");
  session_.Exec("begin");
  session_.Exec("set local sealane.rebase = '17'");
  EXPECT_EQ(session_.Try("update sealane.outbox set topic = 'other'"), "23001");
}

}  // namespace
}  // namespace sealane
