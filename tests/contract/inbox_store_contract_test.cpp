// What every inbox promises about events as they come: an effect and the record that its event was seen commit
// together or not at all, nothing is handled twice, and whoever lost a partition can write nothing about it.

#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.hpp"
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
using ::testing::SizeIs;

/// The events as they are known, in their order.
std::vector<Known> KnownOf(const InboxBatch& batch) {
  std::vector<Known> known;
  for (const Standing& standing : batch.standings()) known.push_back(standing.known);
  return known;
}

// ---- in both modes
// --------------------------------------------------------------------------------------------------

class InboxStoreContract : public ::testing::TestWithParam<std::tuple<std::string, InboxMode>> {
 protected:
  InboxFixture& fixture() { return *fixture_; }
  InboxSeat& seat() { return seat_; }
  InboxMode mode() const { return std::get<1>(GetParam()); }
  bool records() const { return mode() == InboxMode::kRecord; }

 private:
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(std::get<0>(GetParam()));
  InboxSeat seat_{*fixture_, "billing", mode()};
};

INSTANTIATE_TEST_SUITE_P(Store, InboxStoreContract,
                         ::testing::Combine(::testing::ValuesIn(InboxStores()),
                                            ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), ToString(std::get<1>(test.param)));
                         });

// What handlers do in SQL, where there is a database that runs it.
class InboxSqlContract : public InboxStoreContract {};
INSTANTIATE_TEST_SUITE_P(Store, InboxSqlContract,
                         ::testing::Combine(::testing::Values("sqlite", "postgres"),
                                            ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), ToString(std::get<1>(test.param)));
                         });

TEST_P(InboxStoreContract, AnEventThatNeverCameIsNewAndNothingWaits) {
  const Standing standing = seat().Look(VersionOf("a", 1, 0), true);
  EXPECT_EQ(standing.known, Known::kNew);
  EXPECT_FALSE(standing.unit_waits);
  EXPECT_FALSE(standing.unit_waits_for_gap);
  EXPECT_EQ(standing.version_seen, 0);
}

TEST_P(InboxStoreContract, AnEffectIsSeenWhenItsBatchIsFinished) {
  const auto batch = seat().Open({DeliveryOf("a", 0)});
  ValueOrThrow(fixture().Affect(*batch, "paid"));
  EXPECT_THAT(fixture().Effects(), IsEmpty());
  seat().Finish(*batch, {Processed()});
  EXPECT_THAT(fixture().Effects(), ElementsAre("paid"));
}

TEST_P(InboxStoreContract, ADestroyedBatchLeavesNothing) {
  const Delivery event = VersionOf("a", 1, 0);
  {
    const auto batch = seat().Open({event}, true);
    ValueOrThrow(fixture().Affect(*batch, "paid"));
    ValueOrThrow(batch->Append(std::vector{SampleEntry("follow-up")}));
  }
  EXPECT_THAT(fixture().Effects(), IsEmpty());
  EXPECT_EQ(CountEvents(*fixture().OpenOutbox()), 0U);
  const Standing standing = seat().Look(event, true);
  EXPECT_EQ(standing.known, Known::kNew);
  EXPECT_EQ(standing.version_seen, 0);
}

TEST_P(InboxStoreContract, ABatchThatCannotBeFinishedLeavesNothing) {
  const Delivery event = DeliveryOf("a", 0);
  {
    const auto batch = seat().Open({event});
    ValueOrThrow(fixture().Affect(*batch, "paid"));
    EXPECT_FALSE(batch->Finish({}).has_value()) << "there is an event and no outcome";
  }
  EXPECT_THAT(fixture().Effects(), IsEmpty());
  EXPECT_EQ(seat().Look(event).known, Known::kNew);
}

TEST_P(InboxStoreContract, AnAppendedEventIsInTheOutboxWhenItsBatchIsFinished) {
  const auto outbox = fixture().OpenOutbox();
  const auto batch = seat().Open({DeliveryOf("a", 0)});
  const NewEntry entry = SampleEntry("follow-up");
  ValueOrThrow(batch->Append(std::vector{entry}));
  EXPECT_EQ(CountEvents(*outbox), 0U);
  seat().Finish(*batch, {Processed()});
  EXPECT_THAT(ValueOrThrow(outbox->FindMessage(entry.envelope.id)), Optional(::testing::_));
}

TEST_P(InboxStoreContract, VersionsAndIdempotencyWorkInABatch) {
  const AggregateName order{"t", "order", "1"};
  const IdempotencyClaim claim{"t", "key", "hash"};
  {
    const auto batch = seat().Open({DeliveryOf("a", 0)});
    EXPECT_EQ(ValueOrThrow(batch->NextVersion(order)), 1);
    EXPECT_EQ(ValueOrThrow(batch->AdvanceVersion(order, 1)), 2);
    EXPECT_EQ(ValueOrThrow(batch->BeginOnce(claim)).state, IdempotencyState::kNew);
    ValueOrThrow(batch->CompleteOnce(claim, {200, "ok"}));
    seat().Finish(*batch, {Processed()});
  }
  const auto batch = seat().Open({DeliveryOf("a", 1)});
  EXPECT_EQ(ValueOrThrow(batch->NextVersion(order)), 3);
  EXPECT_EQ(ValueOrThrow(batch->BeginOnce(claim)).state, IdempotencyState::kReplay);
}

TEST_P(InboxStoreContract, ATransactionInWhichACallFailedCommitsNothing) {
  const Delivery event = DeliveryOf("a", 0);
  const NewEntry taken = WithOwnId(SampleEntry(), FreshId());
  AppendAndCommit(*fixture().OpenOutbox(), {taken});
  {
    const auto batch = seat().Open({event});
    ValueOrThrow(fixture().Affect(*batch, "paid"));
    EXPECT_FALSE(batch->Append(std::vector{taken}).has_value()) << "the id exists already";
    EXPECT_FALSE(batch->Finish(std::vector{Processed()}).has_value()) << "also when the error was swallowed";
  }
  EXPECT_THAT(fixture().Effects(), IsEmpty());
  EXPECT_EQ(seat().Look(event).known, Known::kNew);
}

