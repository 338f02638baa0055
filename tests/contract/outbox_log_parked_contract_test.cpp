// What every outbox promises about events that were set aside, and what people see of an event's life: a failing
// event holds back its followers and nobody else, is tried again when its time has come, and is never lost.

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/log_fixture.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using enum ParkedState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class OutboxLogParkedContract : public ::testing::TestWithParam<std::string> {
 protected:
  LogFixture& fixture() { return *fixture_; }
  OutboxLog& log() { return *log_; }
  DeadLetters& operators() { return *operators_; }

  void Append(const std::vector<NewEntry>& entries) { AppendAndCommit(*store_, entries); }
  ReadOut ReadFrom(const Position& from) { return ReadToEnd(*log_, {.lanes = LanesOf(grants_), .from = from}); }
  /// Appends, takes every lane and reads what was appended.
  std::vector<ReadEvent> AppendAndRead(const std::vector<NewEntry>& entries) {
    Append(entries);
    if (grants_.empty()) grants_ = TakeAll(*log_);
    ReadOut out = ReadFrom(grants_.front().positions.main);
    passed_ = out.at;
    std::vector<ReadEvent> events = std::move(out.events);
    EXPECT_EQ(events.size(), entries.size());
    events.resize(entries.size());
    return events;
  }
  const std::vector<LaneGrant>& grants() const { return grants_; }
  const Position& passed() const { return passed_; }

  /// With positions that have passed everything that was read.
  SettleRequest Progress() const {
    SettleRequest request;
    for (const LaneGrant& grant : grants_) {
      request.progress.push_back({.lease = grant.lease, .positions = {.main = passed_}});
    }
    return request;
  }
  void Settle(std::vector<ParkChange> park, std::vector<Unpark> unpark = {}) {
    SettleRequest request = Progress();
    request.park = std::move(park);
    request.unpark = std::move(unpark);
    EXPECT_THAT(ValueOrThrow(log_->Settle(request)).fenced, IsEmpty());
  }
  ParkChange Park(const ReadEvent& event, ParkedState state) const { return ParkOf(grants_, event, state); }
  ParkChange Failure(const ReadEvent& event, ParkedState state, int attempts = 1) const {
    return FailureOf(grants_, event, state, attempts, "broker_refused");
  }
  Unpark Published(const ReadEvent& event) const { return {LeaseFor(grants_, event.entry), event.entry.seq}; }

  std::vector<BlockedUnit> Units() { return ValueOrThrow(log_->BlockedUnits(LeasesOf(grants_))); }
  std::vector<std::string> Blocked() {
    std::vector<std::string> names;
    for (const BlockedUnit& unit : Units()) names.push_back(unit.unit);
    return names;
  }
  /// Those that may be tried now.
  std::vector<std::string> Due() {
    std::vector<std::string> names;
    for (const BlockedUnit& unit : Units()) {
      if (!unit.dead && unit.due_in == 0s) names.push_back(unit.unit);
    }
    return names;
  }
  /// Parked events that hold back their followers, and those behind them.
  std::int64_t Parked() {
    std::int64_t events = 0;
    for (const BlockedUnit& unit : Units()) events += unit.events;
    return events;
  }
  DueUnit UnitOf(const ReadEvent& event) const { return {LeaseFor(grants_, event.entry), event.envelope.key}; }
  ParkedBatch ReadParked(const std::vector<DueUnit>& units, std::size_t limit = 100, std::size_t bytes = 1'000'000) {
    return ValueOrThrow(log_->ReadParked(units, limit, bytes));
  }
  /// The seqs that come next in the unit of the event.
  std::vector<std::int64_t> NextIn(const ReadEvent& event, std::size_t limit = 100) {
    const ParkedBatch batch = ReadParked({UnitOf(event)}, limit);
    EXPECT_THAT(batch.units, SizeIs(1));
    EXPECT_EQ(batch.page.entries.size(), batch.units.at(0).entries.size());
    std::vector<std::int64_t> seqs;
    for (const ParkedEntry& entry : batch.units.at(0).entries) {
      seqs.push_back(batch.page.entries.at(entry.entry).seq);
      EXPECT_EQ(batch.page.entries.at(entry.entry).event.key, event.envelope.key);
    }
    return seqs;
  }
  std::vector<std::string> Changes(std::size_t limit = 100) {
    std::vector<std::string> names;
    for (const DueUnit& unit : ValueOrThrow(log_->TakeChanges(LeasesOf(grants_), limit))) names.push_back(unit.unit);
    return names;
  }
  ParkChange Waits(const ReadEvent& event, const std::string& topic) const {
    ParkChange change = Park(event, kWaiting);
    change.waits_for = topic;
    change.error_code = "unknown_topic";
    change.error_message = "there is no such topic";
    return change;
  }
  NewEntry Later(NewEntry entry, std::chrono::seconds delay) {
    entry.envelope.available_at = ValueOrThrow(log_->Look()).at + delay;
    return entry;
  }
  DelayChange DelayOf(const ReadEvent& event) const {
    return {.lease = LeaseFor(grants_, event.entry),
            .seq = event.entry.seq,
            .place = event.entry.place,
            .id = event.envelope.id,
            .tenant = event.envelope.tenant,
            .appended_at = event.entry.appended_at,
            .due_at = *event.envelope.available_at,
            .payload_bytes = static_cast<std::int64_t>(event.envelope.payload.size())};
  }
  void Delay(const std::vector<ReadEvent>& events) {
    SettleRequest request = Progress();
    for (const ReadEvent& event : events) request.delay.push_back(DelayOf(event));
    EXPECT_THAT(ValueOrThrow(log_->Settle(request)).fenced, IsEmpty());
  }
  void Undelay(const std::vector<ReadEvent>& events) {
    SettleRequest request;
    for (const ReadEvent& event : events) request.undelay.push_back({DelayOf(event).lease, event.entry.seq});
    EXPECT_THAT(ValueOrThrow(log_->Settle(request)).fenced, IsEmpty());
  }
  DelayedPage ReadDelayed(DelayedPlace from = {}, const std::vector<std::string>& but_tenants = {},
                          std::size_t rows = 100, std::size_t bytes = 1'000'000) {
    const std::vector<LaneLease> leases = LeasesOf(grants_);
    return ValueOrThrow(log_->ReadDelayed(
        {.leases = leases, .but_tenants = but_tenants, .from = from, .rows_max = rows, .bytes_max = bytes}));
  }
  static std::vector<std::int64_t> SeqsOf(const DelayedPage& read) {
    std::vector<std::int64_t> seqs;
    for (const LogEntry& entry : read.page.entries) seqs.push_back(entry.seq);
    return seqs;
  }
  /// Each with how many wait for it.
  std::vector<std::string> WaitingTopics() {
    std::vector<std::string> topics;
    for (const WaitingTopic& topic : ValueOrThrow(log_->WaitingTopics(LeasesOf(grants_), 10))) {
      topics.push_back(topic.topic + " " + std::to_string(topic.events));
    }
    return topics;
  }
  /// The seqs that come next; -1 at the end when there are no more.
  std::vector<std::int64_t> Waiting(const std::string& topic, std::size_t limit = 100, std::size_t bytes = 1'000'000,
                                    const std::vector<std::string>& but_tenants = {}) {
    const Page page = ValueOrThrow(log_->ReadWaiting(topic, LeasesOf(grants_), but_tenants, limit, bytes));
    std::vector<std::int64_t> seqs;
    for (const LogEntry& entry : page.entries) seqs.push_back(entry.seq);
    if (page.caught_up) seqs.push_back(-1);
    return seqs;
  }
  RouteStatus StatusOf(const EventId& id) {
    const auto found = ValueOrThrow(store_->FindMessage(id));
    if (found && found->routes.size() == 1) return found->routes.front();
    ADD_FAILURE() << "no status";
    return {};
  }
  RouteStatus StatusOf(const NewEntry& entry) { return StatusOf(entry.envelope.id); }
  DeliveryState StateOf(const ReadEvent& event) { return StatusOf(event.envelope.id).state; }

 private:
  std::unique_ptr<LogFixture> fixture_ = MakeLogFixture(GetParam());
  std::unique_ptr<OutboxStore> store_ = fixture_->OpenStore();
  std::unique_ptr<OutboxLog> log_ = fixture_->OpenLog("relay-1");
  std::unique_ptr<DeadLetters> operators_ = fixture_->OpenDeadLetters();
  std::vector<LaneGrant> grants_;
  Position passed_;
};

