// What every store promises to operators of consumers: they see how each consumer stands and why an event waits, what
// they do happens to those events alone and leaves a record, and those behind an event go on in order.

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/inbox_desk.hpp"
#include "support/inbox_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using enum InboxState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

const OperatorAction kWhy{"ann", "because"};

/// Skipped by the consumer itself, which cannot know whether it was applied before.
Outcome TooOld() {
  Outcome outcome;
  outcome.kind = Outcome::Kind::kParked;
  outcome.park = {kSkipped, 0, std::nullopt, "too_old", "older than what is remembered"};
  return outcome;
}

/// At consumer `billing`: of key a one that is dead and two behind it, of key b one that failed, of key c one that
/// was processed.
class InboxDeskContract : public ::testing::TestWithParam<std::string> {
 protected:
  InboxDeskContract() {
    billing_.Handle({a1_, a2_, a3_}, {Died(3), Waits(), Waits()});
    fixture_->LetTimePass(10s);
    billing_.Handle({b_}, {Failed(1, 60s)});
    fixture_->LetTimePass(10s);
    billing_.Handle({c_}, {Processed()});
  }

  InboxFixture& fixture() { return *fixture_; }
  InboxSeat& billing() { return billing_; }
  InboxDesk& desk() { return *desk_; }
  std::vector<EventId> ParkedIds(const ParkedFilter& filter) {
    std::vector<EventId> ids;
    for (const ParkedEvent& event : ValueOrThrow(desk_->Parked(filter))) ids.push_back(event.id);
    return ids;
  }
  std::vector<EventId> ReceiptIds(const ReceiptFilter& filter) {
    std::vector<EventId> ids;
    for (const InboxReceipt& receipt : ValueOrThrow(desk_->List(filter))) ids.push_back(receipt.id);
    return ids;
  }
  ParkedEvent Find(const Delivery& delivery) {
    const auto found = ValueOrThrow(desk_->Find("billing", delivery.id));
    EXPECT_THAT(found.parked, SizeIs(1));
    return found.parked.empty() ? ParkedEvent{} : found.parked.front();
  }
  InboxState ReceiptState(const Delivery& delivery) {
    const auto found = ValueOrThrow(desk_->Find("billing", delivery.id));
    EXPECT_THAT(found.receipts, SizeIs(1));
    return found.receipts.empty() ? kReceived : found.receipts.front().state;
  }
  InboxSummary SummaryOf(const std::string& consumer) {
    for (InboxSummary& summary : ValueOrThrow(desk_->Summaries())) {
      if (summary.consumer == consumer) return std::move(summary);
    }
    ADD_FAILURE() << "there is no consumer " << consumer;
    return {};
  }
  /// Removes in steps of so many rows; returns how many steps that took.
  int RemoveInSteps(const std::string& consumer, std::size_t limit) {
    for (int steps = 1;; ++steps) {
      const RemoveReport report = ValueOrThrow(desk_->Remove(consumer, true, limit, kWhy));
      EXPECT_LE(report.rows, static_cast<std::int64_t>(limit));
      if (!report.more || steps == 100) return steps;
    }
  }
  /// Who did what to what, and why; newest first.
  std::vector<std::string> Records() {
    std::vector<std::string> records;
    for (const AuditRecord& record : ValueOrThrow(fixture_->OpenDeadLetters()->Audit(100))) {
      records.push_back(record.actor + " " + record.action + " " + record.target + ": " + record.reason);
    }
    return records;
  }

  const Delivery a1_ = DeliveryOf("a", 1);
  const Delivery a2_ = DeliveryOf("a", 2);
  const Delivery a3_ = DeliveryOf("a", 3);
  const Delivery b_ = DeliveryOf("b", 4);
  const Delivery c_ = DeliveryOf("c", 5);

 private:
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(GetParam());
  InboxSeat billing_{*fixture_, "billing", InboxMode::kRecord};
  std::unique_ptr<InboxDesk> desk_ = fixture_->OpenDesk();
};

INSTANTIATE_TEST_SUITE_P(Store, InboxDeskContract, ::testing::ValuesIn(InboxStores()),
                         [](const auto& test) { return test.param; });

TEST_P(InboxDeskContract, SummarizesEveryConsumer) {
  InboxSeat report(fixture(), "report", InboxMode::kOffsets);
  report.Handle({DeliveryOf("x", 0), DeliveryOf("y", 1)}, {Processed(), WaitsForGap(60s)});
  const auto summaries = ValueOrThrow(desk().Summaries());
  ASSERT_THAT(summaries, SizeIs(2));
  EXPECT_EQ(summaries[0].consumer, "billing");
  EXPECT_EQ(summaries[0].mode, InboxMode::kRecord);
  EXPECT_THAT(summaries[0].receipts,
              UnorderedElementsAre(Pair(kProcessed, 1), Pair(kReceived, 2), Pair(kFailed, 1), Pair(kDead, 1)));
  EXPECT_FALSE(summaries[0].more_receipts);
  EXPECT_EQ(summaries[0].waiting.parked, 4);
  EXPECT_EQ(summaries[0].waiting.dead, 1);
  EXPECT_EQ(summaries[0].waiting.gaps, 0);
  EXPECT_EQ(summaries[0].oldest_parked_at, Find(a1_).parked_at);
  EXPECT_THAT(summaries[0].partitions, IsEmpty());
  EXPECT_EQ(summaries[1].consumer, "report");
  EXPECT_EQ(summaries[1].mode, InboxMode::kOffsets);
  EXPECT_THAT(summaries[1].receipts, IsEmpty());
  EXPECT_EQ(summaries[1].waiting.gaps, 1);
  ASSERT_THAT(summaries[1].partitions, SizeIs(1));
  EXPECT_EQ(summaries[1].partitions[0].partition, (Partition{"orders", 0}));
  EXPECT_EQ(summaries[1].partitions[0].next_offset, 2);
  EXPECT_EQ(summaries[1].partitions[0].epoch, report.attached().epoch);
}

