// What every inbox promises about events that were set aside: one that fails holds back its followers and nobody
// else, is tried again in order when its time has come, comes back as it was, and is never lost.

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "inbox/incoming.hpp"
#include "support/inbox_fixture.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using Known = Standing::Known;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

class InboxParkedContract : public ::testing::TestWithParam<std::tuple<std::string, InboxMode>> {
 protected:
  InboxFixture& fixture() { return *fixture_; }
  InboxSeat& seat() { return seat_; }
  InboxMode mode() const { return std::get<1>(GetParam()); }
  bool records() const { return mode() == InboxMode::kRecord; }

 private:
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(std::get<0>(GetParam()));
  InboxSeat seat_{*fixture_, "billing", mode()};
};

INSTANTIATE_TEST_SUITE_P(Store, InboxParkedContract,
                         ::testing::Combine(::testing::ValuesIn(InboxStores()),
                                            ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), ToString(std::get<1>(test.param)));
                         });

// Where other bytes are known by the receipt.
class InboxParkedRecordContract : public InboxParkedContract {};
INSTANTIATE_TEST_SUITE_P(Store, InboxParkedRecordContract,
                         ::testing::Combine(::testing::ValuesIn(InboxStores()),
                                            ::testing::Values(InboxMode::kRecord)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), ToString(std::get<1>(test.param)));
                         });

// Where two transactions can be open at the same time.
class InboxParkedTogetherContract : public InboxParkedContract {};
INSTANTIATE_TEST_SUITE_P(Store, InboxParkedTogetherContract,
                         ::testing::Combine(::testing::Values("memory", "postgres"),
                                            ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), ToString(std::get<1>(test.param)));
                         });

TEST_P(InboxParkedContract, NothingIsSetAsideAtFirst) {
  EXPECT_THAT(seat().Due(), IsEmpty());
  EXPECT_FALSE(seat().Retry("a").has_value());
  const InboxCounts counts = ValueOrThrow(seat().store().Count());
  EXPECT_EQ(counts.parked, 0);
  EXPECT_EQ(counts.dead, 0);
  EXPECT_EQ(counts.gaps, 0);
}

TEST_P(InboxParkedContract, AParkedEventHoldsBackItsUnitAlone) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("b", 1)}, {Failed(1, 1h), Processed()});
  const auto batch = seat().Open({DeliveryOf("a", 2), DeliveryOf("b", 3)});
  EXPECT_TRUE(batch->standings().at(0).unit_waits);
  EXPECT_FALSE(batch->standings().at(0).unit_waits_for_gap);
  EXPECT_FALSE(batch->standings().at(1).unit_waits);
}

TEST_P(InboxParkedContract, AParkedEventThatComesAgainIsKnown) {
  Delivery event = DeliveryOf("a", 0);
  seat().Handle({event, DeliveryOf("b", 1)}, {Failed(1, 1h), Died(1)});
  EXPECT_EQ(seat().Look(Again(event, 2)).known, Known::kParked);
  event.hash = Sha256("other bytes");
  EXPECT_EQ(seat().Look(Again(event, 2)).known, Known::kOtherBytes);
}

TEST_P(InboxParkedRecordContract, OtherBytesUnderAKnownIdCanBeSetAsideToo) {
  const Delivery first = DeliveryOf("a", 0);
  seat().Handle({first}, {Processed()});
  Delivery other = Again(first, 1);
  other.message.value = "other bytes";
  other.hash = Sha256(other.message.value);
  EXPECT_EQ(seat().Look(other).known, Known::kOtherBytes);
  seat().Handle({other}, {Died(0)});
  EXPECT_EQ(seat().Look(other).known, Known::kParked) << "the same message of the broker came twice";
  EXPECT_EQ(seat().Look(Again(other, 7)).known, Known::kParked) << "or from another place";
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).dead, 1);
  EXPECT_EQ(seat().Look(first).known, Known::kDone) << "the receipt is about the first bytes";
  EXPECT_TRUE(seat().Look(DeliveryOf("a", 2)).unit_waits);
  fixture().Skip("billing", other.id);
  EXPECT_EQ(seat().Look(other).known, Known::kDone);
}

