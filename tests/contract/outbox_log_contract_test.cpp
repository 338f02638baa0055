// What every outbox promises to relays: a lane has one owner at a time, what is read is what was committed, each
// event once and in order, and progress is written whole or not at all.

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
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
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

std::vector<std::string> IdsOf(const std::vector<ReadEvent>& events) {
  std::vector<std::string> ids;
  for (const ReadEvent& event : events) ids.push_back(event.envelope.id.ToString());
  return ids;
}

std::vector<std::string> IdsOf(const std::vector<NewEntry>& entries) {
  std::vector<std::string> ids;
  for (const NewEntry& entry : entries) ids.push_back(entry.envelope.id.ToString());
  return ids;
}

/// Events of eleven keys, `count` of them.
std::vector<NewEntry> ManyEntries(int count) {
  std::vector<NewEntry> entries;
  for (int i = 0; i < count; ++i) entries.push_back(SampleEntry("k" + std::to_string(i % 11)));
  return entries;
}

class OutboxLogContract : public ::testing::TestWithParam<std::string> {
 protected:
  LogFixture& fixture() { return *fixture_; }
  OutboxStore& store() { return *store_; }
  OutboxLog& log() { return *log_; }
  std::unique_ptr<OutboxLog> OtherRelay() { return fixture_->OpenLog("relay-2"); }
  void Append(const std::vector<NewEntry>& entries) { AppendAndCommit(*store_, entries); }
  /// Everything in the log after `from`, read with all lanes.
  ReadOut ReadFrom(const Position& from) { return ReadToEnd(*log_, {.lanes = AllLanes(), .from = from}); }
  const std::vector<Lane>& AllLanes() const { return lanes_; }
  RouteStatus StatusOf(const NewEntry& entry, const std::string& route = "main") {
    const auto found = ValueOrThrow(store_->FindMessage(entry.envelope.id));
    if (found) {
      for (const RouteStatus& status : found->routes) {
        if (status.route == route) return status;
      }
    }
    ADD_FAILURE() << "no status on " << route;
    return {};
  }

 private:
  std::vector<Lane> CountLanes() {
    const auto visitor = fixture_->OpenLog("visitor");
    std::vector<Lane> lanes(static_cast<std::size_t>(ValueOrThrow(visitor->Beat(kLongLease)).lanes));
    std::iota(lanes.begin(), lanes.end(), 0);
    ValueOrThrow(visitor->Leave());
    return lanes;
  }

  std::unique_ptr<LogFixture> fixture_ = MakeLogFixture(GetParam());
  std::unique_ptr<OutboxStore> store_ = fixture_->OpenStore();
  std::unique_ptr<OutboxLog> log_ = fixture_->OpenLog("relay-1");
  const std::vector<Lane> lanes_ = CountLanes();
};

INSTANTIATE_TEST_SUITE_P(Store, OutboxLogContract, ::testing::ValuesIn(LogStores()),
                         [](const auto& test) { return test.param; });

// --- Leases
// ----------------------------------------------------------------------------------------------------------

TEST_P(OutboxLogContract, TwoRelaysNeverHoldTheSameLane) {
  const auto other = OtherRelay();
  const auto lanes = static_cast<std::int32_t>(AllLanes().size());
  ASSERT_GE(lanes, 1);
  const auto first = ValueOrThrow(log().Claim(std::max(lanes / 2, 1), kLongLease));
  EXPECT_THAT(first, SizeIs(static_cast<std::size_t>(std::max(lanes / 2, 1))));
  const auto second = TakeAll(*other);
  std::vector<Lane> both = LanesOf(first);
  std::ranges::copy(LanesOf(second), std::back_inserter(both));
  EXPECT_THAT(both, UnorderedElementsAreArray(AllLanes())) << "every lane has one owner";
  EXPECT_THAT(TakeAll(log()), IsEmpty());
  EXPECT_THAT(TakeAll(*other), IsEmpty());
}