TEST_P(InboxSqlContract, HandlersReadAndChangeRows) {
  const auto batch = seat().Open({DeliveryOf("a", 0)});
  for (const char* const what : {"1", "2", "3"}) ValueOrThrow(fixture().Affect(*batch, what));
  const std::string one = fixture().Parameter(1);
  const std::string two = fixture().Parameter(2);
  const std::vector<SqlValue> bounds = {std::string("2"), std::string("x'; --")};
  EXPECT_EQ(
      ValueOrThrow(batch->Execute(
          fmt::format("UPDATE effect SET what = what || '!' WHERE what >= {} AND what <> {}", one, two), bounds)),
      2);
  EXPECT_EQ(ValueOrThrow(batch->Execute("UPDATE effect SET what = 'x' WHERE 1 = 0")), 0);
  const auto rows = ValueOrThrow(batch->Query("SELECT what, NULL FROM effect ORDER BY id"));
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_THAT(rows[0], ElementsAre(Optional(std::string("1")), std::nullopt));
  EXPECT_THAT(rows[2], ElementsAre(Optional(std::string("3!")), std::nullopt));
  EXPECT_THAT(ValueOrThrow(batch->Query("SELECT what FROM effect ORDER BY id", {}, 2)), SizeIs(2));
  seat().Finish(*batch, {Processed()});
  EXPECT_THAT(fixture().Effects(), ElementsAre("1", "2!", "3!"));
}

TEST_P(InboxSqlContract, HandlersBindEveryKindOfValue) {
  const auto batch = seat().Open({DeliveryOf("a", 0)});
  ValueOrThrow(batch->Execute("CREATE TEMPORARY TABLE kinds (missing TEXT, number BIGINT, words TEXT)"));
  const std::vector<SqlValue> values = {std::monostate{}, std::int64_t{1} << 62, std::string("it's")};
  EXPECT_EQ(ValueOrThrow(batch->Execute(fmt::format("INSERT INTO kinds VALUES ({}, {}, {})", fixture().Parameter(1),
                                                    fixture().Parameter(2), fixture().Parameter(3)),
                                        values)),
            1);
  const auto rows = ValueOrThrow(batch->Query("SELECT missing, number, words FROM kinds"));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(rows[0],
              ElementsAre(std::nullopt, Optional(std::string("4611686018427387904")), Optional(std::string("it's"))));
}

TEST_P(InboxSqlContract, AStatementThatFailsLosesTheTransaction) {
  {
    const auto batch = seat().Open({DeliveryOf("a", 0)});
    ValueOrThrow(fixture().Affect(*batch, "paid"));
    EXPECT_FALSE(batch->Execute("INSERT INTO effect (what) VALUES (NULL)").has_value());
    EXPECT_FALSE(batch->Finish(std::vector{Processed()}).has_value());
  }
  EXPECT_THAT(fixture().Effects(), IsEmpty());
}

TEST_P(InboxSqlContract, PostedStatementsKeepTheirOrderWithAllOthers) {
  const auto batch = seat().Open({DeliveryOf("a", 0)});
  const std::string insert = fmt::format("INSERT INTO effect (what) VALUES ({})", fixture().Parameter(1));
  const auto post = [&](const std::string& what) {
    const std::vector<SqlValue> values = {what};
    ASSERT_TRUE(batch->Post(insert, values));
  };
  for (const char* const what : {"1", "2", "3", "4", "5"}) post(what);
  EXPECT_TRUE(batch->Check());
  EXPECT_EQ(ValueOrThrow(batch->Execute("UPDATE effect SET what = what || '!'")), 5);
  post("6");
  EXPECT_THAT(ValueOrThrow(batch->Query("SELECT what FROM effect")), SizeIs(6));
  post("7");
  ValueOrThrow(batch->Append(std::vector{SampleEntry()}));
  post("8");
  EXPECT_TRUE(ValueOrThrow(batch->EnsureOnce("payment", "p-1")));
  post("9");
  EXPECT_TRUE(batch->Settle());
  post("10");
  seat().Finish(*batch, {Processed()});
  EXPECT_THAT(fixture().Effects(), ElementsAre("1!", "2!", "3!", "4!", "5!", "6", "7", "8", "9", "10"));
}

