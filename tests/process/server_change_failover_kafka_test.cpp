// Protects what is promised when a standby becomes the primary of an outbox while writers, relays and consumers run:
// what the surviving database has is published and applied once, in the order of its keys, whatever positions the old
// primary had handed out. The transaction ids that it assigned and did not ship are handed out again.

#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/server_change.hpp"

namespace sealane::testing {
namespace {

class ServerChangeFailover : public ::testing::Test {
 protected:
  void SetUp() override { SEALANE_REQUIRE_KAFKA(); }
};

/// The old primary dies at once, as a host does, and the other takes over well within a lease.
void FailOver(ServerChangeRun& run, ChangingPostgres::Ptr standby) {
  run.server().Crash();
  standby->Promote();
  run.ReplaceServer(std::move(standby));
}

/// Transaction ids that leave nothing behind.
void RollBack(ServerChangeRun& run, int count) {
  for (int i = 0; i < count; ++i) run.Outbox().Exec("BEGIN; SELECT pg_current_xact_id(); ROLLBACK");
}

/// Events that a relay sees for the first time together with ids that never got to the standby: these were rolled
/// back when the standby could no longer be reached.
void ShowUnshippedIds(ServerChangeRun& run, const ChangingPostgres& standby) {
  run.SignalRelays(SIGSTOP);
  run.load().WriteMore(3);
  const std::size_t before = CountRecords(KafkaUrl(), run.topic());
  standby.AwaitCaughtUp(run.server());
  standby.StopFollowing();
  RollBack(run, 40 + run.Draw(100));
  run.SignalRelays(SIGCONT);
  // A relay that does not publish them now has taken no position that it could be wrong about.
  Eventually([&] { return CountRecords(KafkaUrl(), run.topic()) >= before + 3; }, std::chrono::seconds{3});
}

/// One large transaction of the tenant t2. Its keys come in the order in which writers lock them.
void PlaceAtOnce(ServerChangeRun& run, int count) {
  run.Outbox().Exec(
      fmt::format("SELECT count(place('k' || ((g - 1) * 4 / {} * 3 + 2), '{}', 't2')) FROM generate_series(1, {}) g",
                  count, run.topic(), count));
}

TEST_F(ServerChangeFailover, WhatALaggingStandbyHasIsPublishedAfterItsPromotion) {
  PlayServerChange([](std::uint64_t seed) {
    ServerChangeRun run(seed, {.outbox_changes = true});
    auto standby = ChangingPostgres::StandbyOf(run.server());
    run.StartAll(1 + static_cast<int>(seed % 2));
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(100));
    standby->StopFollowing();
    ASSERT_TRUE(run.load().AwaitMore(60 + run.Draw(100)));
    if (run.Draw(2) == 0) {
      // With the positions of everything saved; otherwise it happens in the middle.
      run.load().Pause();
      ASSERT_TRUE(Eventually([&] { return run.AllPublished(); })) << run.Logs();
    }
    FailOver(run, std::move(standby));
    // Fewer than were lost, so that every transaction id was seen by a relay before.
    run.load().WriteMore(20);
    ASSERT_EQ(run.Verdict(), "");
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(100 + run.Draw(200)));
    run.load().Pause();
    ASSERT_EQ(run.Verdict(), "");
    run.ExpectCalm();
  });
}

// A commit waits for the standby, but a transaction that is rolled back does not, and neither does one of the relay
// that only looks: their ids are handed out again.
TEST_F(ServerChangeFailover, WhatASynchronousStandbyHasIsPublishedAfterItsPromotion) {
  PlayServerChange([](std::uint64_t seed) {
    ServerChangeRun run(seed, {.outbox_changes = true});
    auto standby = ChangingPostgres::StandbyOf(run.server());
    run.server().WaitForStandbys();
    run.StartAll(1 + static_cast<int>(seed % 2));
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(100));
    const bool in_the_middle = run.Draw(3) == 0;
    if (!in_the_middle) {
      run.load().Pause();
      ASSERT_TRUE(Eventually([&] { return run.AllPublished(); })) << run.Logs();
      ShowUnshippedIds(run, *standby);
    }
    FailOver(run, std::move(standby));
    run.load().WriteMore(20);
    ASSERT_EQ(run.Verdict(), "");
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(100 + run.Draw(200)));
    run.load().Pause();
    ASSERT_EQ(run.Verdict(), "");
    run.ExpectCalm();
  });
}

// Positions of their own: tenants that are paused or slowed down, and a transaction so large that its window is read
// in pieces.
TEST_F(ServerChangeFailover, IsolatedTenantsAndAnOpenWindowSurviveTheLossOfTransactions) {
  PlayServerChange([](std::uint64_t seed) {
    ServerChangeRun run(seed, {.outbox_changes = true, .variables = {{"SEALANE_RELAY__MEMORY_MAX", "1MiB"}}});
    auto standby = ChangingPostgres::StandbyOf(run.server());
    run.StartAll(1 + static_cast<int>(seed % 2));
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(50));
    run.MustRun({"tenants", "pause", "t1", "--reason", "test", "--actor", "test"}, run.OutboxUrl());
    run.MustRun({"tenants", "limit", "t2", "500", "--reason", "test", "--actor", "test"}, run.OutboxUrl());
    ASSERT_TRUE(run.load().AwaitMore(50));
    // Before the standby falls behind or after it: it then has the whole transaction, or nothing of it.
    const bool survives = run.Draw(2) == 0;
    if (survives) PlaceAtOnce(run, 2'000 + run.Draw(2'000));
    standby->AwaitCaughtUp(run.server());
    standby->StopFollowing();
    if (!survives) PlaceAtOnce(run, 2'000 + run.Draw(2'000));
    ASSERT_TRUE(run.load().AwaitMore(60 + run.Draw(100)));
    FailOver(run, std::move(standby));
    run.load().WriteMore(20);
    run.MustRun({"tenants", "resume", "t1", "--reason", "test", "--actor", "test"}, run.OutboxUrl());
    run.MustRun({"tenants", "limit", "t2", "0", "--reason", "test", "--actor", "test"}, run.OutboxUrl());
    ASSERT_EQ(run.Verdict(), "");
    run.load().WriteMore(100 + run.Draw(100));
    ASSERT_EQ(run.Verdict(), "");
    run.ExpectCalm();
  });
}

}  // namespace
}  // namespace sealane::testing
