// Protects a consumer from its own handler: one that fails for every event is stopped before the events are dead,
// goes on when it works again, and one event that fails for itself stops nothing. Store and broker are in memory,
// time is the test's.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/memory_store.hpp"
#include "ops/inbox_desk.hpp"
#include "support/consumer_bench.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const OperatorAction kWhy{"ann", "because"};

class ConsumerGateTest : public ::testing::TestWithParam<InboxMode> {
 protected:
  ConsumerOptions Options() const {
    ConsumerOptions options = bench_.Options();
    options.mode = GetParam();
    return options;
  }
  /// Notes every event, but rejects those of keys that begin with `bad`, and all of them while it is broken.
  Handling Breakable() {
    return [this, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& message,
                                            HandlerTransaction& tx) {
      ++handled_;
      if (broken_ || event.key.starts_with("bad")) return Decision::Reject("no_such_column", "column is missing");
      return noting(event, message, tx);
    };
  }
  void PublishKeys(const std::string& prefix, int count, std::int64_t version = 1) {
    for (int i = 0; i < count; ++i) bench_.Publish(bench_.Make(fmt::format("{}{}", prefix, i), version));
  }
  /// Steps, with the clock moved in between.
  void Step(Consumer& consumer, milliseconds duration, milliseconds step = milliseconds{250}) {
    for (milliseconds passed{0}; passed < duration; passed += step) {
      ASSERT_TRUE(consumer.RunOnce());
      bench_.clock().Advance(step);
    }
  }
  InboxSummary Summary() { return ValueOrThrow(Desk()->Summaries()).front(); }
  std::unique_ptr<InboxDesk> Desk() { return ValueOrThrow(memory::OpenInboxDesk(bench_.database())); }

  ConsumerBench bench_;
  bool broken_ = false;
  int handled_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Modes, ConsumerGateTest, ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets),
                         [](const auto& mode) { return std::string(ToString(mode.param)); });

TEST_P(ConsumerGateTest, AHandlerThatFailsForEveryEventIsStoppedBeforeTheEventsAreDead) {
  PublishKeys("k", 500);
  broken_ = true;
  const auto consumer = bench_.Start(Options(), Breakable());
  Step(*consumer, seconds{30});
  const ConsumerStats stats = consumer->stats();
  EXPECT_EQ(stats.state, ConsumerState::kHolding);
  EXPECT_EQ(stats.hold_code, "circuit_open");
  EXPECT_EQ(stats.problem_code, "circuit_open");
  EXPECT_THAT(stats.problem, HasSubstr("sealane inbox unpause --consumer billing"));
  const InboxSummary summary = Summary();
  EXPECT_LE(summary.waiting.dead, 5) << "those before the breaker could know";
  EXPECT_LE(summary.waiting.parked, 40) << "and the probes";
  ASSERT_TRUE(summary.hold);
  EXPECT_EQ(summary.hold->code, "circuit_open");
  EXPECT_LE(handled_, 150) << "it does not run the handler again and again";
}

TEST_P(ConsumerGateTest, GoesOnByItselfWhenAProbeSucceedsAndAppliesEverythingOnceInOrder) {
  for (int version = 1; version <= 3; ++version) PublishKeys("k", 100, version);
  broken_ = true;
  const auto consumer = bench_.Start(Options(), Breakable());
  Step(*consumer, seconds{20});
  ASSERT_EQ(consumer->stats().hold_code, "circuit_open");
  broken_ = false;
  Step(*consumer, seconds{120}, milliseconds{500});
  EXPECT_EQ(consumer->stats().hold_code, "");
  EXPECT_EQ(consumer->stats().state, ConsumerState::kRunning);
  EXPECT_FALSE(Summary().hold);
  // Those that were dead before it opened wait for a person, as always.
  ValueOrThrow(Desk()->Retry(ParkedFilter{.limit = 100}, kWhy));
  Step(*consumer, seconds{10});
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(bench_.VersionsOf(fmt::format("k{}", i)), ::testing::ElementsAre(1, 2, 3));
  }
}

TEST_P(ConsumerGateTest, AnOperatorClosesTheBreaker) {
  PublishKeys("k", 100);
  broken_ = true;
  ConsumerOptions options = Options();
  options.breaker_probe = std::chrono::hours{1};
  options.breaker_probe_max = std::chrono::hours{1};
  const auto consumer = bench_.Start(options, Breakable());
  Step(*consumer, seconds{5});
  ASSERT_EQ(consumer->stats().hold_code, "circuit_open");
  broken_ = false;
  EXPECT_TRUE(ValueOrThrow(Desk()->Unpause("billing", kWhy)));
  Step(*consumer, seconds{5});
  EXPECT_EQ(consumer->stats().hold_code, "");
  EXPECT_GE(bench_.Effects().size(), 90U);
}