TEST_P(InboxParkedContract, WhatIsSetAsideInAUnitOfItsOwnHoldsNobodyBack) {
  const Delivery event = DeliveryOf("a", 0);
  Outcome dead = Died(1);
  dead.park.unit = "orders#0@0";
  seat().Handle({event}, {dead});
  EXPECT_EQ(seat().Look(event).known, Known::kParked);
  EXPECT_FALSE(seat().Look(DeliveryOf("a", 1)).unit_waits);
  EXPECT_TRUE(seat().Look(DeliveryOf("orders#0@0", 2)).unit_waits);
}

// Whoever may be set aside may have the longest names there are, and a key that is no text.
TEST_P(InboxParkedContract, TheLargestNamesCanBeSetAside) {
  std::string noise;
  for (std::uint32_t i = 0; noise.size() < 2'048; ++i) noise += ToHex(Sha256(std::to_string(i)));
  std::string key;
  for (std::uint32_t i = 0; key.size() < 512; ++i) {
    const auto digest = Sha256(noise + std::to_string(i));
    key.append(digest.begin(), digest.end());
  }
  const std::string topic = noise.substr(0, 249);
  std::int64_t offset = 0;
  for (const std::string& each :
       {key.substr(0, 512), key.substr(0, 32), noise.substr(0, 256), noise.substr(0, 1'024)}) {
    Delivery event = VersionOf("a", 1, offset++);
    event.unit = UnitOf(topic, each);
    event.message.key = each;
    event.envelope->tenant = noise.substr(0, 255);
    event.envelope->aggregate.type = noise.substr(100, 255);
    event.envelope->aggregate.id = noise.substr(200, 1'024);
    seat().Handle({event}, {Failed(1, 0ms)}, true);
    EXPECT_TRUE(seat().Look(event, true).unit_waits);
    seat().RetryWith(event.unit, Processed(), true);
  }
}

TEST_P(InboxParkedRecordContract, ARetryOfOtherBytesLeavesTheReceiptAlone) {
  const Delivery first = DeliveryOf("a", 0);
  seat().Handle({first}, {Processed()});
  Delivery other = Again(first, 1);
  other.hash = Sha256("other bytes");
  seat().Handle({other}, {Failed(1, 0ms)});
  seat().RetryWith("a", Failed(2, 0ms));
  EXPECT_EQ(seat().Look(first).known, Known::kDone);
  seat().RetryWith("a", Ignored("given_up"));
  EXPECT_EQ(seat().Look(first).known, Known::kDone);
  EXPECT_EQ(seat().Look(other).known, Known::kOtherBytes);
}

TEST_P(InboxParkedContract, OtherBytesOfAParkedEventWaitBehindIt) {
  const Delivery first = DeliveryOf("a", 0);
  Delivery other = Again(first, 1);
  other.message.value = "other bytes";
  other.hash = Sha256(other.message.value);
  seat().Handle({first}, {Failed(1, 0ms)});
  seat().Handle({other}, {Died(0)});
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).parked, 2);
  EXPECT_EQ(seat().Retry("a")->message.value, first.message.value);
}

TEST_P(InboxParkedContract, WhatIsKnownCannotGetAnotherOutcome) {
  const Delivery event = DeliveryOf("a", 0);
  seat().Handle({event}, {Failed(1, 1h)});
  const auto batch = seat().Open({Again(event, 1)});
  const auto finished = batch->Finish(std::vector{Processed()});
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().kind(), ErrorKind::kMisuse);
}

TEST_P(InboxParkedContract, AUnitComesBackInTheOrderItCame) {
  const std::vector<Delivery> events = {DeliveryOf("a", 0), DeliveryOf("a", 1), DeliveryOf("b", 2),
                                        DeliveryOf("a", 3)};
  seat().Handle({events[0], events[1], events[2]}, {Failed(1, 0ms), Waits(), Processed()});
  seat().Handle({events[3]}, {Waits()});
  for (const std::size_t i : {0U, 1U, 3U}) {
    EXPECT_THAT(seat().Due(), ElementsAre("a")) << i;
    EXPECT_EQ(seat().RetryWith("a", Processed()), events[i].id) << i;
  }
  EXPECT_THAT(seat().Due(), IsEmpty());
  EXPECT_FALSE(seat().Look(DeliveryOf("a", 4)).unit_waits);
}

TEST_P(InboxParkedContract, AFollowerWaitsAsLongAsTheFirst) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("a", 1)}, {Failed(1, 1min), Waits()});
  EXPECT_THAT(seat().Due(), IsEmpty());
  EXPECT_FALSE(seat().Retry("a").has_value());
  fixture().LetTimePass(61s);
  EXPECT_THAT(seat().Due(), ElementsAre("a"));
}

