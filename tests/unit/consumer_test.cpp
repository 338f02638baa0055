// Protects what a consumer promises about each event: its effect once, in the order of its key, whatever comes twice,
// too early, broken or at the wrong moment. Store and broker are in memory, time is the test's.

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/outbox.hpp"

#include "base/text.hpp"
#include "base/time_text.hpp"
#include "outbox/outbox_store.hpp"
#include "support/consumer_bench.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ConsumerTest : public ::testing::TestWithParam<InboxMode> {
 protected:
  ConsumerOptions Options() const {
    ConsumerOptions options = bench_.Options();
    options.mode = GetParam();
    return options;
  }
  /// Notes every event, except that those the predicate picks are decided as it says.
  template <class Decide>
  Handling Deciding(Decide decide) const {
    return [noting = bench_.Noting(), decide](const Envelope& event, const ReceivedMessage& message,
                                              HandlerTransaction& tx) {
      const Decision done = noting(event, message, tx);
      const std::optional<Decision> other = decide(event);
      return other ? *other : done;
    };
  }
  std::vector<StoredMessage> InOutbox() {
    auto store = ValueOrThrow(memory::OpenOutboxStore(bench_.database()));
    return ValueOrThrow(store->ListMessages({.with_payload = true}));
  }

  ConsumerBench bench_;
};

INSTANTIATE_TEST_SUITE_P(Modes, ConsumerTest, ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets),
                         [](const auto& mode) { return std::string(ToString(mode.param)); });

TEST_P(ConsumerTest, AppliesEachEventInTheOrderOfItsKey) {
  for (int version = 1; version <= 50; ++version) {
    for (const char* key : {"a", "b", "c"}) bench_.Publish(bench_.Make(key, version));
  }
  const auto consumer = bench_.Start(Options(), bench_.Noting());
  bench_.Settle(*consumer);
  for (const char* key : {"a", "b", "c"}) {
    const auto versions = bench_.VersionsOf(key);
    EXPECT_EQ(versions.size(), 50U);
    EXPECT_TRUE(std::ranges::is_sorted(versions));
  }
  EXPECT_EQ(consumer->stats().effects, 150U);
}

TEST_P(ConsumerTest, TenDeliveriesOfOneEventAreOneEffectAndNineDuplicates) {
  const Envelope event = bench_.Make("a", 1);
  for (int i = 0; i < 10; ++i) bench_.Publish(event);
  const auto consumer = bench_.Start(Options(), bench_.Noting());
  bench_.Settle(*consumer);
  EXPECT_EQ(bench_.Effects().size(), 1U);
  EXPECT_EQ(consumer->stats().effects, 1U);
  EXPECT_EQ(consumer->stats().duplicates, 9U);
}

TEST_P(ConsumerTest, WhatWasNotCommittedToTheBrokerComesAgainAndHasNoSecondEffect) {
  for (int version = 1; version <= 20; ++version) bench_.Publish(bench_.Make("a", version));
  bench_.topics().HoldCommits();
  {
    const auto consumer = bench_.Start(Options(), bench_.Noting());
    bench_.Settle(*consumer);
  }
  bench_.topics().EndSessions(ConsumerBench::kGroup);
  const auto successor = bench_.Start(Options(), bench_.Noting());
  bench_.Settle(*successor);
  EXPECT_EQ(bench_.Effects().size(), 20U);
}

TEST_P(ConsumerTest, NeverCommitsMoreToTheBrokerThanIsApplied) {
  bench_.Publish(bench_.Make("a", 1));
  const PartitionOffset second = bench_.Publish(bench_.Make("a", 2));
  bench_.faults()->FailAll(memory::InboxCall::kFinish, Error(ErrorKind::kUnavailable, "away", "the store is away"));
  const auto consumer = bench_.Start(Options(), bench_.Noting());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(consumer->RunOnce());
    bench_.clock().Advance(seconds{1});
  }
  EXPECT_EQ(bench_.topics().Committed(ConsumerBench::kGroup, second.partition).value_or(0), 0);
  EXPECT_THAT(bench_.Effects(), IsEmpty());
  bench_.faults()->Heal();
  bench_.Settle(*consumer);
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1, 2));
  EXPECT_EQ(bench_.topics().Committed(ConsumerBench::kGroup, second.partition), second.offset + 1);
}

TEST_P(ConsumerTest, SaysWhyItCannotWriteUntilItCan) {
  bench_.Publish(bench_.Make("a", 1));
  bench_.faults()->FailAll(memory::InboxCall::kFinish, Error(ErrorKind::kMisconfigured, "not_permitted", "no right"));
  const auto consumer = bench_.Start(Options(), bench_.Noting());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(consumer->RunOnce());
    bench_.clock().Advance(seconds{1});
  }
  EXPECT_EQ(consumer->stats().problem_code, "not_permitted");
  EXPECT_EQ(consumer->stats().state, ConsumerState::kHolding);
  bench_.faults()->Heal();
  bench_.SettleOver(*consumer, seconds{10}, seconds{1});
  EXPECT_EQ(consumer->stats().problem_code, "");
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
}

