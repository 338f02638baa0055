// Protects what is promised when the database of running consumers changes under them: a standby is promoted, a
// backup is put in its place, it is made anew, an operator moves positions. Every event of the topic has one effect
// in the database that is there at the end, those of a key in their order, in both modes and without a restart; and a
// consumer says that it has caught up only when this database has everything. A consumer that trusted what it
// remembers, or the group at the broker, would leave out what the old database had and the new one has not. One that
// reads again without asking the new database what it has would apply events twice.

#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/consumer_change.hpp"
#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/server_change.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::HasSubstr;

class ServerChangeInbox : public ::testing::Test {
 protected:
  void SetUp() override { SEALANE_REQUIRE_KAFKA(); }
};

/// The old primary dies at once, as a host does.
void FailOver(ConsumerChangeRun& run, ChangingPostgres::Ptr standby) {
  run.server().Crash();
  standby->Promote();
  run.ReplaceServer(std::move(standby));
}

/// The old database has everything: after its loss there is nothing new that would let a consumer look again.
void AwaitAllApplied(ConsumerChangeRun& run) {
  run.load().Pause();
  ASSERT_EQ(run.Verdict(), "");
}

/// Under load, or with consumers that have nothing to do.
void GoOnAndCheck(ConsumerChangeRun& run, bool idle) {
  if (idle) {
    ASSERT_EQ(run.Verdict(), "");
    run.load().Resume();
  }
  ASSERT_TRUE(run.load().AwaitMore(100 + run.Draw(200)));
  run.load().Pause();
  ASSERT_EQ(run.Verdict(), "");
  run.ExpectCalm();
}

TEST_F(ServerChangeInbox, WhatALaggingStandbyLacksIsAppliedAgainAfterItsPromotion) {
  PlayServerChange([](std::uint64_t seed) {
    ConsumerChangeRun run(seed, {.own_server = true});
    auto standby = ChangingPostgres::StandbyOf(run.server());
    run.StartConsumers();
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(200));
    ASSERT_TRUE(Eventually([&] { return run.Applied("record") > 50 && run.Applied("offsets") > 50; })) << run.Logs();
    standby->AwaitCaughtUp(run.server());
    standby->StopFollowing();
    ASSERT_TRUE(run.load().AwaitMore(200 + run.Draw(200)));
    const bool idle = seed % 2 == 0;
    if (idle) AwaitAllApplied(run);
    if (::testing::Test::HasFatalFailure()) return;
    FailOver(run, std::move(standby));
    GoOnAndCheck(run, idle);
  });
}

TEST_F(ServerChangeInbox, NothingIsLostOrAppliedTwiceWhenASynchronousStandbyIsPromoted) {
  PlayServerChange([](std::uint64_t seed) {
    ConsumerChangeRun run(seed, {.own_server = true});
    auto standby = ChangingPostgres::StandbyOf(run.server());
    run.server().WaitForStandbys();
    run.StartConsumers();
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(200 + run.Draw(200)));
    const bool idle = run.Draw(3) == 0;
    if (idle) AwaitAllApplied(run);
    if (::testing::Test::HasFatalFailure()) return;
    FailOver(run, std::move(standby));
    GoOnAndCheck(run, idle);
  });
}

TEST_F(ServerChangeInbox, WhatABackupLacksIsAppliedAgainWhenItIsPutInPlace) {
  PlayServerChange([](std::uint64_t seed) {
    ConsumerChangeRun run(seed, {.own_server = true, .archive = true});
    run.server().Backup();
    run.StartConsumers();
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(200));
    // Before anything was applied, or in the middle of it.
    if (seed % 2 == 0) {
      ASSERT_TRUE(Eventually([&] { return run.Applied("record") > 50 && run.Applied("offsets") > 50; }))
          << run.Logs();
    }
    run.server().MarkPoint("before_the_mistake");
    ASSERT_TRUE(run.load().AwaitMore(200 + run.Draw(200)));
    const bool idle = seed % 2 == 1;
    if (idle) AwaitAllApplied(run);
    if (::testing::Test::HasFatalFailure()) return;
    run.TakeAway();
    run.server().Crash();
    run.ReplaceServer(ChangingPostgres::Restore(run.server(), "before_the_mistake"));
    GoOnAndCheck(run, idle);
  });
}

// It is in the middle of its last transaction when the database goes that has all the others.
TEST_F(ServerChangeInbox, CaughtUpIsSaidOnlyWhenTheSurvivorHasEverything) {
  for (const char* mode : {"record", "offsets"}) {
    SCOPED_TRACE(mode);
    ConsumerChangeRun run(1, {.own_server = true, .modes = {mode}});
    auto standby = ChangingPostgres::StandbyOf(run.server());
    run.Store().Exec(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;"
        "CREATE TRIGGER wait BEFORE INSERT ON effects FOR EACH ROW EXECUTE FUNCTION wait()");
    run.load().WriteMore(100);
    ASSERT_EQ(run.CatchUp(mode).code, 0);
    standby->AwaitCaughtUp(run.server());
    standby->StopFollowing();
    run.load().WriteMore(300);
    ASSERT_EQ(run.CatchUp(mode).code, 0);
    run.Store().Exec("SELECT pg_advisory_lock(1)");
    run.load().WriteMore(1);
    const auto catching_up = run.StartCatchUp(mode);
    PgSession look(run.server().Url("shop"));
    ASSERT_TRUE(Eventually([&] {
      return look.Count("pg_stat_activity WHERE datname = 'shop' AND wait_event_type = 'Lock'") > 0;
    })) << catching_up->said();
    FailOver(run, std::move(standby));
    EXPECT_EQ(catching_up->Finish(), 0) << catching_up->said();
    ASSERT_EQ(run.Complaint(mode), "") << catching_up->said();
  }
}

