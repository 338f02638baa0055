// Protects what a handler may rely on when it wishes for something outside of the database: the task is there exactly
// when the effect of the event is.

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "sealane/tasks.hpp"

#include "inbox/caused_transaction.hpp"
#include "support/inbox_fixture.hpp"

namespace sealane::testing {
namespace {

class TasksInHandlers : public ::testing::TestWithParam<std::string> {
 protected:
  InboxFixture& fixture() { return *fixture_; }
  static Task Charge() {
    return {.target = "billing", .operation = "/charges", .idempotency_key = "o-1", .request = "{\"cents\":5}"};
  }
  /// As a handler of the delivery sees the transaction.
  EnqueuedTask Enqueue(InboxBatch& batch, const Delivery& delivery) const {
    CausedTransaction caused(batch, *delivery.envelope);
    return ValueOrThrow(tasks_.Enqueue(caused, Charge()));
  }
  /// Whether somebody else finds the task.
  bool IsThere() {
    const auto outbox = fixture_->OpenOutbox();
    const auto transaction = ValueOrThrow(outbox->Begin());
    return ValueOrThrow(tasks_.Enqueue(*transaction, Charge())).already_there;
  }

 private:
  Tasks tasks_;
  std::unique_ptr<InboxFixture> fixture_ = MakeInboxFixture(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Store, TasksInHandlers, ::testing::ValuesIn(InboxStores()),
                         [](const auto& test) { return test.param; });

TEST_P(TasksInHandlers, ATaskCommitsWithTheEffect) {
  for (const InboxMode mode : {InboxMode::kRecord, InboxMode::kOffsets}) {
    const Delivery delivery = DeliveryOf("a", 0);
    InboxSeat seat(fixture(), std::string(ToString(mode)), mode);
    const auto batch = seat.Open({delivery});
    EXPECT_EQ(Enqueue(*batch, delivery).already_there, mode == InboxMode::kOffsets) << "the second asks for the same";
    seat.Finish(*batch, {Processed()});
    EXPECT_TRUE(IsThere());
  }
}

TEST_P(TasksInHandlers, ATaskIsGoneWithTheEffect) {
  const Delivery delivery = DeliveryOf("a", 0);
  InboxSeat seat(fixture(), "billing", InboxMode::kRecord);
  {
    const auto lost = seat.Open({delivery});
    EXPECT_FALSE(Enqueue(*lost, delivery).already_there);
  }
  EXPECT_FALSE(IsThere());
}

TEST_P(TasksInHandlers, AnotherRequestUnderTheSameKeyIsAConflict) {
  const Delivery delivery = DeliveryOf("a", 0);
  InboxSeat seat(fixture(), "billing", InboxMode::kRecord);
  const auto batch = seat.Open({delivery});
  Enqueue(*batch, delivery);
  Task other = Charge();
  other.request = "{\"cents\":6}";
  EXPECT_EQ(Tasks().Enqueue(*batch, other).error().code(), "task_conflict");
}

}  // namespace
}  // namespace sealane::testing