TEST_P(ConsumerTest, ACommitWhoseAnswerIsLostHasOneEffect) {
  for (int version = 1; version <= 5; ++version) bench_.Publish(bench_.Make("a", version));
  bench_.faults()->Fail(memory::InboxCall::kFinish, Error(ErrorKind::kInDoubt, "commit_in_doubt", "no answer"),
                        memory::InboxFaults::When::kAfterTheWork);
  const auto consumer = bench_.Start(Options(), bench_.Noting());
  bench_.SettleOver(*consumer, seconds{5}, seconds{1});
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1, 2, 3, 4, 5));
}

TEST_P(ConsumerTest, OnlyTheKeyOfAPoisonEventWaits) {
  for (int version = 1; version <= 3; ++version) {
    for (const char* key : {"a", "b"}) bench_.Publish(bench_.Make(key, version));
  }
  const auto consumer = bench_.Start(Options(), Deciding([](const Envelope& event) -> std::optional<Decision> {
                                       if (event.key == "a" && event.aggregate.version == 2)
                                         return Decision::Reject("bad_total", "the total is wrong");
                                       return std::nullopt;
                                     }));
  bench_.SettleOver(*consumer, minutes{1}, seconds{5});
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
  EXPECT_THAT(bench_.VersionsOf("b"), ElementsAre(1, 2, 3));
  EXPECT_EQ(consumer->stats().dead, 1);
  EXPECT_EQ(consumer->stats().parked, 2);
}

TEST_P(ConsumerTest, ATransientFailureIsTriedAgainAndItsFollowersGoAfterIt) {
  for (int version = 1; version <= 4; ++version) bench_.Publish(bench_.Make("a", version));
  auto failures = std::make_shared<int>(2);
  const auto consumer =
      bench_.Start(Options(), Deciding([failures](const Envelope& event) -> std::optional<Decision> {
                     if (event.aggregate.version == 2 && (*failures)-- > 0) {
                       return Decision::RetryLater("not_yet", "come back");
                     }
                     return std::nullopt;
                   }));
  bench_.Settle(*consumer);
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
  bench_.SettleOver(*consumer, seconds{10}, milliseconds{500});
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(consumer->stats().parked, 0);
}

TEST_P(ConsumerTest, AnEventThatFailsTooOftenIsDead) {
  bench_.Publish(bench_.Make("a", 1));
  int runs = 0;
  const auto consumer =
      bench_.Start(Options(), [&runs](const Envelope&, const ReceivedMessage&, HandlerTransaction&) -> Decision {
        ++runs;
        throw std::runtime_error("no luck");
      });
  bench_.SettleOver(*consumer, minutes{5}, seconds{1});
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(consumer->stats().dead, 1);
}

TEST_P(ConsumerTest, ABatchWithSeveralFailuresAppliesTheOthers) {
  std::set<std::string> bad;
  for (int i = 0; i < 40; ++i) {
    const std::string key = "k" + std::to_string(i);
    if (i % 7 == 0) bad.insert(key);
    bench_.Publish(bench_.Make(key, 1));
  }
  const auto consumer = bench_.Start(Options(), Deciding([&bad](const Envelope& event) -> std::optional<Decision> {
                                       if (bad.contains(event.key)) return Decision::Reject("bad", "bad");
                                       return std::nullopt;
                                     }));
  bench_.Settle(*consumer);
  EXPECT_EQ(bench_.Effects().size(), 40 - bad.size());
  EXPECT_EQ(consumer->stats().dead_total, bad.size());
}

TEST_P(ConsumerTest, APostedStatementThatFailsIsLeftToItsOwnHandler) {
  for (int i = 0; i < 8; ++i) bench_.Publish(bench_.Make("k" + std::to_string(i), 1));
  ConsumerOptions options = Options();
  options.workers = 1;
  // The answer about k5's statement comes when all handlers are through; the next time it is awaited.
  int runs = 0;
  const auto consumer = bench_.Start(
      options,
      [&, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& m, HandlerTransaction& tx) {
        if (event.key != "k5") return noting(event, m, tx);
        if (++runs > 1) return Decision::Reject("constraint", "refused");
        bench_.faults()->Fail(memory::InboxCall::kSettle, Error(ErrorKind::kRejected, "constraint", "refused"));
        return Decision::Done();
      });
  bench_.Settle(*consumer);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(bench_.Effects().size(), 7U);
  EXPECT_EQ(consumer->stats().dead_total, 1U);
}

TEST_P(ConsumerTest, ACommitThatIsRefusedIsTracedToTheEvent) {
  for (int i = 0; i < 8; ++i) bench_.Publish(bench_.Make("k" + std::to_string(i), 1));
  ConsumerOptions options = Options();
  options.workers = 1;
  // The store refuses the commit of whatever transaction k5 is in, as a deferred constraint would.
  bool in_batch = false;
  const auto faults = bench_.faults();
  const auto consumer = bench_.Start(
      options,
      [&, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& m, HandlerTransaction& tx) {
        if (event.key == "k5") {
          faults->Fail(memory::InboxCall::kFinish, Error(ErrorKind::kRejected, "constraint", "refused"));
          in_batch = true;
        }
        return noting(event, m, tx);
      });
  bench_.Settle(*consumer);
  EXPECT_TRUE(in_batch);
  EXPECT_EQ(bench_.Effects().size(), 7U);
  EXPECT_THAT(bench_.VersionsOf("k5"), IsEmpty());
  EXPECT_EQ(consumer->stats().dead_total, 1U);
}