TEST_P(InboxSqlContract, AnyNumberOfStatementsCanBePosted) {
  const auto batch = seat().Open({DeliveryOf("a", 0)});
  const std::string insert = fmt::format("INSERT INTO effect (what) VALUES ({})", fixture().Parameter(1));
  for (int i = 0; i < 2'500; ++i) {
    const std::vector<SqlValue> values = {std::string(500, 'x')};
    ASSERT_TRUE(batch->Post(insert, values));
  }
  seat().Finish(*batch, {Processed()});
  EXPECT_THAT(fixture().Effects(), SizeIs(2'500));
}

TEST_P(InboxSqlContract, APostedStatementThatFailsLosesTheTransaction) {
  const Delivery event = DeliveryOf("a", 0);
  {
    const auto batch = seat().Open({event});
    ValueOrThrow(fixture().Affect(*batch, "paid"));
    static_cast<void>(batch->Post("INSERT INTO effect (what) VALUES (NULL)"));
    static_cast<void>(batch->Post("INSERT INTO effect (what) VALUES ('more')"));
    EXPECT_FALSE(batch->Finish(std::vector{Processed()}).has_value());
  }
  EXPECT_THAT(fixture().Effects(), IsEmpty());
  {
    const auto batch = seat().Open({event});
    static_cast<void>(batch->Post("INSERT INTO effect (what) VALUES (NULL)"));
    // Destroyed as it is.
  }
  EXPECT_EQ(seat().Look(event).known, Known::kNew);
  seat().Handle({event}, {Processed()});
}

TEST_P(InboxSqlContract, NothingPostedEndsTheTransaction) {
  const auto batch = seat().Open({DeliveryOf("a", 0)});
  const Status posted = batch->Post("COMMIT");
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error().code(), "transaction_ended");
}

// From the third time on a statement is prepared, which is another way to the server.
TEST_P(InboxSqlContract, AStatementWithTooFewValuesIsItsHandlersFault) {
  const std::string insert =
      fmt::format("INSERT INTO effect (what) VALUES ({} || {})", fixture().Parameter(1), fixture().Parameter(2));
  const std::vector<SqlValue> values = {std::string("x")};
  for (int time = 1; time <= 4; ++time) {
    const auto batch = seat().Open({DeliveryOf("a", 0)});
    const auto executed = batch->Execute(insert, values);
    ASSERT_FALSE(executed.has_value()) << "time " << time;
    EXPECT_EQ(executed.error().kind(), ErrorKind::kMisuse) << executed.error().ToString();
    EXPECT_EQ(executed.error().code(), "parameters_differ");
  }
  for (int time = 1; time <= 4; ++time) {
    const auto batch = seat().Open({DeliveryOf("a", 0)});
    Status posted = batch->Post(insert, values);
    if (posted) posted = batch->Settle();
    ASSERT_FALSE(posted) << "time " << time;
    EXPECT_EQ(posted.error().kind(), ErrorKind::kMisuse) << posted.error().ToString();
    EXPECT_EQ(posted.error().code(), "parameters_differ");
  }
  seat().Handle({DeliveryOf("a", 0)}, {Processed()});
}

// Nothing of it reached the database, which would commit the rest.
TEST_P(InboxSqlContract, AStatementThatIsRefusedLosesTheTransaction) {
  const Delivery event = DeliveryOf("a", 0);
  for (const bool post : {false, true}) {
    const auto batch = seat().Open({event});
    ValueOrThrow(fixture().Affect(*batch, "paid"));
    if (post) {
      EXPECT_FALSE(batch->Post("COMMIT"));
      EXPECT_FALSE(batch->Check() && batch->Settle());
    } else {
      EXPECT_FALSE(batch->Execute("COMMIT").has_value());
      EXPECT_FALSE(batch->Check());
    }
    EXPECT_FALSE(batch->Finish(std::vector{Processed()}).has_value());
  }
  EXPECT_THAT(fixture().Effects(), IsEmpty());
  seat().Handle({event}, {Processed()});
}

// It would have the client speak another protocol in the middle of its transaction.
TEST_P(InboxSqlContract, NothingIsCopiedThroughTheConnection) {
  for (const char* const copy : {"COPY effect TO STDOUT", "/* all */ copy effect (what) FROM STDIN"}) {
    const auto batch = seat().Open({DeliveryOf("a", 0)});
    Status posted = batch->Post(copy);
    if (posted) posted = batch->Settle();
    ASSERT_FALSE(posted) << copy;
    EXPECT_NE(posted.error().kind(), ErrorKind::kUnavailable) << posted.error().ToString();
    EXPECT_FALSE(batch->Execute(copy).has_value()) << copy;
  }
  seat().Handle({DeliveryOf("a", 0)}, {Processed()});
}

TEST_P(InboxStoreContract, VersionsOfAggregatesAreSeenAndMoved) {
  seat().Handle({VersionOf("a", 1, 0), VersionOf("b", 7, 1)}, {Processed(1), Processed(7)}, true);
  EXPECT_EQ(seat().Look(VersionOf("a", 2, 2), true).version_seen, 1);
  EXPECT_EQ(seat().Look(VersionOf("b", 8, 2), true).version_seen, 7);
  EXPECT_EQ(seat().Look(VersionOf("c", 1, 2), true).version_seen, 0);
  seat().Handle({VersionOf("a", 2, 2), VersionOf("a", 3, 3)}, {Processed(2), Ignored("stale")}, true);
  EXPECT_EQ(seat().Look(VersionOf("a", 4, 4), true).version_seen, 2) << "what says nothing of a version moves none";
}

TEST_P(InboxStoreContract, AggregatesOfTenantsAreDifferent) {
  seat().Handle({VersionOf("a", 1, 0)}, {Processed(1)}, true);
  Delivery other = VersionOf("a", 1, 1);
  other.envelope->tenant = "t";
  EXPECT_EQ(seat().Look(other, true).version_seen, 0);
}

TEST_P(InboxStoreContract, EveryConsumerHasANamespaceOfItsOwn) {
  const Delivery done = VersionOf("a", 1, 0);
  const Delivery failed = DeliveryOf("b", 1);
  seat().Handle({done, failed}, {Processed(1), Failed(1, 0ms)}, true);

  InboxSeat other(fixture(), "shipping", mode());
  const auto batch = other.Open({done, failed}, true);
  EXPECT_THAT(KnownOf(*batch), ElementsAre(Known::kNew, Known::kNew));
  EXPECT_EQ(batch->standings().at(0).version_seen, 0);
  EXPECT_FALSE(batch->standings().at(1).unit_waits);
  other.Finish(*batch, {Processed(1), Processed()});
  EXPECT_THAT(other.Due(), IsEmpty());
  EXPECT_THAT(seat().Due(), ElementsAre("b"));
  EXPECT_EQ(ValueOrThrow(other.store().Count()).parked, 0);
}

TEST_P(InboxStoreContract, AConsumerKeepsItsMode) {
  const InboxMode other = records() ? InboxMode::kOffsets : InboxMode::kRecord;
  const auto opened = fixture().TryOpen("billing", other);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(opened.error().code(), "inbox_mode_differs");
  EXPECT_TRUE(fixture().TryOpen("billing", mode()).has_value());
  EXPECT_TRUE(fixture().TryOpen("shipping", other).has_value());
}

TEST_P(InboxStoreContract, TendingAnEmptyStoreIsFine) {
  EXPECT_TRUE(seat().store().Tend().has_value());
  EXPECT_TRUE(seat().store().Prune(Timestamp{1s}, 10).has_value());
}

// ---- who has a partition
// --------------------------------------------------------------------------------------------

TEST_P(InboxStoreContract, EveryAttachHasAHigherEpoch) {
  const std::vector<Partition> both = {{"invoices", 0}, {"invoices", 1}};
  const auto first = ValueOrThrow(seat().store().Attach(both, 10));
  const auto second = ValueOrThrow(fixture().Open("billing", mode())->Attach(both, 10));
  ASSERT_THAT(first, SizeIs(2));
  ASSERT_THAT(second, SizeIs(2));
  for (std::size_t i = 0; i < both.size(); ++i) {
    EXPECT_EQ(first[i].partition, both[i]);
    EXPECT_EQ(second[i].partition, both[i]);
    EXPECT_GT(second[i].epoch, first[i].epoch);
    EXPECT_EQ(first[i].next_offset, std::nullopt);
    EXPECT_EQ(first[i].deaths, 0);
  }
}

TEST_P(InboxStoreContract, OwnersThatEndWithoutDetachAreCounted) {
  const std::vector<Partition> one = {{"invoices", 0}};
  InboxStore& store = seat().store();
  EXPECT_EQ(ValueOrThrow(store.Attach(one, 0)).at(0).deaths, 0);
  EXPECT_EQ(ValueOrThrow(store.Attach(one, 0)).at(0).deaths, 1);
  const auto third = ValueOrThrow(store.Attach(one, 0));
  EXPECT_EQ(third.at(0).deaths, 2);
  ValueOrThrow(store.Detach(third));
  EXPECT_EQ(ValueOrThrow(store.Attach(one, 0)).at(0).deaths, 0) << "that was a clean end";
  EXPECT_EQ(ValueOrThrow(store.Attach(one, 0)).at(0).deaths, 1);
}

TEST_P(InboxStoreContract, DetachingWhatSomebodyElseHasChangesNothing) {
  const std::vector<Partition> one = {{"invoices", 0}};
  InboxStore& store = seat().store();
  const auto former = ValueOrThrow(store.Attach(one, 0));
  ValueOrThrow(store.Attach(one, 0));
  EXPECT_TRUE(store.Detach(former).has_value());
  EXPECT_EQ(ValueOrThrow(store.Attach(one, 0)).at(0).deaths, 2) << "the second owner did not say goodbye";
}

TEST_P(InboxStoreContract, ACalmPartitionForgetsDeathsAndSuspicion) {
  const std::vector<Partition> one = {{"invoices", 0}};
  InboxStore& store = seat().store();
  ValueOrThrow(store.Suspect(ValueOrThrow(store.Attach(one, 0)).at(0), 5));
  const AttachedPartition second = ValueOrThrow(store.Attach(one, 0)).at(0);
  EXPECT_EQ(second.deaths, 1);
  EXPECT_THAT(second.suspect_offset, Optional(5));
  ValueOrThrow(store.Calm(second));
  const AttachedPartition third = ValueOrThrow(store.Attach(one, 0)).at(0);
  EXPECT_EQ(third.deaths, 1) << "the second one ended without a word after it was calm";
  EXPECT_EQ(third.suspect_offset, std::nullopt);
  EXPECT_EQ(third.suspect_deaths, 0);
}

TEST_P(InboxStoreContract, WhoeverDiesAtAnEventMakesItSuspect) {
  const std::vector<Partition> one = {{"invoices", 0}};
  InboxStore& store = seat().store();
  for (std::int32_t deaths = 0; deaths < 3; ++deaths) {
    const AttachedPartition owner = ValueOrThrow(store.Attach(one, 0)).at(0);
    EXPECT_EQ(owner.suspect_deaths, deaths);
    if (deaths > 0) {
      EXPECT_THAT(owner.suspect_offset, Optional(5));
    }
    ValueOrThrow(store.Suspect(owner, 5));
  }
  ValueOrThrow(store.Suspect(ValueOrThrow(store.Attach(one, 0)).at(0), 6));
  const AttachedPartition last = ValueOrThrow(store.Attach(one, 0)).at(0);
  EXPECT_THAT(last.suspect_offset, Optional(6));
  EXPECT_EQ(last.suspect_deaths, 1) << "another event, another count";
}

TEST_P(InboxStoreContract, WhoeverDiesElsewhereMakesNothingSuspect) {
  const std::vector<Partition> one = {{"invoices", 0}};
  InboxStore& store = seat().store();
  ValueOrThrow(store.Suspect(ValueOrThrow(store.Attach(one, 0)).at(0), 5));
  EXPECT_EQ(ValueOrThrow(store.Attach(one, 0)).at(0).suspect_deaths, 1);
  const AttachedPartition third = ValueOrThrow(store.Attach(one, 0)).at(0);
  EXPECT_EQ(third.deaths, 2);
  EXPECT_EQ(third.suspect_offset, std::nullopt) << "the second one did not come that far";
}

TEST_P(InboxStoreContract, ACleanEndAtAnEventMakesNothingSuspect) {
  const std::vector<Partition> one = {{"invoices", 0}};
  InboxStore& store = seat().store();
  const auto owner = ValueOrThrow(store.Attach(one, 0));
  ValueOrThrow(store.Suspect(owner.at(0), 5));
  ValueOrThrow(store.Detach(owner));
  EXPECT_EQ(ValueOrThrow(store.Attach(one, 0)).at(0).suspect_offset, std::nullopt);
}

TEST_P(InboxStoreContract, AFinishedBatchTakesTheSuspicionFromItsEventsAlone) {
  const AttachedPartition& owner = seat().Attach();
  ValueOrThrow(seat().store().Suspect(owner, 1));
  seat().Handle({DeliveryOf("a", 0)}, {Processed()});
  EXPECT_THAT(seat().Attach().suspect_offset, Optional(1)) << "another event was finished";
  seat().Handle({DeliveryOf("a", 1)}, {Failed(1, 1s)});
  const AttachedPartition& next = seat().Attach();
  EXPECT_EQ(next.suspect_offset, std::nullopt);
  EXPECT_EQ(next.suspect_deaths, 0);
}

TEST_P(InboxStoreContract, AFormerOwnerCannotMakeAnEventSuspect) {
  const std::vector<Partition> one = {{"invoices", 0}};
  InboxStore& store = seat().store();
  const AttachedPartition former = ValueOrThrow(store.Attach(one, 0)).at(0);
  const AttachedPartition owner = ValueOrThrow(store.Attach(one, 0)).at(0);
  ValueOrThrow(store.Suspect(owner, 7));
  static_cast<void>(store.Suspect(former, 3));
  static_cast<void>(store.Calm(former));
  EXPECT_THAT(ValueOrThrow(store.Attach(one, 0)).at(0).suspect_offset, Optional(7));
}

// ---- where a partition stands
// ---------------------------------------------------------------------------------------

/// The invoices of this number, taken over.
AttachedPartition TakeInvoices(InboxStore& store, std::int32_t number = 0) {
  const std::vector<Partition> one = {{"invoices", number}};
  return ValueOrThrow(store.Attach(one, 10)).at(0);
}

/// A step from where the partition stood when it was taken.
PositionSave StepTo(const AttachedPartition& owner, std::int64_t to, std::optional<Witness> witness = {}) {
  return {owner.partition, owner.epoch, owner.next_offset, to, std::move(witness)};
}

std::vector<std::size_t> Save(InboxStore& store, const std::vector<PositionSave>& saves) {
  return ValueOrThrow(store.SavePositions(saves));
}

const Witness kWitness{41, std::string("\x00\xff'0123456789abc", 16)};
const Witness kLaterWitness{99, "0123456789abcdef"};

TEST_P(InboxStoreContract, ANewPartitionIsAsNothingWasSaid) {
  const AttachedPartition owner = TakeInvoices(seat().store());
  EXPECT_EQ(owner.next_offset, std::nullopt);
  EXPECT_EQ(owner.topic_id, "");
  EXPECT_EQ(owner.witness, std::nullopt);
  EXPECT_FALSE(owner.follows_group);
  EXPECT_EQ(owner.stop, std::nullopt);
  EXPECT_EQ(owner.resume, std::nullopt);
}

TEST_P(InboxStoreContract, APositionComesBackWithItsTopicAndItsWitness) {
  InboxStore& store = seat().store();
  const AttachedPartition owner = TakeInvoices(store);
  ValueOrThrow(store.Place(owner, 40, "topic-1"));
  EXPECT_THAT(Save(store, {{owner.partition, owner.epoch, 40, 42, kWitness}}), IsEmpty());
  const AttachedPartition next = TakeInvoices(*fixture().Open("billing", mode()));
  EXPECT_THAT(next.next_offset, Optional(42));
  EXPECT_EQ(next.topic_id, "topic-1");
  EXPECT_THAT(next.witness, Optional(kWitness));
  EXPECT_FALSE(next.follows_group);
}

TEST_P(InboxStoreContract, AWitnessStaysUntilThereIsAnother) {
  InboxStore& store = seat().store();
  const AttachedPartition owner = TakeInvoices(store);
  EXPECT_THAT(Save(store, {{owner.partition, owner.epoch, std::nullopt, 42, kWitness}}), IsEmpty());
  EXPECT_THAT(Save(store, {{owner.partition, owner.epoch, 42, 50}}), IsEmpty());
  const AttachedPartition second = TakeInvoices(store);
  EXPECT_THAT(second.witness, Optional(kWitness));
  EXPECT_THAT(Save(store, {StepTo(second, 100, kLaterWitness)}), IsEmpty());
  EXPECT_THAT(TakeInvoices(store).witness, Optional(kLaterWitness));
}

TEST_P(InboxStoreContract, SavingTellsWhatStandsElsewhereAndLeavesIt) {
  InboxStore& store = seat().store();
  const std::vector<Partition> names = {{"invoices", 0}, {"invoices", 1}, {"invoices", 2}, {"invoices", 3}};
  const auto former = ValueOrThrow(store.Attach(names, 0));
  EXPECT_THAT(Save(store, {StepTo(former[0], 10), StepTo(former[1], 10), StepTo(former[2], 10)}), IsEmpty());
  const std::vector<Partition> taken = {names[1]};
  ValueOrThrow(fixture().Open("billing", mode())->Attach(taken, 0));

  const std::vector<PositionSave> saves = {
      {names[3], former[3].epoch, 5, 20, kWitness},             // has no position
      {names[1], former[1].epoch, 10, 20, kWitness},            // is in another epoch
      {names[0], former[0].epoch, 10, 20, kWitness},            // fits
      {names[2], former[2].epoch, 9, 20, kWitness},             // stands elsewhere
      {{"refunds", 0}, 1, std::nullopt, 20, kWitness},          // was never attached
      {names[2], former[2].epoch, std::nullopt, 20, kWitness},  // has a position
  };
  EXPECT_THAT(Save(store, saves), ElementsAre(0, 1, 3, 4, 5));
  const auto after = ValueOrThrow(store.Attach(names, 0));
  EXPECT_THAT(after[0].next_offset, Optional(20));
  EXPECT_THAT(after[0].witness, Optional(kWitness));
  EXPECT_THAT(after[1].next_offset, Optional(10));
  EXPECT_THAT(after[2].next_offset, Optional(10));
  EXPECT_EQ(after[3].next_offset, std::nullopt);
  for (std::size_t i = 1; i < after.size(); ++i) EXPECT_EQ(after[i].witness, std::nullopt) << i;
}

TEST_P(InboxStoreContract, AStepToTheSamePlaceOnlyCompares) {
  InboxStore& store = seat().store();
  const AttachedPartition owner = TakeInvoices(store);
  EXPECT_THAT(Save(store, {StepTo(owner, 10, kWitness)}), IsEmpty());
  EXPECT_THAT(Save(store, {{owner.partition, owner.epoch, 10, 10, kLaterWitness}}), IsEmpty());
  EXPECT_THAT(Save(store, {{owner.partition, owner.epoch, 11, 11}}), ElementsAre(0));
  EXPECT_THAT(Save(store, {{owner.partition, owner.epoch + 1, 10, 10}}), ElementsAre(0));
  const AttachedPartition next = TakeInvoices(store);
  EXPECT_THAT(next.next_offset, Optional(10));
  EXPECT_THAT(next.witness, Optional(kWitness)) << "nothing is written";
}

TEST_P(InboxStoreContract, ASavedPositionNeverGoesBack) {
  InboxStore& store = seat().store();
  const AttachedPartition owner = TakeInvoices(store);
  const AttachedPartition other = TakeInvoices(store, 1);
  EXPECT_THAT(Save(store, {StepTo(owner, 10)}), IsEmpty());
  const std::vector<PositionSave> saves = {StepTo(other, 5), {owner.partition, owner.epoch, 10, 9}};
  const auto saved = store.SavePositions(saves);
  ASSERT_FALSE(saved.has_value());
  EXPECT_EQ(saved.error().kind(), ErrorKind::kMisuse);
  EXPECT_EQ(saved.error().code(), "progress_backwards");
  EXPECT_THAT(TakeInvoices(store).next_offset, Optional(10));
  EXPECT_EQ(TakeInvoices(store, 1).next_offset, std::nullopt);
}

TEST_P(InboxStoreContract, SavingNothingIsFine) {
  EXPECT_THAT(Save(seat().store(), {}), IsEmpty());
}

TEST_P(InboxStoreContract, PositionsAreOfOneConsumer) {
  const auto other = fixture().Open("shipping", mode());
  const AttachedPartition ours = TakeInvoices(seat().store());
  const AttachedPartition theirs = TakeInvoices(*other);
  EXPECT_THAT(Save(seat().store(), {StepTo(ours, 10)}), IsEmpty());
  ValueOrThrow(seat().store().Stop(ours, {"topic_replaced", "it is another one"}));
  EXPECT_THAT(Save(*other, {StepTo(theirs, 3)}), IsEmpty());
  const AttachedPartition next = TakeInvoices(*other);
  EXPECT_THAT(next.next_offset, Optional(3));
  EXPECT_EQ(next.stop, std::nullopt);
}

TEST_P(InboxStoreContract, PlacingBeginsAnewAlsoFurtherBack) {
  InboxStore& store = seat().store();
  const AttachedPartition owner = TakeInvoices(store);
  ValueOrThrow(store.Place(owner, 100, "topic-1"));
  EXPECT_THAT(Save(store, {{owner.partition, owner.epoch, 100, 101, kWitness}}), IsEmpty());
  ValueOrThrow(store.Stop(owner, {"topic_replaced", "it is another one"}));
  fixture().SetResume("billing", owner.partition, "beginning");
  ValueOrThrow(store.Place(owner, 7, "topic-2"));
  const AttachedPartition next = TakeInvoices(store);
  EXPECT_THAT(next.next_offset, Optional(7));
  EXPECT_EQ(next.topic_id, "topic-2");
  EXPECT_EQ(next.witness, std::nullopt);
  EXPECT_EQ(next.stop, std::nullopt);
  EXPECT_EQ(next.resume, std::nullopt);
  ValueOrThrow(store.Place(next, 7, ""));
  EXPECT_EQ(TakeInvoices(store).topic_id, "") << "not known any more";
}

TEST_P(InboxStoreContract, AStopIsRememberedAndTheFirstCounts) {
  InboxStore& store = seat().store();
  const AttachedPartition owner = TakeInvoices(store);
  EXPECT_THAT(Save(store, {StepTo(owner, 10, kWitness)}), IsEmpty());
  const PartitionStop first{"topic_replaced", "the topic has another id, \"b\" instead of 'a'"};
  ValueOrThrow(store.Stop(owner, first));
  ValueOrThrow(store.Stop(owner, {"position_beyond_end", "later"}));
  for (int i = 0; i < 2; ++i) {
    const AttachedPartition next = TakeInvoices(store);
    EXPECT_THAT(next.stop, Optional(first));
    EXPECT_THAT(next.next_offset, Optional(10)) << "where it stood is kept";
    EXPECT_THAT(next.witness, Optional(kWitness));
    ValueOrThrow(store.Stop(next, {"again", "by the next member"}));
  }
}

TEST_P(InboxStoreContract, AFormerOwnerNeitherPlacesNorStops) {
  InboxStore& store = seat().store();
  const AttachedPartition former = TakeInvoices(store);
  const AttachedPartition owner = TakeInvoices(store);
  EXPECT_EQ(store.Place(former, 7, "topic-1").error().code(), "partition_fenced");
  EXPECT_EQ(store.Stop(former, {"topic_replaced", ""}).error().kind(), ErrorKind::kFenced);
  AttachedPartition never = owner;
  never.partition = {"refunds", 0};
  EXPECT_EQ(store.Place(never, 7, "topic-1").error().kind(), ErrorKind::kFenced);
  EXPECT_EQ(store.Stop(never, {"topic_replaced", ""}).error().kind(), ErrorKind::kFenced);
  const AttachedPartition next = TakeInvoices(store);
  EXPECT_EQ(next.next_offset, std::nullopt);
  EXPECT_EQ(next.stop, std::nullopt);
}

TEST_P(InboxStoreContract, WhatAnOperatorDecidedComesBack) {
  InboxStore& store = seat().store();
  const AttachedPartition owner = TakeInvoices(store);
  for (const char* const from : {"beginning", "group", "42", "2026-03-01T12:00:00.5Z"}) {
    fixture().SetResume("billing", owner.partition, from);
    const std::optional<ResumePoint> resume = TakeInvoices(store).resume;
    ASSERT_TRUE(resume.has_value()) << from;
    EXPECT_EQ(*resume, ParseResumePoint(from)) << from;
  }
}

TEST_P(InboxStoreContract, ALifeIsTheSameForAllThatOpenTheStore) {
  EXPECT_NE(seat().store().life(), "");
  EXPECT_EQ(seat().store().life(), fixture().Open("shipping", mode())->life());
}

TEST_P(InboxStoreContract, WhatIsParkedAsGivenUpHoldsNothingBackAndIsDone) {
  const Delivery event = DeliveryOf("a", 0);
  seat().Handle({event}, {GivenUp("too-old/1")});
  EXPECT_FALSE(seat().Look(DeliveryOf("a", 1)).unit_waits);
  EXPECT_FALSE(seat().Look(DeliveryOf("too-old/1", 1)).unit_waits);
  EXPECT_EQ(seat().Look(Again(event, 1)).known, Known::kDone);
  EXPECT_THAT(seat().Due(), IsEmpty());
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).parked, 0);
  const auto findings = ValueOrThrow(fixture().OpenDesk()->Find("billing", event.id));
  ASSERT_THAT(findings.parked, SizeIs(1));
  EXPECT_EQ(findings.parked[0].state, InboxState::kSkipped);
  EXPECT_EQ(findings.parked[0].error_code, "too_old");
  if (!records()) return;
  ASSERT_THAT(findings.receipts, SizeIs(1));
  EXPECT_EQ(findings.receipts[0].state, InboxState::kSkipped);
}