TEST_P(InboxDeskContract, ListsReceiptsNewestFirst) {
  EXPECT_THAT(ReceiptIds({}), ElementsAre(c_.id, b_.id, a3_.id, a2_.id, a1_.id));
  EXPECT_THAT(ReceiptIds({.limit = 2}), ElementsAre(c_.id, b_.id));
  EXPECT_THAT(ReceiptIds({.limit = 0}), ElementsAre(c_.id)) << "a list has at least one";
}

TEST_P(InboxDeskContract, FiltersReceiptsByEveryField) {
  const Delivery versioned = VersionOf("o-7", 1, 9);
  billing().Handle({versioned}, {Processed(1)}, true);
  EXPECT_THAT(ReceiptIds({.state = kDead}), ElementsAre(a1_.id));
  EXPECT_THAT(ReceiptIds({.event_id = b_.id}), ElementsAre(b_.id));
  EXPECT_THAT(ReceiptIds({.topic = "mails"}), IsEmpty());
  EXPECT_THAT(ReceiptIds({.consumer = "billing", .topic = "orders"}), SizeIs(6));
  EXPECT_THAT(ReceiptIds({.aggregate_type = "order", .aggregate_id = "o-7"}), ElementsAre(versioned.id));
  EXPECT_THAT(ReceiptIds({.aggregate_id = "o-7' OR 1=1 --"}), IsEmpty());
}

TEST_P(InboxDeskContract, TellsEverythingAboutAReceipt) {
  const Delivery versioned = VersionOf("o-7", 1, 9);
  billing().Handle({versioned}, {Processed(1)}, true);
  const InboxReceipt receipt = ValueOrThrow(desk().List({.event_id = versioned.id})).at(0);
  EXPECT_EQ(receipt.consumer, "billing");
  EXPECT_EQ(receipt.state, kProcessed);
  EXPECT_EQ(receipt.source, (PartitionOffset{{"orders", 0}, 9}));
  EXPECT_EQ(receipt.type, versioned.envelope->type);
  EXPECT_EQ(receipt.tenant, versioned.envelope->tenant);
  EXPECT_EQ(receipt.aggregate_type, "order");
  EXPECT_EQ(receipt.aggregate_id, "o-7");
  EXPECT_EQ(receipt.aggregate_version, 1);
  EXPECT_EQ(receipt.filed_at, versioned.filed_at);
  EXPECT_TRUE(receipt.finished_at.has_value());
  const InboxReceipt dead = ValueOrThrow(desk().List({.event_id = a1_.id})).at(0);
  EXPECT_EQ(dead.code, "handler_rejected");
  EXPECT_EQ(dead.message, "never");
  EXPECT_FALSE(dead.finished_at.has_value());
}

TEST_P(InboxDeskContract, ShowsWhatIsParkedLongestWaitingFirst) {
  EXPECT_THAT(ParkedIds({}), ElementsAre(a1_.id, b_.id)) << "those behind are counted, not listed";
  EXPECT_THAT(ParkedIds({.limit = 1}), ElementsAre(a1_.id));
  EXPECT_THAT(ParkedIds({.state = kReceived}), ElementsAre(a2_.id, a3_.id));
  EXPECT_THAT(ParkedIds({.unit = "b"}), ElementsAre(b_.id));
  EXPECT_THAT(ParkedIds({.error_code = "handler_rejected"}), ElementsAre(a1_.id));
  EXPECT_THAT(ParkedIds({.topic = "mails"}), IsEmpty());
  EXPECT_THAT(ParkedIds({.consumer = "billing", .unit = "a", .state = kDead, .topic = "orders"}),
              ElementsAre(a1_.id));
  EXPECT_THAT(ParkedIds({.unit = "b' OR 1=1 --"}), IsEmpty());
}