INSTANTIATE_TEST_SUITE_P(Store, OutboxLogParkedContract, ::testing::ValuesIn(LogStores()),
                         [](const auto& test) { return test.param; });

TEST_P(OutboxLogParkedContract, NothingIsSetAsideAtFirst) {
  const auto events = AppendAndRead({SampleEntry("a")});
  EXPECT_THAT(Blocked(), IsEmpty());
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_THAT(NextIn(events[0]), IsEmpty());
}

TEST_P(OutboxLogParkedContract, AFailedEventHoldsBackItsUnitAlone) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("b"), SampleEntry("a")});
  Settle({Failure(events[0], kFailed), Park(events[2], kWaiting)});
  EXPECT_THAT(Blocked(), ElementsAre("a"));
  EXPECT_THAT(Due(), ElementsAre("a"));
  EXPECT_EQ(Parked(), 2);
  const BlockedUnit unit = Units().at(0);
  EXPECT_EQ(unit.lease, LeaseFor(grants(), events[0].entry));
  EXPECT_EQ(unit.tenant, events[0].envelope.tenant);
  EXPECT_EQ(unit.seq, events[0].entry.seq);
  EXPECT_FALSE(unit.dead);
}

TEST_P(OutboxLogParkedContract, UnitsComeBackInOrder) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("b"), SampleEntry("a"), SampleEntry("a")});
  Settle({Park(events[3], kWaiting), Park(events[2], kWaiting), Failure(events[0], kFailed)});
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[0].entry.seq, events[2].entry.seq, events[3].entry.seq));
  EXPECT_THAT(NextIn(events[0], 2), ElementsAre(events[0].entry.seq, events[2].entry.seq));
  Settle({}, {Published(events[0])});
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[2].entry.seq, events[3].entry.seq));
  EXPECT_THAT(Due(), ElementsAre("a")) << "what waited only for its predecessor may go";
  Settle({}, {Published(events[2]), Published(events[3])});
  EXPECT_THAT(Blocked(), IsEmpty());
  EXPECT_EQ(Parked(), 0);
}

TEST_P(OutboxLogParkedContract, ARetryComesWhenItsTimeHasCome) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a")});
  ParkChange failure = Failure(events[0], kFailed);
  failure.retry_after = 60s;
  Settle({failure, Park(events[1], kWaiting)});
  EXPECT_THAT(Blocked(), ElementsAre("a"));
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_THAT(NextIn(events[0]), IsEmpty()) << "nor does its follower overtake it";
  fixture().LetTimePass(61s);
  EXPECT_THAT(Due(), ElementsAre("a"));
  EXPECT_THAT(NextIn(events[0]), SizeIs(2));
}

