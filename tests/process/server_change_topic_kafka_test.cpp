// Protects what is promised when the topic of consumers changes: it is deleted and made again, it gets more
// partitions, it loses messages before they were applied, or the broker forgets the group. Offsets of a topic mean
// nothing in another one of the same name: a consumer that went on at its old offset would leave out what the new
// topic has below it and say that it has caught up. It must stop, say so wherever it is asked, and go on where an
// operator says. A consumer that trusted the group at the broker would begin at the beginning when that is forgotten,
// and take events whose receipts are gone for new ones or for dead ones.

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
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ServerChangeTopic : public ::testing::Test {
 protected:
  void SetUp() override { SEALANE_REQUIRE_KAFKA(); }
};

/// Everything that is asked says that partitions are stopped. `codes`: any of these will do.
void ExpectStopped(ConsumerChangeRun& run, const std::set<std::string>& codes) {
  for (const std::string& mode : run.modes()) {
    std::set<std::string> stops;
    EXPECT_TRUE(Eventually(
        [&] {
          stops = run.Stops(mode);
          return !stops.empty();
        },
        seconds{90}))
        << mode << run.Positions(mode) << run.Logs();
    for (const std::string& stop : stops) EXPECT_TRUE(codes.contains(stop)) << mode << ": " << stop;
    std::pair<int, std::string> ready;
    EXPECT_TRUE(Eventually([&] {
      ready = ServerChangeRun::Readiness(run.consumer(mode));
      return ready.first == 503 && ready.second.find("sealane inbox resume") != std::string::npos;
    })) << mode
        << ready.second << run.Logs();
  }
  const CommandResult doctor = run.Sealane({"doctor", "--broker", KafkaUrl(), "-o", "json"});
  EXPECT_NE(doctor.code, 0);
  EXPECT_THAT(doctor.out, HasSubstr("partition_stopped"));
}

int CountStopped(const ConsumerChangeRun& run, const std::string& mode) {
  int stopped = 0;
  for (const json& one : run.Positions(mode)) stopped += one.value("state", "") == "stopped" ? 1 : 0;
  return stopped;
}

TEST_F(ServerChangeTopic, ATopicMadeAgainMeanwhileIsReadOnlyWhenAnOperatorSaysSo) {
  // More messages than before, or fewer.
  for (const int more : {400, 30}) {
    SCOPED_TRACE(more);
    ConsumerChangeRun run(1, {});
    run.StartConsumers();
    run.load().WriteMore(200);
    ASSERT_EQ(run.Verdict(), "");
    run.StopConsumers();
    run.MakeTopicAnew();
    run.load().Change("new");
    run.load().WriteMore(more);
    for (const std::string& mode : run.modes()) {
      const CommandResult result = run.CatchUp(mode, "30s");
      EXPECT_NE(result.code, 0) << mode << result.out << result.err;
      EXPECT_THAT(result.err, AnyOf(HasSubstr("topic_recreated"), HasSubstr("position_beyond_end"))) << mode;
      EXPECT_THAT(result.err, HasSubstr("sealane inbox resume")) << mode;
    }
    run.StartConsumers();
    ExpectStopped(run, {"topic_recreated", "position_beyond_end"});
    for (const std::string& mode : run.modes()) {
      EXPECT_EQ(CountStopped(run, mode), 3) << mode;
      EXPECT_LE(run.Applied(mode), 200 + 5) << mode << ": nothing of the new topic is applied";
    }
    if (HasFailure()) return;
    for (const std::string& mode : run.modes()) run.Resume(mode, "beginning");
    ASSERT_EQ(run.Verdict(), "");
    run.ExpectCalm();
  }
}

TEST_F(ServerChangeTopic, ATopicMadeAgainUnderRunningConsumersIsReadOnlyWhenAnOperatorSaysSo) {
  PlayServerChange([](std::uint64_t seed) {
    ConsumerChangeRun run(seed, {});
    run.StartConsumers();
    run.load().Resume();
    ASSERT_TRUE(run.load().AwaitMore(200 + run.Draw(100)));
    // A position at the beginning would be right in any topic.
    ASSERT_TRUE(Eventually([&] {
      return run.Store().Count("sealane.inbox_progress WHERE next_offset > 0 AND witness IS NOT NULL") == 6;
    })) << run.Logs();
    run.MakeTopicAnew();
    ASSERT_TRUE(run.load().AwaitMore(400 + run.Draw(200)));
    ExpectStopped(run, {"topic_recreated", "position_beyond_end"});
    for (const std::string& mode : run.modes()) {
      EXPECT_TRUE(Eventually([&] { return CountStopped(run, mode) == 3; }, seconds{90}))
          << mode << run.Positions(mode) << run.Logs();
    }
    if (::testing::Test::HasFailure()) return;
    for (const std::string& mode : run.modes()) run.Resume(mode, "beginning");
    ASSERT_TRUE(run.load().AwaitMore(100));
    run.load().Pause();
    ASSERT_EQ(run.Verdict(), "");
    run.ExpectCalm();
  });
}