TEST_P(InboxDeskContract, TellsEverythingAboutAParkedEvent) {
  const ParkedEvent event = Find(b_);
  EXPECT_EQ(event.consumer, "billing");
  EXPECT_EQ(event.unit, "b");
  EXPECT_EQ(event.state, kFailed);
  EXPECT_EQ(event.attempts, 1);
  EXPECT_FALSE(event.is_claimed);
  EXPECT_TRUE(event.next_attempt_at.has_value());
  EXPECT_TRUE(event.first_failed_at.has_value());
  EXPECT_TRUE(event.last_failed_at.has_value());
  EXPECT_EQ(event.error_code, "handler_failed");
  EXPECT_EQ(event.error_message, "it said no");
  EXPECT_EQ(event.source, (PartitionOffset{{"orders", 0}, 4}));
  EXPECT_EQ(event.type, b_.envelope->type);
  EXPECT_EQ(event.followers, 0);
  EXPECT_EQ(Find(a1_).followers, 2);
  EXPECT_EQ(Find(a2_).followers, 1);
}

TEST_P(InboxDeskContract, FindsAUnitThatIsNoText) {
  const std::string unit("\x00\xff key", 6);
  billing().Handle({UnreadableDelivery(unit, 20)}, {Died(1)});
  const auto found = ValueOrThrow(desk().Parked({.unit = unit}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].unit, unit);
  EXPECT_EQ(found[0].type, "");
}

TEST_P(InboxDeskContract, AGapWithoutATimeHasNoNextAttempt) {
  const Delivery gap = VersionOf("g", 5, 21);
  billing().Handle({gap}, {WaitsForGap(std::nullopt)}, true);
  EXPECT_EQ(Find(gap).state, kGap);
  EXPECT_EQ(Find(gap).next_attempt_at, std::nullopt);
}

TEST_P(InboxDeskContract, RetryOfADeadEventAppliesItAndThenThoseBehindIt) {
  EXPECT_THAT(billing().Due(), IsEmpty());
  EXPECT_EQ(ValueOrThrow(desk().Retry("billing", a1_.id, kWhy)), 1);
  EXPECT_EQ(Find(a1_).state, kFailed);
  EXPECT_EQ(Find(a1_).attempts, 0);
  EXPECT_EQ(ReceiptState(a1_), kFailed);
  EXPECT_THAT(billing().Due(), ElementsAre("a"));
  EXPECT_EQ(billing().RetryWith("a", Processed()), a1_.id);
  EXPECT_EQ(billing().RetryWith("a", Processed()), a2_.id);
  EXPECT_EQ(billing().RetryWith("a", Processed()), a3_.id);
  EXPECT_EQ(ReceiptState(a1_), kProcessed);
  EXPECT_THAT(ParkedIds({}), ElementsAre(b_.id));
  EXPECT_THAT(Records(), ElementsAre("ann inbox.retry " + a1_.id.ToString() + " on billing: because"));
}

TEST_P(InboxDeskContract, RetryByFilterTouchesNothingElse) {
  EXPECT_EQ(ValueOrThrow(desk().Retry({.error_code = "handler_failed"}, kWhy)), 1);
  EXPECT_THAT(billing().Due(), ElementsAre("b"));
  EXPECT_EQ(Find(a1_).state, kDead);
  EXPECT_EQ(ValueOrThrow(desk().Retry({.state = kReceived}, kWhy)), 0) << "these wait for nothing but the first";
  EXPECT_EQ(ValueOrThrow(desk().Retry({.limit = 1}, kWhy)), 1);
  EXPECT_EQ(Find(a1_).state, kFailed) << "the longest waiting is the first";
  EXPECT_THAT(Records(), SizeIs(2));
}

TEST_P(InboxDeskContract, RetriedGapIsDueAndStillAGap) {
  const Delivery gap = VersionOf("g", 5, 21);
  billing().Handle({gap}, {WaitsForGap(60s)}, true);
  EXPECT_EQ(ValueOrThrow(desk().Retry("billing", gap.id, kWhy)), 1);
  const auto retry = billing().Retry("g", true);
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->state, kGap);
  EXPECT_FALSE(retry->gap_overdue);
  EXPECT_EQ(retry->attempts, 1);
}

TEST_P(InboxDeskContract, WhoeverDiedAtAnEventDoesNotHoldItUp) {
  fixture().LetTimePass(60s);
  { const auto died = billing().Retry("b"); }
  EXPECT_TRUE(Find(b_).is_claimed);
  EXPECT_THAT(billing().Due(), IsEmpty());
  ValueOrThrow(desk().Retry("billing", b_.id, kWhy));
  EXPECT_FALSE(Find(b_).is_claimed);
  EXPECT_THAT(billing().Due(), ElementsAre("b"));
}

TEST_P(InboxDeskContract, SkipLetsThoseBehindGoOn) {
  EXPECT_EQ(ValueOrThrow(desk().Skip("billing", a1_.id, kWhy)), 1);
  EXPECT_EQ(Find(a1_).state, kSkipped);
  EXPECT_EQ(Find(a1_).followers, 0);
  EXPECT_EQ(ReceiptState(a1_), kSkipped);
  EXPECT_EQ(billing().Look(Again(a1_, 30)).known, Standing::Known::kDone);
  EXPECT_EQ(billing().RetryWith("a", Processed()), a2_.id);
  EXPECT_EQ(billing().RetryWith("a", Processed()), a3_.id);
  EXPECT_THAT(ParkedIds({.state = kSkipped}), ElementsAre(a1_.id));
  EXPECT_THAT(Records(), ElementsAre("ann inbox.skip " + a1_.id.ToString() + " on billing: because"));
  EXPECT_EQ(ValueOrThrow(desk().Skip("billing", a1_.id, kWhy)), 0) << "it is given up already";
  EXPECT_EQ(ValueOrThrow(desk().Retry("billing", a1_.id, kWhy)), 0) << "and for good";
  EXPECT_EQ(ValueOrThrow(desk().Skip("billing", c_.id, kWhy)), 0) << "what was processed is not given up";
  EXPECT_THAT(Records(), SizeIs(1));
}