TEST_P(InboxParkedContract, AttemptsAreCountedBeforeTheyAreMade) {
  const Delivery event = DeliveryOf("a", 0);
  seat().Handle({event}, {Failed(1, 0ms)});
  const auto retry = seat().Retry("a");
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->id, event.id);
  EXPECT_EQ(retry->unit, "a");
  EXPECT_EQ(retry->state, InboxState::kFailed);
  EXPECT_EQ(retry->attempts, 2);
  EXPECT_TRUE(retry->first_failed_at.has_value());
  ASSERT_EQ(retry->batch->standings().size(), 1U);
  EXPECT_EQ(retry->batch->standings().at(0).known, Known::kNew);
}

TEST_P(InboxParkedContract, ACrashIsAnAttemptAndIsDueAgainAfterThePatience) {
  seat().Handle({DeliveryOf("a", 0)}, {Failed(1, 0ms)});
  { const auto crashed = seat().Retry("a", false, 1min); }
  EXPECT_THAT(seat().Due(), IsEmpty());
  EXPECT_FALSE(seat().Retry("a").has_value());
  InboxSeat other(fixture(), "billing", mode());
  EXPECT_FALSE(other.Retry("a").has_value());
  fixture().LetTimePass(61s);
  EXPECT_THAT(other.Due(), ElementsAre("a"));
  const auto retry = other.Retry("a");
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->attempts, 3);
}

TEST_P(InboxParkedTogetherContract, WhatIsBeingTriedIsNobodyElses) {
  seat().Handle({DeliveryOf("a", 0)}, {Failed(1, 0ms)});
  const auto retry = seat().Retry("a", false, 1min);
  ASSERT_TRUE(retry.has_value());
  InboxSeat other(fixture(), "billing", mode());
  EXPECT_THAT(other.Due(), IsEmpty());
  EXPECT_FALSE(other.Retry("a").has_value());
}

TEST_P(InboxParkedContract, AnEffectOfARetryCommitsWithIt) {
  const Delivery event = DeliveryOf("a", 0);
  seat().Handle({event}, {Failed(1, 0ms)});
  {
    const auto crashed = seat().Retry("a", false, 1min);
    ValueOrThrow(fixture().Affect(*crashed->batch, "crashed"));
  }
  fixture().LetTimePass(61s);
  const auto retry = seat().Retry("a");
  ValueOrThrow(fixture().Affect(*retry->batch, "paid"));
  ValueOrThrow(retry->batch->Append(std::vector{SampleEntry("follow-up")}));
  ValueOrThrow(retry->batch->Finish(std::vector{Processed()}));
  EXPECT_THAT(fixture().Effects(), ElementsAre("paid"));
  EXPECT_EQ(CountEvents(*fixture().OpenOutbox()), 1U);
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).parked, 0);
  if (records()) {
    EXPECT_EQ(seat().Look(Again(event, 1)).known, Known::kDone);
  } else {
    EXPECT_THAT(seat().Attach().recent, ElementsAre(event.id));
  }
}