TEST_P(OutboxLogParkedContract, ReadingStopsBeforeTheDeadAndTheUnready) {
  const auto events = AppendAndRead(
      {SampleEntry("a"), SampleEntry("a"), SampleEntry("a"), SampleEntry("b"), SampleEntry("b"), SampleEntry("b")});
  ParkChange unready = Failure(events[4], kFailed);
  unready.retry_after = 60s;
  Settle({Failure(events[0], kFailed), Failure(events[1], kDead), Park(events[2], kWaiting),
          Park(events[3], kWaiting), unready, Park(events[5], kWaiting)});
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[0].entry.seq));
  EXPECT_THAT(NextIn(events[3]), ElementsAre(events[3].entry.seq));
  Settle({}, {Published(events[0])});
  EXPECT_THAT(Due(), ElementsAre("b")) << "a dead event waits for a person";
  EXPECT_THAT(Blocked(), UnorderedElementsAre("a", "b"));
}

TEST_P(OutboxLogParkedContract, ADeadEventNeedNotHoldItsFollowers) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a")});
  ParkChange dead = Failure(events[0], kDead);
  dead.holds_followers = false;
  Settle({dead, Park(events[1], kWaiting)});
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[1].entry.seq));
  Settle({}, {Published(events[1])});
  EXPECT_THAT(Blocked(), IsEmpty());
  EXPECT_TRUE(ValueOrThrow(operators().Find(events[0].envelope.id)).at(0).skipped);
}

TEST_P(OutboxLogParkedContract, SeveralUnitsAreReadTogetherWithWhatIsLeftOfEach) {
  using Rest = ParkedUnit::Rest;
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("b"), SampleEntry("b"), SampleEntry("c"),
                                     SampleEntry("d"), SampleEntry("d"), SampleEntry("e"), SampleEntry("e")});
  ParkChange later = Failure(events[3], kFailed);
  later.retry_after = 60s;
  Settle({Failure(events[0], kFailed, 2), Failure(events[1], kFailed), Failure(events[2], kDead), later,
          Failure(events[4], kFailed), Park(events[5], kWaiting), Failure(events[6], kFailed),
          Park(events[7], kWaiting)});
  fixture().Erase(events[7].envelope.id);
  std::vector<DueUnit> units;
  for (const std::size_t i : {3U, 0U, 1U, 4U, 6U}) units.push_back(UnitOf(events[i]));
  units.push_back({units[0].lease, "nothing"});
  ParkedBatch batch = ReadParked(units, 1);
  ASSERT_THAT(batch.units, SizeIs(6));
  EXPECT_THAT(batch.units[0].entries, IsEmpty());
  EXPECT_EQ(batch.units[0].rest, Rest::kLater);
  EXPECT_GT(batch.units[0].due_in, 30s);
  ASSERT_THAT(batch.units[1].entries, SizeIs(1));
  EXPECT_EQ(batch.page.entries.at(batch.units[1].entries[0].entry).seq, events[0].entry.seq);
  EXPECT_EQ(batch.units[1].entries[0].attempts, 2);
  EXPECT_EQ(batch.units[1].rest, Rest::kNothing);
  EXPECT_THAT(batch.units[2].entries, SizeIs(1));
  EXPECT_EQ(batch.units[2].rest, Rest::kDead);
  EXPECT_THAT(batch.units[3].entries, SizeIs(1));
  EXPECT_EQ(batch.units[3].rest, Rest::kMore);
  EXPECT_EQ(batch.units[5].rest, Rest::kNothing);
  EXPECT_THAT(batch.units[5].entries, IsEmpty());

  batch = ReadParked(units, 10);
  EXPECT_THAT(batch.units[3].entries, SizeIs(2));
  EXPECT_EQ(batch.units[3].rest, Rest::kNothing);
  EXPECT_THAT(batch.units[4].entries, SizeIs(1));
  EXPECT_EQ(batch.units[4].rest, Rest::kGone);
  EXPECT_EQ(batch.units[4].gone, events[7].envelope.id);

  batch = ReadParked(units, 10, 1);
  EXPECT_THAT(batch.page.entries, SizeIs(1)) << "one, however large";
  EXPECT_THAT(batch.units, SizeIs(2)) << "the others are asked for again";
}

TEST_P(OutboxLogParkedContract, NothingOfOtherLanesIsTold) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("b")});
  Settle({Failure(events[0], kDead), Failure(events[1], kFailed)});
  EXPECT_THAT(ValueOrThrow(log().BlockedUnits(std::span<const LaneLease>())), IsEmpty());
  ValueOrThrow(operators().Retry(DeadLetterFilter{}, {"ann", "fixed"}));
  EXPECT_THAT(ValueOrThrow(log().TakeChanges({}, 10)), IsEmpty());
  EXPECT_THAT(Changes(), UnorderedElementsAre("a", "b"));
}

TEST_P(OutboxLogParkedContract, WhatOperatorsChangeIsToldOnce) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a"), SampleEntry("b"), SampleEntry("c")});
  Settle({Failure(events[0], kDead), Park(events[1], kWaiting), Failure(events[2], kDead)});
  ParkChange failed = Failure(events[3], kFailed);
  failed.retry_after = 60s;
  Settle({failed});
  failed.attempts = 2;
  failed.retry_after = 120s;
  Settle({failed});
  EXPECT_FALSE(ValueOrThrow(log().Beat(kLongLease)).changes) << "a relay needs not be told what it did itself";
  EXPECT_THAT(Changes(), IsEmpty());
  ValueOrThrow(operators().Skip(events[0].envelope.id, {}, {"ann", "later"}));
  ValueOrThrow(operators().Discard(events[2].envelope.id, {}, {"ann", "obsolete"}));
  ValueOrThrow(operators().Retry(events[3].envelope.id, {}, {"ann", "now"}));
  EXPECT_TRUE(ValueOrThrow(log().Beat(kLongLease)).changes);
  EXPECT_THAT(Changes(), UnorderedElementsAre("a", "b", "c"));
  EXPECT_THAT(Changes(), IsEmpty());
  EXPECT_FALSE(ValueOrThrow(log().Beat(kLongLease)).changes);

  const std::vector<DueUnit> units = {UnitOf(events[0]), UnitOf(events[2]), UnitOf(events[3])};
  const std::vector<BlockedUnit> now = ValueOrThrow(log().BlockedUnits(std::span(units)));
  ASSERT_THAT(now, SizeIs(2)) << "nothing holds back b";
  EXPECT_EQ(now[0].unit, "a");
  EXPECT_EQ(now[0].seq, events[1].entry.seq);
  EXPECT_EQ(now[0].events, 1);
  EXPECT_EQ(now[1].unit, "c");
  EXPECT_EQ(now[1].due_in, 0s);
  ValueOrThrow(operators().Retry(events[0].envelope.id, {}, {"ann", "now"}));
  EXPECT_THAT(Changes(1), ElementsAre("a"));
}