// ---- a receipt per event
// --------------------------------------------------------------------------------------------

class InboxRecordContract : public ::testing::TestWithParam<std::string> {
 protected:
  InboxFixture& fixture() { return *fixture_; }
  InboxSeat& seat() { return seat_; }

 private:
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(GetParam());
  InboxSeat seat_{*fixture_, "billing", InboxMode::kRecord};
};

INSTANTIATE_TEST_SUITE_P(Store, InboxRecordContract, ::testing::ValuesIn(InboxStores()),
                         [](const auto& test) { return test.param; });

TEST_P(InboxRecordContract, AnEventThatComesAgainIsDone) {
  const Delivery processed = DeliveryOf("a", 0);
  const Delivery ignored = DeliveryOf("b", 1);
  seat().Handle({processed, ignored}, {Processed(), Ignored("no_handler")});
  const auto batch = seat().Open({Again(ignored, 2), DeliveryOf("c", 3), Again(processed, 4)});
  EXPECT_THAT(KnownOf(*batch), ElementsAre(Known::kDone, Known::kNew, Known::kDone));
  seat().Finish(*batch, {{}, Processed(), {}});
  EXPECT_EQ(seat().Look(processed).known, Known::kDone);
}

TEST_P(InboxRecordContract, TheSameIdWithOtherBytesIsFoundOut) {
  Delivery event = DeliveryOf("a", 0);
  seat().Handle({event}, {Processed()});
  event.hash = Sha256("other bytes");
  EXPECT_EQ(seat().Look(event).known, Known::kOtherBytes);
}

