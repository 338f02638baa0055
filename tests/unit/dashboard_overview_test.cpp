// Protects what the dashboard says at first sight: the sentence for whoever was woken, rates that are rates, figures
// that say when they are not exact, and that a store out of reach leaves what was seen on the screen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dashboard/overview.hpp"
#include "dashboard/request.hpp"
#include "support/sample_events.hpp"

namespace sealane::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// ---- addresses ----

TEST(DashboardTarget, IsTakenApart) {
  const auto request = ParseDashboardTarget("/api/v1/messages?key=a%2Fb+c&topic=&x=%C3%A9&flag");
  ASSERT_TRUE(request) << request.error().ToString();
  EXPECT_EQ(request->path, "/api/v1/messages");
  EXPECT_EQ(request->Find("key"), "a/b c");
  EXPECT_EQ(request->Find("topic"), std::nullopt) << "a field that nobody filled in";
  EXPECT_EQ(request->Find("x"), "\xc3\xa9");
  EXPECT_EQ(request->Find("flag"), std::nullopt);
  EXPECT_EQ(request->Find("absent"), std::nullopt);
  EXPECT_EQ(ParseDashboardTarget("/messages/a%20b+c")->path, "/messages/a b+c") << "a plus is a plus in a path";
}

TEST(DashboardTarget, RefusesWhatIsNotWellFormed) {
  for (const char* const target : {"/?a=%", "/?a=%4", "/?a=%4x", "/%zz", "/?a=%ff", "/?a=%00", "/?a=1&a=2"}) {
    const auto request = ParseDashboardTarget(target);
    ASSERT_FALSE(request) << target;
    EXPECT_EQ(request.error().code(), "bad_request");
  }
}

TEST(DashboardTarget, OffersTheParameterThatWasMeant) {
  const auto request = ParseDashboardTarget("/api/v1/messages?tpic=orders");
  const std::string_view known[] = {"topic", "key"};
  const Status checked = CheckParameters(*request, known);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), "bad_parameter");
  EXPECT_THAT(checked.error().hint(), HasSubstr("`topic`"));
  EXPECT_TRUE(CheckParameters(*ParseDashboardTarget("/?key=1"), known));
}