TEST_P(InboxParkedContract, ARetryThatFailsWaitsAgain) {
  seat().Handle({DeliveryOf("a", 0)}, {Failed(1, 0ms)});
  fixture().LetTimePass(10s);
  std::optional<Timestamp> first_failed_at;
  {
    const auto retry = seat().Retry("a");
    ASSERT_TRUE(retry.has_value());
    first_failed_at = retry->first_failed_at;
    ValueOrThrow(retry->batch->Finish(std::vector{Failed(retry->attempts, 1min)}));
  }
  EXPECT_THAT(seat().Due(), IsEmpty());
  fixture().LetTimePass(61s);
  EXPECT_THAT(seat().Due(), ElementsAre("a")) << "not only after the patience";
  const auto retry = seat().Retry("a");
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->attempts, 3);
  ASSERT_TRUE(retry->first_failed_at && first_failed_at);
  EXPECT_LE(*retry->first_failed_at, *first_failed_at) << "the first failure stays the first";
}

TEST_P(InboxParkedContract, AFollowerThatWasIgnoredIsGone) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("a", 1)}, {Failed(1, 0ms), Waits()});
  seat().RetryWith("a", Ignored("no_handler"));
  const auto follower = seat().Retry("a");
  ASSERT_TRUE(follower.has_value());
  EXPECT_EQ(follower->state, InboxState::kReceived);
  EXPECT_EQ(follower->attempts, 1);
  EXPECT_EQ(follower->first_failed_at, std::nullopt) << "it did not fail itself";
}

TEST_P(InboxParkedContract, AUnitWhoseFirstIsDeadWaitsForAPerson) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("a", 1)}, {Died(5), Waits()});
  fixture().LetTimePass(3600s);
  EXPECT_THAT(seat().Due(), IsEmpty());
  EXPECT_FALSE(seat().Retry("a").has_value());
  EXPECT_TRUE(seat().Look(DeliveryOf("a", 2)).unit_waits);
  const InboxCounts counts = ValueOrThrow(seat().store().Count());
  EXPECT_EQ(counts.parked, 2);
  EXPECT_EQ(counts.dead, 1);
}

TEST_P(InboxParkedContract, ARetryCanEndInDeath) {
  seat().Handle({DeliveryOf("a", 0)}, {Failed(1, 0ms)});
  seat().RetryWith("a", Died(2));
  EXPECT_THAT(seat().Due(), IsEmpty());
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).dead, 1);
}

TEST_P(InboxParkedContract, WhatWasGivenUpHoldsNobodyBack) {
  const Delivery dead = DeliveryOf("a", 0);
  const Delivery follower = DeliveryOf("a", 1);
  seat().Handle({dead, follower, DeliveryOf("b", 2)}, {Died(5), Waits(), Died(1)});
  const Delivery alone = DeliveryOf("b", 3);
  fixture().Skip("billing", dead.id);
  EXPECT_EQ(seat().Look(Again(dead, 4)).known, Known::kDone);
  EXPECT_THAT(seat().Due(), ElementsAre("a"));
  EXPECT_EQ(seat().RetryWith("a", Processed()), follower.id);
  EXPECT_FALSE(seat().Look(DeliveryOf("a", 5)).unit_waits);
  EXPECT_TRUE(seat().Look(alone).unit_waits);
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).parked, 1);
}

TEST_P(InboxParkedContract, LongestWaitingUnitsAreDueFirst) {
  seat().Handle({DeliveryOf("later", 0), DeliveryOf("sooner", 1)}, {Failed(1, 30s), Failed(1, 20s)});
  fixture().LetTimePass(60s);
  seat().Handle({DeliveryOf("now", 2)}, {Failed(1, 0ms)});
  EXPECT_THAT(seat().Due(), ElementsAre("sooner", "later", "now"));
  EXPECT_THAT(seat().Due(false, 2), ElementsAre("sooner", "later"));
  EXPECT_THAT(seat().Due(true, 1), ElementsAre("sooner"));
}

// ---- gaps
// -----------------------------------------------------------------------------------------------------------

TEST_P(InboxParkedContract, AGapHasATime) {
  const Delivery early = VersionOf("a", 3, 0);
  seat().Handle({early}, {WaitsForGap(1min)}, true);
  EXPECT_THAT(seat().Due(true), IsEmpty());
  EXPECT_FALSE(seat().Retry("a", true).has_value());
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).gaps, 1);
  fixture().LetTimePass(61s);
  EXPECT_THAT(seat().Due(true), ElementsAre("a"));
  const auto retry = seat().Retry("a", true);
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->state, InboxState::kGap);
  EXPECT_TRUE(retry->gap_overdue);
}