TEST_P(InboxDeskContract, SkippedVersionCountsAsSeen) {
  const Delivery first = VersionOf("o", 1, 21);
  const Delivery second = VersionOf("o", 2, 22);
  billing().Handle({first, second}, {Died(1), WaitsForGap(60s)}, true);
  EXPECT_EQ(ValueOrThrow(desk().Skip("billing", first.id, kWhy)), 1);
  const auto retry = billing().Retry("o", true);
  ASSERT_TRUE(retry.has_value()) << "what waited for the version is due";
  EXPECT_EQ(retry->id, second.id);
  EXPECT_EQ(retry->version_seen, 1);
}

TEST_P(InboxDeskContract, VersionBeforeASkippedGapMayStillCome) {
  const Delivery third = VersionOf("o", 3, 23);
  billing().Handle({third}, {WaitsForGap(60s)}, true);
  EXPECT_EQ(ValueOrThrow(desk().Skip("billing", third.id, kWhy)), 1);
  EXPECT_EQ(billing().Look(VersionOf("o", 1, 24), true).version_seen, 0);
}

TEST_P(InboxDeskContract, SkippedDeadGapIsOver) {
  const Delivery third = VersionOf("o", 3, 23);
  billing().Handle({third}, {Died(1)}, true);
  EXPECT_EQ(ValueOrThrow(desk().Skip("billing", third.id, kWhy)), 1);
  EXPECT_EQ(billing().Look(VersionOf("o", 4, 24), true).version_seen, 3);
}

TEST_P(InboxDeskContract, ConsumersAreApart) {
  InboxSeat report(fixture(), "report", InboxMode::kRecord);
  report.Handle({a1_, a2_}, {Died(1), Waits()});
  EXPECT_THAT(ParkedIds({.consumer = "report"}), ElementsAre(a1_.id));
  EXPECT_THAT(ValueOrThrow(desk().Find({}, a1_.id)).parked, SizeIs(2));
  EXPECT_THAT(ValueOrThrow(desk().Find({}, a1_.id)).receipts, SizeIs(2));
  EXPECT_EQ(ValueOrThrow(desk().Skip("report", a1_.id, kWhy)), 1);
  EXPECT_EQ(Find(a1_).state, kDead) << "at billing";
  EXPECT_EQ(ReceiptState(a1_), kDead);
  EXPECT_EQ(ValueOrThrow(desk().Retry({.consumer = "report"}, kWhy)), 0);
  EXPECT_EQ(ValueOrThrow(desk().Retry({.consumer = "billing"}, kWhy)), 2);
}

TEST_P(InboxDeskContract, WorksWithoutReceipts) {
  InboxSeat report(fixture(), "report", InboxMode::kOffsets);
  const Delivery dead = DeliveryOf("x", 0);
  const Delivery behind = DeliveryOf("x", 1);
  report.Handle({dead, behind}, {Died(1), Waits()});
  EXPECT_THAT(ReceiptIds({.consumer = "report"}), IsEmpty());
  EXPECT_EQ(ValueOrThrow(desk().Skip("report", dead.id, kWhy)), 1);
  EXPECT_EQ(report.RetryWith("x", Processed()), behind.id);
}

TEST_P(InboxDeskContract, RefusesAConsumerThatIsNot) {
  const auto code = [](const auto& result) { return result ? "done" : result.error().code(); };
  EXPECT_EQ(code(desk().List({.consumer = "biling"})), "unknown_consumer");
  EXPECT_EQ(code(desk().Parked({.consumer = "biling"})), "unknown_consumer");
  EXPECT_EQ(code(desk().Find("biling", a1_.id)), "unknown_consumer");
  EXPECT_EQ(code(desk().Retry({.consumer = "biling"}, kWhy)), "unknown_consumer");
  EXPECT_EQ(code(desk().Retry("biling", a1_.id, kWhy)), "unknown_consumer");
  EXPECT_EQ(code(desk().Skip("biling", a1_.id, kWhy)), "unknown_consumer");
  EXPECT_TRUE(ValueOrThrow(desk().Find({}, DeliveryOf("z", 1).id)).empty());
}

TEST_P(InboxDeskContract, NothingHappensByNobodyOrForNothing) {
  const auto code = [](const auto& result) { return result ? "done" : result.error().code(); };
  EXPECT_EQ(code(desk().Retry("billing", a1_.id, {"", "because"})), "actor_required");
  EXPECT_EQ(code(desk().Retry(ParkedFilter{}, {"ann", ""})), "reason_required");
  EXPECT_EQ(code(desk().Skip("billing", a1_.id, {"ann", ""})), "reason_required");
  EXPECT_EQ(Find(a1_).state, kDead);
  EXPECT_THAT(Records(), IsEmpty());
}