TEST_F(ServerChangeTopic, AGroupThatTheBrokerForgotIsNotReadAgain) {
  ConsumerChangeRun run(1, {.arguments = {"--retention", "1h"}});
  run.StartConsumers();
  // A new consumer takes events of any age.
  run.load().Change("old", std::chrono::hours{5});
  run.load().WriteMore(200);
  ASSERT_EQ(run.Verdict(), "");
  run.StopConsumers();
  run.Store().Exec("UPDATE sealane.inbox_consumer SET created_at = created_at - interval '2 days'");
  // Housekeeping is the first thing that a consumer does.
  run.StartConsumers();
  ASSERT_TRUE(Eventually([&] {
    return run.Store().Count(fmt::format("sealane.inbox WHERE consumer = '{}'", run.Consumer("record"))) == 0;
  })) << run.Store().Exec("SELECT count(*) FROM sealane.inbox");
  run.StopConsumers();
  for (const std::string& mode : run.modes()) {
    if (mode == "record") {
      DeleteGroup(KafkaUrl(), run.Consumer(mode));
    } else {
      DeleteGroupOffsets(KafkaUrl(), run.Consumer(mode), run.topic());
    }
    ASSERT_TRUE(CommittedOffsets(KafkaUrl(), run.Consumer(mode), run.topic(), 3).empty()) << mode;
  }
  run.load().Change("k");
  run.load().WriteMore(100);
  run.StartConsumers();
  run.load().WriteMore(100);
  ASSERT_EQ(run.Verdict(), "");
  run.ExpectCalm();
  ASSERT_EQ(run.Verdict(), "");
}

TEST_F(ServerChangeTopic, NewPartitionsAreReadFromTheirFirstMessage) {
  ConsumerChangeRun run(1, {});
  run.StartConsumers();
  run.load().Resume();
  ASSERT_TRUE(run.load().AwaitMore(200));
  GrowTopic(KafkaUrl(), run.topic(), 6);
  run.load().Pause();
  run.load().Change("more");
  run.load().Resume();
  ASSERT_TRUE(run.load().AwaitMore(300));
  run.load().Pause();
  ASSERT_EQ(run.Verdict(), "");
  for (const std::string& mode : run.modes()) {
    EXPECT_GT(run.Store().Count(
                  fmt::format("effects WHERE consumer = '{}' AND part >= 3 AND place = 0", run.Consumer(mode))),
              0)
        << mode << ": nothing was published to new partitions";
  }
  run.ExpectCalm();
}

TEST_F(ServerChangeTopic, MessagesThatWereDeletedBeforeTheyWereAppliedStopTheirPartition) {
  // While consumers are down, or while they run and do not get to it.
  for (const bool down : {true, false}) {
    SCOPED_TRACE(down ? "down" : "up");
    ConsumerChangeRun run(1, {.partitions = 2});
    run.StartConsumers();
    run.load().WriteMore(100);
    ASSERT_EQ(run.Verdict(), "");
    if (down) {
      run.StopConsumers();
    } else {
      run.SignalConsumers(SIGSTOP);
    }
    run.load().WriteMore(200);
    std::map<std::int32_t, std::int64_t> ends;
    for (const KafkaRecord& record : ReadWholeTopic(KafkaUrl(), run.topic())) {
      ends[record.partition] = std::max(ends[record.partition], record.offset + 1);
    }
    const std::int64_t oldest = ends.at(0) - 10;
    TrimPartition(KafkaUrl(), run.topic(), 0, oldest);
    if (down) {
      run.StartConsumers();
    } else {
      run.SignalConsumers(SIGCONT);
    }
    const auto effects = [&](const std::string& mode, const std::string& where) {
      return run.Store().Count(fmt::format("effects WHERE consumer = '{}' AND {}", run.Consumer(mode), where));
    };
    ExpectStopped(run, {"messages_gone"});
    for (const std::string& mode : run.modes()) {
      EXPECT_EQ(CountStopped(run, mode), 1) << mode << run.Positions(mode);
      EXPECT_TRUE(Eventually([&] { return effects(mode, "part = 1") == ends.at(1); }))
          << mode << ": the other partition goes on" << run.Logs();
      EXPECT_EQ(effects(mode, fmt::format("part = 0 AND place >= {}", oldest)), 0) << mode;
    }
    if (HasFailure()) return;
    for (const std::string& mode : run.modes()) run.Resume(mode, "beginning", 0);
    for (const std::string& mode : run.modes()) {
      EXPECT_TRUE(Eventually([&] { return effects(mode, fmt::format("part = 0 AND place >= {}", oldest)) == 10; }))
          << mode << run.Logs();
      EXPECT_EQ(effects(mode, "true"), run.Applied(mode)) << mode << ": something was applied twice";
    }
    run.ExpectCalm();
  }
}

}  // namespace
}  // namespace sealane::testing