TEST_P(InboxParkedContract, AnEventBehindAGapIsToldSo) {
  seat().Handle({VersionOf("a", 3, 0), VersionOf("b", 1, 1)}, {WaitsForGap(1min), Failed(1, 1min)}, true);
  const auto batch = seat().Open({VersionOf("a", 2, 2), VersionOf("b", 2, 3)}, true);
  EXPECT_TRUE(batch->standings().at(0).unit_waits);
  EXPECT_TRUE(batch->standings().at(0).unit_waits_for_gap);
  EXPECT_TRUE(batch->standings().at(1).unit_waits);
  EXPECT_FALSE(batch->standings().at(1).unit_waits_for_gap);
}

TEST_P(InboxParkedContract, WhatWaitsForAGapIsWokenWhenTheMissingVersionIsDone) {
  const Delivery early = VersionOf("a", 2, 0);
  seat().Handle({early, VersionOf("b", 2, 1)}, {WaitsForGap(1h), WaitsForGap(std::nullopt)}, true);
  EXPECT_THAT(seat().Due(true), IsEmpty());
  seat().Handle({VersionOf("a", 1, 2)}, {Processed(1)}, true);
  EXPECT_THAT(seat().Due(true), ElementsAre("a"));
  const auto retry = seat().Retry("a", true);
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->id, early.id);
  EXPECT_EQ(retry->state, InboxState::kGap);
  EXPECT_FALSE(retry->gap_overdue);
  EXPECT_EQ(retry->version_seen, 1);
}

TEST_P(InboxParkedContract, AnIgnoredVersionWakesToo) {
  seat().Handle({VersionOf("a", 2, 0)}, {WaitsForGap(1h)}, true);
  seat().Handle({VersionOf("a", 1, 1)}, {Ignored("no_handler")}, true);
  EXPECT_THAT(seat().Due(true), ElementsAre("a"));
}

TEST_P(InboxParkedContract, AVersionThatFailsWakesNobody) {
  seat().Handle({VersionOf("a", 2, 0)}, {WaitsForGap(1h)}, true);
  seat().Handle({VersionOf("a", 1, 1)}, {Failed(1, 1h)}, true);
  EXPECT_THAT(seat().Due(true), IsEmpty());
}

TEST_P(InboxParkedContract, VersionsComeBackInTheirOrder) {
  const Delivery third = VersionOf("a", 3, 0);
  const Delivery second = VersionOf("a", 2, 1);
  seat().Handle({third, second}, {WaitsForGap(1h), WaitsForGap(1h)}, true);
  seat().Handle({VersionOf("a", 1, 2)}, {Processed(1)}, true);
  EXPECT_EQ(seat().RetryWith("a", Processed(2), true), second.id) << "though it came last";
  const auto retry = seat().Retry("a", true);
  ASSERT_TRUE(retry.has_value()) << "a retry that goes well wakes the next";
  EXPECT_EQ(retry->id, third.id);
  EXPECT_EQ(retry->version_seen, 2) << "retries move versions too";
}

TEST_P(InboxParkedContract, WithoutVersionsTheFirstIsTheOneThatCameFirst) {
  const Delivery third = VersionOf("a", 3, 0);
  seat().Handle({third, VersionOf("a", 2, 1)}, {Failed(1, 0ms), Waits()});
  EXPECT_EQ(seat().RetryWith("a", Processed()), third.id);
}

TEST_P(InboxParkedContract, AGapThatIsStillThereWaitsAgain) {
  seat().Handle({VersionOf("a", 3, 0)}, {WaitsForGap(1h)}, true);
  seat().Handle({VersionOf("a", 1, 1)}, {Processed(1)}, true);
  seat().RetryWith("a", WaitsForGap(1min), true);
  EXPECT_THAT(seat().Due(true), IsEmpty());
  fixture().LetTimePass(61s);
  const auto retry = seat().Retry("a", true);
  ASSERT_TRUE(retry.has_value());
  EXPECT_TRUE(retry->gap_overdue);
}