TEST_P(OutboxLogParkedContract, AnEventThatIsSetAsideAgainKeepsItsHistory) {
  const auto events = AppendAndRead({SampleEntry("a")});
  Settle({Failure(events[0], kFailed, 1)});
  const DeadLetter first = ValueOrThrow(operators().Find(events[0].envelope.id)).at(0);
  EXPECT_EQ(first.first_failed_at, first.last_failed_at);
  fixture().LetTimePass(60s);
  Settle({FailureOf(grants(), events[0], kDead, 2, "too_large")});
  const DeadLetter second = ValueOrThrow(operators().Find(events[0].envelope.id)).at(0);
  EXPECT_LT(second.first_failed_at, second.last_failed_at);
  EXPECT_EQ(second.attempts, 2);
  EXPECT_EQ(second.error_code, "too_large");
  EXPECT_EQ(second.error_message, "said too_large");
  EXPECT_EQ(second.state, kDead);
  Settle({Park(events[0], kFailed)});
  const ParkedBatch batch = ReadParked({UnitOf(events[0])});
  ASSERT_THAT(batch.units.at(0).entries, SizeIs(1));
  EXPECT_EQ(batch.units[0].entries[0].state, kFailed);
  EXPECT_EQ(ValueOrThrow(operators().Find(events[0].envelope.id)).at(0).error_code, "too_large")
      << "a change without an error is no failure";
}

TEST_P(OutboxLogParkedContract, SaysWhenARowIsGoneFromTheLog) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a")});
  Settle({Failure(events[0], kFailed), Park(events[1], kWaiting)});
  fixture().Erase(events[0].envelope.id);
  const ParkedBatch batch = ReadParked({UnitOf(events[0])});
  EXPECT_THAT(batch.units.at(0).entries, IsEmpty());
  EXPECT_EQ(batch.units[0].rest, ParkedUnit::Rest::kGone);
  EXPECT_EQ(batch.units[0].gone, events[0].envelope.id);
  EXPECT_EQ(ValueOrThrow(operators().Discard(events[0].envelope.id, {}, {"ann", "lost"})), 1);
  EXPECT_THAT(NextIn(events[1]), ElementsAre(events[1].entry.seq)) << "the rest of the unit can still go";
}

// --- What operators do about them
// ------------------------------------------------------------------------------------

TEST_P(OutboxLogParkedContract, ARetriedEventIsDueAtOnce) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a"), SampleEntry("b")});
  ParkChange later = Failure(events[2], kFailed, 3);
  later.retry_after = 1h;
  Settle({Failure(events[0], kDead, 10), Park(events[1], kWaiting), later});
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_EQ(ValueOrThrow(operators().Retry(DeadLetterFilter{}, {"ann", "fixed"})), 2);
  EXPECT_THAT(Due(), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[0].entry.seq, events[1].entry.seq));
  EXPECT_EQ(StatusOf(events[0].envelope.id).attempts, 0);
}

TEST_P(OutboxLogParkedContract, ADiscardedEventLetsItsFollowersGo) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a")});
  Settle({Failure(events[0], kDead), Park(events[1], kWaiting)});
  EXPECT_EQ(ValueOrThrow(operators().Discard(events[0].envelope.id, "main", {"ann", "test data"})), 1);
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[1].entry.seq));
  EXPECT_THAT(Due(), ElementsAre("a"));
  EXPECT_EQ(Parked(), 1) << "what was given up is only a record";
  Settle({Failure(events[0], kFailed)}, {Published(events[1])});
  EXPECT_EQ(StateOf(events[0]), DeliveryState::kDiscarded) << "a late failure does not undo what a person decided";
  EXPECT_THAT(Blocked(), IsEmpty());
}

TEST_P(OutboxLogParkedContract, ASkippedEventLetsItsFollowersGoAndComesBackWhenRetried) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a")});
  Settle({Failure(events[0], kDead), Park(events[1], kWaiting)});
  EXPECT_EQ(ValueOrThrow(operators().Skip(events[0].envelope.id, {}, {"ann", "later"})), 1);
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[1].entry.seq));
  Settle({}, {Published(events[1])});
  EXPECT_THAT(Blocked(), IsEmpty());
  EXPECT_EQ(StateOf(events[0]), DeliveryState::kDead);
  EXPECT_EQ(ValueOrThrow(operators().Retry(events[0].envelope.id, {}, {"ann", "now"})), 1);
  EXPECT_THAT(Due(), ElementsAre("a"));
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[0].entry.seq));
}

// --- What people see
// -------------------------------------------------------------------------------------------------