TEST_P(ConsumerGateTest, TheNextProcessGoesOnHoldingUntilItsProbeSucceeds) {
  PublishKeys("k", 200);
  broken_ = true;
  {
    const auto consumer = bench_.Start(Options(), Breakable());
    Step(*consumer, seconds{5});
    ASSERT_TRUE(consumer->Close());
  }
  const std::int64_t dead = Summary().waiting.dead;
  {
    const auto still_broken = bench_.Start(Options(), Breakable());
    Step(*still_broken, seconds{20});
    EXPECT_EQ(still_broken->stats().hold_code, "circuit_open");
    EXPECT_EQ(Summary().waiting.dead, dead) << "nothing more dies, however often it is started";
    ASSERT_TRUE(still_broken->Close());
  }
  broken_ = false;
  const auto mended = bench_.Start(Options(), Breakable());
  Step(*mended, seconds{90}, milliseconds{500});
  EXPECT_EQ(mended->stats().hold_code, "");
  EXPECT_EQ(static_cast<std::int64_t>(bench_.Effects().size()), 200 - dead);
}

TEST_P(ConsumerGateTest, SomeKeysThatFailDoNotStopTheOthers) {
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 4; ++k) bench_.Publish(bench_.Make(fmt::format("good{}-{}", i, k), 1));
    bench_.Publish(bench_.Make(fmt::format("bad{}", i), 1));
  }
  const auto consumer = bench_.Start(Options(), Breakable());
  Step(*consumer, seconds{5});
  EXPECT_EQ(bench_.Effects().size(), 160U);
  EXPECT_EQ(consumer->stats().hold_code, "");
  EXPECT_EQ(Summary().waiting.dead, 40) << "each is dead for itself, at once";
}

TEST_P(ConsumerGateTest, OneKeyThatFailsAgainAndAgainOpensNothing) {
  for (int i = 0; i < 200; ++i) bench_.Publish(bench_.Make("bad", i + 1));
  const auto consumer = bench_.Start(Options(), Breakable());
  Step(*consumer, seconds{10});
  EXPECT_EQ(consumer->stats().hold_code, "");
  EXPECT_EQ(Summary().waiting.dead, 1);
  for (int i = 0; i < 50; ++i) {
    ValueOrThrow(Desk()->Retry(ParkedFilter{.limit = 100}, kWhy));
    Step(*consumer, seconds{1});
  }
  EXPECT_EQ(consumer->stats().hold_code, "") << "it is one order key";
}

TEST_P(ConsumerGateTest, CanBeSwitchedOffAndCountsWhateverTheShare) {
  PublishKeys("bad", 60);
  ConsumerOptions off = Options();
  off.breaker = false;
  {
    const auto consumer = bench_.Start(off, Breakable());
    Step(*consumer, seconds{10});
    EXPECT_EQ(consumer->stats().dead, 60);
    EXPECT_EQ(consumer->stats().hold_code, "");
    ASSERT_TRUE(consumer->Close());
  }
  PublishKeys("good", 200);
  PublishKeys("bad-", 10);
  ConsumerOptions count = Options();
  count.breaker_count = 5;
  const auto consumer = bench_.Start(count, Breakable());
  Step(*consumer, seconds{1});
  EXPECT_EQ(consumer->stats().hold_code, "circuit_open");
}

TEST_P(ConsumerGateTest, AtItsLimitOfParkedEventsItHoldsInsteadOfParkingMore) {
  ConsumerOptions options = Options();
  options.breaker = false;
  options.parked_max = 10;
  options.workers = 1;
  PublishKeys("bad", 30);
  PublishKeys("good", 5);
  const auto consumer = bench_.Start(options, Breakable());
  Step(*consumer, seconds{10});
  EXPECT_EQ(consumer->stats().hold_code, "parked_limit");
  EXPECT_EQ(Summary().waiting.parked, 10);
  ASSERT_TRUE(Summary().hold);
  EXPECT_EQ(Summary().hold->code, "parked_limit");
  // A person makes room, event by event.
  for (int i = 0; i < 20; ++i) {
    for (const ParkedEvent& event : ValueOrThrow(Desk()->Parked({.state = InboxState::kDead, .limit = 100}))) {
      ValueOrThrow(Desk()->Skip("billing", event.id, kWhy));
    }
    Step(*consumer, seconds{20}, seconds{1});
  }
  EXPECT_EQ(bench_.Effects().size(), 5U);
  EXPECT_EQ(consumer->stats().hold_code, "");
  EXPECT_FALSE(Summary().hold);
}