TEST_P(OutboxLogContract, ClaimsNothingWhenItMayHaveNothing) {
  EXPECT_THAT(ValueOrThrow(log().Claim(0, kLongLease)), IsEmpty());
  EXPECT_THAT(TakeAll(log()), SizeIs(AllLanes().size()));
}

TEST_P(OutboxLogContract, AnExpiredLaneGoesToTheOtherWithAHigherEpoch) {
  const auto other = OtherRelay();
  const auto before = TakeAll(log(), 10s);
  fixture().LetTimePass(9s);
  EXPECT_THAT(TakeAll(*other), IsEmpty()) << "the first one lives";
  fixture().LetTimePass(2s);
  const auto after = TakeAll(*other);
  ASSERT_THAT(LanesOf(after), UnorderedElementsAreArray(LanesOf(before)));
  for (const LaneGrant& grant : before) {
    const auto taken = std::ranges::find(after, grant.lease.lane, [](const LaneGrant& g) { return g.lease.lane; });
    EXPECT_GT(taken->lease.epoch, grant.lease.epoch);
  }
  EXPECT_THAT(ValueOrThrow(log().Beat(10s)).held, IsEmpty());
}

TEST_P(OutboxLogContract, ABeatKeepsLeasesAlive) {
  const auto other = OtherRelay();
  const auto grants = TakeAll(log(), 10s);
  for (int i = 0; i < 3; ++i) {
    fixture().LetTimePass(8s);
    EXPECT_THAT(ValueOrThrow(log().Beat(10s)).held, UnorderedElementsAreArray(LeasesOf(grants)));
  }
  EXPECT_THAT(TakeAll(*other), IsEmpty());
}

TEST_P(OutboxLogContract, ALeaseThatRanOutIsLostAlsoWhenNobodyTookIt) {
  const auto grants = TakeAll(log(), 10s);
  fixture().LetTimePass(11s);
  EXPECT_THAT(ValueOrThrow(log().Beat(10s)).held, IsEmpty());
  const auto again = TakeAll(log());
  ASSERT_THAT(LanesOf(again), UnorderedElementsAreArray(LanesOf(grants)));
  EXPECT_GT(again.front().lease.epoch, grants.front().lease.epoch);
}

TEST_P(OutboxLogContract, AReleasedLaneIsFreeAtOnce) {
  const auto other = OtherRelay();
  const auto grants = TakeAll(log());
  const std::array first = {grants.front().lease};
  ValueOrThrow(log().Release(first));
  const auto taken = TakeAll(*other);
  ASSERT_THAT(LanesOf(taken), ElementsAre(first[0].lane));
  ValueOrThrow(log().Release(first));
  EXPECT_THAT(ValueOrThrow(other->Beat(kLongLease)).held, ElementsAre(taken.front().lease))
      << "whoever lost a lane cannot release it";
}

TEST_P(OutboxLogContract, CountsWhoIsAlive) {
  const auto other = OtherRelay();
  EXPECT_EQ(ValueOrThrow(log().Beat(10s)).live_relays, 1);
  EXPECT_EQ(ValueOrThrow(other->Beat(60s)).live_relays, 2);
  EXPECT_EQ(ValueOrThrow(fixture().OpenLog("relay-3", "hooks")->Beat(10s)).live_relays, 1) << "of that route";
  fixture().LetTimePass(11s);
  EXPECT_EQ(ValueOrThrow(other->Beat(60s)).live_relays, 1) << "one stopped beating";
  EXPECT_EQ(ValueOrThrow(log().Beat(10s)).live_relays, 2);
}

TEST_P(OutboxLogContract, WhoLeavesIsNotCountedAndOwnsNothing) {
  const auto other = OtherRelay();
  const auto grants = TakeAll(log());
  ValueOrThrow(log().Beat(kLongLease));
  EXPECT_EQ(ValueOrThrow(other->Beat(kLongLease)).live_relays, 2);
  ValueOrThrow(log().Leave());
  EXPECT_EQ(ValueOrThrow(other->Beat(kLongLease)).live_relays, 1);
  EXPECT_THAT(LanesOf(TakeAll(*other)), UnorderedElementsAreArray(LanesOf(grants)));
}