TEST_P(InboxDeskContract, WhatWasSkippedIsNeverForgotten) {
  ASSERT_EQ(ValueOrThrow(desk().Skip("billing", a1_.id, kWhy)), 1);
  const Timestamp parked_at = Find(a1_).parked_at;
  EXPECT_EQ(ValueOrThrow(billing().store().Prune(c_.filed_at + 1h, 100)).receipts, 1) << "the one that was processed";
  EXPECT_EQ(billing().Look(Again(a1_, 6)).known, Standing::Known::kDone);
  EXPECT_THAT(ParkedIds({.state = kSkipped}), ElementsAre(a1_.id)) << "what it was can be looked at for a while";

  static_cast<void>(ValueOrThrow(billing().store().Prune(parked_at + 1s, 100)));
  EXPECT_THAT(ParkedIds({.state = kSkipped}), IsEmpty());
  EXPECT_EQ(billing().Look(Again(a1_, 7)).known, Standing::Known::kDone);
  EXPECT_EQ(ReceiptState(a1_), kSkipped);
  EXPECT_EQ(ParkedIds({}), std::vector{b_.id}) << "what waits stays";
}

TEST_P(InboxDeskContract, WithoutReceiptsWhatWasSkippedIsClearedAwayWithTime) {
  InboxSeat report(fixture(), "report", InboxMode::kOffsets);
  const Delivery dead = DeliveryOf("x", 0);
  report.Handle({dead, DeliveryOf("x", 1)}, {Died(1), Waits()});
  ASSERT_EQ(ValueOrThrow(desk().Skip("report", dead.id, kWhy)), 1);
  const Timestamp parked_at = ValueOrThrow(desk().Find("report", dead.id)).parked.at(0).parked_at;
  ValueOrThrow(report.store().Prune(parked_at - 1s, 100));
  EXPECT_EQ(report.Look(Again(dead, 2)).known, Standing::Known::kDone);
  ValueOrThrow(report.store().Prune(parked_at + 1s, 100));
  EXPECT_TRUE(ValueOrThrow(desk().Find("report", dead.id)).empty());
  EXPECT_EQ(ValueOrThrow(report.store().Count()).parked, 1) << "what waits stays";
}

// ---- positions

TEST_P(InboxDeskContract, TellsWhereAConsumerStandsAndWhyItIsStopped) {
  InboxSeat report(fixture(), "report", InboxMode::kOffsets);
  const AttachedPartition attached = report.attached();
  ValueOrThrow(report.store().Place(attached, 7, "topic-1"));
  ASSERT_THAT(SummaryOf("report").partitions, SizeIs(1));
  InboxPosition position = SummaryOf("report").partitions.at(0);
  EXPECT_EQ(position.next_offset, 7);
  EXPECT_EQ(position.topic_id, "topic-1");
  EXPECT_TRUE(position.attached);
  EXPECT_FALSE(position.stop.has_value());
  EXPECT_FALSE(position.stopped_at.has_value());
  EXPECT_FALSE(position.resume.has_value());

  ValueOrThrow(report.store().Stop(attached, {"topic_recreated", "the topic is another one"}));
  position = SummaryOf("report").partitions.at(0);
  EXPECT_EQ(position.stop, (PartitionStop{"topic_recreated", "the topic is another one"}));
  EXPECT_TRUE(position.stopped_at.has_value());

  ValueOrThrow(report.store().Detach({&attached, 1}));
  EXPECT_FALSE(SummaryOf("report").partitions.at(0).attached);
}

TEST_P(InboxDeskContract, ResumeTakesTheStopAwayAndFencesTheMember) {
  InboxSeat report(fixture(), "report", InboxMode::kOffsets);
  const AttachedPartition before = report.attached();
  ValueOrThrow(report.store().Place(before, 7, "topic-1"));
  ValueOrThrow(report.store().Stop(before, {"topic_recreated", "the topic is another one"}));
  const ResumePoint from{.kind = ResumePoint::Kind::kOffset, .offset = 3};
  EXPECT_EQ(ValueOrThrow(desk().Resume("report", "orders", 0, from, kWhy)), 1);

  const InboxPosition position = SummaryOf("report").partitions.at(0);
  EXPECT_FALSE(position.stop.has_value());
  EXPECT_FALSE(position.stopped_at.has_value());
  EXPECT_EQ(position.resume, from);
  EXPECT_EQ(position.next_offset, 7) << "until a member takes it up";
  EXPECT_EQ(position.topic_id, "topic-1");
  EXPECT_EQ(position.epoch, before.epoch + 1);
  EXPECT_FALSE(position.attached);
  EXPECT_THAT(Records(), ElementsAre("ann inbox.resume orders/0 of report from 3: because"));

  const Status fenced = report.store().Stop(before, {"topic_recreated", "again"});
  ASSERT_FALSE(fenced);
  EXPECT_EQ(fenced.error().kind(), ErrorKind::kFenced);
  const AttachedPartition after = report.Attach();
  EXPECT_EQ(after.resume, from);
  EXPECT_FALSE(after.stop.has_value());
  EXPECT_EQ(after.deaths, 0) << "the member that was fenced has not died";
}

