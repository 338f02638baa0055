// Protects the one lease that a relay has for all its lanes on PostgreSQL: heartbeats and claims that meet in the
// middle of each other never make two owners of a lane, and a heartbeat writes one small row.

#include <algorithm>
#include <chrono>
#include <future>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/memory_broker.hpp"
#include "postgres/postgres_store.hpp"
#include "relay/route_relay.hpp"
#include "support/eventually.hpp"
#include "support/log_fixture.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

class PostgresLease : public ::testing::Test {
 protected:
  std::unique_ptr<OutboxLog> OpenLog(const std::string& owner) {
    return ValueOrThrow(postgres::OpenOutboxLog({.url = database_.url()}, "main", owner));
  }
  std::size_t Lanes() { return static_cast<std::size_t>(session_.Count("sealane.lane_state WHERE route = 'main'")); }
  /// Ends the lease of a relay, as time does.
  void RunOut(const std::string& owner) {
    session_.Exec("update sealane.relay_member set expires_at = clock_timestamp() - interval '1 s' where owner = '" +
                  owner + "'");
  }
  /// Whether some statement of another session stands still for a lock.
  bool SomebodyWaits() {
    return session_.Count("pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") > 0;
  }

  ScratchDatabase database_{kMigrated};
  PgSession session_{database_.url()};
  std::unique_ptr<OutboxLog> first_ = OpenLog("relay-1");
  std::unique_ptr<OutboxLog> second_ = OpenLog("relay-2");
};

// It asked for the time before the lease ended, and commits after others saw that it had.
TEST_F(PostgresLease, AHeartbeatUnderWayKeepsItsLanes) {
  const auto grants = TakeAll(*first_);
  ASSERT_THAT(grants, SizeIs(Lanes()));
  RunOut("relay-1");
  PgSession heartbeat(database_.url());
  heartbeat.Exec("begin");
  heartbeat.Exec(
      "update sealane.relay_member set expires_at = clock_timestamp() + interval '1 h' where owner = 'relay-1'");
  EXPECT_THAT(TakeAll(*second_), IsEmpty()) << "and nobody waits for it";
  heartbeat.Exec("commit");
  EXPECT_THAT(TakeAll(*second_), IsEmpty());
  EXPECT_THAT(ValueOrThrow(first_->Beat(kLongLease)).held, UnorderedElementsAreArray(LeasesOf(grants)));
}

TEST_F(PostgresLease, AHeartbeatThatIsUndoneKeepsNothing) {
  TakeAll(*first_);
  RunOut("relay-1");
  PgSession heartbeat(database_.url());
  heartbeat.Exec("begin");
  heartbeat.Exec(
      "update sealane.relay_member set expires_at = clock_timestamp() + interval '1 h' where owner = 'relay-1'");
  EXPECT_THAT(TakeAll(*second_), IsEmpty());
  heartbeat.Exec("rollback");
  EXPECT_THAT(TakeAll(*second_), SizeIs(Lanes()));
  EXPECT_THAT(ValueOrThrow(first_->Beat(kLongLease)).held, IsEmpty());
}

// What a claim does to the lease it ends is done while the heartbeat of that relay is already waiting, and the
// server's clock goes back meanwhile.
TEST_F(PostgresLease, AHeartbeatBehindAClaimHasLostItsLanes) {
  TakeAll(*first_);
  PgSession claim(database_.url());
  claim.Exec("begin");
  claim.Exec("select from sealane.relay_member where owner = 'relay-1' for update");
  auto beat = std::async(std::launch::async, [&] { return ValueOrThrow(first_->Beat(kLongLease)).held; });
  ASSERT_TRUE(Eventually([&] { return SomebodyWaits(); }));
  claim.Exec("update sealane.relay_member set lease = null where owner = 'relay-1'");
  claim.Exec("commit");
  EXPECT_THAT(beat.get(), IsEmpty());
  EXPECT_THAT(TakeAll(*second_), SizeIs(Lanes())) << "its former lanes are nobody's";
  EXPECT_THAT(ValueOrThrow(first_->Beat(kLongLease)).held, IsEmpty());
}

// A claim that has seen free lanes is held up, another one takes them, and then the first goes on.
TEST_F(PostgresLease, AClaimTakesNothingThatAnotherOneTookMeanwhile) {
  ValueOrThrow(first_->Beat(kLongLease));
  PgSession holds_up(database_.url());
  holds_up.Exec("begin");
  holds_up.Exec("select from sealane.relay_member where owner = 'relay-1' for update");
  auto late = std::async(std::launch::async, [&] { return TakeAll(*first_); });
  ASSERT_TRUE(Eventually([&] { return SomebodyWaits(); }));
  const auto taken = TakeAll(*second_);
  EXPECT_THAT(taken, SizeIs(Lanes()));
  holds_up.Exec("commit");
  EXPECT_THAT(late.get(), IsEmpty());
  EXPECT_THAT(ValueOrThrow(second_->Beat(kLongLease)).held, UnorderedElementsAreArray(LeasesOf(taken)));
}

// The same where the lanes were those of a relay that died.
TEST_F(PostgresLease, AClaimTakesNothingOfTheDeadThatAnotherOneTookMeanwhile) {
  TakeAll(*OpenLog("relay-0"));
  RunOut("relay-0");
  ValueOrThrow(first_->Beat(kLongLease));
  PgSession holds_up(database_.url());
  holds_up.Exec("begin");
  holds_up.Exec("select from sealane.relay_member where owner = 'relay-1' for update");
  auto late = std::async(std::launch::async, [&] { return TakeAll(*first_); });
  ASSERT_TRUE(Eventually([&] { return SomebodyWaits(); }));
  EXPECT_THAT(TakeAll(*second_), SizeIs(Lanes()));
  holds_up.Exec("commit");
  EXPECT_THAT(late.get(), IsEmpty());
}