TEST_P(OutboxLogContract, WhoClaimsLives) {
  const auto other = OtherRelay();
  TakeAll(log());
  EXPECT_EQ(ValueOrThrow(other->Beat(kLongLease)).live_relays, 2) << "without a heartbeat";
}

TEST_P(OutboxLogContract, ALeaseCoversWhatWasClaimedBeforeAndAfter) {
  const auto lanes = static_cast<std::int32_t>(AllLanes().size());
  if (lanes == 1) return;
  const auto other = OtherRelay();
  ASSERT_THAT(ValueOrThrow(log().Claim(lanes / 2, 10s)), SizeIs(static_cast<std::size_t>(lanes / 2)));
  fixture().LetTimePass(8s);
  TakeAll(log(), 10s);
  fixture().LetTimePass(8s);
  EXPECT_THAT(TakeAll(*other), IsEmpty());
  EXPECT_THAT(ValueOrThrow(log().Beat(10s)).held, SizeIs(AllLanes().size()));
}

TEST_P(OutboxLogContract, AClaimShortensNoLease) {
  const auto lanes = static_cast<std::int32_t>(AllLanes().size());
  if (lanes == 1) return;
  const auto other = OtherRelay();
  ASSERT_THAT(ValueOrThrow(log().Claim(1, 60s)), SizeIs(1));
  ASSERT_THAT(ValueOrThrow(log().Claim(1, 10s)), SizeIs(1));
  fixture().LetTimePass(30s);
  EXPECT_THAT(TakeAll(*other), SizeIs(static_cast<std::size_t>(lanes - 2)));
}

TEST_P(OutboxLogContract, WhoClaimsAfterItsLeaseRanOutHoldsWhatItGotAlone) {
  const auto other = OtherRelay();
  const auto before = TakeAll(log(), 10s);
  fixture().LetTimePass(11s);
  const auto again = ValueOrThrow(log().Claim(1, kLongLease));
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_GT(again[0].lease.epoch, before[0].lease.epoch);
  EXPECT_THAT(ValueOrThrow(log().Beat(kLongLease)).held, ElementsAre(again[0].lease));
  EXPECT_THAT(TakeAll(*other), SizeIs(AllLanes().size() - 1)) << "the others are free";
}

// Another relay takes a part, and the one that slept wakes up: what is left of its lanes is nobody's.
TEST_P(OutboxLogContract, WhoLostALaneLostAll) {
  const auto other = OtherRelay();
  TakeAll(log(), 10s);
  fixture().LetTimePass(11s);
  const auto taken = ValueOrThrow(other->Claim(1, kLongLease));
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_THAT(ValueOrThrow(log().Beat(kLongLease)).held, IsEmpty());
  EXPECT_THAT(TakeAll(*fixture().OpenLog("relay-3")), SizeIs(AllLanes().size() - 1));
  EXPECT_THAT(ValueOrThrow(other->Beat(kLongLease)).held, ElementsAre(taken[0].lease));
}

TEST_P(OutboxLogContract, TheDeadAreFollowedOneByOne) {
  std::vector<std::unique_ptr<OutboxLog>> relays;
  for (int i = 0; i < 4; ++i) relays.push_back(fixture().OpenLog("heir-" + std::to_string(i)));
  std::int64_t epoch = 0;
  for (int i = 0; i < 12; ++i) {
    OutboxLog& relay = *relays[static_cast<std::size_t>(i) % relays.size()];
    EXPECT_THAT(ValueOrThrow(relay.Beat(10s)).held, IsEmpty());
    const auto grants = TakeAll(relay, 10s);
    ASSERT_THAT(grants, SizeIs(AllLanes().size())) << i;
    EXPECT_GT(grants[0].lease.epoch, epoch);
    epoch = grants[0].lease.epoch;
    fixture().LetTimePass(11s);
  }
}

