// Protects effects when what is behind a consumer changes: its database goes back to an earlier state, its topic is
// made again, the broker forgets its group, an operator moves it. Where it cannot know how to go on it stops that
// partition.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inbox/partition_run.hpp"
#include "inbox/partition_start.hpp"
#include "memory/memory_store.hpp"
#include "support/consumer_bench.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Partition kOrders{ConsumerBench::kTopic, 0};

/// What an operator decides.
void Resume(ConsumerBench& bench, const ResumePoint& from) {
  const auto desk = ValueOrThrow(memory::OpenInboxDesk(bench.database()));
  ASSERT_TRUE(desk->Resume(ConsumerBench::kGroup, kOrders.topic, kOrders.number, from, {"test", "a test"}));
}

class ConsumerPositions : public ::testing::TestWithParam<InboxMode> {
 protected:
  ConsumerBench& bench() { return bench_; }
  ConsumerOptions Options() const {
    ConsumerOptions options = bench_.Options();
    options.mode = GetParam();
    return options;
  }
  std::unique_ptr<Consumer> Start() { return bench_.Start(Options(), bench_.Noting()); }
  std::unique_ptr<InboxStore> Open() {
    return ValueOrThrow(memory::OpenInboxStore(bench_.database(), ConsumerBench::kGroup, GetParam(), bench_.clock(),
                                               bench_.faults()));
  }
  /// Versions from `first` to `last` of one key.
  void Publish(std::int64_t first, std::int64_t last, const std::string& key = "a") {
    for (std::int64_t version = first; version <= last; ++version) bench_.Publish(bench_.Make(key, version));
  }
  /// Long enough for everything that looks only now and then.
  void SettleLong(Consumer& consumer) { bench_.SettleOver(consumer, 15s, 1s); }
  std::vector<std::string> StoppedCodes(const Consumer& consumer) {
    std::vector<std::string> codes;
    for (const StoppedPartition& one : consumer.stats().stopped) codes.push_back(one.code);
    return codes;
  }
  AttachedPartition Row() {
    auto store = Open();
    auto attached = ValueOrThrow(store->Attach({&kOrders, 1}, 0)).front();
    EXPECT_TRUE(store->Detach({&attached, 1}));
    return attached;
  }

 private:
  ConsumerBench bench_{1, 1};
};
INSTANTIATE_TEST_SUITE_P(Modes, ConsumerPositions, ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets),
                         [](const auto& test) { return std::string(ToString(test.param)); });

std::vector<std::int64_t> UpTo(std::int64_t last) {
  std::vector<std::int64_t> versions;
  for (std::int64_t version = 1; version <= last; ++version) versions.push_back(version);
  return versions;
}

TEST_P(ConsumerPositions, APositionIsKeptInTheStoreWithTheTopicItIsAbout) {
  const auto consumer = Start();
  Publish(1, 20);
  SettleLong(*consumer);
  ASSERT_TRUE(consumer->Close());
  const AttachedPartition row = Row();
  EXPECT_EQ(row.next_offset, 20);
  EXPECT_EQ(row.topic_id, bench().topics().TopicId(ConsumerBench::kTopic));
  ASSERT_TRUE(row.witness);
  EXPECT_EQ(row.witness->offset, 19);
}

TEST_P(ConsumerPositions, EffectsThatADatabaseLostAreAppliedAgainByTheSameProcess) {
  const auto consumer = Start();
  Publish(1, 10);
  SettleLong(*consumer);
  const auto standby = memory::TakeSnapshot(*bench().database());
  Publish(11, 30);
  SettleLong(*consumer);
  ASSERT_EQ(bench().VersionsOf("a"), UpTo(30));
  memory::Restore(*bench().database(), *standby);
  Publish(31, 40);
  SettleLong(*consumer);
  EXPECT_EQ(bench().VersionsOf("a"), UpTo(40));
  EXPECT_GE(consumer->stats().reread, 1U);
}

TEST_P(ConsumerPositions, EffectsLostSinceTheLastSaveAreAppliedAgainToo) {
  ConsumerOptions options = Options();
  options.commit_interval = 1h;
  const auto consumer = bench().Start(options, bench().Noting());
  Publish(1, 5);
  bench().Settle(*consumer);
  const auto standby = memory::TakeSnapshot(*bench().database());
  Publish(6, 9);
  bench().Settle(*consumer);
  memory::Restore(*bench().database(), *standby);
  Publish(10, 12);
  SettleLong(*consumer);
  EXPECT_EQ(bench().VersionsOf("a"), UpTo(12));
}

