// What every store promises to a producer inside a transaction: all or nothing, in order, unique where asked,
// versions without gaps. (Requests that run once: idempotency_contract_test.cpp.)

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/transaction.hpp"

#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TransactionContract : public ::testing::TestWithParam<std::string> {
 protected:
  OutboxStore& store() { return *store_; }
  std::unique_ptr<OutboxStore> OpenAnother() { return fixture_->Open(); }
  StoreFixture& fixture() { return *fixture_; }

  std::unique_ptr<OwnedTransaction> Begin() { return ValueOrThrow(store_->Begin()); }
  std::vector<Appended> Append(const std::vector<NewEntry>& entries) { return AppendAndCommit(*store_, entries); }
  std::size_t Count() { return CountEvents(*store_); }

  /// Appends in a transaction that is rolled back, and returns the error this gave.
  Error AppendError(const std::vector<NewEntry>& entries) {
    const auto transaction = Begin();
    auto appended = transaction->Append(entries);
    EXPECT_FALSE(appended.has_value());
    return appended ? Error(ErrorKind::kMisuse, "no_error", "") : std::move(appended).error();
  }

  /// Oldest first.
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    for (const StoredMessage& message : ValueOrThrow(store_->ListMessages({}))) {
      keys.insert(keys.begin(), message.envelope.key);
    }
    return keys;
  }

 private:
  std::unique_ptr<StoreFixture> fixture_ = MakeStoreFixture(GetParam());
  std::unique_ptr<OutboxStore> store_ = fixture_->Open();
};