TEST_P(InboxRecordContract, AnUnreadableMessageIsDoneLikeAnyOther) {
  const Delivery event = UnreadableDelivery("a", 0);
  seat().Handle({event}, {Ignored("unreadable")});
  EXPECT_EQ(seat().Look(event).known, Known::kDone);
}

TEST_P(InboxRecordContract, WhoFilesAnEventThatIsBeingHandledWaitsAndFindsItDone) {
  const Delivery event = DeliveryOf("a", 0);
  auto batch = seat().Open({event});
  Known known = Known::kNew;
  std::thread second([&] { known = InboxSeat(fixture(), "billing", InboxMode::kRecord).Look(event).known; });
  seat().Finish(*batch, {Processed()});
  second.join();
  EXPECT_EQ(known, Known::kDone);
}

TEST_P(InboxRecordContract, WhoFilesAnEventThatIsRolledBackIsTheFirst) {
  const Delivery event = DeliveryOf("a", 0);
  auto batch = seat().Open({event});
  Known known = Known::kDone;
  std::thread second([&] { known = InboxSeat(fixture(), "billing", InboxMode::kRecord).Look(event).known; });
  batch.reset();
  second.join();
  EXPECT_EQ(known, Known::kNew);
}

TEST_P(InboxRecordContract, ManyThatFileTheSameEventsHandleEachOnce) {
  std::vector<Delivery> events;
  for (int i = 0; i < 10; ++i) events.push_back(DeliveryOf(fmt::format("unit-{}", i), i));
  const auto work = [&](bool backwards) {
    InboxSeat worker(fixture(), "billing", InboxMode::kRecord);
    for (std::size_t i = 0; i < events.size();) {
      const Delivery& event = events.at(backwards ? events.size() - 1 - i : i);
      auto batch = worker.TryOpen({event});
      if (!batch && batch.error().kind() == ErrorKind::kConflict) continue;
      const auto opened = ValueOrThrow(std::move(batch));
      if (opened->standings().at(0).known == Known::kNew) {
        ValueOrThrow(fixture().Affect(*opened, event.unit));
        worker.Finish(*opened, {Processed()});
      }
      ++i;
    }
  };
  std::thread one(work, false);
  std::thread two(work, true);
  one.join();
  two.join();
  EXPECT_THAT(fixture().Effects(), SizeIs(events.size()));
}