TEST_P(ConsumerTest, AMessageThatCannotBeReadIsSetAsideAndOthersFlow) {
  bench_.PublishBytes("a", "{not json");
  bench_.Publish(bench_.Make("b", 1));
  bench_.PublishBytes("a", "{not json either");
  const auto consumer = bench_.Start(Options(), bench_.Noting());
  bench_.SettleOver(*consumer, seconds{4}, seconds{1});
  EXPECT_THAT(bench_.VersionsOf("b"), ElementsAre(1));
  EXPECT_EQ(consumer->stats().dead, 1);
  EXPECT_EQ(consumer->stats().parked, 2);
}

TEST_P(ConsumerTest, ADeadEventLeavesOneDeadLetterWithTheOriginalBytes) {
  const Envelope event = bench_.Make("a", 1, R"({"n": 1 })");
  const PartitionOffset place =
      bench_.topics().Publish(std::string(ConsumerBench::kTopic), event.key, ToJson(event), {{"origin", "shop"}});
  ConsumerOptions options = Options();
  options.dead_letter_topic = "orders.dlq";
  options.owner_team = "billing-team";
  const auto consumer = bench_.Start(options, [](const Envelope&, const ReceivedMessage&, HandlerTransaction&) {
    return Decision::RetryLater("bad_total", "the total is wrong");
  });
  const std::string first_failed_at = ToRfc3339(bench_.clock().Now());
  bench_.SettleOver(*consumer, minutes{1}, seconds{1});
  const auto letters = InOutbox();
  ASSERT_EQ(letters.size(), 1U);
  const Envelope& letter = letters.front().envelope;
  EXPECT_EQ(letter.topic, "orders.dlq");
  EXPECT_EQ(letter.key, "a");
  EXPECT_EQ(letter.payload, ToJson(event));
  const auto header = [&](std::string_view name) {
    const auto found = std::ranges::find(letter.headers, name, &Header::name);
    return found == letter.headers.end() ? std::string("(none)") : found->value;
  };
  EXPECT_EQ(header("dlq-event-id"), event.id.ToString());
  EXPECT_EQ(header("dlq-code"), "bad_total");
  EXPECT_EQ(header("dlq-consumer"), "billing");
  EXPECT_EQ(header("dlq-partition"), std::to_string(place.partition.number));
  EXPECT_EQ(header("dlq-offset"), std::to_string(place.offset));
  EXPECT_EQ(header("dlq-owner"), "billing-team");
  EXPECT_EQ(header("dlq-attempts"), "4");
  EXPECT_EQ(header("dlq-message"), "the total is wrong");
  EXPECT_EQ(header("dlq-event-type"), "OrderChanged");
  EXPECT_EQ(header("dlq-event-version"), "1");
  EXPECT_EQ(header("dlq-first-failed-at"), first_failed_at);
  EXPECT_EQ(header("dlq-last-failed-at"), ToRfc3339(letter.occurred_at));
  EXPECT_GT(header("dlq-last-failed-at"), first_failed_at);
  EXPECT_EQ(header("dlq-headers"), R"({"origin":"shop"})");
  EXPECT_EQ(header("dlq-replayable"), "true");
}

TEST_P(ConsumerTest, ATenantThatIsNotAllowedNeverReachesTheHandler) {
  bench_.Publish(bench_.Make("a", 1));
  ConsumerOptions options = Options();
  options.tenant_allowed = [](std::string_view tenant) { return tenant == "t2"; };
  const auto consumer = bench_.Start(options, bench_.Noting());
  bench_.Settle(*consumer);
  EXPECT_THAT(bench_.Effects(), IsEmpty());
  EXPECT_EQ(consumer->stats().failures.at("tenant_not_allowed"), 1U);
}

TEST_P(ConsumerTest, AVersionThatNoHandlerUnderstandsIsRejectedAndATypeWithoutOneIgnored) {
  Envelope newer = bench_.Make("a", 1);
  newer.schema_version = 2;
  Envelope other = bench_.Make("b", 1);
  other.type = "SomethingElse";
  bench_.Publish(newer);
  bench_.Publish(other);
  Handlers handlers;
  handlers.On("OrderChanged", [](const Envelope&, HandlerTransaction&) { return Decision::Done(); });
  const auto consumer = bench_.Start(Options(), MakeHandling(handlers));
  bench_.Settle(*consumer);
  EXPECT_EQ(consumer->stats().failures.at("unknown_version"), 1U);
  EXPECT_EQ(consumer->stats().ignored, 1U);
}

TEST_P(ConsumerTest, EventsAppendedByAHandlerNameTheirCause) {
  const Envelope event = bench_.Make("a", 1);
  bench_.Publish(event);
  const sealane::Outbox outbox({.producer = "billing"});
  const auto consumer =
      bench_.Start(Options(), [&outbox](const Envelope& cause, const ReceivedMessage&, HandlerTransaction& tx) {
        ValueOrThrow(outbox.Append(
            tx, {.topic = "invoices", .key = cause.key, .type = "InvoiceAsked", .payload = R"({"n":1})"}));
        return Decision::Done();
      });
  bench_.Settle(*consumer);
  const auto appended = InOutbox();
  ASSERT_EQ(appended.size(), 1U);
  EXPECT_EQ(appended.front().envelope.causation_id, event.id.ToString());
  EXPECT_EQ(appended.front().envelope.correlation_id, "c-1");
}

