// What the inbox in memory has beyond the contract: calls that fail on request, and a database that never waits.

#include <array>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/inbox_store.hpp"
#include "support/inbox_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using memory::InboxCall;
using memory::InboxFaults;
using Known = Standing::Known;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MemoryInbox : public ::testing::Test {
 protected:
  std::unique_ptr<InboxStore> Open() {
    return memory::MakeInboxStore(database_, "billing", InboxMode::kRecord, clock_, faults_);
  }
  memory::Database& database() { return *database_; }
  InboxFaults& faults() { return *faults_; }

  static Error InDoubt() { return {ErrorKind::kInDoubt, "commit_in_doubt", "the answer was lost"}; }
  static Error Gone() { return {ErrorKind::kUnavailable, "connection_lost", "the connection is gone"}; }

 private:
  ManualClock clock_;
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, std::chrono::milliseconds{0});
  std::shared_ptr<InboxFaults> faults_ = std::make_shared<InboxFaults>();
};

TEST_F(MemoryInbox, ACommitWhoseAnswerIsLostHasHappened) {
  const auto store = Open();
  const Delivery event = DeliveryOf("a", 0);
  const std::array arrivals = {event.arrival()};
  faults().Fail(InboxCall::kFinish, InDoubt(), InboxFaults::When::kAfterTheWork);
  {
    const auto batch = ValueOrThrow(store->Open({.arrivals = arrivals}));
    ValueOrThrow(batch->Execute("INSERT"));
    EXPECT_EQ(batch->Finish(std::array{Processed()}).error().kind(), ErrorKind::kInDoubt);
  }
  EXPECT_EQ(ValueOrThrow(store->Open({.arrivals = arrivals}))->standings().at(0).known, Known::kDone);
  EXPECT_THAT(memory::ExecutedStatements(database()), SizeIs(1));
}

TEST_F(MemoryInbox, ACommitThatNeverGotThereHasNot) {
  const auto store = Open();
  const Delivery event = DeliveryOf("a", 0);
  const std::array arrivals = {event.arrival()};
  faults().Fail(InboxCall::kFinish, InDoubt());
  {
    const auto batch = ValueOrThrow(store->Open({.arrivals = arrivals}));
    ValueOrThrow(batch->Execute("INSERT"));
    EXPECT_EQ(batch->Finish(std::array{Processed()}).error().kind(), ErrorKind::kInDoubt);
  }
  EXPECT_EQ(ValueOrThrow(store->Open({.arrivals = arrivals}))->standings().at(0).known, Known::kNew);
  EXPECT_THAT(memory::ExecutedStatements(database()), IsEmpty());
}

TEST_F(MemoryInbox, AnyCallCanBeTheOneThatFails) {
  const auto store = Open();
  faults().Fail(InboxCall::kLook, Gone(), InboxFaults::When::kInsteadOfTheWork, 2, 1);
  EXPECT_TRUE(store->DueUnits(false, 1).has_value());
  EXPECT_EQ(store->DueUnits(false, 1).error().code(), "connection_lost");
  EXPECT_EQ(store->DueUnits(false, 1).error().code(), "connection_lost");
  EXPECT_TRUE(store->DueUnits(false, 1).has_value());
  EXPECT_EQ(faults().count(InboxCall::kLook), 4);
}

TEST_F(MemoryInbox, ABatchThatWasOpenedAndLostHoldsNothing) {
  const auto store = Open();
  const Delivery event = DeliveryOf("a", 0);
  const std::array arrivals = {event.arrival()};
  faults().Fail(InboxCall::kOpen, Gone(), InboxFaults::When::kAfterTheWork);
  EXPECT_FALSE(store->Open({.arrivals = arrivals}).has_value());
  EXPECT_TRUE(Open()->Open({.arrivals = arrivals}).has_value());
}

TEST_F(MemoryInbox, ADatabaseThatDoesNotWaitSaysThatAnEventIsTaken) {
  const auto one = Open();
  const auto two = Open();
  const Delivery event = DeliveryOf("a", 0);
  const std::array arrivals = {event.arrival()};
  auto batch = ValueOrThrow(one->Open({.arrivals = arrivals}));
  const auto busy = two->Open({.arrivals = arrivals});
  ASSERT_FALSE(busy.has_value());
  EXPECT_EQ(busy.error().kind(), ErrorKind::kConflict);
  batch.reset();
  EXPECT_TRUE(two->Open({.arrivals = arrivals}).has_value());
}