TEST_P(InboxRecordContract, ForgottenEventsAreTooOld) {
  const Delivery old = DeliveryOf("a", 0);
  const Delivery young = DeliveryOf("a", 10);
  seat().Handle({old, young}, {Processed(), Ignored("no_handler")});
  const PruneReport report = ValueOrThrow(seat().store().Prune(young.filed_at, 100));
  EXPECT_EQ(report.receipts, 1);
  EXPECT_FALSE(report.more);
  EXPECT_EQ(seat().Look(old).known, Known::kTooOld);
  EXPECT_EQ(seat().Look(DeliveryOf("a", 5)).known, Known::kTooOld) << "it may have been seen";
  EXPECT_EQ(seat().Look(young).known, Known::kDone);
  EXPECT_EQ(seat().Look(DeliveryOf("a", 10)).known, Known::kNew);
}

TEST_P(InboxRecordContract, PruningGoesInSteps) {
  std::vector<Delivery> events;
  for (int i = 0; i < 5; ++i) events.push_back(DeliveryOf("a", i));
  seat().Handle(events, std::vector(5, Processed()));
  const Timestamp before = events.back().filed_at + 1s;
  PruneReport report = ValueOrThrow(seat().store().Prune(before, 3));
  EXPECT_EQ(report.receipts, 3);
  EXPECT_TRUE(report.more);
  report = ValueOrThrow(seat().store().Prune(before, 3));
  EXPECT_EQ(report.receipts, 2);
  EXPECT_FALSE(report.more);
}