TEST_P(ConsumerTest, AGapWaitsAndClosesWhenTheMissingVersionComes) {
  ConsumerOptions options = Options();
  options.guard_versions = true;
  const auto consumer = bench_.Start(options, bench_.Noting());
  bench_.Publish(bench_.Make("a", 1));
  bench_.Publish(bench_.Make("a", 4));
  bench_.Publish(bench_.Make("a", 3));
  bench_.Publish(bench_.Make("b", 1));
  bench_.SettleOver(*consumer, seconds{4}, seconds{1});
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
  EXPECT_THAT(bench_.VersionsOf("b"), ElementsAre(1));
  EXPECT_GE(consumer->stats().gaps, 1);
  bench_.Publish(bench_.Make("a", 2));
  bench_.SettleOver(*consumer, seconds{4}, seconds{1});
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(consumer->stats().gaps, 0);
}

TEST_P(ConsumerTest, AGapThatDoesNotCloseInTimeIsHeldOrAccepted) {
  for (const GapPolicy policy : {GapPolicy::kHold, GapPolicy::kAccept}) {
    ConsumerOptions options = Options();
    options.consumer = std::string("c-") + std::string(ToString(policy));
    options.guard_versions = true;
    options.gap_timeout = seconds{30};
    options.gap_policy = policy;
    const std::string key = "gap-" + std::string(ToString(policy));
    bench_.Publish(bench_.Make(key, 1));
    bench_.Publish(bench_.Make(key, 3));
    const std::size_t before = bench_.Effects().size();
    const auto consumer = bench_.Start(options, Deciding([key](const Envelope& event) -> std::optional<Decision> {
                                         if (event.key != key) return Decision::Ignore();
                                         return std::nullopt;
                                       }));
    bench_.SettleOver(*consumer, seconds{20}, seconds{1});
    EXPECT_THAT(bench_.VersionsOf(key), ElementsAre(1)) << before;
    bench_.SettleOver(*consumer, seconds{30}, seconds{1});
    if (policy == GapPolicy::kHold) {
      EXPECT_THAT(bench_.VersionsOf(key), ElementsAre(1));
      EXPECT_EQ(consumer->stats().dead, 1);
    } else {
      EXPECT_THAT(bench_.VersionsOf(key), ElementsAre(1, 3));
    }
  }
}

TEST_P(ConsumerTest, AStaleVersionIsIgnoredAndCounted) {
  ConsumerOptions options = Options();
  options.guard_versions = true;
  const auto consumer = bench_.Start(options, bench_.Noting());
  for (const int version : {1, 2, 3, 2, 1}) bench_.Publish(bench_.Make("a", version));
  bench_.Settle(*consumer);
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1, 2, 3));
  EXPECT_EQ(consumer->stats().stale, 2U);
}