TEST_P(InboxDeskContract, ResumeKeepsEveryKindOfPoint) {
  const InboxSeat report(fixture(), "report", InboxMode::kOffsets);
  using enum ResumePoint::Kind;
  for (const ResumePoint& from : {ResumePoint{.kind = kBeginning}, ResumePoint{.kind = kGroup},
                                  ResumePoint{.kind = kOffset, .offset = 9'000'000'000},
                                  ResumePoint{.kind = kTime, .time = Timestamp{1'700'000'000'123'456us}}}) {
    EXPECT_EQ(ValueOrThrow(desk().Resume("report", "orders", {}, from, kWhy)), 1);
    EXPECT_EQ(SummaryOf("report").partitions.at(0).resume, from) << ToString(from);
  }
  EXPECT_THAT(Records(), SizeIs(4));
}

TEST_P(InboxDeskContract, ResumeOfATopicMeansAllPartitionsThatAreKnown) {
  InboxSeat report(fixture(), "report", InboxMode::kRecord);
  const std::vector<Partition> partitions = {{"orders", 0}, {"orders", 1}, {"orders", 3}, {"payments", 0}};
  static_cast<void>(ValueOrThrow(report.store().Attach(partitions, 10)));
  EXPECT_EQ(ValueOrThrow(desk().Resume("report", "orders", {}, {}, kWhy)), 3);
  EXPECT_THAT(Records(), UnorderedElementsAre("ann inbox.resume orders/0 of report from beginning: because",
                                              "ann inbox.resume orders/1 of report from beginning: because",
                                              "ann inbox.resume orders/3 of report from beginning: because"));
  EXPECT_FALSE(SummaryOf("report").partitions.at(3).resume.has_value());

  const auto number = desk().Resume("report", "orders", 2, {}, kWhy);
  ASSERT_FALSE(number);
  EXPECT_EQ(number.error().kind(), ErrorKind::kRejected);
  EXPECT_EQ(number.error().code(), "unknown_partition");
  EXPECT_THAT(number.error().hint(), HasSubstr("orders/0-1, orders/3, payments/0"));
  const auto topic = desk().Resume("report", "order", {}, {}, kWhy);
  ASSERT_FALSE(topic);
  EXPECT_EQ(topic.error().code(), "unknown_partition");
  const auto none = desk().Resume("billing", "orders", {}, {}, kWhy);
  ASSERT_FALSE(none) << "billing never attached a partition here";
  EXPECT_EQ(none.error().code(), "unknown_partition");
  EXPECT_THAT(Records(), SizeIs(3));
}

TEST_P(InboxDeskContract, RemoveTakesEverythingOfOneConsumerInSteps) {
  {
    InboxSeat report(fixture(), "report", InboxMode::kOffsets);
    report.Handle({VersionOf("x", 1, 0), DeliveryOf("y", 1)}, {Processed(1), Died(1)}, true);
    billing().Handle({VersionOf("v", 1, 8)}, {Processed(1)}, true);
  }
  // Five receipts and four parked events, one more receipt and its version.
  const RemoveReport first = ValueOrThrow(desk().Remove("billing", false, 2, kWhy));
  EXPECT_EQ(first.rows, 2);
  EXPECT_TRUE(first.more);
  EXPECT_THAT(Records(), ElementsAre("ann inbox.remove_begin billing: because"));
  EXPECT_GE(RemoveInSteps("billing", 3), 3);
  EXPECT_THAT(Records(), ElementsAre("ann inbox.remove billing: because", "ann inbox.remove_begin billing: because"));
  const auto left = ValueOrThrow(desk().Summaries());
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].consumer, "report");
  EXPECT_EQ(left[0].waiting.dead, 1) << "the other consumer keeps everything";
  EXPECT_EQ(left[0].partitions.size(), 1U);
  EXPECT_TRUE(ValueOrThrow(desk().Find({}, a1_.id)).empty());
  EXPECT_EQ(desk().Remove("billing", false, 2, kWhy).error().code(), "unknown_consumer");

  EXPECT_EQ(RemoveInSteps("report", 100), 1);
  InboxSeat again(fixture(), "report", InboxMode::kRecord);
  EXPECT_THAT(SummaryOf("report").partitions, IsEmpty()) << "the name is free, with another mode too";
  const Delivery old = VersionOf("x", 1, 0);
  EXPECT_EQ(again.Look(old, true).version_seen, 0);
}

TEST_P(InboxDeskContract, RemoveIsRefusedWhileAPartitionIsAttached) {
  InboxSeat report(fixture(), "report", InboxMode::kOffsets);
  const auto refused = desk().Remove("report", false, 100, kWhy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::kRejected);
  EXPECT_EQ(refused.error().code(), "consumer_attached");
  EXPECT_THAT(refused.error().message(), HasSubstr("orders/0"));
  EXPECT_THAT(SummaryOf("report").partitions, SizeIs(1));
  EXPECT_THAT(Records(), IsEmpty());

  const AttachedPartition attached = report.attached();
  ValueOrThrow(report.store().Detach({&attached, 1}));
  EXPECT_FALSE(ValueOrThrow(desk().Remove("report", false, 100, kWhy)).more);
}

TEST_P(InboxDeskContract, WhatIsOlderThanAConsumersMemoryIsRetriedOnlyWhenItMayBeAppliedTwice) {
  const Delivery old = DeliveryOf("o", 40);
  billing().Handle({old}, {TooOld()});
  ASSERT_EQ(Find(old).state, kSkipped);
  ASSERT_EQ(Find(old).error_code, "too_old");
  const auto refused = desk().Retry("billing", old.id, kWhy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::kRejected);
  EXPECT_EQ(refused.error().code(), "too_old");
  EXPECT_THAT(refused.error().hint(), HasSubstr("--may-apply-twice"));
  EXPECT_EQ(ValueOrThrow(desk().Retry({.state = kSkipped}, kWhy)), 0);
  EXPECT_EQ(ValueOrThrow(desk().Retry({.error_code = "too_old"}, kWhy)), 0);
  EXPECT_EQ(Find(old).state, kSkipped);
  EXPECT_THAT(Records(), IsEmpty());

  EXPECT_EQ(ValueOrThrow(desk().Retry("billing", old.id, kWhy, true)), 1);
  EXPECT_EQ(Find(old).state, kFailed);
  EXPECT_EQ(ReceiptState(old), kFailed);
  EXPECT_THAT(Records(), ElementsAre("ann inbox.retry " + old.id.ToString() + " on billing: because"));
  EXPECT_EQ(billing().RetryWith("o", Processed()), old.id);
  EXPECT_EQ(ReceiptState(old), kProcessed);
}

TEST_P(InboxDeskContract, WhatAnOperatorSkippedStaysSkipped) {
  ASSERT_EQ(ValueOrThrow(desk().Skip("billing", a1_.id, kWhy)), 1);
  EXPECT_EQ(ValueOrThrow(desk().Retry("billing", a1_.id, kWhy, true)), 0);
  EXPECT_EQ(Find(a1_).state, kSkipped);
}

TEST_P(InboxDeskContract, PositionsOfAConsumerThatIsNotAreRefused) {
  const auto code = [](const auto& result) { return result ? "done" : result.error().code(); };
  EXPECT_EQ(code(desk().Resume("biling", "orders", {}, {}, kWhy)), "unknown_consumer");
  EXPECT_EQ(code(desk().Remove("biling", false, 10, kWhy)), "unknown_consumer");
  EXPECT_EQ(code(desk().Resume("billing", "orders", {}, {}, {"", "because"})), "actor_required");
  EXPECT_EQ(code(desk().Remove("billing", false, 10, {"ann", ""})), "reason_required");
  EXPECT_THAT(Records(), IsEmpty());
}

// ---- gaps, pauses and holds

/// Consumer `ledger` guards versions: of order o version 1 is applied, and versions 4 and 5 wait for 2.
class InboxGapDeskContract : public InboxDeskContract {
 protected:
  InboxGapDeskContract() {
    ledger_.Handle({VersionOf("o", 1, 0)}, {Processed(1)}, true);
    ledger_.Handle({v4_, v5_}, {WaitsForGap(60s), Waits()}, true);
  }
  std::int64_t Seen() { return ledger_.Look(VersionOf("o", 9, 90), true).version_seen; }

  InboxSeat ledger_{fixture(), "ledger", InboxMode::kRecord};
  Delivery v4_ = VersionOf("o", 4, 1);
  Delivery v5_ = VersionOf("o", 5, 2);
};
INSTANTIATE_TEST_SUITE_P(Store, InboxGapDeskContract, ::testing::ValuesIn(InboxStores()),
                         [](const auto& test) { return test.param; });

TEST_P(InboxGapDeskContract, AnAcceptedGapIsAppliedFromThereOnInOrder) {
  EXPECT_THAT(ledger_.Due(true), IsEmpty());
  const AcceptedGap gap = ValueOrThrow(desk().AcceptGap("ledger", {.event_id = v4_.id}, kWhy));
  EXPECT_EQ(gap.id, v4_.id);
  EXPECT_EQ(gap.version, 4);
  EXPECT_EQ(gap.seen, 1);
  EXPECT_EQ(Seen(), 3) << "what is missing counts as seen";
  EXPECT_THAT(ledger_.Due(true), ElementsAre("o"));
  auto retry = ledger_.Retry("o", true);
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->id, v4_.id);
  EXPECT_EQ(retry->version_seen, 3);
  EXPECT_EQ(retry->attempts, 1);
  ValueOrThrow(retry->batch->Finish(std::vector{Processed(4)}));
  retry.reset();
  EXPECT_EQ(ledger_.RetryWith("o", Processed(5), true), v5_.id);
  EXPECT_EQ(Seen(), 5);
  const auto audit = ValueOrThrow(fixture().OpenDeadLetters()->Audit(10));
  EXPECT_EQ(audit.front().action, "inbox.accept_gap");
  EXPECT_EQ(audit.front().actor, "ann");
  EXPECT_THAT(audit.front().target, HasSubstr(v4_.id.ToString() + " on ledger: version 4 after 1"));
}

TEST_P(InboxGapDeskContract, TheLowestVersionOfAnAggregateIsAcceptedByItsName) {
  const AggregateName name{v4_.envelope->tenant, v4_.envelope->aggregate.type, "o"};
  EXPECT_EQ(ValueOrThrow(desk().AcceptGap("ledger", {.aggregate = name}, kWhy)).id, v4_.id);
  const auto again = desk().AcceptGap("ledger", {.aggregate = name}, kWhy);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), "no_gap");
}

