// Protects how a consumer knows that it is done: `--until caught-up` must neither end before everything that is there
// was applied nor wait for offsets that hold no message, and the lag says the same.

#include <algorithm>
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/consumer_bench.hpp"
#include "support/eventually.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ConsumerOptions OptionsFor(const ConsumerBench& bench, InboxMode mode) {
  ConsumerOptions options = bench.Options();
  options.mode = mode;
  options.poll_wait = milliseconds{2};
  options.retry_interval = seconds{1};
  return options;
}

/// A consumer that runs in a thread until it has caught up.
class Runner {
 public:
  Runner(ConsumerBench& bench, InboxMode mode) : Runner(bench, OptionsFor(bench, mode)) {}
  Runner(ConsumerBench& bench, ConsumerOptions options)
      : bench_(bench),
        consumer_(bench.Start(std::move(options), bench.Noting())),
        thread_([this](std::stop_token stop) {
          const Status end = consumer_->Run(stop, true);
          EXPECT_TRUE(end) << end.error().ToString();
          ended_ = true;
        }) {}
  ~Runner() {
    thread_.request_stop();
    (void)Await([] { return false; });
  }

  /// Moves the clock while it waits.
  bool Await(const std::function<bool()>& so) {
    return Eventually([&] {
      bench_.clock().Advance(milliseconds{20});
      return ended_ || so();
    });
  }
  bool HasPartitions() {
    return Await([this] { return !consumer_->stats().partitions.empty(); });
  }
  /// With everything as it is now and a long silence behind it, it does not think that it is done.
  bool GoesOn() {
    bench_.clock().Advance(seconds{30});
    const std::uint64_t before = bench_.topics().PollCount();
    return Await([&] { return bench_.topics().PollCount() >= before + 2; }) && !ended_;
  }
  bool Ends() {
    return Await([] { return false; }) && ended_;
  }
  ConsumerStats stats() const { return consumer_->stats(); }

 private:
  ConsumerBench& bench_;
  std::unique_ptr<Consumer> consumer_;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

class CaughtUp : public ::testing::TestWithParam<InboxMode> {
 protected:
  std::int64_t LagOf(const Consumer& consumer, const Partition& partition) const {
    for (const PartitionLag& lag : consumer.stats().partitions) {
      if (lag.partition == partition) return lag.lag;
    }
    ADD_FAILURE() << "the partition is not read";
    return -1;
  }

  ConsumerBench bench_;
};

INSTANTIATE_TEST_SUITE_P(Modes, CaughtUp, ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets),
                         [](const auto& mode) { return std::string(ToString(mode.param)); });

TEST_P(CaughtUp, MessagesThatAreLateAreWaitedFor) {
  for (int version = 1; version <= 10; ++version) bench_.Publish(bench_.Make("a", version));
  bench_.topics().HoldMessages();
  Runner runner(bench_, GetParam());
  ASSERT_TRUE(runner.HasPartitions());
  EXPECT_TRUE(runner.GoesOn());
  bench_.topics().LetMessages();
  EXPECT_TRUE(runner.Ends());
  EXPECT_EQ(bench_.VersionsOf("a").size(), 10U);
}

TEST_P(CaughtUp, OffsetsWithoutMessagesAreNotWaitedFor) {
  PartitionOffset last;
  for (int version = 1; version <= 3; ++version) last = bench_.Publish(bench_.Make("a", version));
  bench_.topics().SkipTo({last.partition, 10});
  Runner runner(bench_, GetParam());
  EXPECT_TRUE(runner.Ends());
  EXPECT_EQ(bench_.VersionsOf("a").size(), 3U);
}

TEST_P(CaughtUp, EmptyPartitionsAndPositionsAtTheEndAreCaughtUp) {
  bench_.Publish(bench_.Make("a", 1));
  {
    Runner first(bench_, GetParam());
    EXPECT_TRUE(first.Ends());
  }
  Runner second(bench_, GetParam());
  EXPECT_TRUE(second.Ends());
  EXPECT_EQ(second.stats().received, 0U);
}