TEST_P(ConsumerTest, ReadingPausesWhenTooMuchIsUnderWay) {
  ConsumerOptions options = Options();
  options.memory_max = 65'536;
  options.poll_messages = 10;
  const std::string large = '"' + std::string(10'000, 'x') + '"';
  for (int i = 0; i < 60; ++i) bench_.Publish(bench_.Make("k" + std::to_string(i), 1, large));
  bench_.faults()->FailAll(memory::InboxCall::kOpen, Error(ErrorKind::kUnavailable, "away", "the store is away"));
  const auto consumer = bench_.Start(options, bench_.Noting());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(consumer->RunOnce());
    bench_.clock().Advance(milliseconds{100});
    // One message more than the limit may be there: the one that crossed it.
    EXPECT_LE(consumer->stats().inflight_bytes, options.memory_max + 2 * large.size() + 4'096);
  }
  EXPECT_GE(consumer->stats().pauses, 1U);
  EXPECT_EQ(consumer->stats().problem_code, "away");
  bench_.faults()->Heal();
  bench_.SettleOver(*consumer, seconds{20}, seconds{1});
  EXPECT_EQ(bench_.Effects().size(), 60U);
}

// Deaths are told from clean ends by what they leave undone. The handler cannot really kill this process; a consumer
// that is destroyed in the middle looks the same to its successors.
TEST_P(ConsumerTest, AnEventThatTakesTheProcessWithItAgainAndAgainIsSetAside) {
  bench_.Publish(bench_.Make("a", 1));
  const PartitionOffset killer = bench_.Publish(bench_.Make("a", 2));
  bench_.topics().Publish(killer.partition, "z", ToJson(bench_.Make("z", 1)));
  struct Death {};
  int handled = 0;
  for (int life = 0; life < 12; ++life) {
    bench_.topics().EndSessions(ConsumerBench::kGroup);
    bool dead = false;
    // What a crash looks like from here: the transaction never ends, and nobody says goodbye.
    const auto consumer = bench_.Start(Options(),
                                       [&, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& m,
                                                                     HandlerTransaction& tx) -> Decision {
                                         if (event.key == "a" && event.aggregate.version == 2) {
                                           ++handled;
                                           dead = true;
                                           throw SealaneException(Error(ErrorKind::kUnavailable, "crash", "gone"));
                                         }
                                         return noting(event, m, tx);
                                       });
    for (int i = 0; i < 20 && !dead; ++i) ASSERT_TRUE(consumer->RunOnce());
  }
  EXPECT_LE(handled, 6);
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
  EXPECT_THAT(bench_.VersionsOf("z"), ElementsAre(1));
}

TEST_P(ConsumerTest, AFollowerThatTakesTheProcessWithItIsSetAsideToo) {
  ConsumerOptions options = Options();
  options.retry.attempts_max = 3;
  bench_.Publish(bench_.Make("a", 1));
  bench_.Publish(bench_.Make("a", 2));
  bool first_tried = false;
  int handled = 0;
  std::int64_t dead = 0;
  for (int life = 0; life < 8; ++life) {
    bench_.faults()->Heal();
    bench_.topics().EndSessions(ConsumerBench::kGroup);
    bench_.clock().Advance(minutes{1});
    bool killed = false;
    const auto consumer =
        bench_.Start(options,
                     [&, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& message,
                                                   HandlerTransaction& tx) -> Decision {
                       if (event.aggregate.version == 1 && !std::exchange(first_tried, true)) {
                         return Decision::RetryLater("busy", "not yet");
                       }
                       if (event.aggregate.version == 2) {
                         ++handled;
                         killed = true;
                         // What a crash looks like from here: nothing is written any more.
                         const Error gone(ErrorKind::kUnavailable, "crash", "gone");
                         bench_.faults()->FailAll(memory::InboxCall::kFinish, gone);
                         throw SealaneException(gone);
                       }
                       return noting(event, message, tx);
                     });
    for (int i = 0; i < 20 && !killed; ++i) {
      ASSERT_TRUE(consumer->RunOnce());
      bench_.clock().Advance(seconds{5});
    }
    dead = consumer->stats().dead;
  }
  EXPECT_EQ(handled, 3);
  EXPECT_EQ(dead, 1);
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
}

/// How an attempt at something that was set aside meets trouble of the store.
enum class Trouble { kThrown, kNothingCanBeWritten };

class ConsumerTroubleTest : public ConsumerTest {
 protected:
  /// Sets `a` aside, lets more attempts than there are meet the trouble, and then one go well.
  void TryThrough(Trouble trouble) {
    ConsumerOptions options = Options();
    bench_.Publish(bench_.Make("a", 1));
    bench_.Publish(bench_.Make("b", 1));
    std::map<std::string, int> runs;
    const auto consumer =
        bench_.Start(options,
                     [&, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& message,
                                                   HandlerTransaction& tx) -> Decision {
                       const int run = ++runs[event.key];
                       if (run == 1) return Decision::RetryLater("busy", "not yet");
                       if (event.key == "b" || run > options.retry.attempts_max + 3)
                         return noting(event, message, tx);
                       const Error away(ErrorKind::kUnavailable, "store_full", "no space");
                       if (trouble == Trouble::kNothingCanBeWritten)
                         bench_.faults()->Fail(memory::InboxCall::kFinish, away);
                       throw SealaneException(away);
                     });
    bench_.SettleOver(*consumer, minutes{10}, seconds{10});
    EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
    EXPECT_THAT(bench_.VersionsOf("b"), ElementsAre(1));
    EXPECT_EQ(consumer->stats().dead, 0);
    EXPECT_EQ(consumer->stats().parked, 0);
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, ConsumerTroubleTest, ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets),
                         [](const auto& mode) { return std::string(ToString(mode.param)); });

TEST_P(ConsumerTroubleTest, TroubleOfTheStoreIsNoAttemptAtWhatWasSetAside) {
  TryThrough(Trouble::kThrown);
}

TEST_P(ConsumerTroubleTest, AnAttemptOfWhichNothingCouldBeWrittenIsNone) {
  TryThrough(Trouble::kNothingCanBeWritten);
}

TEST_P(ConsumerTroubleTest, TroubleOfOneUnitDoesNotKeepTheOthersWaiting) {
  for (const char* key : {"a", "b"}) bench_.Publish(bench_.Make(key, 1));
  std::set<std::string> tried;
  bool met = false;
  const auto consumer =
      bench_.Start(Options(),
                   [&, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& message,
                                                 HandlerTransaction& tx) -> Decision {
                     if (tried.insert(event.key).second) return Decision::RetryLater("busy", "not yet");
                     if (std::exchange(met, true)) return noting(event, message, tx);
                     throw SealaneException(Error(ErrorKind::kUnavailable, "store_full", "no space"));
                   });
  bench_.Settle(*consumer);
  bench_.clock().Advance(seconds{2});
  ASSERT_TRUE(consumer->RunOnce());
  EXPECT_EQ(bench_.Effects().size(), 1U) << "in the same look";
}

TEST_P(ConsumerTest, WhoAnswersForTenantsMayThrow) {
  bench_.Publish(bench_.Make("a", 1));
  ConsumerOptions options = Options();
  int asked = 0;
  options.tenant_allowed = [&asked](std::string_view) {
    if (++asked == 1) throw std::runtime_error("the directory is away");
    if (asked == 2) throw SealaneException(Error(ErrorKind::kUnavailable, "directory_away", "still away"));
    return true;
  };
  const auto consumer = bench_.Start(options, bench_.Noting());
  bench_.Settle(*consumer);
  EXPECT_THAT(bench_.Effects(), IsEmpty());
  EXPECT_EQ(consumer->stats().parked_total, 1U);
  EXPECT_EQ(consumer->stats().failures.at("tenant_check_failed"), 1U);
  bench_.SettleOver(*consumer, minutes{2}, seconds{5});
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
  EXPECT_EQ(consumer->stats().parked, 0);
}

/// Time passes whenever somebody looks at it.
class PassingClock : public Clock {
 public:
  PassingClock(ManualClock& clock, milliseconds step) : clock_(clock), step_(step) {}
  Timestamp Now() const override {
    clock_.Advance(step_);
    return clock_.Now();
  }
  BootTime SinceBoot() const override { return clock_.SinceBoot(); }
  bool SleepFor(std::chrono::nanoseconds duration, std::stop_token stop) override {
    return clock_.SleepFor(duration, stop);
  }

 private:
  ManualClock& clock_;
  const milliseconds step_;
};

TEST_P(ConsumerTest, LooksThatTakeLongAreRare) {
  PassingClock slow(bench_.clock(), seconds{1});
  SeededRandom random(1);
  Consumer consumer(
      Options(), bench_.Noting(), ReadJsonEnvelope,
      [&] {
        return memory::OpenInboxStore(bench_.database(), ConsumerBench::kGroup, GetParam(), slow, bench_.faults());
      },
      [&]() -> Result<std::unique_ptr<Subscription>> {
        return bench_.topics().Join(ConsumerBench::kGroup, {ConsumerBench::kTopic});
      },
      bench_.clock(), random);
  const BootTime begun = bench_.clock().SinceBoot();
  while (bench_.clock().SinceBoot() - begun < minutes{2}) {
    ASSERT_TRUE(consumer.RunOnce());
    bench_.clock().Advance(milliseconds{250});
  }
  EXPECT_LE(bench_.faults()->count(memory::InboxCall::kLook), 13) << "the first is before anything is read";
  EXPECT_GE(bench_.faults()->count(memory::InboxCall::kLook), 5);
}

TEST_P(ConsumerTest, AHandlerThatCollidesEveryTimeHoldsUpItsKeyAlone) {
  ConsumerOptions options = Options();
  options.workers = 1;
  for (const char* key : {"a", "b", "c"}) bench_.Publish(bench_.Make(key, 1));
  const auto consumer =
      bench_.Start(options,
                   [noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& message,
                                              HandlerTransaction& tx) -> Decision {
                     if (event.key != "a") return noting(event, message, tx);
                     throw SealaneException(Error(ErrorKind::kConflict, "version_conflict", "somebody was faster"));
                   });
  bench_.SettleOver(*consumer, seconds{10}, seconds{1});
  EXPECT_THAT(bench_.VersionsOf("b"), ElementsAre(1));
  EXPECT_THAT(bench_.VersionsOf("c"), ElementsAre(1));
  EXPECT_EQ(consumer->stats().parked, 1);
}

TEST_P(ConsumerTest, PartitionsThatComeWhileReadingPausesWaitToo) {
  ConsumerOptions options = Options();
  options.memory_max = 65'536;
  options.poll_messages = 10;
  const std::string large = '"' + std::string(10'000, 'x') + '"';
  const auto stays = bench_.Start(options, bench_.Noting());
  const auto leaves = bench_.Start(options, bench_.Noting());
  for (int i = 0; i < 4; ++i) {
    bench_.Settle(*stays);
    bench_.Settle(*leaves);
  }
  bench_.faults()->FailAll(memory::InboxCall::kOpen, Error(ErrorKind::kUnavailable, "away", "the store is away"));
  for (int i = 0; i < 200; ++i) bench_.Publish(bench_.Make("k" + std::to_string(i), 1, large));
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(stays->RunOnce());
  ASSERT_GE(stays->stats().pauses, 1U);
  ASSERT_LT(stays->stats().partitions.size(), 3U);
  ASSERT_TRUE(leaves->Close());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(stays->RunOnce());
    bench_.clock().Advance(milliseconds{10});
  }
  EXPECT_EQ(stays->stats().partitions.size(), 3U);
  EXPECT_LE(stays->stats().inflight_bytes, options.memory_max + 2 * large.size() + 4'096);
  bench_.faults()->Heal();
  bench_.SettleOver(*stays, seconds{30}, seconds{1});
  EXPECT_EQ(bench_.Effects().size(), 200U);
}

TEST_P(ConsumerTest, ABrokerThatIsBusyIsAskedAgainToTakePartitionsBack) {
  const auto consumer = bench_.Start(Options(), bench_.Noting());
  bench_.Publish(bench_.Make("a", 1));
  bench_.Settle(*consumer);
  bench_.topics().Fail(MemoryTopics::Call::kRelease, Error(ErrorKind::kConflict, "journal_busy", "busy"), 3);
  bench_.topics().Rebalance(ConsumerBench::kGroup);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(consumer->RunOnce());
  bench_.Publish(bench_.Make("a", 2));
  bench_.Settle(*consumer);
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1, 2));
}