TEST_P(InboxGapDeskContract, OneThatDiedOfAGapIsAccepted) {
  fixture().LetTimePass(120s);
  Outcome dead = Died(1);
  dead.park.error_code = "version_gap";
  EXPECT_EQ(ledger_.RetryWith("o", dead, true), v4_.id);
  EXPECT_THAT(ledger_.Due(true), IsEmpty());
  EXPECT_EQ(ValueOrThrow(desk().AcceptGap("ledger", {.event_id = v4_.id}, kWhy)).version, 4);
  EXPECT_EQ(ledger_.RetryWith("o", Processed(4), true), v4_.id);
}

TEST_P(InboxGapDeskContract, WhereNothingIsMissingNothingIsAccepted) {
  const auto code = [&](const std::string& consumer, const GapChoice& which) {
    const auto accepted = desk().AcceptGap(consumer, which, kWhy);
    return accepted ? std::string("accepted") : accepted.error().code();
  };
  EXPECT_EQ(code("ledger", {.event_id = v5_.id}), "not_first_gap");
  EXPECT_EQ(code("billing", {.event_id = a1_.id}), "no_gap") << "dead, and not of a gap";
  EXPECT_EQ(code("ledger", {.event_id = a1_.id}), "not_found");
  EXPECT_EQ(code("ledger", {.aggregate = {"", "order", "another"}}), "not_found");
  EXPECT_EQ(code("nobody", {.event_id = v4_.id}), "unknown_consumer");
  EXPECT_EQ(Seen(), 1);
  EXPECT_FALSE(desk().AcceptGap("ledger", {.event_id = v4_.id}, {"", ""}));
}