INSTANTIATE_TEST_SUITE_P(Store, TransactionContract, ::testing::Values("memory", "sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

// --- Appending
// ------------------------------------------------------------------------------------------------------

TEST_P(TransactionContract, CommittedEventsAreThere) {
  const auto transaction = Begin();
  const NewEntry entry = SampleEntry();
  const auto appended = ValueOrThrow(transaction->Append({&entry, 1}));
  ValueOrThrow(transaction->Commit());

  EXPECT_THAT(appended, ElementsAre(Appended{entry.envelope.id, false}));
  EXPECT_TRUE(ValueOrThrow(store().FindMessage(entry.envelope.id)).has_value());
}

TEST_P(TransactionContract, RolledBackEventsAreNot) {
  const auto transaction = Begin();
  const NewEntry entry = SampleEntry();
  ValueOrThrow(transaction->Append({&entry, 1}));
  ValueOrThrow(transaction->Rollback());

  EXPECT_FALSE(ValueOrThrow(store().FindMessage(entry.envelope.id)).has_value());
  EXPECT_EQ(Count(), 0U);
}

TEST_P(TransactionContract, DestroyingAnUnfinishedTransactionRollsItBack) {
  const NewEntry entry = SampleEntry();
  { ValueOrThrow(Begin()->Append({&entry, 1})); }
  EXPECT_EQ(Count(), 0U);
  Append({SampleEntry()});  // and the store is ready for the next one
  EXPECT_EQ(Count(), 1U);
}

TEST_P(TransactionContract, KeepsTheOrderOfABatchAndOfCalls) {
  const auto transaction = Begin();
  const std::array batch = {SampleEntry("a"), SampleEntry("b"), SampleEntry("c")};
  ValueOrThrow(transaction->Append(batch));
  const std::array more = {SampleEntry("d"), SampleEntry("e")};
  ValueOrThrow(transaction->Append(more));
  ValueOrThrow(transaction->Commit());
  Append({SampleEntry("f")});

  EXPECT_THAT(Keys(), ElementsAre("a", "b", "c", "d", "e", "f"));
}

TEST_P(TransactionContract, AnEmptyBatchIsNoError) {
  const auto transaction = Begin();
  EXPECT_TRUE(ValueOrThrow(transaction->Append({})).empty());
  ValueOrThrow(transaction->Commit());
  EXPECT_EQ(Count(), 0U);
}

TEST_P(TransactionContract, AnEndedTransactionRefusesEverything) {
  const NewEntry entry = SampleEntry();
  const AggregateName order{"", "order", "o-1"};
  const IdempotencyClaim claim{"", "k", "hash"};
  const auto committed = Begin();
  ValueOrThrow(committed->Commit());

  EXPECT_EQ(committed->Append({&entry, 1}).error().code(), "no_transaction");
  EXPECT_EQ(committed->Append({}).error().code(), "no_transaction");
  EXPECT_EQ(committed->NextVersion(order).error().code(), "no_transaction");
  EXPECT_EQ(committed->AdvanceVersion(order, 0).error().code(), "no_transaction");
  EXPECT_EQ(committed->BeginOnce(claim).error().code(), "no_transaction");
  EXPECT_EQ(committed->CompleteOnce(claim, {}).error().code(), "no_transaction");
  EXPECT_EQ(committed->Append({&entry, 1}).error().kind(), ErrorKind::kMisuse);
  EXPECT_EQ(Count(), 0U);
}

TEST_P(TransactionContract, AFailedBatchWritesNothingOfItself) {
  const EventId taken = FreshId();
  Append({WithOwnId(SampleEntry("first"), taken)});

  const auto transaction = Begin();
  const std::array before = {SampleEntry("before")};
  ValueOrThrow(transaction->Append(before));
  const std::array batch = {WithDedupKey(SampleEntry("good"), "d"), WithOwnId(SampleEntry("bad"), taken)};
  ASSERT_FALSE(transaction->Append(batch).has_value());
  if (fixture().goes_on_after_errors()) {
    // The dedup key of the failed batch is free as well.
    const std::array after = {WithDedupKey(SampleEntry("after"), "d")};
    EXPECT_FALSE(ValueOrThrow(transaction->Append(after)).front().already_there);
    ValueOrThrow(transaction->Commit());
    EXPECT_THAT(Keys(), ElementsAre("first", "before", "after"));
  } else {
    EXPECT_FALSE(transaction->Commit().has_value()) << "a failed transaction must not look committed";
    EXPECT_THAT(Keys(), ElementsAre("first"));
  }
}

// --- Unique where asked
// ---------------------------------------------------------------------------------------------

TEST_P(TransactionContract, RefusesAnOwnIdThatExists) {
  const EventId id = FreshId();
  Append({WithOwnId(SampleEntry(), id)});

  const Error error = AppendError({SampleEntry(), WithOwnId(SampleEntry("other"), id)});
  EXPECT_EQ(error.kind(), ErrorKind::kRejected);
  EXPECT_EQ(error.code(), "duplicate_event_id");
  EXPECT_EQ(error.field(), "id");
  EXPECT_THAT(error.ToString(), HasSubstr(id.ToString()));
  EXPECT_EQ(Count(), 1U);
}

TEST_P(TransactionContract, RefusesAnOwnIdTwiceInOneTransaction) {
  const EventId id = FreshId();
  EXPECT_EQ(AppendError({WithOwnId(SampleEntry(), id), WithOwnId(SampleEntry(), id)}).code(), "duplicate_event_id");

  const auto transaction = Begin();
  const NewEntry entry = WithOwnId(SampleEntry(), id);
  ValueOrThrow(transaction->Append({&entry, 1}));
  EXPECT_EQ(transaction->Append({&entry, 1}).error().code(), "duplicate_event_id");
}

TEST_P(TransactionContract, ARollbackFreesAnOwnId) {
  const NewEntry entry = WithOwnId(SampleEntry(), FreshId());
  { ValueOrThrow(Begin()->Append({&entry, 1})); }
  Append({entry});
  EXPECT_EQ(Count(), 1U);
}

TEST_P(TransactionContract, RefusesASecondEventOfATypeForAVersion) {
  Append({AboutVersion(SampleEntry(), "o-1", 3)});

  const Error error = AppendError({AboutVersion(SampleEntry(), "o-1", 3)});
  EXPECT_EQ(error.kind(), ErrorKind::kRejected);
  EXPECT_EQ(error.code(), "duplicate_version");
  EXPECT_EQ(error.field(), "aggregate_version");
  EXPECT_THAT(error.message(), HasSubstr("o-1"));
  EXPECT_EQ(AppendError({AboutVersion(SampleEntry(), "o-2", 1), AboutVersion(SampleEntry(), "o-2", 1)}).code(),
            "duplicate_version");
  EXPECT_EQ(Count(), 1U);
}

TEST_P(TransactionContract, AVersionIsOfOneTenantAggregateAndType) {
  NewEntry other_type = AboutVersion(SampleEntry(), "o-1", 3);
  other_type.envelope.type = "OrderPaid";
  NewEntry other_aggregate = AboutVersion(SampleEntry(), "o-1", 3);
  other_aggregate.envelope.aggregate.type = "basket";
  Append({AboutVersion(SampleEntry(), "o-1", 3), AboutVersion(SampleEntry(), "o-1", 4),
          AboutVersion(SampleEntry(), "o-2", 3), OfTenant(AboutVersion(SampleEntry(), "o-1", 3), "t2"), other_type,
          other_aggregate});
  EXPECT_EQ(Count(), 6U);
}

TEST_P(TransactionContract, WatchesVersionsOnlyWhenAsked) {
  NewEntry entry = AboutVersion(SampleEntry(), "o-1", 3);
  entry.unique_version = false;
  NewEntry again = entry;
  again.envelope.id = FreshId();
  Append({entry, again});
  EXPECT_EQ(Count(), 2U);
}

TEST_P(TransactionContract, ARepeatedDedupKeyIsNotAppendedAgain) {
  const NewEntry first = WithDedupKey(SampleEntry("first"), "payment-1");
  Append({first});

  const auto again = Append({WithDedupKey(SampleEntry("second"), "payment-1"), SampleEntry("third")});
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0], (Appended{first.envelope.id, true}));
  EXPECT_FALSE(again[1].already_there);
  EXPECT_THAT(Keys(), ElementsAre("first", "third"));
}