TEST_P(ConsumerTest, AnotherAggregateOfTheKeyDoesNotOvertakeAGap) {
  ConsumerOptions options = Options();
  options.guard_versions = true;
  bench_.Publish(bench_.Make("a", 1));
  bench_.Publish(bench_.Make("a", 3));
  Envelope other = bench_.Make("a", 1);
  other.aggregate.id = "another";
  bench_.Publish(other);
  const auto consumer = bench_.Start(options, bench_.Noting());
  bench_.SettleOver(*consumer, seconds{4}, seconds{1});
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
  bench_.Publish(bench_.Make("a", 2));
  bench_.SettleOver(*consumer, seconds{4}, seconds{1});
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1, 2, 3, 1));
}

TEST_P(ConsumerTest, VersionsOfNothingAreNotCounted) {
  ConsumerOptions options = Options();
  options.guard_versions = true;
  for (const char* key : {"a", "b"}) {
    Envelope event = bench_.Make(key, 1);
    event.aggregate.id.clear();
    event.aggregate.type.clear();
    bench_.Publish(event);
  }
  const auto consumer = bench_.Start(options, bench_.Noting());
  bench_.Settle(*consumer);
  EXPECT_EQ(bench_.Effects().size(), 2U);
}

TEST(Units, AreBoundedWhateverTheKeyIs) {
  EXPECT_EQ(UnitOf("orders", "o-1"), "orders/o-1");
  const std::string long_key(100'000, 'k');
  EXPECT_LT(UnitOf("orders", long_key).size(), 320U);
  EXPECT_EQ(UnitOf("orders", long_key), UnitOf("orders", long_key));
  EXPECT_NE(UnitOf("orders", long_key), UnitOf("orders", long_key + "k"));
  const std::string bytes(512, '\xff');
  EXPECT_LT(UnitOf("orders", bytes).size(), 128U) << "each would be written as two digits";
  EXPECT_NE(UnitOf("orders", bytes), UnitOf("orders", bytes + "k"));
  std::string umlauts(63, 'k');
  for (int i = 0; i < 200; ++i) umlauts += "\u00e4";
  EXPECT_TRUE(IsUtf8(UnitOf("orders", umlauts))) << "no character is cut in two";
}

TEST(ConsumerRecord, OneMembersWrongClockMakesNobodyForget) {
  ConsumerBench bench;
  {
    const auto right = bench.Start();
    bench.Settle(*right);
    ASSERT_TRUE(right->Close());
  }
  ManualClock wrong(bench.clock().Now() + std::chrono::hours{24 * 3'650});
  SeededRandom random(1);
  Consumer consumer(
      bench.Options(), bench.Noting(), ReadJsonEnvelope,
      [&] {
        return memory::OpenInboxStore(bench.database(), ConsumerBench::kGroup, InboxMode::kRecord, bench.clock());
      },
      [&]() -> Result<std::unique_ptr<Subscription>> {
        return bench.topics().Join(ConsumerBench::kGroup, {ConsumerBench::kTopic});
      },
      wrong, random);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(consumer.RunOnce());
    wrong.Advance(minutes{2});
  }
  bench.Publish(bench.Make("a", 1));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(consumer.RunOnce());
  EXPECT_THAT(bench.VersionsOf("a"), ElementsAre(1));
}

TEST(ConsumerOffsets, WhatAnotherOwnerHasPassedIsNotAppliedAgain) {
  ConsumerBench bench(1, 1);
  ConsumerOptions options = bench.Options();
  options.mode = InboxMode::kOffsets;
  options.batch_max = 5;
  options.recent_max = 5;
  for (int version = 1; version <= 60; ++version) bench.Publish(bench.Make("a", version));
  bench.faults()->FailAll(memory::InboxCall::kOpen, Error(ErrorKind::kUnavailable, "away", "the store is away"));
  const auto sleeper = bench.Start(options, bench.Noting());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(sleeper->RunOnce());
  ASSERT_EQ(sleeper->stats().inflight_messages, 60U);
  bench.faults()->Heal();

  const Partition partition{ConsumerBench::kTopic, 0};
  const auto store =
      ValueOrThrow(memory::OpenInboxStore(bench.database(), options.consumer, InboxMode::kOffsets, bench.clock()));
  const auto attached = ValueOrThrow(store->Attach({&partition, 1}, 5));
  const auto batch = ValueOrThrow(store->Open(
      {.arrivals = {},
       .progress = ProgressMove{.partition = partition, .epoch = attached.front().epoch, .from = 0, .to = 60}}));
  ASSERT_TRUE(batch->Finish({}));

  bench.Publish(bench.Make("a", 61));
  bench.SettleOver(*sleeper, seconds{10}, seconds{1});
  EXPECT_THAT(bench.VersionsOf("a"), ElementsAre(61));
  EXPECT_EQ(ValueOrThrow(store->Attach({&partition, 1}, 5)).front().next_offset, 61);
}

// Nothing is told to the broker between the deaths, so each life begins with everything that went well before.
TEST_P(ConsumerTest, AKillerFarBehindWhatTheBrokerWasToldIsSetAsideToo) {
  constexpr int kBefore = 250;
  const PartitionOffset first = bench_.Publish(bench_.Make("a", 1));
  for (int version = 1; version <= kBefore; ++version) {
    bench_.topics().Publish(first.partition, "b", ToJson(bench_.Make("b", version)));
  }
  bench_.topics().Publish(first.partition, "a", ToJson(bench_.Make("a", 2)));
  bench_.topics().Publish(first.partition, "z", ToJson(bench_.Make("z", 1)));
  ConsumerOptions options = Options();
  options.commit_interval = std::chrono::hours{1};
  int handled = 0;
  for (int life = 0; life < 20; ++life) {
    bench_.topics().EndSessions(ConsumerBench::kGroup);
    bool dead = false;
    const auto consumer = bench_.Start(options,
                                       [&, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& m,
                                                                     HandlerTransaction& tx) -> Decision {
                                         if (event.key == "a" && event.aggregate.version == 2) {
                                           ++handled;
                                           dead = true;
                                           throw SealaneException(Error(ErrorKind::kUnavailable, "crash", "gone"));
                                         }
                                         return noting(event, m, tx);
                                       });
    for (int i = 0; i < 2 * kBefore && !dead; ++i) ASSERT_TRUE(consumer->RunOnce());
  }
  EXPECT_LE(handled, 8);
  EXPECT_THAT(bench_.VersionsOf("a"), ElementsAre(1));
  EXPECT_EQ(bench_.VersionsOf("b").size(), static_cast<std::size_t>(kBefore));
  EXPECT_THAT(bench_.VersionsOf("z"), ElementsAre(1));
}

TEST(ConsumerRecord, AMemberThatIsFencedJoinsAgainOnceAndThenBelievesIt) {
  ConsumerBench bench;
  bench.Publish(bench.Make("a", 1));
  const auto consumer = bench.Start();
  bench.Settle(*consumer);
  const Error fenced(ErrorKind::kFenced, "member_fenced", "another process has this name");
  bench.topics().Fail(MemoryTopics::Call::kPoll, fenced);
  ASSERT_TRUE(consumer->RunOnce());
  bench.topics().EndSessions(ConsumerBench::kGroup);
  bench.clock().Advance(seconds{1});
  bench.Publish(bench.Make("a", 2));
  bench.Settle(*consumer);
  EXPECT_THAT(bench.VersionsOf("a"), ElementsAre(1, 2));
  bench.topics().Fail(MemoryTopics::Call::kPoll, fenced);
  const auto ended = consumer->RunOnce();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), "member_fenced");
}