TEST_P(ConsumerPositions, ALostDatabaseIsNoticedWhileNothingComes) {
  const auto consumer = Start();
  Publish(1, 10);
  SettleLong(*consumer);
  const auto standby = memory::TakeSnapshot(*bench().database());
  Publish(11, 20);
  SettleLong(*consumer);
  memory::Restore(*bench().database(), *standby);
  SettleLong(*consumer);
  EXPECT_EQ(bench().VersionsOf("a"), UpTo(20));
}

TEST_P(ConsumerPositions, ARestartOfTheDatabaseRepeatsNoEffect) {
  const auto consumer = Start();
  Publish(1, 10);
  SettleLong(*consumer);
  memory::Restore(*bench().database(), *memory::TakeSnapshot(*bench().database()));
  Publish(11, 12);
  SettleLong(*consumer);
  EXPECT_EQ(bench().VersionsOf("a"), UpTo(12));
}

TEST_P(ConsumerPositions, ATopicThatWasMadeAgainStopsThePartitionUntilAnOperatorDecides) {
  for (const bool tells_ids : {true, false}) {
    ConsumerBench bench{1, 1};
    bench.topics().TellTopicIds(tells_ids);
    ConsumerOptions options = bench.Options();
    options.mode = GetParam();
    auto consumer = bench.Start(options, bench.Noting());
    for (int i = 1; i <= 50; ++i) bench.Publish(bench.Make("a", i));
    bench.SettleOver(*consumer, 15s, 1s);
    ASSERT_TRUE(consumer->Close());
    consumer.reset();
    bench.topics().RecreateTopic(ConsumerBench::kTopic);
    for (int i = 51; i <= 130; ++i) bench.Publish(bench.Make("a", i));
    consumer = bench.Start(options, bench.Noting());
    bench.SettleOver(*consumer, 15s, 1s);
    EXPECT_EQ(bench.VersionsOf("a"), UpTo(50)) << "nothing is passed over silently";
    ASSERT_THAT(consumer->stats().stopped, SizeIs(1));
    EXPECT_EQ(consumer->stats().stopped[0].code, "topic_recreated");
    EXPECT_EQ(consumer->stats().stopped[0].messages, 80) << "none of them is known to be done";
    EXPECT_EQ(consumer->stats().state, ConsumerState::kHolding);
    EXPECT_EQ(consumer->stats().problem_code, "topic_recreated");

    Resume(bench, {.kind = ResumePoint::Kind::kBeginning});
    bench.SettleOver(*consumer, 15s, 1s);
    EXPECT_EQ(bench.VersionsOf("a"), UpTo(130));
    EXPECT_THAT(consumer->stats().stopped, IsEmpty());
  }
}

TEST_P(ConsumerPositions, ATopicThatIsMadeAgainUnderARunningConsumerIsNoticed) {
  bench().topics().TellTopicIds(false);
  const auto consumer = Start();
  Publish(1, 20);
  SettleLong(*consumer);
  bench().topics().RecreateTopic(ConsumerBench::kTopic);
  Publish(21, 60);
  bench().SettleOver(*consumer, 3min, 10s);
  EXPECT_THAT(StoppedCodes(*consumer), SizeIs(1));
  EXPECT_EQ(consumer->stats().state, ConsumerState::kHolding);
}

TEST_P(ConsumerPositions, AShorterTopicStopsThePartition) {
  bench().topics().TellTopicIds(false);
  auto consumer = Start();
  Publish(1, 50);
  SettleLong(*consumer);
  ASSERT_TRUE(consumer->Close());
  bench().topics().RecreateTopic(ConsumerBench::kTopic);
  Publish(51, 60);
  consumer = Start();
  SettleLong(*consumer);
  EXPECT_THAT(StoppedCodes(*consumer), ElementsAre("position_beyond_end"));
  EXPECT_EQ(bench().VersionsOf("a"), UpTo(50));
}