TEST_P(CaughtUp, ABrokerThatIsAwayMayHaveMore) {
  const Error away(ErrorKind::kUnavailable, "store_unreachable", "away");
  bench_.faults()->FailAll(memory::InboxCall::kAttach, away);
  Runner runner(bench_, GetParam());
  ASSERT_TRUE(runner.Await([&] { return bench_.faults()->count(memory::InboxCall::kAttach) > 0; }));
  bench_.topics().BeginOutage();
  bench_.faults()->Heal();
  EXPECT_TRUE(runner.GoesOn()) << "where to begin can only be asked of the broker";
  bench_.topics().EndOutage();
  EXPECT_TRUE(runner.Ends());
}

TEST_P(CaughtUp, APartitionThatCouldNotBeStartedIsNotDone) {
  bench_.topics().Fail(MemoryTopics::Call::kStart, Error(ErrorKind::kUnavailable, "broker_unreachable", "away"),
                       MemoryTopics::kAlways);
  Runner runner(bench_, GetParam());
  ASSERT_TRUE(runner.Await([&] { return bench_.topics().PollCount() > 1; }));
  EXPECT_TRUE(runner.GoesOn());
}

// Nobody knows how far the others are: it stands by until they have ended, and has the partitions then.
TEST_P(CaughtUp, AMemberWithoutPartitionsEndsAfterTheOthers) {
  ConsumerBench bench(1, 1);
  for (int version = 1; version <= 10; ++version) bench.Publish(bench.Make("a", version));
  bench.topics().HoldMessages();
  Runner one(bench, GetParam());
  Runner other(bench, GetParam());
  ASSERT_TRUE(one.Await([&] { return bench.topics().MemberCount(ConsumerBench::kGroup) == 2; }));
  EXPECT_TRUE(one.GoesOn());
  EXPECT_TRUE(other.GoesOn());
  bench.topics().LetMessages();
  EXPECT_TRUE(one.Ends());
  EXPECT_TRUE(other.Ends());
  EXPECT_EQ(bench.VersionsOf("a").size(), 10U);
}

// The third version waits for the second, which comes with the last batch: only a look after that finds it due.
TEST_P(CaughtUp, WhatTheLastBatchMadeDueIsTriedToo) {
  for (const int version : {1, 3, 2}) bench_.Publish(bench_.Make("a", version));
  bench_.topics().HoldMessages();
  ConsumerOptions options = OptionsFor(bench_, GetParam());
  options.guard_versions = true;
  Runner runner(bench_, options);
  ASSERT_TRUE(runner.Await([&] { return bench_.faults()->count(memory::InboxCall::kLook) > 0; }));
  bench_.topics().LetMessages();
  EXPECT_TRUE(runner.Ends());
  EXPECT_THAT(bench_.VersionsOf("a"), ::testing::ElementsAre(1, 2, 3));
}

TEST_P(CaughtUp, TheLagCountsFromWhereTheGroupStandsToTheEnd) {
  PartitionOffset last;
  for (int version = 1; version <= 10; ++version) last = bench_.Publish(bench_.Make("a", version));
  bench_.topics().HoldMessages();
  const auto consumer = bench_.Start(OptionsFor(bench_, GetParam()), bench_.Noting());
  bench_.Settle(*consumer);
  EXPECT_EQ(LagOf(*consumer, last.partition), 10) << "nothing came of it yet";
  bench_.topics().LetMessages();
  ASSERT_TRUE(consumer->RunOnce());
  EXPECT_EQ(LagOf(*consumer, last.partition), 10) << "read, and told before it was done";
  bench_.topics().SkipTo({last.partition, 15});
  bench_.Settle(*consumer);
  EXPECT_EQ(LagOf(*consumer, last.partition), 0) << "the last offsets hold no message";
}

}  // namespace
}  // namespace sealane::testing