TEST(DashboardHost, IsThisMachineAndNoName) {
  for (const char* const host : {"127.0.0.1", "127.0.0.1:8377", "localhost", "localhost:1", "[::1]", "[::1]:8377"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* const host : {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8377",
                                 "10.0.0.1", "[::2]", "[::1", "127.evil"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

// ---- figures ----

RouteSummary Route(const std::string& name = "main") {
  RouteSummary route;
  route.route = name;
  route.lanes = 64;
  route.leased = 64;
  route.live_relays = 1;
  return route;
}

Sighting SeenAt(std::chrono::seconds when, std::int64_t seq_high, std::vector<RouteSummary> routes) {
  Sighting seen;
  seen.at = Timestamp{when};
  seen.since = when;
  seen.routes.seq_high = seq_high;
  seen.routes.routes = std::move(routes);
  seen.tasks = TaskTally{};
  return seen;
}

RouteSummary Pending(std::int64_t count, std::chrono::microseconds oldest = 400ms) {
  RouteSummary route = Route();
  route.pending = count;
  if (count > 0) route.oldest_pending = oldest;
  return route;
}

StoredMessage Published(const std::string& route, std::chrono::microseconds after) {
  StoredMessage message;
  message.appended_at = Timestamp{100s};
  RouteStatus status;
  status.route = route;
  status.state = DeliveryState::kPublished;
  status.published_at = message.appended_at + after;
  message.routes = {status};
  return message;
}

TEST(DashboardLatency, IsMedianAndNinetyNinthPerRoute) {
  std::vector<StoredMessage> messages;
  for (int i = 1; i <= 99; ++i) messages.push_back(Published("main", std::chrono::milliseconds{i}));
  messages.push_back(Published("again", 7ms));
  messages.push_back(Published("again", -1ms));
  StoredMessage pending;
  pending.routes = {RouteStatus{.route = "main"}};
  messages.push_back(pending);
  const auto latencies = LatenciesOf(messages);
  EXPECT_EQ(latencies.at("main").median, 50ms);
  EXPECT_EQ(latencies.at("main").p99, 98ms);
  EXPECT_EQ(latencies.at("main").events, 99U);
  EXPECT_EQ(latencies.at("again").median, 0ms) << "a clock that went back";
  EXPECT_EQ(latencies.size(), 2U);
}

TEST(DashboardHealth, TellsWhatAPersonWouldAsk) {
  const auto judge = [](const Sighting& seen, std::optional<double> rate = 100.0) {
    return JudgeHealth(&seen, nullptr, rate);
  };
  Health health = judge(SeenAt(1s, 10, {Pending(0)}));
  EXPECT_EQ(health.level, HealthLevel::kGood);
  EXPECT_EQ(health.sentence, "Delivering. Nothing is pending.");
  EXPECT_EQ(judge(SeenAt(1s, 10, {Pending(0)}), 0.0).sentence, "Idle. Nothing is pending.");
  EXPECT_EQ(judge(SeenAt(1s, 10, {Pending(1)})).sentence, "Delivering. 1 event is pending, the oldest for 0.4 s.");

  health = judge(SeenAt(1s, 10, {Pending(20, 30s)}));
  EXPECT_EQ(health.level, HealthLevel::kNotice);
  EXPECT_THAT(health.sentence, HasSubstr("Behind. 20 events are pending, the oldest for 30 s."));
  health = judge(SeenAt(1s, 10, {Pending(20, 5min)}));
  EXPECT_EQ(health.level, HealthLevel::kWrong);
  EXPECT_THAT(health.sentence, HasSubstr("Far behind."));

  RouteSummary abandoned = Pending(3);
  abandoned.live_relays = 0;
  abandoned.leased = 0;
  health = judge(SeenAt(1s, 10, {abandoned}));
  EXPECT_EQ(health.level, HealthLevel::kWrong);
  EXPECT_EQ(health.sentence, "No relay runs on route main. 3 events are pending, the oldest for 0.4 s.");

  RouteSummary paused = Pending(3);
  paused.paused = true;
  health = judge(SeenAt(1s, 10, {paused}));
  EXPECT_EQ(health.level, HealthLevel::kNotice);
  EXPECT_THAT(health.sentence, HasSubstr("Route main is paused."));
  paused = Pending(3, 5min);
  paused.route = "again";
  paused.paused = true;
  health = judge(SeenAt(1s, 10, {paused, Pending(0)}));
  EXPECT_EQ(health.level, HealthLevel::kNotice) << "it is late on purpose";
  EXPECT_EQ(health.sentence, "Route again is paused. Delivering. 3 events are pending, the oldest for 5 min.");
  EXPECT_THAT(judge(SeenAt(1s, 10, {paused, Pending(0)}), 0.0).sentence, HasSubstr("Idle. 3 events are pending"));

  RouteSummary held = Pending(3);
  held.oldest_pending.reset();
  held.tenants = {{.tenant = "acme", .paused = true}, {.tenant = "noisy", .rate_max = 5}};
  health = judge(SeenAt(1s, 10, {held}));
  EXPECT_EQ(health.level, HealthLevel::kNotice) << "they wait on purpose";
  EXPECT_EQ(health.sentence, "Tenant acme is paused on route main. Delivering. 3 events are pending.");
  held.tenants.push_back({.tenant = "zeta", .paused = true});
  EXPECT_THAT(judge(SeenAt(1s, 10, {held})).sentence, HasSubstr("2 tenants are paused on route main. Delivering."));

  RouteSummary orphaned = Pending(0);
  orphaned.leased = 60;
  EXPECT_THAT(judge(SeenAt(1s, 10, {orphaned})).sentence, HasSubstr("4 of 64 lanes of route main are nobody's."));

  RouteSummary uncounted = Pending(20'000);
  uncounted.pending_exact = false;
  EXPECT_THAT(judge(SeenAt(1s, 10, {uncounted})).sentence, HasSubstr("20000 events are pending or more"));
}

TEST(DashboardHealth, CountsWhatWaitsForAPerson) {
  Sighting seen = SeenAt(1s, 10, {Pending(0)});
  seen.routes.routes[0].dead = 2;
  seen.routes.routes[0].failed = 1;
  InboxSummary consumer;
  consumer.waiting = {.parked = 4, .dead = 1, .gaps = 2};
  seen.consumers = {consumer};
  seen.tasks->dead = 1;
  const Health health = JudgeHealth(&seen, nullptr, 1.0);
  EXPECT_EQ(health.level, HealthLevel::kNotice) << "everything else arrives";
  EXPECT_EQ(
      health.sentence,
      "Delivering. Nothing is pending. 2 events are dead and for a person to decide. 1 event has failed and will "
      "be tried again. 1 event is dead at a consumer. 2 events wait for an earlier version. 1 task is dead.");
}

TEST(DashboardHealth, KnowsWhatItDoesNotKnow) {
  EXPECT_EQ(JudgeHealth(nullptr, nullptr, {}).level, HealthLevel::kUnknown);
  const Error away(ErrorKind::kUnavailable, "store_unreachable", "no route to host");
  const Sighting seen = SeenAt(1s, 10, {Pending(0)});
  const Health health = JudgeHealth(&seen, &away, 1.0);
  EXPECT_EQ(health.level, HealthLevel::kWrong);
  EXPECT_EQ(health.sentence, "The store could not be read: no route to host.");
}

TEST(DashboardDuration, IsShort) {
  EXPECT_EQ(ShortDuration(0us), "0.0 s");
  EXPECT_EQ(ShortDuration(9'949ms), "9.9 s");
  EXPECT_EQ(ShortDuration(9'951ms), "10 s");
  EXPECT_EQ(ShortDuration(119s), "119 s");
  EXPECT_EQ(ShortDuration(3min), "3 min");
  EXPECT_EQ(ShortDuration(5h), "5 h");
  EXPECT_EQ(ShortDuration(72h), "3 d");
}

class DashboardOverview : public ::testing::Test {
 protected:
  json Look() const { return json::parse(overview_.Json(Timestamp{1'000s})); }

  Overview overview_{{.version = "1.2", .store = "sqlite:x.db", .command_flags = "--store x.db"}, 2s};
};

TEST_F(DashboardOverview, SaysSoBeforeTheFirstLook) {
  const json document = Look();
  EXPECT_EQ(document["health"]["level"], "unknown");
  EXPECT_FALSE(document.contains("as_of"));
  EXPECT_FALSE(document.contains("routes"));
  EXPECT_EQ(document["store"], "sqlite:x.db");
  EXPECT_EQ(document["command_flags"], "--store x.db");
  EXPECT_THAT(document["history"]["points"], SizeIs(0));
}

TEST_F(DashboardOverview, RatesAreOverTheLastSeconds) {
  overview_.Note(SeenAt(100s, 0, {Pending(0)}));
  EXPECT_FALSE(Look().contains("appended_per_second")) << "one look is no rate";
  overview_.Note(SeenAt(102s, 400, {Pending(100)}));
  json document = Look();
  EXPECT_EQ(document["appended_per_second"], 200.0);
  EXPECT_EQ(document["routes"][0]["published_per_second"], 150.0);
  EXPECT_EQ(document["history"]["points"][1]["published_per_second"], 150.0);
  // Long ago does not count any more.
  for (int i = 1; i <= 10; ++i) overview_.Note(SeenAt(102s + 2s * i, 400, {Pending(0)}));
  document = Look();
  EXPECT_EQ(document["appended_per_second"], 0.0);
  EXPECT_EQ(document["routes"][0]["published_per_second"], 0.0);
}

TEST_F(DashboardOverview, WhatWasSetAsideWasNotPublished) {
  overview_.Note(SeenAt(100s, 0, {Pending(0)}));
  RouteSummary refused = Pending(0);
  refused.failed = 60;
  refused.waiting = 20;
  refused.dead = 20;
  overview_.Note(SeenAt(102s, 200, {refused}));
  EXPECT_EQ(Look()["appended_per_second"], 100.0);
  EXPECT_EQ(Look()["routes"][0]["published_per_second"], 50.0);
}

TEST_F(DashboardOverview, TheHistoryHasTheSlowestRoutesLatency) {
  Sighting seen = SeenAt(100s, 10, {Pending(0)});
  overview_.Note(seen);
  seen.latencies = {{"again", {.median = 1ms, .p99 = 7ms, .events = 3}},
                    {"main", {.median = 2ms, .p99 = 5ms, .events = 3}}};
  overview_.Note(seen);
  const json points = Look()["history"]["points"];
  EXPECT_FALSE(points[0].contains("p99_ms"));
  EXPECT_EQ(points[1]["p99_ms"], 7.0);
}

TEST_F(DashboardOverview, ACountThatIsNotExactGivesNoRate) {
  RouteSummary vague = Pending(20'000);
  vague.pending_exact = false;
  overview_.Note(SeenAt(100s, 30'000, {vague}));
  overview_.Note(SeenAt(102s, 30'100, {vague}));
  const json document = Look();
  EXPECT_EQ(document["appended_per_second"], 50.0);
  EXPECT_FALSE(document["routes"][0].contains("published_per_second"));
  EXPECT_FALSE(document["history"]["points"][1].contains("published_per_second"));
  EXPECT_EQ(document["routes"][0]["pending_exact"], false);
}

TEST_F(DashboardOverview, AFailedLookKeepsWhatWasSeenAndSaysWhy) {
  overview_.Note(SeenAt(100s, 10, {Pending(3)}));
  overview_.NoteFailure(Error(ErrorKind::kUnavailable, "store_unreachable", "gone").WithHint("bring it back"));
  json document = Look();
  EXPECT_EQ(document["problem"]["code"], "store_unreachable");
  EXPECT_EQ(document["problem"]["hint"], "bring it back");
  EXPECT_EQ(document["routes"][0]["pending"], 3);
  EXPECT_EQ(document["as_of"], "1970-01-01T00:01:40.000000Z");
  overview_.Note(SeenAt(200s, 1'000, {Pending(0)}));
  document = Look();
  EXPECT_FALSE(document.contains("problem"));
  EXPECT_FALSE(document.contains("appended_per_second")) << "nobody knows when those came";
}

TEST_F(DashboardOverview, KeepsABoundedHistory) {
  for (std::size_t i = 0; i < Overview::kPointsMax + 10; ++i) {
    overview_.Note(SeenAt(std::chrono::seconds{i}, 1, {Pending(static_cast<std::int64_t>(i))}));
  }
  const json points = Look()["history"]["points"];
  ASSERT_THAT(points, SizeIs(Overview::kPointsMax));
  EXPECT_EQ(points[0]["pending"], 10) << "oldest first, and the oldest are gone";
}

TEST_F(DashboardOverview, SaysWhatThisUserMayNotSee) {
  Sighting seen = SeenAt(100s, 10, {Pending(0)});
  seen.tasks.reset();
  seen.consumers_problem = Error(ErrorKind::kMisconfigured, "not_permitted", "may not");
  overview_.Note(seen);
  const json document = Look();
  EXPECT_EQ(document["consumers_problem"]["code"], "not_permitted");
  EXPECT_FALSE(document.contains("tasks"));
}

}  // namespace
}  // namespace sealane::cli