TEST_P(ConsumerPositions, MessagesThatAreGoneBeforeTheyWereAppliedStopThePartition) {
  auto consumer = Start();
  Publish(1, 10);
  SettleLong(*consumer);
  ASSERT_TRUE(consumer->Close());
  Publish(11, 40);
  bench().topics().Trim({kOrders, 30});
  consumer = Start();
  SettleLong(*consumer);
  EXPECT_THAT(StoppedCodes(*consumer), ElementsAre("messages_gone"));
}

TEST_P(ConsumerPositions, AGroupThatTheBrokerForgotGoesOnAtTheStoresPosition) {
  auto consumer = Start();
  Publish(1, 30);
  SettleLong(*consumer);
  ASSERT_TRUE(consumer->Close());
  consumer.reset();
  bench().clock().Advance(24h * 60);
  bench().topics().ForgetCommitted(ConsumerBench::kGroup);
  Publish(31, 35);
  consumer = Start();
  SettleLong(*consumer);
  EXPECT_EQ(bench().VersionsOf("a"), UpTo(35));
  EXPECT_EQ(consumer->stats().too_old, 0U);
  EXPECT_EQ(consumer->stats().duplicates, 0U) << "it does not read everything again";
}

TEST_P(ConsumerPositions, AStoreWithoutAPositionDoesNotBelieveAGroupThatIsAhead) {
  const auto empty = memory::TakeSnapshot(*bench().database());
  auto consumer = Start();
  Publish(1, 30);
  SettleLong(*consumer);
  ASSERT_TRUE(consumer->Close());
  memory::Restore(*bench().database(), *empty);
  consumer = Start();
  SettleLong(*consumer);
  EXPECT_THAT(StoppedCodes(*consumer), ElementsAre("position_unknown"));
  Resume(bench(), {.kind = ResumePoint::Kind::kBeginning});
  SettleLong(*consumer);
  EXPECT_EQ(bench().VersionsOf("a"), UpTo(30));
}

TEST_P(ConsumerPositions, AnOperatorMovesARunningConsumer) {
  const auto consumer = Start();
  Publish(1, 20);
  SettleLong(*consumer);
  Resume(bench(), {.kind = ResumePoint::Kind::kOffset, .offset = 5});
  SettleLong(*consumer);
  EXPECT_EQ(bench().VersionsOf("a"), UpTo(20)) << "what is remembered has no second effect";
  EXPECT_GE(consumer->stats().duplicates, 15U);
}

TEST_P(ConsumerPositions, CaughtUpIsNotSaidOfAStoppedPartition) {
  auto consumer = Start();
  Publish(1, 10);
  SettleLong(*consumer);
  ASSERT_TRUE(consumer->Close());
  bench().topics().RecreateTopic(ConsumerBench::kTopic);
  Publish(11, 12);
  consumer = Start();
  std::jthread mover([this](std::stop_token stop) {
    while (!stop.stop_requested()) {
      bench().clock().Advance(100ms);
      std::this_thread::sleep_for(1ms);
    }
  });
  const Status end = consumer->Run({}, true);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code(), "topic_recreated");
}

TEST(PartitionRuns, APositionIsNotSavedBeforeAMessageCanTellItsTopic) {
  AttachedPartition attached{.partition = kOrders};
  attached.next_offset = 0;
  PartitionRun run(attached, "1", 10);
  for (int offset = 0; offset < 4; ++offset) run.Begin(offset);
  run.Finish(0);
  EXPECT_EQ(run.NextSave().to, 0);
  run.Finish(1, Witness{1, "b"});
  const PositionSave save = run.NextSave();
  EXPECT_EQ(save.to, 2);
  EXPECT_EQ(save.witness, (Witness{1, "b"}));
  run.Saved(save);
  run.Finish(3, Witness{3, "d"});
  EXPECT_EQ(run.NextSave().to, 2) << "2 is not done";
  run.Finish(2);
  EXPECT_EQ(run.NextSave().to, 4);
  EXPECT_EQ(run.NextSave().witness, (Witness{3, "d"}));
}

// ---- where to begin ----------------------------------------------------------------------------------------------

ReceivedMessage MessageAt(std::int64_t offset, const std::string& value = "v") {
  ReceivedMessage message;
  message.partition = kOrders;
  message.offset = offset;
  message.published_at = Timestamp{1s};
  message.key = "k";
  message.value = value;
  return message;
}

