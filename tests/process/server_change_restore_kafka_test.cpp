// Protects what is promised when an outbox comes back from a backup while writers, relays and consumers run. A
// file-level backup is the same system on another timeline, and the relays go on by themselves. A dump in a new
// cluster is another system whose transaction ids mean nothing here: the route is held until an operator has rebased
// it, however many transactions go by meanwhile.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/server_change.hpp"

namespace sealane::testing {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRebase = "sealane route rebase";

class ServerChangeRestore : public ::testing::Test {
 protected:
  void SetUp() override { SEALANE_REQUIRE_KAFKA(); }
};

/// Uses up transaction ids until the next one is at least this.
void UseIds(PgSession& session, std::int64_t next) {
  session.Exec(
      fmt::format("DO $$ BEGIN WHILE pg_current_xact_id()::text::bigint < {} LOOP COMMIT; END LOOP; END $$", next));
}

std::int64_t NextId(PgSession& session) {
  return std::stoll(session.Exec("SELECT pg_snapshot_xmax(pg_current_snapshot())"));
}

/// The route is held, and everything that is asked says so and what to do.
void ExpectHeld(ServerChangeRun& run, std::size_t relays) {
  for (std::size_t i = 0; i < relays; ++i) {
    std::pair<int, std::string> ready;
    EXPECT_TRUE(Eventually(
        [&] {
          ready = run.Readiness(run.relay(i));
          return ready.first == 503 && ready.second.find(kRebase) != std::string::npos;
        },
        seconds{20}))
        << ready.second << "\n"
        << run.Logs();
  }
  EXPECT_THAT(run.Sealane({"doctor", "--broker", KafkaUrl()}, run.OutboxUrl()).out, HasSubstr(kRebase));
  const CommandResult drained =
      run.Sealane({"relay", "--broker", KafkaUrl(), "--until", "drained", "--timeout", "3s"}, run.OutboxUrl());
  EXPECT_NE(drained.code, 0) << drained.out << drained.err;
  EXPECT_EQ(run.Lie(), "");
}

TEST_F(ServerChangeRestore, ADumpInANewClusterIsHeldUntilItsRouteIsRebased) {
  PlayServerChange([](std::uint64_t seed) {
    const std::size_t relays = 1 + seed % 2;
    ServerChangeRun run(seed, {.outbox_changes = true});
    UseIds(run.Outbox(), 5'000 + run.Draw(2'000));
    run.StartAll(static_cast<int>(relays));
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(80));
    // Its events are old and not published when the dump is made.
    run.MustRun({"tenants", "pause", "t1", "--reason", "test", "--actor", "test"}, run.OutboxUrl());
    ASSERT_TRUE(run.load().AwaitMore(60));
    run.load().Pause();
    run.server().Dump("shop");
    const std::int64_t old_next = NextId(run.Outbox());
    run.TakeAway();
    run.ReplaceServer(ChangingPostgres::Load(run.server(), "shop"));
    ASSERT_LT(NextId(run.Outbox()) + 100, old_next) << "the new cluster does not have lower transaction ids";

    run.load().WriteMore(30);
    ExpectHeld(run, relays);
    ASSERT_FALSE(::testing::Test::HasFailure());
    // Time passes, and the new cluster's ids pass those of the old positions.
    UseIds(run.Outbox(), old_next + 100);
    run.load().WriteMore(30);
    for (const auto end = steady_clock::now() + seconds{4}; steady_clock::now() < end;) ASSERT_EQ(run.Lie(), "");
    ExpectHeld(run, relays);
    ASSERT_FALSE(::testing::Test::HasFailure());

    // Without a yes nothing is done.
    EXPECT_NE(run.Sealane({"route", "rebase", "--reason", "dump restored", "--actor", "test"}, run.OutboxUrl()).code,
              0);
    run.MustRun({"route", "rebase", "--reason", "dump restored", "--actor", "test", "--yes"}, run.OutboxUrl());
    EXPECT_EQ(run.Outbox().Count("sealane.audit WHERE actor = 'test' AND reason = 'dump restored'"), 1);
    run.MustRun({"tenants", "resume", "t1", "--reason", "test", "--actor", "test"}, run.OutboxUrl());
    ASSERT_EQ(run.Verdict(), "");
    run.load().WriteMore(100 + run.Draw(100));
    ASSERT_EQ(run.Verdict(), "");
    EXPECT_THAT(run.Sealane({"doctor", "--broker", KafkaUrl()}, run.OutboxUrl()).out, Not(HasSubstr(kRebase)));
    run.ExpectCalm();
  });
}

TEST_F(ServerChangeRestore, AFileLevelBackupIsPublishedFromThePointItWasRestoredTo) {
  PlayServerChange([](std::uint64_t seed) {
    ServerChangeRun run(seed, {.outbox_changes = true, .archive = true});
    run.server().Backup();
    run.StartAll(1 + static_cast<int>(seed % 2));
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(100));
    run.server().MarkPoint("before_the_mistake");
    ASSERT_TRUE(run.load().AwaitMore(60 + run.Draw(100)));
    if (run.Draw(2) == 0) {
      run.load().Pause();
      ASSERT_TRUE(Eventually([&] { return run.AllPublished(); })) << run.Logs();
    }
    run.server().Crash();
    run.ReplaceServer(ChangingPostgres::Restore(run.server(), "before_the_mistake"));
    // Fewer than were lost, so that every transaction id was seen by a relay before.
    run.load().WriteMore(20);
    ASSERT_EQ(run.Verdict(), "");
    run.load().WriteMore(100 + run.Draw(200));
    ASSERT_EQ(run.Verdict(), "");
    run.ExpectCalm();
  });
}

}  // namespace
}  // namespace sealane::testing