TEST_P(OutboxLogParkedContract, AnEventGoesFromPendingOverPublishingToPublished) {
  const NewEntry entry = SampleEntry();
  Append({entry});
  EXPECT_EQ(StatusOf(entry).state, DeliveryState::kPending);
  EXPECT_EQ(StatusOf(entry).attempts, 0);
  const auto grants = TakeAll(log(), 10s);
  const Position start = grants.front().positions.main;
  const ReadOut out = ReadToEnd(log(), {.lanes = LanesOf(grants), .from = start});
  SettleAt(log(), grants, start, {}, out.horizon.cursor);
  EXPECT_EQ(StatusOf(entry).state, DeliveryState::kPublishing);
  EXPECT_FALSE(StatusOf(entry).published_at.has_value());
  fixture().LetTimePass(11s);
  EXPECT_EQ(StatusOf(entry).state, DeliveryState::kPending) << "a dead relay publishes nothing";

  const auto again = TakeAll(log());
  SettleAt(log(), again, out.at);
  const RouteStatus published = StatusOf(entry);
  EXPECT_EQ(published.state, DeliveryState::kPublished);
  EXPECT_EQ(published.attempts, 1);
  EXPECT_TRUE(published.published_at.has_value());
}

TEST_P(OutboxLogParkedContract, ATenantApartIsPublishedAsFarAsItsOwnFlow) {
  const NewEntry common = SampleEntry("k");
  const NewEntry apart = OfTenant(SampleEntry("k"), "busy");
  Append({common, apart});
  const auto grants = TakeAll(log());
  const Position start = grants.front().positions.main;
  const ReadOut out = ReadToEnd(log(), {.lanes = LanesOf(grants), .from = start});
  SettleAt(log(), grants, out.at, {{{"busy"}, start}});
  EXPECT_EQ(StatusOf(common).state, DeliveryState::kPublished);
  EXPECT_TRUE(StatusOf(common).published_at.has_value());
  EXPECT_EQ(StatusOf(apart).state, DeliveryState::kPending);
  SettleAt(log(), grants, out.at, {{{"busy"}, out.at}});
  EXPECT_EQ(StatusOf(apart).state, DeliveryState::kPublished);
  EXPECT_TRUE(StatusOf(apart).published_at.has_value());
  SettleAt(log(), grants, out.at);
  EXPECT_EQ(StatusOf(apart).state, DeliveryState::kPublished) << "back among the others";
}

TEST_P(OutboxLogParkedContract, TendingForgetsSettlementsAfterAWeek) {
  const NewEntry entry = SampleEntry();
  Append({entry});
  const auto grants = TakeAll(log());
  SettleAt(log(), grants, ReadToEnd(log(), {.lanes = LanesOf(grants), .from = grants.front().positions.main}).at);
  fixture().LetTimePass(24h * 6);
  EXPECT_EQ(ValueOrThrow(log().Tend()).forgotten, 0);
  // Still there: what ages is when it was settled, not when it was appended, so the time itself is not asked for.
  fixture().LetTimePass(24h * 2);
  EXPECT_GE(ValueOrThrow(log().Tend()).forgotten, 1);
  EXPECT_EQ(StatusOf(entry).state, DeliveryState::kPublished);
  EXPECT_FALSE(StatusOf(entry).published_at.has_value()) << "that it was published is known, when is forgotten";
}

TEST_P(OutboxLogParkedContract, AnEventThatIsSetAsideShowsItsFailure) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("b"), SampleEntry("a"), SampleEntry("c")});
  ParkChange failed = Failure(events[0], kFailed, 3);
  failed.retry_after = 60s;
  Settle({failed, Failure(events[1], kDead, 10), Park(events[2], kWaiting), Failure(events[3], kDead)});
  ValueOrThrow(operators().Discard(events[3].envelope.id, {}, {"ann", "test data"}));
  SettleAt(log(), grants(), ReadFrom(grants().front().positions.main).at);
  EXPECT_EQ(StateOf(events[0]), DeliveryState::kFailed);
  EXPECT_EQ(StateOf(events[1]), DeliveryState::kDead);
  EXPECT_EQ(StateOf(events[2]), DeliveryState::kPending);
  EXPECT_EQ(StateOf(events[3]), DeliveryState::kDiscarded);
  const RouteStatus status = StatusOf(events[0].envelope.id);
  EXPECT_EQ(status.attempts, 3);
  EXPECT_EQ(status.last_error_code, "broker_refused");
  EXPECT_EQ(status.last_error_message, "said broker_refused");
  EXPECT_TRUE(status.next_attempt_at.has_value());
  EXPECT_FALSE(status.published_at.has_value());
  Settle({}, {Published(events[0])});
  EXPECT_EQ(StateOf(events[0]), DeliveryState::kPublished) << "the retry succeeded";
}

// ---- events that wait for their time ----

TEST_P(OutboxLogParkedContract, ADelayedEventIsPendingAndIsNotParked) {
  const auto events = AppendAndRead({Later(SampleEntry("a"), 1h), SampleEntry("a")});
  SettleAt(log(), grants(), ReadFrom(grants().front().positions.main).at);
  Delay({events[0]});
  EXPECT_THAT(Blocked(), IsEmpty());
  const RouteStatus status = StatusOf(events[0].envelope.id);
  EXPECT_EQ(status.state, DeliveryState::kPending);
  EXPECT_EQ(status.attempts, 0);
  EXPECT_EQ(status.next_attempt_at, events[0].envelope.available_at);
  EXPECT_FALSE(status.published_at.has_value());
  EXPECT_EQ(StateOf(events[1]), DeliveryState::kPublished);
  EXPECT_THAT(ValueOrThrow(operators().List({})), IsEmpty());
  Undelay({events[0]});
  EXPECT_EQ(StateOf(events[0]), DeliveryState::kPublished);
}