// A heartbeat and a claim meet where the lease ends, again and again. Each may win, and never both.
TEST_P(OutboxLogContract, AHeartbeatAndAClaimAtTheEndOfALeaseNeverBothWin) {
  if (GetParam() == "memory") return;  // its clock stands still
  const auto other = OtherRelay();
  for (int round = 0; round < 120; ++round) {
    const auto lease = std::chrono::milliseconds{10};
    const auto begun = std::chrono::steady_clock::now();
    ASSERT_THAT(TakeAll(log(), lease), SizeIs(AllLanes().size())) << round;
    const auto at = begun + lease - std::chrono::microseconds{(round % 40) * 250} + std::chrono::milliseconds{5};
    std::vector<LaneLease> held;
    std::vector<LaneGrant> taken;
    std::thread claimer([&] {
      std::this_thread::sleep_until(at);
      taken = TakeAll(*other);
    });
    std::this_thread::sleep_until(at);
    held = ValueOrThrow(log().Beat(kLongLease)).held;
    claimer.join();
    for (const LaneGrant& grant : taken) {
      ASSERT_TRUE(std::ranges::none_of(held, [&](const LaneLease& mine) { return mine.lane == grant.lease.lane; }))
          << "lane " << grant.lease.lane << " has two owners, in round " << round;
    }
    ValueOrThrow(log().Leave());
    ValueOrThrow(other->Leave());
  }
}

TEST_P(OutboxLogContract, TellsWhatOperatorsDecided) {
  Membership membership = ValueOrThrow(log().Beat(kLongLease));
  EXPECT_FALSE(membership.paused);
  EXPECT_THAT(membership.tenants, IsEmpty());
  EXPECT_FALSE(membership.changes);
  const auto operators = fixture().OpenDeadLetters();
  const TenantRule slow{.tenant = "slow", .paused = false, .rate_max = 10, .weight = 3};
  const TenantRule stopped{.tenant = "stopped", .paused = true};
  ValueOrThrow(operators->SetTenant("main", stopped, {"ann", "flood"}));
  ValueOrThrow(operators->SetTenant("main", slow, {"ann", "flood"}));
  ValueOrThrow(operators->SetPaused("main", true, {"ann", "maintenance"}));
  membership = ValueOrThrow(log().Beat(kLongLease));
  EXPECT_TRUE(membership.paused);
  EXPECT_THAT(membership.tenants, ::testing::UnorderedElementsAre(slow, stopped));
  ValueOrThrow(operators->SetPaused("main", false, {"ann", "done"}));
  EXPECT_FALSE(ValueOrThrow(log().Beat(kLongLease)).paused);
}

// --- Reading
// ---------------------------------------------------------------------------------------------------------

TEST_P(OutboxLogContract, ReadsEachEventOnceInOrderWhateverThePageSize) {
  const std::vector<NewEntry> entries = ManyEntries(50);
  Append({entries.begin(), entries.begin() + 20});
  Append({entries.begin() + 20, entries.end()});
  const auto grants = TakeAll(log());
  for (const std::size_t entries_max : {1U, 7U, 1000U}) {
    const ReadOut out = ReadToEnd(
        log(), {.lanes = LanesOf(grants), .from = grants.front().positions.main, .entries_max = entries_max});
    EXPECT_EQ(IdsOf(out.events), IdsOf(entries)) << entries_max;
  }
}

TEST_P(OutboxLogContract, LanesShareTheEventsAmongThem) {
  const std::vector<NewEntry> entries = ManyEntries(60);
  Append(entries);
  const auto grants = TakeAll(log());
  std::vector<std::string> ids;
  for (const LaneGrant& grant : grants) {
    const ReadOut out =
        ReadToEnd(log(), {.lanes = {grant.lease.lane}, .from = grant.positions.main, .entries_max = 5});
    for (const ReadEvent& event : out.events) EXPECT_EQ(event.entry.lane, grant.lease.lane);
    std::ranges::copy(IdsOf(out.events), std::back_inserter(ids));
  }
  EXPECT_THAT(ids, UnorderedElementsAreArray(IdsOf(entries)));
}