TEST(ConsumerRecord, ANewConsumerTakesEventsOlderThanItsMemoryAndLaterOnesAreRefused) {
  ConsumerBench bench;
  const Envelope old = bench.Make("a", 1);
  const Envelope late = bench.Make("b", 1);
  bench.clock().Advance(std::chrono::hours{24 * 90});
  bench.Publish(old);
  const auto consumer = bench.Start();
  bench.SettleOver(*consumer, minutes{3}, seconds{30});
  EXPECT_THAT(bench.VersionsOf("a"), ElementsAre(1));
  bench.clock().Advance(std::chrono::hours{24 * 31});
  bench.SettleOver(*consumer, minutes{3}, seconds{30});
  bench.Publish(late);
  bench.Publish(old);
  bench.SettleOver(*consumer, seconds{4}, seconds{1});
  EXPECT_EQ(bench.Effects().size(), 1U) << "they may have been applied and forgotten";
  EXPECT_EQ(consumer->stats().too_old, 2U);
  EXPECT_EQ(consumer->stats().dead, 0);
  bench.Publish(bench.Make("b", 2));
  bench.Settle(*consumer);
  EXPECT_THAT(bench.VersionsOf("b"), ElementsAre(2)) << "later events of the key do not wait for it";
}

TEST(ConsumerRecord, TheSameIdWithOtherBytesIsAnIncidentWithoutEffect) {
  ConsumerBench bench;
  Envelope event = bench.Make("a", 1, "1");
  bench.Publish(event);
  const Envelope other = [&] {
    Envelope changed = bench.Make("a", 1, "2");
    changed.id = event.id;
    return changed;
  }();
  bench.Publish(other);
  bench.Publish(other);
  bench.Publish(bench.Make("a", 2, "3"));
  ConsumerOptions options = bench.Options();
  options.dead_letter_topic = "orders.dlq";
  const auto consumer = bench.Start(options, bench.Noting());
  bench.Settle(*consumer);
  ASSERT_EQ(bench.Effects().size(), 2U) << "the key does not wait";
  EXPECT_EQ(bench.Effects().front().payload, "1");
  EXPECT_EQ(bench.Effects().back().payload, "3");
  EXPECT_EQ(consumer->stats().hash_mismatches, 1U);
  EXPECT_EQ(consumer->stats().duplicates, 1U) << "it is set aside already";
  bench.SettleOver(*consumer, seconds{5}, seconds{1});
  EXPECT_EQ(consumer->stats().parked, 1);
  EXPECT_EQ(consumer->stats().dead, 1);
  auto store = ValueOrThrow(memory::OpenOutboxStore(bench.database()));
  EXPECT_EQ(ValueOrThrow(store->ListMessages({})).size(), 1U) << "one dead letter";
}

TEST(ConsumerOffsets, ARepeatedSuffixIsKnownAlsoToASuccessor) {
  ConsumerBench bench(1, 1);
  ConsumerOptions options = bench.Options();
  options.mode = InboxMode::kOffsets;
  std::vector<Envelope> events;
  for (int version = 1; version <= 30; ++version) events.push_back(bench.Make("a", version));
  for (const Envelope& event : events) bench.Publish(event);
  {
    const auto consumer = bench.Start(options, bench.Noting());
    bench.Settle(*consumer);
    ASSERT_TRUE(consumer->Close());
  }
  for (std::size_t i = 20; i < 30; ++i) bench.Publish(events[i]);
  const auto successor = bench.Start(options, bench.Noting());
  bench.Settle(*successor);
  EXPECT_EQ(bench.Effects().size(), 30U);
  EXPECT_EQ(successor->stats().duplicates, 10U);
}

}  // namespace
}  // namespace sealane::testing