TEST_P(ConsumerGateTest, HealthyEventsPassWhileItsLimitIsReached) {
  ConsumerOptions options = Options();
  options.parked_max = 3;
  PublishKeys("bad", 3);
  const auto consumer = bench_.Start(options, Breakable());
  Step(*consumer, seconds{5});
  PublishKeys("good", 50);
  Step(*consumer, seconds{5});
  EXPECT_EQ(bench_.Effects().size(), 50U);
  EXPECT_EQ(consumer->stats().hold_code, "");
}

TEST_P(ConsumerGateTest, APausedConsumerAppliesNothingUntilItIsUnpaused) {
  const auto consumer = bench_.Start(Options(), Breakable());
  PublishKeys("k", 5);
  Step(*consumer, seconds{1});
  ASSERT_EQ(bench_.Effects().size(), 5U);
  EXPECT_TRUE(ValueOrThrow(Desk()->Pause("billing", kWhy)));
  EXPECT_FALSE(ValueOrThrow(Desk()->Pause("billing", kWhy)));
  Step(*consumer, seconds{2});
  PublishKeys("k", 5, 2);
  Step(*consumer, seconds{5});
  EXPECT_EQ(bench_.Effects().size(), 5U);
  EXPECT_EQ(consumer->stats().hold_code, "consumer_paused");
  EXPECT_TRUE(ValueOrThrow(Desk()->Unpause("billing", kWhy)));
  EXPECT_FALSE(ValueOrThrow(Desk()->Unpause("billing", kWhy)));
  Step(*consumer, seconds{2});
  EXPECT_EQ(bench_.Effects().size(), 10U);
  EXPECT_EQ(consumer->stats().hold_code, "");
}

// What an operator asks to be tried again is tried in groups; one that fails in a group takes nothing with it.
TEST_P(ConsumerGateTest, ManyRetriesAreAppliedOnceInOrderAlsoBesideOnesThatFail) {
  ConsumerOptions options = Options();
  options.breaker = false;
  for (int version = 1; version <= 2; ++version) {
    PublishKeys("k", 150, version);
    PublishKeys("bad", 5, version);
  }
  broken_ = true;
  const auto consumer = bench_.Start(options, Breakable());
  Step(*consumer, seconds{2});
  ASSERT_EQ(Summary().waiting.dead, 155);
  broken_ = false;
  EXPECT_EQ(ValueOrThrow(Desk()->Retry(ParkedFilter{.limit = 1'000}, kWhy)), 155);
  EXPECT_EQ(ValueOrThrow(Desk()->Retry(ParkedFilter{.limit = 1'000}, kWhy)), 0) << "these are due already";
  Step(*consumer, seconds{5});
  for (int i = 0; i < 150; ++i) {
    EXPECT_THAT(bench_.VersionsOf(fmt::format("k{}", i)), ::testing::ElementsAre(1, 2));
  }
  EXPECT_EQ(Summary().waiting.dead, 5);
  EXPECT_EQ(Summary().waiting.parked, 10);
}

TEST_P(ConsumerGateTest, AcceptedGapIsAppliedAndTheMissingVersionIsStale) {
  ConsumerOptions options = Options();
  options.guard_versions = true;
  const auto consumer = bench_.Start(options, bench_.Noting());
  bench_.Publish(bench_.Make("a", 1));
  const Envelope held = bench_.Make("a", 3);
  bench_.Publish(held);
  bench_.Publish(bench_.Make("a", 4));
  Step(*consumer, seconds{2});
  EXPECT_THAT(bench_.VersionsOf("a"), ::testing::ElementsAre(1));
  // In time and after it.
  ValueOrThrow(Desk()->Retry("billing", held.id, kWhy));
  Step(*consumer, seconds{2});
  EXPECT_THAT(bench_.VersionsOf("a"), ::testing::ElementsAre(1)) << "a retry decides nothing";
  const AcceptedGap gap = ValueOrThrow(Desk()->AcceptGap("billing", {.event_id = held.id}, kWhy));
  EXPECT_EQ(gap.seen, 1);
  EXPECT_EQ(gap.version, 3);
  Step(*consumer, seconds{2});
  EXPECT_THAT(bench_.VersionsOf("a"), ::testing::ElementsAre(1, 3, 4));
  bench_.Publish(bench_.Make("a", 2));
  bench_.Publish(bench_.Make("a", 5));
  Step(*consumer, seconds{2});
  EXPECT_THAT(bench_.VersionsOf("a"), ::testing::ElementsAre(1, 3, 4, 5));
  EXPECT_EQ(consumer->stats().stale, 1U);
}

}  // namespace
}  // namespace sealane::testing