TEST_P(OutboxLogContract, GoesOnWhereItWas) {
  const std::vector<NewEntry> entries = ManyEntries(30);
  Position at = TakeAll(log()).front().positions.main;
  std::vector<std::string> ids;
  for (int part = 0; part < 3; ++part) {
    Append({entries.begin() + part * 10, entries.begin() + (part + 1) * 10});
    const ReadOut out = ReadFrom(at);
    EXPECT_THAT(out.events, SizeIs(10));
    std::ranges::copy(IdsOf(out.events), std::back_inserter(ids));
    at = out.at;
    EXPECT_THAT(ReadFrom(at).events, IsEmpty()) << "nothing new";
  }
  EXPECT_EQ(ids, IdsOf(entries));
}

// A relay that gets a lane from another may know less of the log than the lane's position does.
TEST_P(OutboxLogContract, AnOldHorizonDoesNotLeadBack) {
  Append(ManyEntries(10));
  const Position start = TakeAll(log()).front().positions.main;
  const Horizon old = ValueOrThrow(log().Look());
  Append(ManyEntries(10));
  const ReadOut out = ReadFrom(start);
  ASSERT_THAT(out.events, SizeIs(20));

  const Page page = ValueOrThrow(log().Read({.lanes = AllLanes(), .from = &out.at, .horizon = &old}));
  EXPECT_THAT(page.entries, IsEmpty());
  EXPECT_TRUE(page.caught_up);
  EXPECT_THAT(ReadFrom(page.next).events, IsEmpty()) << "what was read came again";
}

TEST_P(OutboxLogContract, KeepsEveryFieldAndByte) {
  const NewEntry full = FullEntry();
  const NewEntry binary = WithPayload(SampleEntry("b"), std::string("\0\xff\n\0", 4));
  Append({full, binary, WithPayload(SampleEntry("e"), "")});
  const ReadOut out = ReadFrom(TakeAll(log()).front().positions.main);
  ASSERT_THAT(out.events, SizeIs(3));
  EXPECT_EQ(out.events[0].envelope, full.envelope);
  EXPECT_EQ(out.events[1].envelope, binary.envelope);
  EXPECT_EQ(out.events[2].envelope.payload, "");
  EXPECT_GT(out.events[0].entry.appended_at, Timestamp{});
  EXPECT_GE(out.horizon.seq_high, out.events[2].entry.seq);
  const auto stored = ValueOrThrow(store().FindMessage(full.envelope.id));
  EXPECT_EQ(stored->seq, out.events[0].entry.seq);
  EXPECT_EQ(stored->lane, out.events[0].entry.lane);
}