TEST_P(InboxRecordContract, TheTimeOfForgettingNeverGoesBack) {
  const Delivery event = DeliveryOf("a", 5);
  ValueOrThrow(seat().store().Prune(event.filed_at + 1s, 10));
  ValueOrThrow(seat().store().Prune(event.filed_at - 1s, 10));
  EXPECT_EQ(seat().Look(event).known, Known::kTooOld);
}

TEST_P(InboxRecordContract, WhatIsTooOldCanBeHandledAllTheSame) {
  const Delivery event = DeliveryOf("a", 5);
  ValueOrThrow(seat().store().Prune(event.filed_at + 1s, 10));
  seat().Handle({event}, {Processed()});
  EXPECT_EQ(seat().Look(event).known, Known::kDone);
}

TEST_P(InboxRecordContract, ParkedEventsOutliveTheirRetention) {
  const Delivery failed = DeliveryOf("a", 0);
  const Delivery dead = DeliveryOf("b", 1);
  seat().Handle({failed, dead}, {Failed(1, 0ms), Died(3)});
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(dead.filed_at + 1h, 100)).receipts, 0);
  EXPECT_EQ(seat().Look(failed).known, Known::kParked);
  EXPECT_EQ(seat().Look(dead).known, Known::kParked);
  EXPECT_EQ(seat().RetryWith("a", Processed()), failed.id);
  EXPECT_EQ(seat().Look(failed).known, Known::kDone);
}

// ---- positions
// ------------------------------------------------------------------------------------------------------

class InboxOffsetsContract : public ::testing::TestWithParam<std::string> {
 protected:
  InboxFixture& fixture() { return *fixture_; }
  InboxSeat& seat() { return seat_; }

 private:
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(GetParam());
  InboxSeat seat_{*fixture_, "billing", InboxMode::kOffsets};
};

INSTANTIATE_TEST_SUITE_P(Store, InboxOffsetsContract, ::testing::ValuesIn(InboxStores()),
                         [](const auto& test) { return test.param; });

TEST_P(InboxOffsetsContract, APositionMovesWithItsBatch) {
  EXPECT_EQ(seat().attached().next_offset, std::nullopt);
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("a", 4)}, {Processed(), Failed(1, 1s)});
  EXPECT_THAT(seat().Attach().next_offset, Optional(5));
  { const auto destroyed = seat().Open({DeliveryOf("a", 5)}); }
  EXPECT_THAT(seat().Attach().next_offset, Optional(5));
}