TEST_P(TransactionContract, ADedupKeyCountsWithinATransactionAndABatch) {
  const auto transaction = Begin();
  const std::array batch = {WithDedupKey(SampleEntry("a"), "k"), WithDedupKey(SampleEntry("b"), "k")};
  const auto appended = ValueOrThrow(transaction->Append(batch));
  const std::array more = {WithDedupKey(SampleEntry("c"), "k")};
  const auto later = ValueOrThrow(transaction->Append(more));
  ValueOrThrow(transaction->Commit());

  EXPECT_THAT(appended, ElementsAre(Appended{batch[0].envelope.id, false}, Appended{batch[0].envelope.id, true}));
  EXPECT_THAT(later, ElementsAre(Appended{batch[0].envelope.id, true}));
  EXPECT_THAT(Keys(), ElementsAre("a"));
}

TEST_P(TransactionContract, ADedupKeyIsOfOneTenant) {
  Append({WithDedupKey(SampleEntry(), "k"), OfTenant(WithDedupKey(SampleEntry(), "k"), "t2")});
  EXPECT_EQ(Count(), 2U);
}

TEST_P(TransactionContract, PartsOfAUniqueNameDoNotRunTogether) {
  Append({OfTenant(WithDedupKey(SampleEntry(), "bc"), "a"), OfTenant(WithDedupKey(SampleEntry(), "c"), "ab"),
          OfTenant(WithDedupKey(SampleEntry(), "1:c"), "a"), OfTenant(WithDedupKey(SampleEntry(), "c"), "a1:")});
  NewEntry one = AboutVersion(SampleEntry(), "23", 4);
  one.envelope.aggregate.type = "1";
  NewEntry two = AboutVersion(SampleEntry(), "3", 4);
  two.envelope.aggregate.type = "12";
  Append({one, two});
  EXPECT_EQ(Count(), 6U);
}

TEST_P(TransactionContract, ARepeatedDedupKeySkipsTheOtherChecks) {
  const NewEntry entry = WithDedupKey(AboutVersion(WithOwnId(SampleEntry(), FreshId()), "o-1", 1), "k");
  Append({entry});
  EXPECT_THAT(Append({entry}), ElementsAre(Appended{entry.envelope.id, true}));
  EXPECT_EQ(Count(), 1U);
}

TEST_P(TransactionContract, ARollbackFreesADedupKey) {
  const NewEntry entry = WithDedupKey(SampleEntry(), "k");
  { ValueOrThrow(Begin()->Append({&entry, 1})); }
  EXPECT_FALSE(Append({entry}).front().already_there);
}

TEST_P(TransactionContract, AConcurrentAppendWithTheSameDedupKeyFindsTheFirst) {
  const auto transaction = Begin();
  const NewEntry first = WithDedupKey(SampleEntry("first"), "k");
  ValueOrThrow(transaction->Append({&first, 1}));
  std::vector<Appended> second;
  std::thread other([&] { second = AppendAndCommit(*OpenAnother(), {WithDedupKey(SampleEntry("second"), "k")}); });
  ValueOrThrow(transaction->Commit());
  other.join();

  EXPECT_THAT(second, ElementsAre(Appended{first.envelope.id, true}));
  EXPECT_THAT(Keys(), ElementsAre("first"));
}