TEST_P(InboxParkedContract, AGapThatIsWokenTooEarlyKeepsItsTime) {
  seat().Handle({VersionOf("a", 3, 0)}, {WaitsForGap(30s)}, true);
  fixture().LetTimePass(20s);
  seat().Handle({VersionOf("a", 1, 1)}, {Processed(1)}, true);
  seat().RetryWith("a", WaitsForGap(30s), true);
  EXPECT_THAT(seat().Due(true), IsEmpty());
  fixture().LetTimePass(11s);
  const auto retry = seat().Retry("a", true);
  ASSERT_TRUE(retry.has_value());
  EXPECT_TRUE(retry->gap_overdue);
}

// ---- several aggregates under one key
// -------------------------------------------------------------------------------

/// A version of another aggregate, with the key of order a.
Delivery UnderKeyA(std::string_view order, std::int64_t version, std::int64_t offset) {
  Delivery delivery = VersionOf(order, version, offset);
  delivery.unit = "a";
  return delivery;
}

TEST_P(InboxParkedContract, AnotherAggregateOfTheKeyDoesNotOvertakeOneThatFailed) {
  const Delivery failed = VersionOf("a", 5, 0);
  const Delivery other = UnderKeyA("b", 1, 1);
  const Delivery without = DeliveryOf("a", 2);
  seat().Handle({failed, other, without}, {Failed(1, 30s), Waits(), Waits()}, true);
  EXPECT_THAT(seat().Due(true), IsEmpty());
  EXPECT_FALSE(seat().Retry("a", true).has_value());
  fixture().LetTimePass(31s);
  EXPECT_THAT(seat().Due(true), ElementsAre("a"));
  EXPECT_EQ(seat().RetryWith("a", Processed(5), true), failed.id);
  EXPECT_EQ(seat().RetryWith("a", Processed(1), true), other.id);
  EXPECT_EQ(seat().RetryWith("a", Processed(), true), without.id);
}

TEST_P(InboxParkedContract, AnotherAggregateOfTheKeyWaitsBehindOneThatIsDead) {
  seat().Handle({VersionOf("a", 5, 0), UnderKeyA("b", 1, 1)}, {Died(3), Waits()}, true);
  EXPECT_THAT(seat().Due(true), IsEmpty());
  EXPECT_FALSE(seat().Retry("a", true).has_value());
}

TEST_P(InboxParkedContract, TheVersionThatTheFirstWaitsForGoesBeforeOtherAggregates) {
  const Delivery sixth = VersionOf("a", 6, 0);
  const Delivery other = UnderKeyA("b", 1, 1);
  const Delivery fifth = VersionOf("a", 5, 2);
  seat().Handle({sixth, other, fifth}, {WaitsForGap(1h), Waits(), Waits()}, true);
  EXPECT_EQ(seat().RetryWith("a", Processed(5), true), fifth.id);
  EXPECT_EQ(seat().RetryWith("a", Processed(6), true), sixth.id);
  EXPECT_EQ(seat().RetryWith("a", Processed(1), true), other.id);
}

TEST_P(InboxParkedContract, AGapIsToldToItsOwnAggregateAlone) {
  seat().Handle({VersionOf("a", 6, 0)}, {WaitsForGap(1h)}, true);
  const auto batch = seat().Open({UnderKeyA("b", 1, 1), VersionOf("a", 5, 2), DeliveryOf("a", 3)}, true);
  for (const Standing& standing : batch->standings()) EXPECT_TRUE(standing.unit_waits);
  EXPECT_FALSE(batch->standings().at(0).unit_waits_for_gap) << "what is missing is another one";
  EXPECT_TRUE(batch->standings().at(1).unit_waits_for_gap);
  EXPECT_FALSE(batch->standings().at(2).unit_waits_for_gap);
}

// ---- what comes back
// ------------------------------------------------------------------------------------------------