TEST_P(InboxOffsetsContract, AWitnessIsWrittenWithItsBatch) {
  const AttachedPartition owner = seat().attached();
  const auto move = [&](std::int64_t from, std::int64_t to, std::optional<Witness> witness) {
    const ProgressMove step{owner.partition, owner.epoch, from, to, std::nullopt, std::move(witness)};
    return ValueOrThrow(seat().store().Open({.arrivals = {}, .progress = step}));
  };
  ValueOrThrow(move(0, 42, kWitness)->Finish({}));
  ValueOrThrow(move(42, 50, std::nullopt)->Finish({}));
  { const auto destroyed = move(50, 100, kLaterWitness); }
  const AttachedPartition& next = seat().Attach();
  EXPECT_THAT(next.next_offset, Optional(50));
  EXPECT_THAT(next.witness, Optional(kWitness));
}

TEST_P(InboxOffsetsContract, ABatchGoesOnWhereAPartitionWasPlaced) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("a", 4)}, {Processed(), Processed()});
  ValueOrThrow(seat().store().Place(seat().attached(), 2, "topic-2"));
  EXPECT_EQ(seat().TryOpen({DeliveryOf("a", 5)}).error().code(), "partition_fenced") << "it stands elsewhere now";
  seat().Attach();
  seat().Handle({DeliveryOf("a", 2)}, {Processed()});
  EXPECT_THAT(seat().Attach().next_offset, Optional(3));
}

TEST_P(InboxOffsetsContract, ANewPartitionBeginsWhereItsOwnerSays) {
  const std::vector<Partition> one = {{"invoices", 3}};
  const AttachedPartition owner = ValueOrThrow(seat().store().Attach(one, 10)).at(0);
  const ProgressMove move{owner.partition, owner.epoch, 1'000, 1'010};
  const auto batch = ValueOrThrow(seat().store().Open({.arrivals = {}, .progress = move}));
  ValueOrThrow(batch->Finish({}));
  EXPECT_THAT(ValueOrThrow(seat().store().Attach(one, 10)).at(0).next_offset, Optional(1'010));
}

TEST_P(InboxOffsetsContract, AFormerOwnerIsFenced) {
  seat().Handle({DeliveryOf("a", 0)}, {Processed()});
  InboxSeat successor(fixture(), "billing", InboxMode::kOffsets);
  const auto opened = seat().TryOpen({DeliveryOf("a", 1)});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind(), ErrorKind::kFenced);
  EXPECT_EQ(opened.error().code(), "partition_fenced");
  successor.Handle({DeliveryOf("a", 1)}, {Processed()});
}

TEST_P(InboxOffsetsContract, AnOwnerThatIsWrongAboutThePositionIsFenced) {
  seat().Handle({DeliveryOf("a", 0)}, {Processed()});
  for (const std::int64_t from : {0, 2}) {
    const ProgressMove move{seat().attached().partition, seat().attached().epoch, from, 3};
    const auto opened = seat().store().Open({.arrivals = {}, .progress = move});
    ASSERT_FALSE(opened.has_value()) << from;
    EXPECT_EQ(opened.error().code(), "partition_fenced");
  }
}

TEST_P(InboxOffsetsContract, APositionNeverGoesBack) {
  seat().Handle({DeliveryOf("a", 0), DeliveryOf("a", 4)}, {Processed(), Processed()});
  const ProgressMove move{seat().attached().partition, seat().attached().epoch, 5, 3};
  const auto opened = seat().store().Open({.arrivals = {}, .progress = move});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code(), "progress_backwards");
  EXPECT_THAT(seat().Attach().next_offset, Optional(5));
}

TEST_P(InboxOffsetsContract, WhoNeverAttachedIsFenced) {
  const ProgressMove move{{"invoices", 0}, 1, 0, 1};
  const auto opened = seat().store().Open({.arrivals = {}, .progress = move});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code(), "partition_fenced");
}

TEST_P(InboxOffsetsContract, TheIdsOfTheNewestEventsComeBack) {
  std::vector<Delivery> events;
  for (int i = 0; i < 5; ++i) events.push_back(DeliveryOf("a", i));
  seat().Handle({events[0], events[1]}, {Processed(), Ignored("no_handler")});
  seat().Handle({events[2], events[3]}, {Processed(), Failed(1, 1h)});
  seat().Handle({events[4]}, {Processed()});
  EXPECT_THAT(seat().Attach().recent,
              ElementsAre(events[0].id, events[1].id, events[2].id, events[3].id, events[4].id))
      << "newest last; what is parked is known for the time after its retry";
  EXPECT_THAT(seat().attached().recent_through, SizeIs(5));
  EXPECT_THAT(seat().Attach(2).recent, ElementsAre(events[3].id, events[4].id));
  EXPECT_THAT(seat().attached().recent_through, SizeIs(2));
  EXPECT_THAT(seat().Attach(0).recent, IsEmpty());
}

TEST_P(InboxOffsetsContract, IdsAreForgottenThroughAnOffset) {
  std::vector<Delivery> events;
  for (int i = 0; i < 4; ++i) events.push_back(DeliveryOf("a", i));
  seat().Handle({events[0], events[1]}, {Processed(), Processed()});
  seat().Handle({events[2]}, {Processed()});
  const AttachedPartition before = seat().Attach();
  ASSERT_THAT(before.recent_through, SizeIs(3));
  EXPECT_EQ(before.recent_through[0], before.recent_through[1]) << "they came in one batch";
  EXPECT_LT(before.recent_through[1], before.recent_through[2]);
  seat().ForgetThrough(before.recent_through[1]);
  seat().Handle({events[3]}, {Processed()});
  EXPECT_THAT(seat().Attach().recent, ElementsAre(events[2].id, events[3].id));
}

TEST_P(InboxOffsetsContract, IdsOfPartitionsAreApart) {
  seat().Handle({DeliveryOf("a", 0)}, {Processed()});
  const std::vector<Partition> other = {{"orders", 1}};
  EXPECT_THAT(ValueOrThrow(seat().store().Attach(other, 10)).at(0).recent, IsEmpty());
}

TEST_P(InboxOffsetsContract, AnEventIsNotRememberedBeyondItsPartition) {
  const Delivery event = DeliveryOf("a", 0);
  seat().Handle({event}, {Processed()});
  EXPECT_EQ(seat().Look(Again(event, 1)).known, Known::kNew) << "its owner knows it by the ids of the newest";
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(event.filed_at + 1h, 10)).receipts, 0);
  EXPECT_EQ(seat().Look(Again(event, 1)).known, Known::kNew) << "there are no receipts to forget";
}

}  // namespace
}  // namespace sealane