TEST_P(InboxDeskContract, APauseIsToldToMembersAndToOperators) {
  EXPECT_TRUE(ValueOrThrow(desk().Pause("billing", kWhy)));
  EXPECT_FALSE(ValueOrThrow(desk().Pause("billing", kWhy)));
  EXPECT_EQ(ValueOrThrow(billing().store().Look(false, 1)).pause, "because");
  const InboxSummary summary = SummaryOf("billing");
  ASSERT_TRUE(summary.pause.has_value());
  EXPECT_EQ(summary.pause->actor, "ann");
  EXPECT_EQ(summary.pause->reason, "because");
  EXPECT_TRUE(ValueOrThrow(desk().Unpause("billing", kWhy)));
  EXPECT_FALSE(ValueOrThrow(desk().Unpause("billing", kWhy)));
  EXPECT_EQ(ValueOrThrow(billing().store().Look(false, 1)).pause, std::nullopt);
  EXPECT_FALSE(SummaryOf("billing").pause.has_value());
  const auto audit = ValueOrThrow(fixture().OpenDeadLetters()->Audit(10));
  ASSERT_GE(audit.size(), 2U);
  EXPECT_EQ(audit[0].action, "inbox.unpause");
  EXPECT_EQ(audit[1].action, "inbox.pause");
  EXPECT_EQ(audit[1].target, "billing");
  EXPECT_EQ(desk().Pause("nobody", kWhy).error().code(), "unknown_consumer");
}

TEST_P(InboxDeskContract, UnpausingEndsAHold) {
  ValueOrThrow(billing().store().SetHold(ConsumerHold{"circuit_open", "many failed"}));
  const InboxSummary summary = SummaryOf("billing");
  ASSERT_TRUE(summary.hold.has_value());
  EXPECT_EQ(summary.hold->message, "many failed");
  EXPECT_TRUE(summary.held_at.has_value());
  EXPECT_TRUE(ValueOrThrow(desk().Unpause("billing", kWhy)));
  EXPECT_EQ(ValueOrThrow(billing().store().Look(false, 1)).hold, std::nullopt);
}

TEST_P(InboxDeskContract, ARetryWithAFilterPassesOverWhatIsDue) {
  EXPECT_EQ(ValueOrThrow(desk().Retry(ParkedFilter{.limit = 1}, kWhy)), 1);
  EXPECT_EQ(ValueOrThrow(desk().Retry(ParkedFilter{.limit = 1}, kWhy)), 1);
  EXPECT_EQ(ValueOrThrow(desk().Retry(ParkedFilter{.limit = 1}, kWhy)), 0) << "a caller can go on until none is left";
  EXPECT_THAT(billing().Due(), UnorderedElementsAre("a", "b"));
}

}  // namespace
}  // namespace sealane