TEST_P(InboxParkedContract, AMessageComesBackAsItCame) {
  Delivery event = VersionOf("a", 1, 0);
  event.message.partition = {"orders", 0};
  event.message.published_at = Timestamp{std::chrono::microseconds{1'600'000'000'123'456}};
  event.message.headers = {};
  seat().Handle({event}, {Failed(1, 0ms)}, true);
  const auto retry = seat().Retry("a");
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->message.partition, event.message.partition);
  EXPECT_EQ(retry->message.offset, event.message.offset);
  EXPECT_EQ(retry->message.published_at, event.message.published_at);
  EXPECT_EQ(retry->message.key, event.message.key);
  EXPECT_EQ(retry->message.value, event.message.value);
  EXPECT_THAT(retry->message.headers, IsEmpty());
}

TEST_P(InboxParkedContract, WhatCannotBeReadComesBackByteForByte) {
  const Delivery event = UnreadableDelivery("a", 0);
  seat().Handle({event}, {Failed(1, 0ms)});
  EXPECT_EQ(seat().Look(Again(event, 1)).known, Known::kParked);
  const auto retry = seat().Retry("a");
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->id, event.id);
  EXPECT_EQ(retry->message.key, event.message.key);
  EXPECT_EQ(retry->message.value, event.message.value);
  EXPECT_EQ(retry->message.headers, event.message.headers);
  EXPECT_EQ(retry->version_seen, 0);
  ValueOrThrow(retry->batch->Finish(std::vector{Processed()}));
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).parked, 0);
}

TEST_P(InboxParkedContract, AMessageOfNothingComesBackAsNothing) {
  Delivery event = UnreadableDelivery("", 0);
  event.message.key.clear();
  event.message.value.clear();
  event.message.headers = {{"", ""}};
  seat().Handle({event}, {Failed(1, 0ms)});
  EXPECT_THAT(seat().Due(), ElementsAre(""));
  const auto retry = seat().Retry("");
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->message.key, "");
  EXPECT_EQ(retry->message.value, "");
  EXPECT_EQ(retry->message.headers, event.message.headers);
}

// ---- several at once
// ------------------------------------------------------------------------------------------------

TEST_P(InboxParkedContract, TheFirstMessagesOfSeveralOrderKeysAreTriedInOneTransaction) {
  const std::vector<Delivery> events = {VersionOf("a", 1, 0), VersionOf("b", 1, 1), VersionOf("c", 1, 2),
                                        VersionOf("a", 2, 3)};
  seat().Handle(events, {Failed(0, 0ms), Failed(0, 0ms), Failed(0, 0ms), Waits()}, true);
  const std::vector<std::string> units = {"a", "b", "c", "nothing"};
  RetryGroup group = ValueOrThrow(seat().store().OpenRetries(units, true, 60s));
  ASSERT_EQ(group.messages.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(group.messages[i].id, events[i].id);
    EXPECT_EQ(group.messages[i].unit, events[i].unit);
    EXPECT_EQ(group.messages[i].message.value, events[i].message.value);
    EXPECT_EQ(group.messages[i].attempts, 1);
    ValueOrThrow(fixture().Affect(*group.batch, events[i].unit));
  }
  ValueOrThrow(group.batch->Finish(std::vector{Processed(1), Died(1), Processed(1)}));
  EXPECT_THAT(fixture().Effects(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).parked, 2);
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).dead, 1);
  EXPECT_EQ(seat().Look(VersionOf("c", 2, 9), true).version_seen, 1);
  EXPECT_THAT(seat().Due(true), ElementsAre("a")) << "the follower is the first one now";
  EXPECT_EQ(seat().RetryWith("a", Processed(2), true), events[3].id);
}

TEST_P(InboxParkedContract, WhatIsUndoneOrNotTriedInAGroupStandsAsBefore) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("b", 1)}, {Failed(0, 0ms), Failed(0, 0ms)});
  const std::vector<std::string> units = {"a", "b"};
  {
    RetryGroup group = ValueOrThrow(seat().store().OpenRetries(units, false, 60s));
    ASSERT_EQ(group.messages.size(), 2U);
    ValueOrThrow(fixture().Affect(*group.batch, "a"));
    ValueOrThrow(group.batch->Rewind());
    ValueOrThrow(group.batch->Finish(std::vector{Failed(1, 1h), Outcome{}}));
  }
  EXPECT_THAT(fixture().Effects(), IsEmpty());
  EXPECT_THAT(seat().Due(), ElementsAre("b"));
  const auto retry = seat().Retry("b");
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->attempts, 1) << "the attempt that was not made does not count";
}