TEST(PartitionBeginning, AWitnessIsTheMessageAndItsTime) {
  const Witness witness = WitnessOf(MessageAt(7));
  EXPECT_EQ(witness.offset, 7);
  EXPECT_EQ(witness.fingerprint.size(), 16U);
  EXPECT_EQ(witness, WitnessOf(MessageAt(7)));
  EXPECT_NE(witness, WitnessOf(MessageAt(7, "w")));
  ReceivedMessage later = MessageAt(7);
  later.published_at += 1us;
  EXPECT_NE(witness, WitnessOf(later));
  ReceivedMessage shifted = MessageAt(7);
  shifted.key = "kv";
  shifted.value = "";
  EXPECT_NE(witness, WitnessOf(shifted));
}

TEST(PartitionBeginning, ANewPartitionIsReadFromItsOldestMessage) {
  const auto begin = DecideBeginning({.partition = kOrders}, {.partition = kOrders, .oldest = 3, .end = 9}, {}, {});
  EXPECT_FALSE(begin.stop);
  EXPECT_TRUE(begin.place);
  EXPECT_EQ(begin.offset, 3);
}

TEST(PartitionBeginning, AGroupThatHasPassedNothingIsNoReasonToStop) {
  const PartitionFacts facts{.partition = kOrders, .oldest = 3, .end = 9, .group = 3};
  const auto begin = DecideBeginning({.partition = kOrders}, facts, {}, {});
  EXPECT_FALSE(begin.stop);
  EXPECT_EQ(begin.offset, 3);
}

TEST(PartitionBeginning, APartitionFromBeforePositionsFollowsItsGroup) {
  AttachedPartition attached{.partition = kOrders};
  attached.follows_group = true;
  const auto begin = DecideBeginning(attached, {.partition = kOrders, .oldest = 3, .end = 9, .group = 7}, {}, {});
  EXPECT_FALSE(begin.stop);
  EXPECT_EQ(begin.offset, 7);
}

TEST(PartitionBeginning, AWitnessThatIsGoneTellsNothing) {
  AttachedPartition attached{.partition = kOrders};
  attached.next_offset = 8;
  attached.witness = WitnessOf(MessageAt(7));
  const auto begin = DecideBeginning(attached, {.partition = kOrders, .oldest = 8, .end = 9}, {}, {});
  EXPECT_FALSE(begin.stop);
  EXPECT_EQ(begin.offset, 8);
  EXPECT_FALSE(begin.place);
}

TEST(PartitionBeginning, WhatAnOperatorNamedIsHeldWithinWhatIsThere) {
  AttachedPartition attached{.partition = kOrders};
  attached.stop = PartitionStop{"topic_recreated", "x"};
  const PartitionFacts facts{.partition = kOrders, .oldest = 3, .end = 9, .group = 5};
  const auto at = [&](ResumePoint point, std::optional<std::int64_t> at_time = {}) {
    attached.resume = point;
    return DecideBeginning(attached, facts, {}, at_time).offset;
  };
  using Kind = ResumePoint::Kind;
  EXPECT_EQ(at({.kind = Kind::kBeginning}), 3);
  EXPECT_EQ(at({.kind = Kind::kGroup}), 5);
  EXPECT_EQ(at({.kind = Kind::kOffset, .offset = 1}), 3);
  EXPECT_EQ(at({.kind = Kind::kOffset, .offset = 6}), 6);
  EXPECT_EQ(at({.kind = Kind::kOffset, .offset = 60}), 9);
  EXPECT_EQ(at({.kind = Kind::kTime}, 4), 4);
}

TEST(ResumePoints, AreWrittenAsTheyAreRead) {
  for (const char* text : {"beginning", "group", "42", "2026-11-18T04:00:00Z"}) {
    const auto point = ParseResumePoint(text);
    ASSERT_TRUE(point) << text;
    EXPECT_EQ(ParseResumePoint(ToString(*point)), point) << text;
  }
  for (const char* text : {"", "-1", "end", "now", "4x", "yesterday"}) EXPECT_FALSE(ParseResumePoint(text)) << text;
}

}  // namespace
}  // namespace sealane
