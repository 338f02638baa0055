// What every store promises to people who watch: how much waits and for how long, who works on it, what was set
// aside, on each route, and that looking changes nothing and stays cheap however much there is.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/log_fixture.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using enum ParkedState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RouteDeskContract : public ::testing::TestWithParam<std::string> {
 protected:
  LogFixture& fixture() { return *fixture_; }
  OutboxLog& log() { return *log_; }
  void Append(const std::vector<NewEntry>& entries) { AppendAndCommit(*store_, entries); }
  RouteDesk& routes() { return *desk_; }
  RouteReport Look() { return ValueOrThrow(desk_->Look()); }
  RouteSummary LookAt(const std::string& name = "main") {
    for (const RouteSummary& route : Look().routes) {
      if (route.route == name) return route;
    }
    ADD_FAILURE() << "there is no route " << name;
    return {};
  }
  /// A time by the store's clock, which has moved on by at least its resolution before and after.
  Timestamp LaterThanNow() {
    const auto tick = [&](Timestamp seen) {
      while (Look().at <= seen + 1ms) {
        fixture().LetTimePass(1s);  // a clock that only tests move
        std::this_thread::sleep_for(2ms);
      }
      return Look().at;
    };
    const Timestamp time = tick(Look().at);
    tick(time);
    return time;
  }
  static constexpr std::int64_t kMany = 25'000;  // more than a look counts
  void AppendMany() {
    std::vector<NewEntry> entries;
    for (int i = 0; i < kMany / 5; ++i) entries.push_back(SampleEntry("k" + std::to_string(i)));
    for (int i = 0; i < 5; ++i) {
      for (NewEntry& entry : entries) entry.envelope.id = FreshId();
      Append(entries);
    }
  }
  /// Reads everything from where the lanes stand, and settles all of it.
  void ShipEverything(const std::vector<LaneGrant>& grants) {
    const ReadOut out = ReadToEnd(log(), {.lanes = LanesOf(grants), .from = grants.front().positions.main});
    SettleAt(log(), grants, out.at);
  }

 private:
  std::unique_ptr<LogFixture> fixture_ = MakeLogFixture(GetParam());
  std::unique_ptr<OutboxStore> store_ = fixture_->OpenStore();
  std::unique_ptr<OutboxLog> log_ = fixture_->OpenLog("relay-1");
  std::unique_ptr<RouteDesk> desk_ = fixture_->OpenRouteDesk();
};

INSTANTIATE_TEST_SUITE_P(Store, RouteDeskContract, ::testing::ValuesIn(LogStores()),
                         [](const auto& test) { return test.param; });

TEST_P(RouteDeskContract, AnEmptyOutboxHasARouteAndNothingWaits) {
  const RouteReport report = Look();
  EXPECT_EQ(report.seq_high, 0);
  EXPECT_GT(report.at, Timestamp{});
  EXPECT_THAT(report.relays, IsEmpty());
  ASSERT_THAT(report.routes, SizeIs(1));
  const RouteSummary& route = report.routes.front();
  EXPECT_EQ(route.route, "main");
  EXPECT_FALSE(route.paused);
  EXPECT_GE(route.lanes, 1);
  EXPECT_EQ(route.leased, 0);
  EXPECT_EQ(route.pending, 0);
  EXPECT_TRUE(route.pending_exact);
  EXPECT_EQ(route.oldest_pending, std::nullopt);
  EXPECT_EQ(route.waiting + route.failed + route.dead, 0);
  EXPECT_THAT(route.tenants, IsEmpty());
}

TEST_P(RouteDeskContract, CountsWhatIsCommittedAndNotShipped) {
  Append({SampleEntry("a"), SampleEntry("b"), SampleEntry("a")});
  EXPECT_EQ(LookAt().pending, 3);
  EXPECT_TRUE(LookAt().pending_exact);
  ASSERT_TRUE(LookAt().oldest_pending.has_value());
  EXPECT_GE(*LookAt().oldest_pending, 0us);
  EXPECT_GE(Look().seq_high, 3);

  const auto grants = TakeAll(log());
  ShipEverything(grants);
  EXPECT_EQ(LookAt().pending, 0);
  EXPECT_EQ(LookAt().oldest_pending, std::nullopt);
  EXPECT_GE(Look().seq_high, 3) << "numbers that were handed out stay so";

  Append({SampleEntry("c")});
  EXPECT_EQ(LookAt().pending, 1) << "what came after";
}