TEST_F(PostgresLease, TwoThatBothRanOutClaimBesideEachOther) {
  for (int round = 0; round < 20; ++round) {
    TakeAll(*first_);
    TakeAll(*second_);
    RunOut("relay-1");
    RunOut("relay-2");
    auto one = std::async(std::launch::async, [&] { return TakeAll(*first_); });
    auto two = std::async(std::launch::async, [&] { return TakeAll(*second_); });
    std::vector<Lane> both = LanesOf(one.get());
    std::ranges::copy(LanesOf(two.get()), std::back_inserter(both));
    std::ranges::sort(both);
    EXPECT_TRUE(std::ranges::adjacent_find(both) == both.end()) << "a lane has two owners";
  }
}

TEST_F(PostgresLease, ALaneWhoseOwnerHasNoRowIsFree) {
  TakeAll(*first_);
  session_.Exec("delete from sealane.relay_member");
  EXPECT_THAT(TakeAll(*second_), SizeIs(Lanes()));
  EXPECT_THAT(ValueOrThrow(first_->Beat(kLongLease)).held, IsEmpty());
}

// After a restart its relay takes the lanes anew, and nobody else before its time is over: it may be at work.
TEST_F(PostgresLease, ALeaseOfAnotherLifeIsGivenBackByItsRelayAlone) {
  TakeAll(*first_);
  session_.Exec("update sealane.relay_member set joined_on = joined_on - 1");
  EXPECT_THAT(TakeAll(*second_), IsEmpty());
  EXPECT_THAT(ValueOrThrow(first_->Beat(kLongLease)).held, IsEmpty());
  EXPECT_THAT(TakeAll(*second_), SizeIs(Lanes()));
}

TEST_F(PostgresLease, ARebaseTakesTheLanesOfEverybody) {
  TakeAll(*first_);
  session_.Exec("update sealane.log_server set system_identifier = 42");
  ValueOrThrow(ValueOrThrow(postgres::OpenRouteDesk({.url = database_.url()}))->Rebase({"ann", "restored"}));
  EXPECT_THAT(ValueOrThrow(first_->Beat(kLongLease)).held, IsEmpty());
  EXPECT_THAT(TakeAll(*first_), SizeIs(Lanes()));
}

// Rows of lanes are not written, and the one that is stays in its page without an entry in an index.
TEST_F(PostgresLease, AHeartbeatWritesOneSmallRow) {
  const auto grants = TakeAll(*first_);
  ASSERT_THAT(grants, SizeIs(Lanes()));
  ValueOrThrow(first_->Beat(kLongLease));
  const std::string lanes = session_.Exec("select string_agg(xmin::text, ',' order by lane) from sealane.lane_state");
  session_.Exec("checkpoint");
  ValueOrThrow(first_->Beat(kLongLease));  // the image of its page after a checkpoint
  // Other databases of the server write at the same time; the quietest of some heartbeats has its bytes alone.
  std::int64_t least = 1'000'000;
  for (int i = 0; i < 20; ++i) {
    const std::string before = session_.Exec("select pg_current_wal_insert_lsn()");
    EXPECT_THAT(ValueOrThrow(first_->Beat(kLongLease)).held, SizeIs(grants.size()));
    least = std::min<std::int64_t>(
        least, std::stoll(session_.Exec(fmt::format("select pg_current_wal_insert_lsn() - '{}'::pg_lsn", before))));
  }
  EXPECT_LE(least, 300) << "bytes of write-ahead log";
  EXPECT_EQ(session_.Exec("select string_agg(xmin::text, ',' order by lane) from sealane.lane_state"), lanes);
  EXPECT_LE(std::stoll(session_.Exec("select pg_relation_size('sealane.relay_member')")), 8192)
      << "dead versions are cleared away in passing";
}

// Every commit on the server moves the positions of an idle relay, its own heartbeats too. They are not written:
// whoever starts at the old ones has nothing to read before the new.
TEST_F(PostgresLease, AnIdleRelayWritesItsHeartbeatAlone) {
  session_.Exec("select sealane.emit('t', 'k', 'T', '1'::text)");
  ManualClock clock;
  SeededRandom random(1);
  MemoryBroker broker;
  RouteOptions options;
  options.owner = "relay-1";
  options.settle_interval = std::chrono::milliseconds{0};
  RouteRelay relay(
      options, [this]() -> Result<std::unique_ptr<OutboxLog>> { return OpenLog("relay-1"); },
      [&]() -> Result<std::unique_ptr<Publisher>> { return broker.Connect(); }, clock, random);
  const auto run = [&](std::chrono::seconds duration) {
    for (auto passed = std::chrono::milliseconds{0}; passed < duration; passed += std::chrono::milliseconds{500}) {
      ASSERT_TRUE(relay.RunOnce().has_value());
      clock.Advance(std::chrono::milliseconds{500});
    }
  };
  run(std::chrono::seconds{60});
  EXPECT_EQ(broker.record_count(), 1U);
  const std::uint64_t settles = relay.stats().settles;
  const std::string lanes = session_.Exec("select string_agg(xmin::text, ',' order by lane) from sealane.lane_state");
  run(std::chrono::seconds{120});
  EXPECT_EQ(relay.stats().settles, settles);
  EXPECT_EQ(session_.Exec("select string_agg(xmin::text, ',' order by lane) from sealane.lane_state"), lanes);
  session_.Exec("select sealane.emit('t', 'k', 'T', '2'::text)");
  run(std::chrono::seconds{2});
  EXPECT_EQ(broker.record_count(), 2U);
  EXPECT_GT(relay.stats().settles, settles);
}

}  // namespace
}  // namespace sealane