TEST_P(OutboxLogParkedContract, DelayedEventsAreReadInTheOrderOfTheirTimesWhenTheyAreDue) {
  const auto events = AppendAndRead({Later(SampleEntry("a"), 30s), Later(SampleEntry("b"), 10s),
                                     Later(SampleEntry("c"), 10s), Later(SampleEntry("d"), 9'000h)});
  Delay({events[3], events[2], events[1], events[0]});
  DelayedPage read = ReadDelayed();
  EXPECT_THAT(read.page.entries, IsEmpty());
  EXPECT_TRUE(read.caught_up);
  ASSERT_TRUE(read.next_due_in.has_value());
  EXPECT_LE(*read.next_due_in, 10s);
  fixture().LetTimePass(31s);
  read = ReadDelayed();
  EXPECT_THAT(SeqsOf(read), ElementsAre(events[1].entry.seq, events[2].entry.seq, events[0].entry.seq));
  EXPECT_TRUE(read.caught_up);
  ASSERT_TRUE(read.next_due_in.has_value());
  EXPECT_GT(*read.next_due_in, 8'000h);
  EXPECT_EQ(read.page.entries[0].event.key, "b");
  EXPECT_EQ(read.page.entries[0].event.payload, events[1].envelope.payload);

  const DelayedPage after = ReadDelayed(read.next);
  EXPECT_THAT(after.page.entries, IsEmpty()) << "what was read is not read again";
  EXPECT_TRUE(after.caught_up);
  Undelay({events[1], events[2]});
  EXPECT_THAT(SeqsOf(ReadDelayed()), ElementsAre(events[0].entry.seq));
}

TEST_P(OutboxLogParkedContract, DelayedEventsComeInPagesOfBoundedSize) {
  std::vector<NewEntry> entries;
  for (int i = 0; i < 7; ++i) entries.push_back(Later(SampleEntry("k" + std::to_string(i)), 10s));
  const auto events = AppendAndRead(entries);
  Delay(events);
  fixture().LetTimePass(11s);
  std::vector<std::int64_t> seqs;
  DelayedPage read = ReadDelayed({}, {}, 3);
  EXPECT_THAT(read.page.entries, SizeIs(3));
  EXPECT_FALSE(read.caught_up);
  read = ReadDelayed(read.next, {}, 3);
  EXPECT_THAT(read.page.entries, SizeIs(3));
  read = ReadDelayed(read.next, {}, 3);
  EXPECT_THAT(SeqsOf(read), ElementsAre(events[6].entry.seq));
  EXPECT_TRUE(read.caught_up);
  EXPECT_FALSE(read.next_due_in.has_value());

  read = ReadDelayed({}, {}, 100, 1);
  EXPECT_THAT(SeqsOf(read), ElementsAre(events[0].entry.seq)) << "one, however large";
  EXPECT_FALSE(read.caught_up);
  EXPECT_THAT(SeqsOf(ReadDelayed(read.next, {}, 100, 1)), ElementsAre(events[1].entry.seq));
}

TEST_P(OutboxLogParkedContract, DelayedEventsOfOtherTenantsAndLanesArePassedOver) {
  const auto events = AppendAndRead({OfTenant(Later(SampleEntry("a"), 10s), "x\"\\,{}"),
                                     OfTenant(Later(SampleEntry("b"), 10s), "acme"), Later(SampleEntry("c"), 10s)});
  Delay(events);
  fixture().LetTimePass(11s);
  EXPECT_THAT(SeqsOf(ReadDelayed({}, {"acme", events[0].envelope.tenant})), ElementsAre(events[2].entry.seq));
  const DelayedPage nobodys = ValueOrThrow(log().ReadDelayed({.leases = {}}));
  EXPECT_THAT(nobodys.page.entries, IsEmpty());
}

TEST_P(OutboxLogParkedContract, OnlyTheOwnerOfALaneDelaysAndEndsADelay) {
  const auto events = AppendAndRead({Later(SampleEntry("a"), 10s), Later(SampleEntry("b"), 10s)});
  Delay({events[0]});
  SettleRequest foreign;
  foreign.delay = {DelayOf(events[1])};
  foreign.delay[0].lease.epoch += 1;
  foreign.undelay = {{DelayOf(events[0]).lease, events[0].entry.seq}};
  foreign.undelay[0].lease.epoch += 1;
  ValueOrThrow(log().Settle(foreign));
  fixture().LetTimePass(11s);
  EXPECT_THAT(SeqsOf(ReadDelayed()), ElementsAre(events[0].entry.seq));
}

TEST_P(OutboxLogParkedContract, ADelayedEventThatIsGoneFromTheLogIsNamed) {
  const auto events = AppendAndRead({Later(SampleEntry("a"), 10s), Later(SampleEntry("b"), 10s)});
  Delay(events);
  fixture().Erase(events[0].envelope.id);
  fixture().LetTimePass(11s);
  const DelayedPage read = ReadDelayed();
  EXPECT_THAT(SeqsOf(read), ElementsAre(events[1].entry.seq));
  ASSERT_THAT(read.gone, SizeIs(1));
  EXPECT_EQ(read.gone[0].seq, events[0].entry.seq);
  EXPECT_EQ(read.gone[0].lease, LeaseFor(grants(), events[0].entry));
}

TEST_P(OutboxLogParkedContract, ADelayedEventCanBeGivenUp) {
  const auto events = AppendAndRead({Later(SampleEntry("a"), 10s), Later(SampleEntry("a"), 10s)});
  Delay(events);
  EXPECT_EQ(ValueOrThrow(operators().Discard(events[0].envelope.id, {}, {"ann", "obsolete"})), 1);
  EXPECT_EQ(StateOf(events[0]), DeliveryState::kDiscarded);
  EXPECT_THAT(Blocked(), IsEmpty());
  Delay({events[0]});  // read again after a crash
  fixture().LetTimePass(11s);
  EXPECT_THAT(SeqsOf(ReadDelayed()), ElementsAre(events[1].entry.seq));
  EXPECT_EQ(StateOf(events[0]), DeliveryState::kDiscarded);
}

// ---- what the position has not passed ----

// A relay that died wrote down that an event is parked, waits or is delayed, while an earlier one of its key was on
// its way. Its successor reads both again, and must not send the later one first.
TEST_P(OutboxLogParkedContract, WhatThePositionHasNotPassedIsNotRead) {
  const auto events = AppendAndRead(
      {SampleEntry("a"), SampleEntry("b"), Later(SampleEntry("c"), 10s), OfTenant(SampleEntry("d"), "apart")});
  SettleRequest request;
  request.park = {Failure(events[0], kFailed), Waits(events[1], "lost"), Failure(events[3], kFailed)};
  request.delay = {DelayOf(events[2])};
  EXPECT_THAT(ValueOrThrow(log().Settle(request)).fenced, IsEmpty());
  fixture().LetTimePass(11s);
  EXPECT_THAT(Blocked(), UnorderedElementsAre("a", "d")) << "it is held back all the same";
  EXPECT_THAT(NextIn(events[0]), IsEmpty());
  const ParkedBatch batch = ReadParked({UnitOf(events[0])});
  EXPECT_EQ(batch.units.at(0).rest, ParkedUnit::Rest::kLater);
  EXPECT_GT(batch.units.at(0).due_in, 0s);
  EXPECT_THAT(Waiting("lost"), IsEmpty()) << "and it does not say that there are no more";
  DelayedPage read = ReadDelayed();
  EXPECT_THAT(SeqsOf(read), IsEmpty());
  ASSERT_TRUE(read.behind.has_value());
  EXPECT_EQ(read.behind->seq, events[2].entry.seq);

  SettleAt(log(), grants(), passed(), {{{"apart"}, grants().front().positions.main}});
  EXPECT_THAT(NextIn(events[0]), ElementsAre(events[0].entry.seq));
  EXPECT_THAT(Waiting("lost"), ElementsAre(events[1].entry.seq, -1));
  read = ReadDelayed();
  EXPECT_THAT(SeqsOf(read), ElementsAre(events[2].entry.seq));
  EXPECT_FALSE(read.behind.has_value());
  EXPECT_THAT(NextIn(events[3]), IsEmpty()) << "its tenant stands further back";
  SettleAt(log(), grants(), passed());
  EXPECT_THAT(NextIn(events[3]), ElementsAre(events[3].entry.seq));
}

// ---- events that wait for a topic ----

TEST_P(OutboxLogParkedContract, AnEventThatWaitsForATopicHasNotFailedAndHoldsBackNothing) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a"), SampleEntry("b")});
  Settle({Waits(events[0], "lost"), Waits(events[1], "lost"), Failure(events[2], kDead)});
  EXPECT_THAT(Blocked(), ElementsAre("b"));
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_EQ(Parked(), 1);
  const RouteStatus status = StatusOf(events[0].envelope.id);
  EXPECT_EQ(status.state, DeliveryState::kPending);
  EXPECT_EQ(status.attempts, 0);
  EXPECT_EQ(status.last_error_code, "unknown_topic");
  EXPECT_THAT(ValueOrThrow(operators().List({})), SizeIs(1)) << "the dead one";
}

TEST_P(OutboxLogParkedContract, EventsThatWaitForATopicAreReadInOrder) {
  const auto events =
      AppendAndRead({SampleEntry("a"), SampleEntry("b"), OfTenant(SampleEntry("c"), "t"), SampleEntry("d")});
  EXPECT_THAT(WaitingTopics(), IsEmpty());
  Settle({Waits(events[3], "lost"), Waits(events[2], "lost"), Waits(events[1], "gone"), Waits(events[0], "lost")});
  EXPECT_THAT(WaitingTopics(), ElementsAre("gone 1", "lost 3"));
  EXPECT_THAT(Waiting("lost"), ElementsAre(events[0].entry.seq, events[2].entry.seq, events[3].entry.seq, -1));
  EXPECT_THAT(Waiting("lost", 2), ElementsAre(events[0].entry.seq, events[2].entry.seq)) << "and there are more";
  EXPECT_THAT(Waiting("lost", 3, 1), ElementsAre(events[0].entry.seq)) << "one, however large";
  EXPECT_THAT(Waiting("lost", 10, 1'000'000, {"t"}), ElementsAre(events[0].entry.seq, events[3].entry.seq, -1));
  EXPECT_THAT(Waiting("other"), ElementsAre(-1));
  EXPECT_THAT(ValueOrThrow(log().WaitingTopics({}, 10)), IsEmpty()) << "of no lane";

  Settle({}, {{LeaseFor(grants(), events[0].entry), events[0].entry.seq, "elsewhere"}});
  EXPECT_THAT(Waiting("lost"), SizeIs(4)) << "it was not that topic that it went to";
  Settle({}, {{LeaseFor(grants(), events[0].entry), events[0].entry.seq, "lost"}});
  EXPECT_THAT(Waiting("lost"), ElementsAre(events[2].entry.seq, events[3].entry.seq, -1));
}

TEST_P(OutboxLogParkedContract, AnEventGoesFromFailedToWaitingAndBack) {
  const auto events = AppendAndRead({SampleEntry("a")});
  Settle({Failure(events[0], kFailed)});
  Settle({Waits(events[0], "lost")});
  EXPECT_THAT(Blocked(), IsEmpty());
  EXPECT_THAT(WaitingTopics(), ElementsAre("lost 1"));
  Settle({Failure(events[0], kDead)});
  EXPECT_THAT(Blocked(), ElementsAre("a"));
  EXPECT_THAT(WaitingTopics(), IsEmpty());
}

TEST_P(OutboxLogParkedContract, WaitingEventsAreSentToAnotherTopic) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("b"), SampleEntry("c")});
  Settle({Waits(events[0], "lost"), Waits(events[1], "lost"), Waits(events[2], "gone")});
  RerouteRequest request{.topic = "lost", .to = "found", .waiting = true, .limit = 1};
  const OperatorAction why{.actor = "ops", .reason = "typo"};
  EXPECT_EQ(ValueOrThrow(operators().CountReroute(request)), 2);
  EXPECT_EQ(ValueOrThrow(operators().Reroute(request, why)), 1);
  EXPECT_THAT(WaitingTopics(), ElementsAre("found 1", "gone 1", "lost 1")) << "the first one first";
  EXPECT_THAT(Waiting("found"), ElementsAre(events[0].entry.seq, -1));
  EXPECT_EQ(ValueOrThrow(operators().Reroute(request, why)), 1);
  EXPECT_EQ(ValueOrThrow(operators().Reroute(request, why)), 0);
  EXPECT_EQ(StatusOf(events[0].envelope.id).rerouted_to, "found");
  EXPECT_EQ(StatusOf(events[2].envelope.id).rerouted_to, "");
  Settle({Waits(events[0], "lost")});
  EXPECT_THAT(WaitingTopics(), ElementsAre("found 2", "gone 1")) << "the operator has the last word";
  Settle({}, {{LeaseFor(grants(), events[0].entry), events[0].entry.seq, "found"}});
  EXPECT_EQ(StatusOf(events[0].envelope.id).rerouted_to, "found") << "where it went is known afterwards";
  const auto records = ValueOrThrow(operators().Audit(10));
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].action, "messages.reroute");
  EXPECT_EQ(records[0].target, "1 events of topic lost to found on main");
  EXPECT_EQ(records[0].actor, "ops");
  request.to = "lost";
  EXPECT_FALSE(operators().Reroute(request, why));
}