TEST_P(InboxParkedContract, OneThatWasTriedBeforeIsInNoGroup) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("b", 1), DeliveryOf("c", 2)},
                {Failed(1, 0ms), Failed(0, 1h), Died(0)});
  const std::vector<std::string> units = {"a", "b", "c"};
  const RetryGroup group = ValueOrThrow(seat().store().OpenRetries(units, false, 60s));
  EXPECT_THAT(group.messages, IsEmpty());
  EXPECT_EQ(group.batch, nullptr);
  EXPECT_TRUE(seat().Retry("a").has_value());
}

// ---- the look of a member
// ------------------------------------------------------------------------------------------------

TEST_P(InboxParkedContract, ALookTellsWhenTheNextOneIsDue) {
  EXPECT_EQ(ValueOrThrow(seat().store().Look(false, 10)).next_due, std::nullopt);
  seat().Handle({DeliveryOf("dead", 0), DeliveryOf("late", 1), DeliveryOf("late", 2)},
                {Died(1), Failed(1, 60s), Waits()});
  const InboxLook look = ValueOrThrow(seat().store().Look(false, 10));
  EXPECT_THAT(look.due, IsEmpty());
  ASSERT_TRUE(look.next_due.has_value());
  EXPECT_GT(*look.next_due, 30s);
  EXPECT_LE(*look.next_due, 60s);
  fixture().LetTimePass(120s);
  EXPECT_THAT(ValueOrThrow(seat().store().Look(false, 10)).due, ElementsAre("late"));
}

TEST_P(InboxParkedContract, AHoldIsToldToEveryMemberAndEndsTheWaitOfFailedEvents) {
  seat().Handle({DeliveryOf("a", 0)}, {Failed(1, 1h)});
  InboxSeat other(fixture(), "shipping", mode());
  ValueOrThrow(seat().store().SetHold(ConsumerHold{"circuit_open", "20 of 20 order keys failed"}));
  const auto second = fixture().Open("billing", mode());
  const InboxLook look = ValueOrThrow(second->Look(false, 10));
  ASSERT_TRUE(look.hold.has_value());
  EXPECT_EQ(look.hold->code, "circuit_open");
  EXPECT_EQ(look.hold->message, "20 of 20 order keys failed");
  EXPECT_EQ(look.pause, std::nullopt);
  EXPECT_THAT(look.due, ElementsAre("a")) << "it can be a probe";
  EXPECT_EQ(ValueOrThrow(other.store().Look(false, 10)).hold, std::nullopt);
  ValueOrThrow(seat().store().SetHold(std::nullopt));
  EXPECT_EQ(ValueOrThrow(second->Look(false, 10)).hold, std::nullopt);
}

TEST_P(InboxParkedContract, CountsEndAtTheirLimit) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("b", 1), DeliveryOf("c", 2)}, {Died(1), Died(1), Died(1)});
  EXPECT_EQ(ValueOrThrow(seat().store().Count(2)).parked, 2);
  EXPECT_EQ(ValueOrThrow(seat().store().Count(2)).dead, 2);
}

// A member adds a follower while another one finishes the message it would wait for.
TEST_P(InboxParkedTogetherContract, AFollowerOfOneThatIsFinishedMeanwhileIsDue) {
  seat().Handle({DeliveryOf("a", 0)}, {Failed(1, 0ms)});
  const auto keeper = fixture().Open("billing", mode());
  const auto batch = seat().Open({DeliveryOf("a", 1)});
  EXPECT_TRUE(batch->standings().front().unit_waits);
  auto retry = ValueOrThrow(keeper->OpenRetry("a", false, 60s));
  ASSERT_TRUE(retry.has_value());
  ValueOrThrow(retry->batch->Finish(std::vector{Processed()}));
  seat().Finish(*batch, {Waits()});
  EXPECT_THAT(seat().Due(), ElementsAre("a"));
}

}  // namespace
}  // namespace sealane