TEST_P(OutboxLogContract, PagesStayBelowTheirBytesUnlessOneEventIsLarger) {
  std::vector<NewEntry> entries;
  for (int i = 0; i < 20; ++i) entries.push_back(WithPayload(SampleEntry("k"), std::string(10'000, 'x')));
  entries.push_back(WithPayload(SampleEntry("huge"), std::string(300'000, 'y')));
  entries.push_back(SampleEntry("last"));
  Append(entries);
  const auto grants = TakeAll(log());
  const ReadOut out =
      ReadToEnd(log(), {.lanes = LanesOf(grants), .from = grants.front().positions.main, .bytes_max = 60'000});
  EXPECT_EQ(IdsOf(out.events), IdsOf(entries));
  EXPECT_GE(out.pages, 5);
}

TEST_P(OutboxLogContract, NeverShowsWhatIsNotCommitted) {
  const auto writer = fixture().OpenStore();
  const Position start = TakeAll(log()).front().positions.main;
  const NewEntry undone = SampleEntry("undone");
  const NewEntry late = SampleEntry("late");
  {
    const auto transaction = ValueOrThrow(writer->Begin());
    ValueOrThrow(transaction->Append({&undone, 1}));
    EXPECT_THAT(ReadFrom(start).events, IsEmpty());
    ValueOrThrow(transaction->Rollback());
  }
  EXPECT_THAT(ReadFrom(start).events, IsEmpty());

  const auto transaction = ValueOrThrow(writer->Begin());
  ValueOrThrow(transaction->Append({&late, 1}));
  const Horizon early = ValueOrThrow(log().Look());
  ValueOrThrow(transaction->Commit());
  EXPECT_NE(ValueOrThrow(log().Look()).cursor, early.cursor);
  EXPECT_THAT(IdsOf(ReadFrom(start).events), ElementsAre(late.envelope.id.ToString()));
}

TEST_P(OutboxLogContract, AnOpenTransactionDelaysItsOwnEventsAlone) {
  if (fixture().has_one_writer()) return;  // nobody else can append meanwhile
  const auto writer = fixture().OpenStore();
  const Position start = TakeAll(log()).front().positions.main;
  const NewEntry slow = SampleEntry("slow");
  const NewEntry quick = SampleEntry("quick");
  const auto transaction = ValueOrThrow(writer->Begin());
  ValueOrThrow(transaction->Append({&slow, 1}));
  Append({quick});
  const ReadOut first = ReadFrom(start);
  EXPECT_THAT(IdsOf(first.events), ElementsAre(quick.envelope.id.ToString()));
  ValueOrThrow(transaction->Commit());
  EXPECT_THAT(IdsOf(ReadFrom(first.at).events), ElementsAre(slow.envelope.id.ToString()));
}

TEST_P(OutboxLogContract, ReadsSomeTenantsOrAllButThem) {
  std::vector<NewEntry> entries;
  for (const char* tenant : {"a", "b", "", "c", "a", "b", "it's"}) {
    entries.push_back(OfTenant(SampleEntry(std::string("k-") + tenant), tenant));
  }
  Append(entries);
  const auto grants = TakeAll(log());
  const auto tenants_of = [&](std::vector<std::string> tenants, bool all_but) {
    std::vector<std::string> read;
    for (const ReadEvent& event : ReadToEnd(log(), {.lanes = LanesOf(grants),
                                                   .from = grants.front().positions.main,
                                                   .tenants = std::move(tenants),
                                                   .all_but = all_but,
                                                   .entries_max = 2})
                                      .events) {
      read.push_back(event.envelope.tenant);
    }
    return read;
  };
  EXPECT_THAT(tenants_of({"a"}, false), ElementsAre("a", "a"));
  EXPECT_THAT(tenants_of({"a", "it's"}, false), ElementsAre("a", "a", "it's"));
  EXPECT_THAT(tenants_of({"nobody"}, false), IsEmpty());
  EXPECT_THAT(tenants_of({"a", "b"}, true), ElementsAre("", "c", "it's"));
  EXPECT_THAT(tenants_of({""}, false), ElementsAre(""));
  EXPECT_THAT(tenants_of({}, true), SizeIs(7));
}

// --- Progress
// --------------------------------------------------------------------------------------------------------

TEST_P(OutboxLogContract, PositionsSurviveTheRelay) {
  const std::vector<NewEntry> entries = ManyEntries(10);
  Append(entries);
  const auto grants = TakeAll(log());
  const Position start = grants.front().positions.main;
  const ReadOut out = ReadFrom(start);
  EXPECT_THAT(SettleAt(log(), grants, out.at).fenced, IsEmpty());
  ValueOrThrow(log().Leave());

  const auto successor = OtherRelay();
  const auto taken = TakeAll(*successor);
  ASSERT_THAT(taken, SizeIs(grants.size()));
  for (const LaneGrant& grant : taken) {
    EXPECT_THAT(ReadToEnd(*successor, {.lanes = {grant.lease.lane}, .from = grant.positions.main}).events, IsEmpty());
    EXPECT_THAT(grant.positions.apart, IsEmpty());
  }
}

TEST_P(OutboxLogContract, APositionInTheMiddleOfTheLogSurvivesTheRelay) {
  const std::vector<NewEntry> entries = ManyEntries(10);
  Append(entries);
  const auto grants = TakeAll(log());
  const Horizon horizon = ValueOrThrow(log().Look());
  const std::vector<Lane> lanes = LanesOf(grants);
  ReadRequest request;
  request.lanes = lanes;
  request.from = &grants.front().positions.main;
  request.horizon = &horizon;
  request.entries_max = 4;
  const Page page = ValueOrThrow(log().Read(request));
  SettleAt(log(), grants, page.next);
  ValueOrThrow(log().Leave());

  const auto successor = OtherRelay();
  const auto taken = TakeAll(*successor);
  const ReadOut rest = ReadToEnd(*successor, {.lanes = lanes, .from = taken.front().positions.main});
  EXPECT_EQ(page.entries.size() + rest.events.size(), entries.size());
  std::vector<std::string> ids;
  for (const LogEntry& entry : page.entries) ids.push_back(entry.event.id.ToString());
  std::ranges::copy(IdsOf(rest.events), std::back_inserter(ids));
  EXPECT_EQ(ids, IdsOf(entries));
}

TEST_P(OutboxLogContract, FlowsApartSurviveTheRelay) {
  Append({OfTenant(SampleEntry("k"), "busy"), OfTenant(SampleEntry("k"), "\"quoted\""), SampleEntry("k")});
  const auto grants = TakeAll(log());
  const Position start = grants.front().positions.main;
  const ReadOut out = ReadFrom(start);
  const std::vector<ApartFlow> apart = {{{"busy", "\"quoted\""}, start}, {{"paused"}, out.at}};
  SettleAt(log(), grants, out.at, apart);
  ValueOrThrow(log().Leave());

  const auto successor = OtherRelay();
  for (const LaneGrant& grant : TakeAll(*successor)) {
    ASSERT_THAT(grant.positions.apart, SizeIs(2));
    EXPECT_THAT(grant.positions.apart[0].tenants, ElementsAre("busy", "\"quoted\""));
    EXPECT_THAT(grant.positions.apart[1].tenants, ElementsAre("paused"));
    std::size_t waiting = 0;
    for (const Lane lane : AllLanes()) {
      waiting += ReadToEnd(*successor, {.lanes = {lane},
                                        .from = grant.positions.apart[0].position,
                                        .tenants = {"busy", "\"quoted\""},
                                        .all_but = false})
                     .events.size();
    }
    EXPECT_EQ(waiting, 2U) << "the flow stands where it stood";
    break;
  }
}

TEST_P(OutboxLogContract, ASettleWithAnOldEpochChangesNothing) {
  const std::vector<NewEntry> entries = ManyEntries(3);
  Append(entries);
  const auto old = TakeAll(log(), 10s);
  const ReadOut out = ReadFrom(old.front().positions.main);
  fixture().LetTimePass(11s);
  const auto other = OtherRelay();
  const auto current = TakeAll(*other);
  const ParkChange kept = ParkOf(current, out.events[1], ParkedState::kFailed);
  ValueOrThrow(other->Settle({.progress = {}, .park = {kept}, .unpark = {}}));

  SettleRequest request;
  for (const LaneGrant& grant : old) request.progress.push_back({grant.lease, {out.at}, ""});
  request.park.push_back(ParkOf(old, out.events[0], ParkedState::kDead));
  request.unpark.push_back({LeaseFor(old, out.events[1].entry), out.events[1].entry.seq});
  const SettleReport report = ValueOrThrow(log().Settle(request));
  EXPECT_THAT(report.fenced, UnorderedElementsAreArray(LanesOf(old))) << "each lane once";
  for (const NewEntry& entry : entries) EXPECT_NE(StatusOf(entry).state, DeliveryState::kPublished);
  EXPECT_EQ(StatusOf(entries[0]).state, DeliveryState::kPending);
  EXPECT_EQ(StatusOf(entries[1]).state, DeliveryState::kFailed) << "still set aside";
}

TEST_P(OutboxLogContract, ALostLaneDoesNotHoldUpTheOthersOfASettle) {
  Append(ManyEntries(22));
  const auto grants = TakeAll(log());
  if (grants.size() < 2) return;  // one lane has no others
  const ReadOut out = ReadFrom(grants.front().positions.main);
  const std::array given = {grants.front().lease};
  ValueOrThrow(log().Release(given));
  const auto other = OtherRelay();
  ASSERT_THAT(TakeAll(*other), SizeIs(1));
  EXPECT_THAT(SettleAt(log(), grants, out.at).fenced, ElementsAre(given[0].lane));
  ValueOrThrow(log().Leave());
  for (const LaneGrant& grant : TakeAll(*other)) {
    EXPECT_THAT(ReadToEnd(*other, {.lanes = {grant.lease.lane}, .from = grant.positions.main}).events, IsEmpty());
  }
}

TEST_P(OutboxLogContract, ASettleThatFailsLeavesNothing) {
  const NewEntry entry = SampleEntry();
  Append({entry});
  const auto grants = TakeAll(log());
  const ReadOut out = ReadFrom(grants.front().positions.main);
  SettleRequest request;
  request.park.push_back(ParkOf(grants, out.events[0], ParkedState::kDead));
  request.progress.push_back({LeaseFor(grants, out.events[0].entry), {Position{.cursor = "no position"}}, ""});
  EXPECT_FALSE(log().Settle(request).has_value());
  EXPECT_EQ(StatusOf(entry).state, DeliveryState::kPending);
  EXPECT_THAT(SettleAt(log(), grants, out.at).fenced, IsEmpty()) << "the log still works";
}

TEST_P(OutboxLogContract, EveryRouteHasItsOwnProgress) {
  const NewEntry entry = SampleEntry();
  Append({entry});
  const auto grants = TakeAll(log());
  SettleAt(log(), grants, ReadFrom(grants.front().positions.main).at);
  const auto hooks = fixture().OpenLog("relay-1", "hooks");
  const auto fresh = TakeAll(*hooks);
  ASSERT_THAT(fresh, SizeIs(grants.size()));
  EXPECT_THAT(ReadToEnd(*hooks, {.lanes = LanesOf(fresh), .from = fresh.front().positions.main}).events, SizeIs(1));
  EXPECT_EQ(StatusOf(entry, "main").state, DeliveryState::kPublished);
  EXPECT_EQ(StatusOf(entry, "hooks").state, DeliveryState::kPending);
}

TEST_P(OutboxLogContract, KnowsWhetherOtherRelaysAreDone) {
  const auto done = [&](OutboxLog& asking, const std::vector<LaneLease>& mine) {
    const Horizon horizon = ValueOrThrow(asking.Look());
    return ValueOrThrow(asking.OthersDone(mine, horizon));
  };
  const auto other = OtherRelay();
  EXPECT_TRUE(done(*other, {})) << "nothing was appended yet";
  Append({SampleEntry("a"), SampleEntry("b"), SampleEntry("c")});
  const auto grants = TakeAll(log());
  EXPECT_FALSE(done(*other, {}));
  EXPECT_TRUE(done(log(), LeasesOf(grants))) << "there are no others";

  const ReadOut out = ReadFrom(grants.front().positions.main);
  ASSERT_THAT(out.events, SizeIs(3));
  // A parked event is done; a tenant that stands further back is not.
  SettleRequest request;
  request.park.push_back(ParkOf(grants, out.events[0], ParkedState::kDead));
  for (const LaneGrant& grant : grants) {
    request.progress.push_back({grant.lease, {out.at, {{{"acme"}, grant.positions.main}}}, ""});
  }
  ValueOrThrow(log().Settle(request));
  EXPECT_TRUE(done(*other, {}));
  const Horizon before = ValueOrThrow(other->Look());
  Append({OfTenant(SampleEntry("d"), "acme")});
  EXPECT_FALSE(done(*other, {}));
  EXPECT_TRUE(ValueOrThrow(other->OthersDone({}, before))) << "that one came later";
}

}  // namespace
}  // namespace sealane