TEST_P(OutboxLogParkedContract, TendingForgetsAChosenTopicAWeekLaterUnlessTheEventIsParked) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("b"), SampleEntry("c")});
  Settle({Waits(events[0], "lost"), Waits(events[1], "lost"), Waits(events[2], "gone")});
  const OperatorAction why{.actor = "ops", .reason = "typo"};
  const auto to_found = [](std::string topic) {
    return RerouteRequest{.topic = std::move(topic), .to = "found", .waiting = true};
  };
  EXPECT_EQ(ValueOrThrow(operators().Reroute(to_found("lost"), why)), 2);
  EXPECT_EQ(ValueOrThrow(operators().Reroute(to_found("gone"), why)), 1);
  fixture().LetTimePass(24h * 8);
  EXPECT_EQ(ValueOrThrow(operators().Reroute({.topic = "found", .to = "better", .waiting = true, .limit = 1}, why)),
            1);
  const auto grants_now = TakeAll(log());
  const auto published = [&](const ReadEvent& event, const char* topic) {
    SettleRequest request;
    request.unpark = {{LeaseFor(grants_now, event.entry), event.entry.seq, topic}};
    EXPECT_THAT(ValueOrThrow(log().Settle(request)).fenced, IsEmpty());
  };
  published(events[0], "better");
  published(events[1], "found");
  EXPECT_GE(ValueOrThrow(log().Tend()).forgotten, 1);
  EXPECT_EQ(StatusOf(events[0].envelope.id).rerouted_to, "better") << "chosen anew a moment ago";
  EXPECT_EQ(StatusOf(events[1].envelope.id).rerouted_to, "") << "published, and a week has passed";
  EXPECT_EQ(StatusOf(events[2].envelope.id).rerouted_to, "found") << "still parked";
}