TEST_F(ServerChangeInbox, PositionsThatAnOperatorMovesLoseNothingAndRepeatNothing) {
  PlayServerChange([](std::uint64_t seed) {
    ConsumerChangeRun run(seed, {});
    run.StartConsumers();
    run.load().Resume();
    const auto back = [&](const std::string& mode, int partition) {
      run.Store().Exec(
          fmt::format("UPDATE sealane.inbox_progress SET next_offset = next_offset * {} / 10 "
                      "WHERE consumer = '{}' AND partition = {}",
                      run.Draw(10), run.Consumer(mode), partition));
    };
    const auto position = [&](const std::string& mode, int partition) {
      return run.Store().Exec(
          fmt::format("SELECT next_offset FROM sealane.inbox_progress WHERE consumer = '{}' AND "
                      "partition = {}",
                      run.Consumer(mode), partition));
    };
    ASSERT_TRUE(run.load().AwaitMore(100));
    for (int round = 0; round < 4; ++round) {
      ASSERT_TRUE(run.load().AwaitMore(60));
      for (const std::string& mode : run.modes()) {
        const int partition = run.Draw(3);
        ASSERT_TRUE(Eventually([&] { return !position(mode, partition).empty(); })) << run.Logs();
        const std::string before = position(mode, partition);
        switch (round) {
          case 0:
          case 1:
            back(mode, partition);
            break;
          case 2:
            // Back, and forward again to where everything below is done.
            back(mode, partition);
            ASSERT_TRUE(run.load().AwaitMore(run.Draw(100)));
            run.Store().Exec(
                fmt::format("UPDATE sealane.inbox_progress SET next_offset = greatest(next_offset, {}) "
                            "WHERE consumer = '{}' AND partition = {}",
                            before, run.Consumer(mode), partition));
            break;
          default:
            run.Resume(mode, std::to_string(run.Draw(1 + std::stoi(before))), partition);
        }
      }
    }
    ASSERT_TRUE(run.load().AwaitMore(60));
    run.load().Pause();
    ASSERT_EQ(run.Verdict(), "");
    // With nothing to do as well.
    for (const std::string& mode : run.modes()) back(mode, run.Draw(3));
    for (const std::string& mode : run.modes()) run.Resume(mode, "beginning");
    run.load().WriteMore(50);
    ASSERT_EQ(run.Verdict(), "");
    ASSERT_TRUE(Eventually([&] {
      for (const std::string& mode : run.modes()) {
        for (const json& one : run.Positions(mode)) {
          if (one.value("state", "") != "reads") return false;
        }
      }
      return true;
    })) << run.Logs();
    run.ExpectCalm();
  });
}

TEST_F(ServerChangeInbox, ADatabaseMadeAnewIsReadIntoOnlyWhenAnOperatorSaysSo) {
  ConsumerChangeRun run(1, {});
  run.StartConsumers();
  run.load().WriteMore(200);
  ASSERT_EQ(run.Verdict(), "");
  // The group's position is at the broker; otherwise the new database is as good as a first one.
  for (const std::string& mode : run.modes()) {
    ASSERT_TRUE(Eventually([&] {
      std::int64_t sum = 0;
      for (const auto& [partition, offset] : CommittedOffsets(KafkaUrl(), run.Consumer(mode), run.topic(), 3)) {
        sum += offset;
      }
      return sum >= 200;
    })) << run.Logs();
  }
  run.MakeStoreAnew();
  run.load().WriteMore(50);
  for (const std::string& mode : run.modes()) {
    EXPECT_TRUE(Eventually([&] { return run.Stops(mode) == std::set<std::string>{"position_unknown"}; }))
        << mode << run.Positions(mode) << run.Logs();
    std::pair<int, std::string> ready;
    EXPECT_TRUE(Eventually([&] {
      ready = ServerChangeRun::Readiness(run.consumer(mode));
      return ready.first == 503 && ready.second.find("position_unknown") != std::string::npos;
    })) << ready.second;
    EXPECT_EQ(run.Applied(mode), 0) << "what came before is not there, and nothing is applied without it";
  }
  if (HasFailure()) return;
  for (const std::string& mode : run.modes()) run.Resume(mode, "beginning");
  ASSERT_EQ(run.Verdict(), "");
  run.load().WriteMore(50);
  ASSERT_EQ(run.Verdict(), "");
  run.ExpectCalm();
}

}  // namespace
}  // namespace sealane::testing