// --- Versions
// -------------------------------------------------------------------------------------------------------

TEST_P(TransactionContract, CountsVersionsFromOnePerAggregate) {
  const auto transaction = Begin();
  EXPECT_EQ(ValueOrThrow(transaction->NextVersion({"", "order", "o-1"})), 1);
  EXPECT_EQ(ValueOrThrow(transaction->NextVersion({"", "order", "o-1"})), 2);
  EXPECT_EQ(ValueOrThrow(transaction->NextVersion({"", "order", "o-2"})), 1);
  EXPECT_EQ(ValueOrThrow(transaction->NextVersion({"", "basket", "o-1"})), 1);
  EXPECT_EQ(ValueOrThrow(transaction->NextVersion({"t2", "order", "o-1"})), 1);
  ValueOrThrow(transaction->Commit());
  EXPECT_EQ(ValueOrThrow(Begin()->NextVersion({"", "order", "o-1"})), 3);
}

TEST_P(TransactionContract, ARollbackGivesVersionsBack) {
  { EXPECT_EQ(ValueOrThrow(Begin()->NextVersion({"", "order", "o-1"})), 1); }
  EXPECT_EQ(ValueOrThrow(Begin()->NextVersion({"", "order", "o-1"})), 1);
}

TEST_P(TransactionContract, AdvancesAnAggregateThatStandsWhereExpected) {
  const auto transaction = Begin();
  EXPECT_EQ(ValueOrThrow(transaction->AdvanceVersion({"", "order", "o-1"}, 0)), 1);
  EXPECT_EQ(ValueOrThrow(transaction->AdvanceVersion({"", "order", "o-1"}, 1)), 2);
  EXPECT_EQ(ValueOrThrow(transaction->NextVersion({"", "order", "o-1"})), 3);
  EXPECT_EQ(ValueOrThrow(transaction->AdvanceVersion({"", "order", "o-1"}, 3)), 4);
}

TEST_P(TransactionContract, RefusesToAdvanceAnAggregateThatStandsElsewhere) {
  InTransaction(store(), [](Transaction& transaction) -> Status {
    SEALANE_RETURN_IF_ERROR(transaction.NextVersion({"", "order", "o-1"}));
    SEALANE_RETURN_IF_ERROR(transaction.NextVersion({"", "order", "o-1"}));
    return Ok();
  });
  const struct {
    std::string id;
    std::int64_t expected;
  } cases[] = {{"o-1", 0}, {"o-1", 1}, {"o-1", 3}, {"o-2", 1}};
  for (const auto& [id, expected] : cases) {
    const auto advanced = Begin()->AdvanceVersion({"", "order", id}, expected);
    ASSERT_FALSE(advanced.has_value()) << id << " " << expected;
    EXPECT_EQ(advanced.error().kind(), ErrorKind::kConflict);
    EXPECT_EQ(advanced.error().code(), "version_conflict");
  }
  EXPECT_EQ(ValueOrThrow(Begin()->AdvanceVersion({"", "order", "o-1"}, 2)), 3);
}

TEST_P(TransactionContract, ConcurrentWritersOfAnAggregateGetEveryVersionOnce) {
  constexpr int kThreads = 8;
  constexpr int kEach = 12;
  std::vector<std::vector<std::int64_t>> seen(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : seen) {
    threads.emplace_back([&mine, this] {
      const auto own = OpenAnother();
      for (int i = 0; i < kEach; ++i) {
        std::int64_t version = 0;
        InTransaction(*own, [&](Transaction& transaction) -> Status {
          SEALANE_ASSIGN_OR_RETURN(version, transaction.NextVersion({"", "order", "o-1"}));
          const NewEntry entry = AboutVersion(SampleEntry(), "o-1", version);
          SEALANE_RETURN_IF_ERROR(transaction.Append({&entry, 1}));
          return Ok();
        });
        mine.push_back(version);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::set<std::int64_t> all;
  for (const auto& mine : seen) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kThreads * kEach));
  EXPECT_EQ(*all.begin(), 1);
  EXPECT_EQ(*all.rbegin(), kThreads * kEach);
  EXPECT_EQ(Count(), static_cast<std::size_t>(kThreads * kEach));
}

}  // namespace
}  // namespace sealane