TEST_P(OutboxLogParkedContract, DeadEventsAreSentToAnotherTopicWithThoseBehindThem) {
  const auto events = AppendAndRead({SampleEntry("a"), SampleEntry("a"), SampleEntry("b"), SampleEntry("c")});
  const std::string topic = events[0].envelope.topic;
  std::vector<ParkChange> park = {Failure(events[0], kDead), Park(events[1], kWaiting), Failure(events[2], kFailed)};
  for (ParkChange& change : park) change.unit = topic + "/" + change.key;
  Settle(park);
  const RerouteRequest request{.topic = topic, .to = "found"};
  EXPECT_EQ(ValueOrThrow(operators().CountReroute(request)), 2);
  EXPECT_EQ(ValueOrThrow(operators().Reroute(request, {.actor = "ops", .reason = "typo"})), 2);
  EXPECT_THAT(Blocked(), UnorderedElementsAre("found/a", topic + "/b"));
  EXPECT_THAT(Changes(), UnorderedElementsAre(topic + "/a", "found/a"));
  const ParkedBatch batch = ReadParked({{LeaseFor(grants(), events[0].entry), "found/a"}});
  const std::vector<ParkedEntry>& entries = batch.units.at(0).entries;
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(batch.page.entries[0].seq, events[0].entry.seq);
  EXPECT_EQ(entries[0].destination, "found");
  EXPECT_EQ(entries[0].state, kFailed);
  EXPECT_EQ(entries[0].attempts, 0);
  EXPECT_EQ(entries[1].destination, "found");
  EXPECT_EQ(StatusOf(events[1].envelope.id).rerouted_to, "found");
}

TEST_P(OutboxLogParkedContract, TheOrderOfARouteIsKeptWhileEventsAreParkedByIt) {
  const auto events = AppendAndRead({SampleEntry("a")});
  ValueOrThrow(log().KeepOrder("key"));
  ValueOrThrow(log().KeepOrder("tenant"));
  ValueOrThrow(log().KeepOrder("key"));
  Settle({Failure(events[0], kDead)});
  ValueOrThrow(log().KeepOrder("key"));
  const auto refused = log().KeepOrder("tenant");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), "order_changed");
  EXPECT_EQ(refused.error().kind(), ErrorKind::kMisconfigured);
  Settle({}, {Published(events[0])});
  ValueOrThrow(log().KeepOrder("tenant"));
  const auto other = fixture().OpenLog("relay-2");
  ValueOrThrow(log().Beat(kLongLease));
  const auto live = other->KeepOrder("key");
  ASSERT_FALSE(live) << "another relay runs it";
  EXPECT_EQ(live.error().code(), "order_changed");
}

}  // namespace
}  // namespace sealane