TEST_P(RouteDeskContract, WhatIsNotCommittedIsNotPending) {
  const auto store = fixture().OpenStore();
  const auto transaction = ValueOrThrow(store->Begin());
  const std::vector<NewEntry> entries = {SampleEntry("a")};
  ValueOrThrow(transaction->Append(entries));
  EXPECT_EQ(LookAt().pending, 0);
  ValueOrThrow(transaction->Rollback());
  EXPECT_EQ(LookAt().pending, 0);
}

TEST_P(RouteDeskContract, ALongBacklogIsALowerBoundAndNotALongLook) {
  AppendMany();
  const RouteSummary route = LookAt();
  EXPECT_GE(route.pending, RouteDesk::kPendingMax / 2);
  EXPECT_LE(route.pending, kMany);
  EXPECT_EQ(route.pending_exact, route.pending == kMany);
  EXPECT_TRUE(route.oldest_pending.has_value());
}

TEST_P(RouteDeskContract, TheRestOfALongBacklogIsSeenWhileItIsShipped) {
  AppendMany();
  const auto grants = TakeAll(log());
  const std::vector<Lane> lanes = LanesOf(grants);
  const Horizon horizon = ValueOrThrow(log().Look());
  Position at = grants.front().positions.main;
  std::int64_t shipped = 0;
  for (bool more = true; more && shipped < kMany - 2'000;) {
    const Position from = at;
    const Page page =
        ValueOrThrow(log().Read({.lanes = lanes, .from = &from, .horizon = &horizon, .entries_max = 1'000}));
    shipped += static_cast<std::int64_t>(page.entries.size());
    at = page.next;
    more = !page.caught_up;
  }
  SettleAt(log(), grants, at);
  Append({SampleEntry("late")});
  const RouteSummary route = LookAt();
  EXPECT_EQ(route.pending, kMany + 1 - shipped) << "what is done stands in front of nothing";
  EXPECT_TRUE(route.pending_exact);
  EXPECT_EQ(route.oldest_pending.has_value(), route.pending > 0);
}

TEST_P(RouteDeskContract, AnOpenTransactionHidesNothing) {
  if (fixture().has_one_writer()) return;  // then nobody else can append meanwhile
  const auto store = fixture().OpenStore();
  const auto open = ValueOrThrow(store->Begin());
  const std::vector<NewEntry> early = {SampleEntry("early")};
  ValueOrThrow(open->Append(early));
  AppendMany();
  ShipEverything(TakeAll(log()));
  Append({SampleEntry("late")});
  EXPECT_EQ(LookAt().pending, 1);
  EXPECT_TRUE(LookAt().pending_exact);
  ValueOrThrow(open->Commit());
  EXPECT_EQ(LookAt().pending, 2) << "it was passed over, and not forgotten";
}

TEST_P(RouteDeskContract, WhoIsPausedOrLimitedIsPendingAndNotLate) {
  Append({OfTenant(SampleEntry("a"), "paused"), OfTenant(SampleEntry("b"), "limited")});
  const auto letters = fixture().OpenDeadLetters();
  ValueOrThrow(letters->SetTenant("main", {.tenant = "paused", .paused = true}, {"ann", "because"}));
  ValueOrThrow(letters->SetTenant("main", {.tenant = "limited", .rate_max = 1}, {"ann", "because"}));
  EXPECT_EQ(LookAt().pending, 2);
  EXPECT_EQ(LookAt().oldest_pending, std::nullopt) << "on purpose";
  Append({OfTenant(SampleEntry("c"), "other")});
  EXPECT_TRUE(LookAt().oldest_pending.has_value());
}

TEST_P(RouteDeskContract, EachRouteHasItsOwnPosition) {
  const auto again = fixture().OpenLog("relay-2", "again");
  Append({SampleEntry("a"), SampleEntry("b")});
  ShipEverything(TakeAll(log()));
  EXPECT_EQ(LookAt("main").pending, 0);
  EXPECT_EQ(LookAt("again").pending, 2);
  const auto routes = Look().routes;
  ASSERT_THAT(routes, SizeIs(2));
  EXPECT_EQ(routes[0].route, "again") << "in the order of their names";
  EXPECT_EQ(routes[1].route, "main");
}

TEST_P(RouteDeskContract, LanesAtDifferentPositionsAreCountedEachFromItsOwn) {
  std::vector<NewEntry> entries;
  for (int i = 0; i < 40; ++i) entries.push_back(SampleEntry("k" + std::to_string(i)));
  Append(entries);
  const auto grants = TakeAll(log());
  const ReadOut out = ReadToEnd(log(), {.lanes = LanesOf(grants), .from = grants.front().positions.main});
  ASSERT_THAT(out.events, SizeIs(40));
  const Lane shipped = out.events.front().entry.lane;
  std::int64_t others = 0;
  for (const ReadEvent& event : out.events) others += event.entry.lane != shipped ? 1 : 0;
  SettleAt(log(), {grants[static_cast<std::size_t>(shipped)]}, out.at);
  EXPECT_EQ(LookAt().pending, others);
  EXPECT_TRUE(LookAt().pending_exact);
}

TEST_P(RouteDeskContract, ATenantThatRunsApartHasAPositionOfItsOwn) {
  Append({OfTenant(SampleEntry("a"), "quiet"), OfTenant(SampleEntry("b"), "noisy"),
          OfTenant(SampleEntry("c"), "noisy")});
  const auto grants = TakeAll(log());
  const Position start = grants.front().positions.main;
  const ReadOut out = ReadToEnd(log(), {.lanes = LanesOf(grants), .from = start});
  SettleAt(log(), grants, out.at, {{{"noisy"}, start}});
  EXPECT_EQ(LookAt().pending, 2) << "those of the tenant behind";
  SettleAt(log(), grants, start, {{{"noisy"}, out.at}});
  EXPECT_EQ(LookAt().pending, 1) << "and of everybody else";
}

TEST_P(RouteDeskContract, WhatWasSetAsideIsCountedByStateAndIsNotPending) {
  const NewEntry a1 = SampleEntry("a");
  const NewEntry a2 = SampleEntry("a");
  const NewEntry b = SampleEntry("b");
  const NewEntry c = SampleEntry("c");
  const NewEntry d = SampleEntry("d");
  const NewEntry e = SampleEntry("e");
  Append({a1, a2, b, c, d, e});
  fixture().Park({{a1.envelope.id, kFailed, 2, "refused"},
                  {a2.envelope.id, kWaiting},
                  {b.envelope.id, kDead, 10, "too_large"},
                  {c.envelope.id, kDead, 10, "too_large"},
                  {d.envelope.id, kDead, 10, "too_large"}});
  const auto letters = fixture().OpenDeadLetters();
  ValueOrThrow(letters->Discard(c.envelope.id, {}, {"ann", "because"}));
  ValueOrThrow(letters->Skip(d.envelope.id, {}, {"ann", "because"}));
  const RouteSummary route = LookAt();
  EXPECT_EQ(route.waiting, 1);
  EXPECT_EQ(route.failed, 1);
  EXPECT_EQ(route.dead, 1) << "one that was given up or skipped waits for nobody";
  EXPECT_TRUE(route.aside_exact);
  EXPECT_EQ(route.pending, 1) << "the one that nobody has come to";
}

TEST_P(RouteDeskContract, WhatWaitsForATopicOrForItsTimeIsCounted) {
  const NewEntry lost = SampleEntry("a");
  NewEntry later = SampleEntry("b");
  later.envelope.available_at = ValueOrThrow(log().Look()).at + std::chrono::hours{1};
  Append({lost, later});
  const std::vector<LaneGrant> grants = TakeAll(log());
  const ReadOut out = ReadToEnd(log(), {.lanes = LanesOf(grants), .from = grants.front().positions.main});
  ASSERT_EQ(out.events.size(), 2U);
  SettleRequest request;
  for (const LaneGrant& grant : grants) {
    request.progress.push_back({.lease = grant.lease, .positions = {.main = out.at}});
  }
  request.park = {ParkOf(grants, out.events[0], kWaiting)};
  request.park[0].waits_for = "lost";
  request.delay = {{.lease = LeaseFor(grants, out.events[1].entry),
                    .seq = out.events[1].entry.seq,
                    .place = out.events[1].entry.place,
                    .id = out.events[1].envelope.id,
                    .tenant = {},
                    .appended_at = out.events[1].entry.appended_at,
                    .due_at = *later.envelope.available_at}};
  ValueOrThrow(log().Settle(request));
  const RouteSummary route = LookAt();
  EXPECT_EQ(route.waiting, 2);
  EXPECT_EQ(route.pending, 0);
  EXPECT_EQ(route.failed + route.dead, 0);
}

TEST_P(RouteDeskContract, KnowsWhoWorks) {
  ValueOrThrow(log().Beat(30s));
  const auto held = TakeAll(log(), 30s);
  const auto other = fixture().OpenLog("relay-2");
  ValueOrThrow(other->Beat(60s));
  RouteReport report = Look();
  EXPECT_EQ(report.routes.front().live_relays, 2);
  EXPECT_EQ(report.routes.front().leased, static_cast<std::int32_t>(held.size()));
  EXPECT_EQ(report.routes.front().lanes, static_cast<std::int32_t>(held.size()));
  ASSERT_THAT(report.relays, SizeIs(2));
  EXPECT_EQ(report.relays[0].owner, "relay-1");
  EXPECT_EQ(report.relays[0].route, "main");
  EXPECT_EQ(report.relays[0].lanes, static_cast<std::int32_t>(held.size()));
  EXPECT_TRUE(report.relays[0].live);
  EXPECT_GT(report.relays[0].expires_at, report.relays[0].started_at);
  EXPECT_EQ(report.relays[1].owner, "relay-2");
  EXPECT_EQ(report.relays[1].lanes, 0);

  fixture().LetTimePass(40s);
  report = Look();
  EXPECT_EQ(report.routes.front().live_relays, 1) << "the other one lives";
  EXPECT_EQ(report.routes.front().leased, 0);
  ASSERT_THAT(report.relays, SizeIs(2)) << "whoever died is still to be seen";
  EXPECT_FALSE(report.relays[0].live);
  EXPECT_EQ(report.relays[0].lanes, 0);
  EXPECT_TRUE(report.relays[1].live);
}

TEST_P(RouteDeskContract, ShowsWhatOperatorsDecided) {
  const auto letters = fixture().OpenDeadLetters();
  ValueOrThrow(letters->SetPaused("main", true, {"ann", "because"}));
  ValueOrThrow(letters->SetTenant("main", {.tenant = "b", .rate_max = 300}, {"ann", "because"}));
  ValueOrThrow(letters->SetTenant("main", {.tenant = "a", .paused = true}, {"ann", "because"}));
  const RouteSummary route = LookAt();
  EXPECT_TRUE(route.paused);
  EXPECT_THAT(route.tenants,
              ElementsAre(TenantRule{.tenant = "a", .paused = true}, TenantRule{.tenant = "b", .rate_max = 300}));
}

TEST_P(RouteDeskContract, ARouteBeginsWhereItIsTold) {
  Append({SampleEntry("a"), SampleEntry("b")});
  const Timestamp between = LaterThanNow();
  const NewEntry after = SampleEntry("c");
  Append({after});
  const OperatorAction why{"ann", "because"};
  ValueOrThrow(routes().Add("all", {}, why));
  ValueOrThrow(routes().Add("news", {.kind = RouteStart::Kind::kNow}, why));
  ValueOrThrow(routes().Add("since", {.kind = RouteStart::Kind::kTime, .at = between}, why));
  EXPECT_EQ(LookAt("all").pending, 3);
  EXPECT_EQ(LookAt("news").pending, 0);
  EXPECT_EQ(LookAt("since").pending, 1);
  const NewEntry later = SampleEntry("d");
  Append({later});
  EXPECT_EQ(LookAt("news").pending, 1);

  const auto shipped = [&](const std::string& route) {
    const auto relay = fixture().OpenLog("relay-9", route);
    ValueOrThrow(relay->Beat(30s));
    std::vector<EventId> ids;
    for (const LaneGrant& grant : TakeAll(*relay, 30s)) {
      const ReadOut out = ReadToEnd(*relay, {.lanes = {grant.lease.lane}, .from = grant.positions.main});
      for (const ReadEvent& event : out.events) ids.push_back(event.envelope.id);
    }
    return ids;
  };
  EXPECT_THAT(shipped("news"), ElementsAre(later.envelope.id));
  EXPECT_THAT(shipped("since"), ::testing::UnorderedElementsAre(after.envelope.id, later.envelope.id));
  EXPECT_THAT(shipped("all"), SizeIs(4));
}

TEST_P(RouteDeskContract, ANewRouteShipsWhatIsOpenWhenItBegins) {
  if (fixture().has_one_writer()) return;  // nothing can be open beside the route that is made
  const auto store = fixture().OpenStore();
  const auto open = ValueOrThrow(store->Begin());
  const std::vector<NewEntry> entries = {SampleEntry("a")};
  ValueOrThrow(open->Append(entries));
  ValueOrThrow(routes().Add("news", {.kind = RouteStart::Kind::kNow}, {"ann", "because"}));
  ValueOrThrow(open->Commit());
  EXPECT_EQ(LookAt("news").pending, 1);
}

TEST_P(RouteDeskContract, RefusesARouteThatIsThereOrCannotBe) {
  const OperatorAction why{"ann", "because"};
  EXPECT_EQ(routes().Add("main", {}, why).error().code(), "route_exists");
  for (const char* name : {"", "Main", "1st", "a b", "a;drop"}) {
    EXPECT_EQ(routes().Add(name, {}, why).error().code(), "invalid_route_name") << name;
  }
  EXPECT_EQ(routes().Add("x", {}, {"", "because"}).error().code(), "actor_required");
  EXPECT_THAT(Look().routes, SizeIs(1));
}

TEST_P(RouteDeskContract, ARouteIsRemovedWithAllItHas) {
  const NewEntry a = SampleEntry("a");
  Append({a});
  const OperatorAction why{"ann", "because"};
  EXPECT_EQ(routes().Remove("trial", why).error().code(), "unknown_route");
  ValueOrThrow(routes().Add("trial", {}, why));
  fixture().Park({{a.envelope.id, kDead, 10, "too_large"}}, "trial");
  const auto relay = fixture().OpenLog("relay-9", "trial");
  ValueOrThrow(relay->Beat(30s));
  EXPECT_EQ(routes().Remove("trial", why).error().code(), "route_busy");
  EXPECT_EQ(LookAt("trial").dead, 1);
  ValueOrThrow(relay->Leave());
  ValueOrThrow(routes().Remove("trial", why));
  EXPECT_THAT(Look().routes, SizeIs(1));
  const auto audit = ValueOrThrow(fixture().OpenDeadLetters()->Audit(10));
  ASSERT_GE(audit.size(), 2U);
  EXPECT_EQ(audit[0].action, "route.remove");
  EXPECT_EQ(audit[0].target, "trial");
  EXPECT_EQ(audit[1].action, "route.add");
  ValueOrThrow(routes().Add("trial", {}, why));
  EXPECT_EQ(LookAt("trial").dead, 0) << "nothing is left of the one before";
}

TEST_P(RouteDeskContract, PositionsFitTheServerTheyWereMadeOn) {
  Append({SampleEntry("a"), SampleEntry("b")});
  const RebaseReport plan = ValueOrThrow(routes().PlanRebase());
  EXPECT_FALSE(plan.needed);
  EXPECT_EQ(plan.home, plan.here);
  ASSERT_THAT(plan.routes, SizeIs(1));
  EXPECT_EQ(plan.routes[0].pending, 2);
  EXPECT_EQ(plan.routes[0].published, 0);
}

}  // namespace
}  // namespace sealane
