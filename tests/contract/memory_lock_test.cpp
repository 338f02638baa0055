// The store in memory lets transactions run side by side; what two of them may not do at once ends in a wait that has
// an end.

#include <array>
#include <chrono>
#include <memory>

#include <gtest/gtest.h>

#include "memory/memory_store.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;

class MemoryLock : public ::testing::Test {
 protected:
  // Waits for nobody, so that a lock in the way shows at once.
  const std::shared_ptr<memory::Database> database_ =
      memory::MakeDatabase(SystemClock::Instance(), std::chrono::milliseconds{0});
  const std::unique_ptr<OutboxStore> one_ = ValueOrThrow(memory::OpenOutboxStore(database_));
  const std::unique_ptr<OutboxStore> two_ = ValueOrThrow(memory::OpenOutboxStore(database_));
};

TEST_F(MemoryLock, AnAggregateBeingCountedIsBusyForOthers) {
  const auto first = ValueOrThrow(one_->Begin());
  const auto second = ValueOrThrow(two_->Begin());
  EXPECT_EQ(ValueOrThrow(first->NextVersion({"", "order", "1"})), 1);
  const auto busy = second->NextVersion({"", "order", "1"});
  ASSERT_FALSE(busy.has_value());
  EXPECT_EQ(busy.error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(busy.error().code(), "store_busy");
  EXPECT_EQ(ValueOrThrow(second->NextVersion({"", "order", "2"})), 1) << "another one is not";
  ValueOrThrow(first->Commit());
  EXPECT_EQ(ValueOrThrow(second->NextVersion({"", "order", "1"})), 2);
}

TEST_F(MemoryLock, ADedupKeyBeingUsedIsBusyForOthers) {
  const auto first = ValueOrThrow(one_->Begin());
  const auto second = ValueOrThrow(two_->Begin());
  const std::array entry = {WithDedupKey(SampleEntry(), "k")};
  ValueOrThrow(first->Append(entry));
  EXPECT_EQ(second->Append(entry).error().code(), "store_busy");
  ValueOrThrow(first->Rollback());
  EXPECT_FALSE(ValueOrThrow(second->Append(entry)).front().already_there);
}

TEST_F(MemoryLock, AnsweringAReplayHoldsNobodyUp) {
  const IdempotencyClaim claim{"t", "k", "hash"};
  InTransaction(*one_, [&](Transaction& transaction) -> Status {
    SEALANE_RETURN_IF_ERROR(transaction.BeginOnce(claim));
    return transaction.CompleteOnce(claim, {200, "ok"});
  });
  const auto first = ValueOrThrow(one_->Begin());
  const auto second = ValueOrThrow(two_->Begin());
  EXPECT_EQ(ValueOrThrow(first->BeginOnce(claim)).state, IdempotencyState::kReplay);
  EXPECT_EQ(ValueOrThrow(second->BeginOnce(claim)).state, IdempotencyState::kReplay);
}

TEST_F(MemoryLock, AStoreHasOneTransactionAtATime) {
  auto transaction = ValueOrThrow(one_->Begin());
  EXPECT_EQ(one_->Begin().error().code(), "transaction_open");
  ValueOrThrow(transaction->Rollback());
  EXPECT_TRUE(one_->Begin().has_value());
}

TEST_F(MemoryLock, SeqIsCommitOrder) {
  const auto first = ValueOrThrow(one_->Begin());
  const auto second = ValueOrThrow(two_->Begin());
  const std::array early = {SampleEntry("appended first, committed last")};
  const std::array late = {SampleEntry("appended last, committed first")};
  ValueOrThrow(first->Append(early));
  ValueOrThrow(second->Append(late));
  ValueOrThrow(second->Commit());
  ValueOrThrow(first->Commit());
  EXPECT_EQ(ValueOrThrow(one_->ListMessages({})).front().envelope.key, "appended first, committed last");
}

}  // namespace
}  // namespace sealane