TEST_F(MemoryInbox, AggregatesAreLockedToTheEndOfTheBatch) {
  const auto one = Open();
  const auto two = Open();
  const Delivery first = VersionOf("a", 1, 0);
  const Delivery second = VersionOf("a", 2, 1);
  const Delivery other = VersionOf("b", 1, 2);
  const auto batch = ValueOrThrow(one->Open({.arrivals = std::array{first.arrival()}, .guard_versions = true}));
  EXPECT_FALSE(two->Open({.arrivals = std::array{second.arrival()}, .guard_versions = true}).has_value());
  EXPECT_TRUE(two->Open({.arrivals = std::array{other.arrival()}, .guard_versions = true}).has_value());
  ValueOrThrow(batch->Finish(std::array{Processed(1)}));
  EXPECT_EQ(ValueOrThrow(two->Open({.arrivals = std::array{second.arrival()}, .guard_versions = true}))
                ->standings()
                .at(0)
                .version_seen,
            1);
}

TEST_F(MemoryInbox, AStoreHasOneBatchAtATime) {
  const auto store = Open();
  auto batch = ValueOrThrow(store->Open({}));
  EXPECT_EQ(store->Open({}).error().code(), "transaction_open");
  batch.reset();
  EXPECT_TRUE(store->Open({}).has_value());
}

TEST_F(MemoryInbox, ARestoreTakesBackWhatWasCommittedSinceAndBeginsAnotherLife) {
  const auto store = Open();
  const std::vector<Partition> one = {{"orders", 0}};
  const AttachedPartition owner = ValueOrThrow(store->Attach(one, 0)).at(0);
  ValueOrThrow(store->Place(owner, 5, "topic-1"));
  const auto snapshot = memory::TakeSnapshot(database());

  const Delivery event = DeliveryOf("a", 5);
  const std::array arrivals = {event.arrival()};
  {
    const auto batch = ValueOrThrow(store->Open({.arrivals = arrivals}));
    ValueOrThrow(batch->Execute("INSERT"));
    ValueOrThrow(batch->Finish(std::array{Processed()}));
  }
  const std::array saves = {PositionSave{owner.partition, owner.epoch, 5, 6}};
  EXPECT_THAT(ValueOrThrow(store->SavePositions(saves)), IsEmpty());
  memory::Restore(database(), *snapshot);

  const auto later = Open();
  EXPECT_NE(later->life(), store->life());
  EXPECT_THAT(memory::ExecutedStatements(database()), IsEmpty());
  EXPECT_EQ(ValueOrThrow(later->Open({.arrivals = arrivals}))->standings().at(0).known, Known::kNew);
  EXPECT_THAT(ValueOrThrow(later->SavePositions(std::array{PositionSave{owner.partition, owner.epoch, 6, 7}})),
              SizeIs(1));
  EXPECT_EQ(ValueOrThrow(later->Attach(one, 0)).at(0).next_offset, 5);
}

TEST_F(MemoryInbox, AStoreFromBeforeARestoreIsOfNoUse) {
  const auto store = Open();
  const std::vector<Partition> one = {{"orders", 0}};
  const AttachedPartition owner = ValueOrThrow(store->Attach(one, 0)).at(0);
  const Delivery event = DeliveryOf("a", 0);
  const std::array arrivals = {event.arrival()};
  auto batch = ValueOrThrow(store->Open({.arrivals = arrivals}));
  memory::Restore(database(), *memory::TakeSnapshot(database()));

  const auto finished = batch->Finish(std::array{Processed()});
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(finished.error().code(), "store_changed");
  batch.reset();
  EXPECT_EQ(store->Open({.arrivals = arrivals}).error().code(), "store_changed");
  EXPECT_EQ(store->OpenRetry("a", false, std::chrono::seconds{1}).error().code(), "store_changed");
  EXPECT_EQ(store->Attach(one, 0).error().code(), "store_changed");
  EXPECT_EQ(store->SavePositions({}).error().code(), "store_changed");
  EXPECT_EQ(store->Place(owner, 1, "").error().code(), "store_changed");
  EXPECT_EQ(store->Stop(owner, {"topic_replaced", ""}).error().code(), "store_changed");
  EXPECT_EQ(ValueOrThrow(Open()->Open({.arrivals = arrivals}))->standings().at(0).known, Known::kNew);
}

}  // namespace
}  // namespace sealane
