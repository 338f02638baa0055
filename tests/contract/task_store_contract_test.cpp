// What every store promises about tasks: a task exists exactly when its transaction commits, and once however often
// it is enqueued; it is in one dispatcher's hands at a time, an interrupted attempt is noticed, tasks with an order
// key keep their order, and whoever comes too late changes nothing.

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"
#include "support/task_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Optional;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class TaskStoreContract : public ::testing::TestWithParam<std::string> {
 protected:
  TaskFixture& fixture() { return *fixture_; }
  TaskSeat& seat() { return seat_; }
  const std::vector<std::string>& targets() const { return targets_; }
  TaskDetails Find(const EventId& id) {
    auto found = ValueOrThrow(fixture_->OpenDesk()->Find(id));
    EXPECT_TRUE(found.has_value()) << "there is no task " << id.ToString();
    return found.value_or(TaskDetails{});
  }
  TaskState StateOf(const NewTask& task) { return Find(task.id).summary.state; }
  std::size_t Tasks() { return ValueOrThrow(fixture_->OpenDesk()->List({})).size(); }
  std::vector<std::string> KeysOf(const std::vector<ClaimedTask>& claimed) {
    std::vector<std::string> keys;
    for (const ClaimedTask& task : claimed) keys.push_back(task.task.idempotency_key);
    return keys;
  }

 private:
  std::unique_ptr<TaskFixture> fixture_ = MakeTaskFixture(GetParam());
  TaskSeat seat_{*fixture_};
  const std::vector<std::string> targets_ = {"billing", "mail"};
};

INSTANTIATE_TEST_SUITE_P(Store, TaskStoreContract, ::testing::ValuesIn(TaskStores()),
                         [](const auto& test) { return test.param; });

// ---- enqueueing
// -----------------------------------------------------------------------------------------------------

TEST_P(TaskStoreContract, ATaskExistsWhenItsTransactionCommits) {
  const NewTask task = SampleTask();
  const auto outbox = fixture().OpenOutbox();
  const auto transaction = ValueOrThrow(outbox->Begin());
  EXPECT_EQ(ValueOrThrow(transaction->EnqueueTask(task)), (EnqueuedTask{task.id, false}));
  EXPECT_EQ(Tasks(), 0U);
  ValueOrThrow(transaction->Commit());
  EXPECT_EQ(Tasks(), 1U);
}

TEST_P(TaskStoreContract, ATaskIsGoneWithItsTransaction) {
  const auto outbox = fixture().OpenOutbox();
  {
    const auto transaction = ValueOrThrow(outbox->Begin());
    ValueOrThrow(transaction->EnqueueTask(SampleTask()));
    ValueOrThrow(transaction->Rollback());
  }
  EXPECT_EQ(Tasks(), 0U);
  EXPECT_THAT(seat().Claim(), IsEmpty());
  EXPECT_FALSE(fixture().Enqueue(SampleTask()).already_there) << "its name is free again";
}

TEST_P(TaskStoreContract, WithoutATransactionNothingIsWritten) {
  const auto outbox = fixture().OpenOutbox();
  const auto transaction = ValueOrThrow(outbox->Begin());
  ValueOrThrow(transaction->Commit());
  const auto refused = transaction->EnqueueTask(SampleTask());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), "no_transaction");
  EXPECT_EQ(Tasks(), 0U);
}

TEST_P(TaskStoreContract, TheSameTaskAgainIsTheOneThatIsThere) {
  const NewTask first = SampleTask();
  fixture().Enqueue(first);
  EXPECT_EQ(fixture().Enqueue(SampleTask()), (EnqueuedTask{first.id, true}));
  EXPECT_EQ(Tasks(), 1U);
}

TEST_P(TaskStoreContract, TheSameTaskTwiceInOneTransactionIsOne) {
  const NewTask first = SampleTask();
  InTransaction(*fixture().OpenOutbox(), [&](Transaction& transaction) -> Status {
    SEALANE_RETURN_IF_ERROR(transaction.EnqueueTask(first));
    SEALANE_ASSIGN_OR_RETURN(const EnqueuedTask again, transaction.EnqueueTask(SampleTask()));
    EXPECT_EQ(again, (EnqueuedTask{first.id, true}));
    return Ok();
  });
  EXPECT_EQ(Tasks(), 1U);
}

TEST_P(TaskStoreContract, ATaskThatIsDoneIsNotDoneAgain) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  seat().Handle(SucceededReport(), Succeed());
  EXPECT_EQ(fixture().Enqueue(SampleTask()), (EnqueuedTask{task.id, true}));
  EXPECT_THAT(seat().Claim(), IsEmpty());
}

TEST_P(TaskStoreContract, AnotherRequestUnderTheSameNameIsAConflict) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  const auto outbox = fixture().OpenOutbox();
  const auto transaction = ValueOrThrow(outbox->Begin());
  const auto refused = transaction->EnqueueTask(WithRequest(SampleTask(), "{}"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(refused.error().code(), "task_conflict");
  EXPECT_FALSE(refused.error().hint().empty());
  ValueOrThrow(transaction->Rollback());
  EXPECT_EQ(Find(task.id).task.request, task.task.request);
}

TEST_P(TaskStoreContract, ATaskIsKnownByTenantTargetOperationAndKey) {
  NewTask of_tenant = SampleTask();
  of_tenant.task.tenant = "acme";
  NewTask of_operation = SampleTask();
  of_operation.task.operation = "/refunds";
  for (const NewTask& task :
       {SampleTask(), of_tenant, ForTarget(SampleTask(), "mail"), of_operation, SampleTask("charge-2")}) {
    EXPECT_FALSE(fixture().Enqueue(task).already_there);
  }
  EXPECT_EQ(Tasks(), 5U);
}

TEST_P(TaskStoreContract, TwoTransactionsThatEnqueueTheSameMakeOne) {
  const NewTask task = SampleTask();
  const NewTask same = SampleTask();
  EnqueuedTask first;
  EnqueuedTask second;
  {
    const std::jthread other([&] { first = fixture().Enqueue(task); });
    second = fixture().Enqueue(same);
  }
  EXPECT_EQ(first.id, second.id);
  EXPECT_NE(first.already_there, second.already_there);
  EXPECT_EQ(Tasks(), 1U);
}

// ---- claiming
// -------------------------------------------------------------------------------------------------------

TEST_P(TaskStoreContract, AClaimedTaskIsWhatWasEnqueued) {
  const NewTask task = FullTask();
  const Timestamp before = fixture().Now();
  fixture().Enqueue(task);
  const ClaimedTask claimed = seat().ClaimOne();
  EXPECT_EQ(claimed.id, task.id);
  EXPECT_EQ(claimed.task.target, task.task.target);
  EXPECT_EQ(claimed.task.operation, task.task.operation);
  EXPECT_EQ(claimed.task.idempotency_key, task.task.idempotency_key);
  EXPECT_EQ(claimed.task.request, task.task.request);
  EXPECT_EQ(claimed.task.tenant, task.task.tenant);
  EXPECT_EQ(claimed.task.content_type, task.task.content_type);
  EXPECT_EQ(claimed.task.headers, task.task.headers);
  EXPECT_EQ(claimed.task.correlation_id, task.task.correlation_id);
  EXPECT_EQ(claimed.task.causation_id, task.task.causation_id);
  EXPECT_EQ(claimed.task.traceparent, task.task.traceparent);
  EXPECT_EQ(claimed.task.result_topic, task.task.result_topic);
  EXPECT_EQ(claimed.task.result_key, task.task.result_key);
  EXPECT_EQ(claimed.task.order_key, task.task.order_key);
  EXPECT_EQ(claimed.task.not_before, task.task.not_before);
  EXPECT_EQ(claimed.request_hash, task.request_hash);
  EXPECT_EQ(claimed.attempt, 1);
  EXPECT_EQ(claimed.tries, 1);
  EXPECT_FALSE(claimed.in_doubt);
  // The clock of a database server may be a little behind.
  EXPECT_GE(claimed.created_at, before - 60s);
  EXPECT_LE(claimed.created_at, fixture().Now() + 60s);
}

TEST_P(TaskStoreContract, AnAttemptIsWrittenDownBeforeItBegins) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  seat().ClaimOne();
  const TaskDetails details = Find(task.id);
  EXPECT_EQ(details.summary.state, TaskState::kSending);
  EXPECT_EQ(details.summary.attempts, 1);
  EXPECT_TRUE(details.summary.next_attempt_at.has_value()) << "when the lease ends";
  ASSERT_THAT(details.attempts, SizeIs(1));
  EXPECT_EQ(details.attempts[0].number, 1);
  EXPECT_EQ(details.attempts[0].owner, "host-1");
  EXPECT_FALSE(details.attempts[0].ended_at.has_value());
  EXPECT_FALSE(details.attempts[0].report.has_value());
}

TEST_P(TaskStoreContract, NobodyElseGetsWhatIsClaimed) {
  fixture().Enqueue(SampleTask());
  TaskSeat other(fixture(), "host-2");
  EXPECT_THAT(seat().Claim(), SizeIs(1));
  EXPECT_THAT(other.Claim(), IsEmpty());
  EXPECT_THAT(seat().Claim(), IsEmpty());
}

TEST_P(TaskStoreContract, DispatchersSideBySideShareTheTasks) {
  constexpr std::size_t kTasks = 40;
  for (std::size_t i = 0; i < kTasks; ++i) fixture().Enqueue(SampleTask(fmt::format("charge-{}", i)));
  std::vector<std::vector<std::string>> got(4);
  {
    std::vector<std::jthread> dispatchers;
    for (std::vector<std::string>& keys : got) {
      dispatchers.emplace_back([&] {
        TaskSeat mine(fixture());
        // Only an empty answer while others hold rows does not mean that nothing is left.
        for (int empty = 0; empty < 50;) {
          const std::vector<ClaimedTask> claimed = mine.Claim(3);
          empty = claimed.empty() ? empty + 1 : 0;
          for (const ClaimedTask& task : claimed) keys.push_back(task.task.idempotency_key);
        }
      });
    }
  }
  std::multiset<std::string> all;
  for (const auto& keys : got) all.insert(keys.begin(), keys.end());
  EXPECT_EQ(all.size(), kTasks) << "none is lost";
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), kTasks) << "none is taken twice";
}

TEST_P(TaskStoreContract, OnlyTasksForTheNamedTargetsAreClaimed) {
  fixture().Enqueue(ForTarget(SampleTask("a"), "unknown"));
  fixture().Enqueue(ForTarget(SampleTask("b"), "mail"));
  EXPECT_THAT(KeysOf(seat().Claim()), ElementsAre("b"));
  EXPECT_THAT(ValueOrThrow(seat().store().Claim({.owner = "x", .targets = {}, .limit = 10, .lease = 60s})),
              IsEmpty());
}

TEST_P(TaskStoreContract, AClaimTakesNoMoreThanItsLimitLongestDueFirst) {
  for (const char* const key : {"a", "b", "c"}) {
    fixture().Enqueue(SampleTask(key));
    fixture().LetTimePass(1s);
  }
  EXPECT_THAT(KeysOf(seat().Claim(2)), ElementsAre("a", "b"));
  EXPECT_THAT(KeysOf(seat().Claim(2)), ElementsAre("c"));
}

TEST_P(TaskStoreContract, ATaskIsNotDueBeforeItsTime) {
  fixture().Enqueue(NotBefore(SampleTask(), fixture().Now() + 1h));
  EXPECT_THAT(seat().Claim(), IsEmpty());
  fixture().LetTimePass(61min);
  EXPECT_THAT(seat().Claim(), SizeIs(1));
}

TEST_P(TaskStoreContract, AFailedTaskIsDueAfterItsWait) {
  fixture().Enqueue(SampleTask());
  seat().Handle(RetryReport(), TryAgainAfter(1h));
  EXPECT_THAT(seat().Claim(), IsEmpty());
  fixture().LetTimePass(61min);
  const ClaimedTask again = seat().ClaimOne();
  EXPECT_EQ(again.attempt, 2);
  EXPECT_EQ(again.tries, 2);
  EXPECT_FALSE(again.in_doubt) << "it surely did not happen";
}

TEST_P(TaskStoreContract, AnUnknownAttemptLeavesTheTaskInDoubt) {
  fixture().Enqueue(SampleTask());
  seat().Handle(UnknownReport(), TryAgainAfter(0ms));
  EXPECT_TRUE(seat().Handle(RetryReport(), TryAgainAfter(0ms)).in_doubt);
  EXPECT_TRUE(seat().ClaimOne().in_doubt) << "a later attempt that surely did nothing settles nothing";
}

TEST_P(TaskStoreContract, ATaskWhoseLeaseEndedIsTakenOverInDoubt) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  seat().ClaimOne();
  fixture().LetTimePass(61s);
  TaskSeat other(fixture(), "host-2");
  const ClaimedTask taken = other.ClaimOne();
  EXPECT_EQ(taken.id, task.id);
  EXPECT_EQ(taken.attempt, 2);
  EXPECT_EQ(taken.tries, 2);
  EXPECT_TRUE(taken.in_doubt);
  const TaskDetails details = Find(task.id);
  ASSERT_THAT(details.attempts, SizeIs(2));
  ASSERT_TRUE(details.attempts[0].report.has_value());
  EXPECT_EQ(details.attempts[0].report->code, "interrupted");
  EXPECT_EQ(details.attempts[0].report->verdict, AttemptVerdict::kUnknown);
  EXPECT_TRUE(details.attempts[0].ended_at.has_value());
  EXPECT_EQ(details.attempts[1].owner, "host-2");
  EXPECT_FALSE(details.attempts[1].report.has_value());
}

TEST_P(TaskStoreContract, EndedTasksAreNeverClaimed) {
  fixture().Enqueue(SampleTask("done"));
  fixture().Enqueue(SampleTask("dead"));
  seat().Handle(SucceededReport(), Succeed());
  seat().Handle(RetryReport(), Die());
  fixture().LetTimePass(24h);
  EXPECT_THAT(seat().Claim(), IsEmpty());
}

// ---- order
// ----------------------------------------------------------------------------------------------------------

TEST_P(TaskStoreContract, TasksWithAnOrderKeyAreClaimedOneAfterTheOther) {
  for (const char* const key : {"1", "2", "3"}) fixture().Enqueue(InOrder(SampleTask(key), "o"));
  EXPECT_THAT(KeysOf(seat().Claim()), ElementsAre("1"));
  EXPECT_THAT(seat().Claim(), IsEmpty()) << "the first is under way";
}

TEST_P(TaskStoreContract, TheNextInOrderIsDueWhenTheOneBeforeIsDone) {
  for (const char* const key : {"1", "2"}) fixture().Enqueue(InOrder(SampleTask(key), "o"));
  EXPECT_EQ(seat().Handle(RetryReport(), TryAgainAfter(1h)).task.idempotency_key, "1");
  EXPECT_THAT(seat().Claim(), IsEmpty()) << "the first waits for its next attempt";
  fixture().LetTimePass(61min);
  EXPECT_EQ(seat().Handle(SucceededReport(), Succeed()).task.idempotency_key, "1");
  EXPECT_EQ(seat().ClaimOne().task.idempotency_key, "2");
}

TEST_P(TaskStoreContract, ADeadOneHoldsUpItsOrderAndNothingElse) {
  NewTask of_tenant = InOrder(SampleTask("tenant"), "o");
  of_tenant.task.tenant = "acme";
  fixture().Enqueue(InOrder(SampleTask("1"), "o"));
  seat().Handle(RetryReport(), Die());
  fixture().Enqueue(InOrder(SampleTask("2"), "o"));
  fixture().Enqueue(InOrder(SampleTask("other"), "p"));
  fixture().Enqueue(InOrder(ForTarget(SampleTask("target"), "mail"), "o"));
  fixture().Enqueue(of_tenant);
  fixture().Enqueue(SampleTask("free"));
  EXPECT_THAT(KeysOf(seat().Claim()), UnorderedElementsAre("other", "target", "tenant", "free"));
}

TEST_P(TaskStoreContract, OneThatIsDiscardedHoldsUpNobody) {
  const NewTask first = InOrder(SampleTask("1"), "o");
  fixture().Enqueue(first);
  fixture().Enqueue(InOrder(SampleTask("2"), "o"));
  seat().Handle(RetryReport(), Die());
  EXPECT_EQ(ValueOrThrow(fixture().OpenDesk()->Discard(first.id, {"ann", "wrong"})), 1);
  EXPECT_EQ(seat().ClaimOne().task.idempotency_key, "2");
}

// ---- finishing
// ------------------------------------------------------------------------------------------------------

TEST_P(TaskStoreContract, AFinishedAttemptIsWrittenDown) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  AttemptReport report = SucceededReport();
  report.response = std::string("\x00\xff", 2);
  report.response_cut = true;
  seat().Handle(report, Succeed());
  const TaskDetails details = Find(task.id);
  EXPECT_EQ(details.summary.state, TaskState::kSucceeded);
  EXPECT_EQ(details.summary.status, 201);
  EXPECT_EQ(details.summary.error_code, "");
  EXPECT_TRUE(details.summary.ended_at.has_value());
  EXPECT_FALSE(details.summary.next_attempt_at.has_value());
  ASSERT_THAT(details.attempts, SizeIs(1));
  EXPECT_TRUE(details.attempts[0].ended_at.has_value());
  const AttemptReport& written = ValueOrThrow(
      details.attempts[0].report ? Result<AttemptReport>(*details.attempts[0].report)
                                 : Result<AttemptReport>(Error(ErrorKind::kCorrupt, "no_report", "none")));
  EXPECT_EQ(written.verdict, AttemptVerdict::kSucceeded);
  EXPECT_EQ(written.status, 201);
  EXPECT_EQ(written.response, report.response);
  EXPECT_TRUE(written.response_cut);
  EXPECT_EQ(written.response_type, "application/json");
  EXPECT_EQ(written.took, 12'345us);
}

TEST_P(TaskStoreContract, AFailedAttemptIsWrittenDown) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  seat().Handle(UnknownReport(), TryAgainAfter(1h));
  const TaskDetails details = Find(task.id);
  EXPECT_EQ(details.summary.state, TaskState::kFailed);
  EXPECT_EQ(details.summary.status, std::nullopt);
  EXPECT_EQ(details.summary.error_code, "timeout");
  EXPECT_EQ(details.summary.error_message, "it said no");
  EXPECT_TRUE(details.summary.next_attempt_at.has_value());
  EXPECT_FALSE(details.summary.ended_at.has_value());
  ASSERT_THAT(details.attempts, SizeIs(1));
  ASSERT_TRUE(details.attempts[0].report.has_value());
  EXPECT_EQ(details.attempts[0].report->verdict, AttemptVerdict::kUnknown);
  EXPECT_EQ(details.attempts[0].report->code, "timeout");
}

TEST_P(TaskStoreContract, TheEventOfAStepIsCommittedWithIt) {
  fixture().Enqueue(SampleTask());
  TaskStep step = Succeed();
  step.event = SampleEntry("charge-1");
  seat().Handle(SucceededReport(), step);
  EXPECT_TRUE(ValueOrThrow(fixture().OpenOutbox()->FindMessage(step.event->envelope.id)).has_value());
}

TEST_P(TaskStoreContract, AStepWhoseEventIsRefusedLeavesTheTaskAsItWas) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  const NewEntry event = WithOwnId(SampleEntry(), FreshId());
  AppendAndCommit(*fixture().OpenOutbox(), {event});
  const ClaimedTask claimed = seat().ClaimOne();
  TaskStep step = Succeed();
  step.event = event;
  const Status refused = seat().store().Finish(claimed, SucceededReport(), step);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), "duplicate_event_id");
  EXPECT_EQ(StateOf(task), TaskState::kSending);
  ValueOrThrow(seat().store().Finish(claimed, SucceededReport(), Succeed()));
}

TEST_P(TaskStoreContract, WhoeverFinishesAfterATakeoverIsFencedAndLeavesARecord) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  const ClaimedTask mine = seat().ClaimOne();
  fixture().LetTimePass(61s);
  TaskSeat other(fixture(), "host-2");
  const ClaimedTask taken = other.ClaimOne();
  TaskStep step = Succeed();
  step.event = SampleEntry();
  const Status late = seat().store().Finish(mine, SucceededReport(), step);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().kind(), ErrorKind::kFenced);
  EXPECT_EQ(late.error().code(), "task_fenced");
  EXPECT_EQ(CountEvents(*fixture().OpenOutbox()), 0U);
  const TaskDetails details = Find(task.id);
  EXPECT_EQ(details.summary.state, TaskState::kSending);
  ASSERT_THAT(details.attempts, SizeIs(2));
  ASSERT_TRUE(details.attempts[0].report.has_value());
  EXPECT_EQ(details.attempts[0].report->verdict, AttemptVerdict::kSucceeded) << "what really happened is on record";
  EXPECT_FALSE(details.attempts[1].report.has_value());
  ValueOrThrow(other.store().Finish(taken, SucceededReport(), Succeed()));
  EXPECT_EQ(StateOf(task), TaskState::kSucceeded);
}

TEST_P(TaskStoreContract, AnEndedLeaseThatNobodyTookIsStillGoodEnoughToFinish) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  const ClaimedTask mine = seat().ClaimOne();
  fixture().LetTimePass(1h);
  ValueOrThrow(seat().store().Finish(mine, SucceededReport(), Succeed()));
  EXPECT_EQ(StateOf(task), TaskState::kSucceeded);
}

TEST_P(TaskStoreContract, FinishingTwiceDoesItOnce) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  TaskStep step = Succeed();
  step.event = SampleEntry();
  const ClaimedTask claimed = seat().Handle(SucceededReport(), step);
  const Status again = seat().store().Finish(claimed, SucceededReport(), step);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), "task_fenced");
  EXPECT_EQ(CountEvents(*fixture().OpenOutbox()), 1U);
  EXPECT_EQ(StateOf(task), TaskState::kSucceeded);
}

// ---- giving back
// ----------------------------------------------------------------------------------------------------

TEST_P(TaskStoreContract, AReleasedTaskIsAsIfItHadNeverBeenClaimed) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  const std::vector<ClaimedTask> claimed = seat().Claim();
  ValueOrThrow(seat().store().Release(claimed));
  const TaskDetails details = Find(task.id);
  EXPECT_EQ(details.summary.state, TaskState::kPending);
  EXPECT_EQ(details.summary.attempts, 0);
  EXPECT_THAT(details.attempts, IsEmpty());
  const ClaimedTask again = seat().ClaimOne();
  EXPECT_EQ(again.attempt, 1);
  EXPECT_EQ(again.tries, 1);
  EXPECT_FALSE(again.in_doubt);
}

TEST_P(TaskStoreContract, AReleasedTaskKeepsItsEarlierAttempts) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  seat().Handle(UnknownReport(), TryAgainAfter(0ms));
  ValueOrThrow(seat().store().Release(seat().Claim()));
  const TaskDetails details = Find(task.id);
  EXPECT_EQ(details.summary.state, TaskState::kFailed);
  EXPECT_EQ(details.summary.attempts, 1);
  EXPECT_EQ(details.summary.error_code, "timeout");
  EXPECT_THAT(details.attempts, SizeIs(1));
  const ClaimedTask again = seat().ClaimOne();
  EXPECT_EQ(again.attempt, 2);
  EXPECT_TRUE(again.in_doubt);
}

TEST_P(TaskStoreContract, WhatSomebodyElseHasIsNotReleased) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  const std::vector<ClaimedTask> mine = seat().Claim();
  fixture().LetTimePass(61s);
  TaskSeat other(fixture(), "host-2");
  other.ClaimOne();
  ValueOrThrow(seat().store().Release(mine));
  EXPECT_EQ(StateOf(task), TaskState::kSending);
  EXPECT_EQ(Find(task.id).summary.attempts, 2);
}

TEST_P(TaskStoreContract, AReleaseThatIsSaidAgainTakesNothingFromWhoeverClaimedSince) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  const std::vector<ClaimedTask> mine = seat().Claim();
  ValueOrThrow(seat().store().Release(mine));
  TaskSeat other(fixture(), "host-2");
  const ClaimedTask theirs = other.ClaimOne();
  EXPECT_EQ(theirs.attempt, 1);
  ValueOrThrow(seat().store().Release(mine));
  const TaskDetails details = Find(task.id);
  EXPECT_EQ(details.summary.state, TaskState::kSending);
  ASSERT_THAT(details.attempts, SizeIs(1));
  EXPECT_EQ(details.attempts[0].owner, "host-2");
  EXPECT_EQ(seat().store().Finish(mine.at(0), RetryReport(), Die()).error().code(), "task_fenced");
  EXPECT_EQ(StateOf(task), TaskState::kSending);
  EXPECT_FALSE(Find(task.id).attempts[0].ended_at.has_value()) << "theirs is still under way";
  ValueOrThrow(other.store().Finish(theirs, SucceededReport(), Succeed()));
  EXPECT_EQ(StateOf(task), TaskState::kSucceeded);
}

// ---- looking ahead
// --------------------------------------------------------------------------------------------------

TEST_P(TaskStoreContract, NothingIsNextWhereNothingWaits) {
  EXPECT_EQ(seat().NextDue(), std::nullopt);
  fixture().Enqueue(SampleTask("done"));
  fixture().Enqueue(ForTarget(SampleTask("elsewhere"), "unknown"));
  seat().Handle(SucceededReport(), Succeed());
  EXPECT_EQ(seat().NextDue(), std::nullopt);
}

TEST_P(TaskStoreContract, NextIsNowWhenSomethingIsDue) {
  fixture().Enqueue(NotBefore(SampleTask("later"), fixture().Now() + 1h));
  fixture().Enqueue(SampleTask("now"));
  EXPECT_EQ(seat().NextDue(), 0ms);
}

TEST_P(TaskStoreContract, NextIsTheNearestTimeOrEndOfALease) {
  fixture().Enqueue(NotBefore(SampleTask("later"), fixture().Now() + 1h));
  EXPECT_THAT(seat().NextDue(), Optional(AllOf(Gt(59min), Le(1h))));
  fixture().Enqueue(SampleTask("failed"));
  seat().Handle(RetryReport(), TryAgainAfter(30min));
  EXPECT_THAT(seat().NextDue(), Optional(AllOf(Gt(29min), Le(30min))));
  fixture().Enqueue(SampleTask("sending"));
  seat().ClaimOne();
  EXPECT_THAT(seat().NextDue(), Optional(AllOf(Gt(30s), Le(60s))));
}

TEST_P(TaskStoreContract, WhatIsHeldUpByADeadOneIsNotNext) {
  for (const char* const key : {"1", "2"}) fixture().Enqueue(InOrder(SampleTask(key), "o"));
  seat().Handle(RetryReport(), Die());
  EXPECT_EQ(seat().NextDue(), std::nullopt);
}

// ---- targets
// --------------------------------------------------------------------------------------------------------

TEST_P(TaskStoreContract, AClaimTakesOfEachTargetNoMoreThanItsQuota) {
  for (const char* const key : {"1", "2", "3"}) fixture().Enqueue(SampleTask(key));
  fixture().LetTimePass(1s);
  for (const char* const key : {"4", "5"}) fixture().Enqueue(ForTarget(SampleTask(key), "mail"));
  const TaskClaim claim{
      .owner = "host-1", .targets = {{"billing", 1}, {"mail", 2}, {"unknown", 5}}, .limit = 100, .lease = 60s};
  EXPECT_THAT(KeysOf(ValueOrThrow(seat().store().Claim(claim))), ElementsAre("1", "4", "5"));
  EXPECT_THAT(KeysOf(ValueOrThrow(seat().store().Claim(claim))), ElementsAre("2"));
  TaskClaim nothing = claim;
  nothing.targets = {};
  EXPECT_THAT(ValueOrThrow(seat().store().Claim(nothing)), IsEmpty());
}

TEST_P(TaskStoreContract, TheOutlookIsThatOfEachTarget) {
  fixture().Enqueue(SampleTask("now"));
  fixture().Enqueue(NotBefore(ForTarget(SampleTask("later"), "mail"), fixture().Now() + 1h));
  const std::vector<std::string> names = {"mail", "unknown", "billing"};
  const std::vector<TargetOutlook> outlooks = ValueOrThrow(seat().store().Outlook(names));
  ASSERT_THAT(outlooks, SizeIs(3));
  EXPECT_THAT(outlooks[0].due_in, Optional(AllOf(Gt(59min), Le(1h))));
  EXPECT_EQ(outlooks[1], TargetOutlook{});
  EXPECT_EQ(outlooks[2], (TargetOutlook{.due_in = 0ms, .paused = false}));
  EXPECT_EQ(FirstDue(outlooks), 0ms);
}

TEST_P(TaskStoreContract, NothingIsClaimedForATargetThatIsPaused) {
  const NewTask waiting = SampleTask("1");
  fixture().Enqueue(waiting);
  const ClaimedTask under_way = seat().ClaimOne();
  fixture().Enqueue(SampleTask("2"));
  fixture().Enqueue(ForTarget(SampleTask("3"), "mail"));
  const auto desk = fixture().OpenDesk();
  EXPECT_EQ(ValueOrThrow(desk->Pause("billing", false, {"ann", "maintenance"})), PauseOutcome::kPaused);
  EXPECT_THAT(KeysOf(seat().Claim()), ElementsAre("3"));
  EXPECT_EQ(ValueOrThrow(seat().store().Outlook(targets())).at(0), (TargetOutlook{.due_in = 0ms, .paused = true}));
  EXPECT_GT(seat().NextDue(), 0ms) << "what is paused is not due";
  ValueOrThrow(seat().store().Finish(under_way, SucceededReport(), Succeed()));
  EXPECT_EQ(StateOf(waiting), TaskState::kSucceeded) << "an attempt under way goes on";
  EXPECT_TRUE(ValueOrThrow(desk->Resume("billing", {"ann", "it is over"})));
  EXPECT_THAT(KeysOf(seat().Claim()), ElementsAre("2"));
}

TEST_P(TaskStoreContract, ATryThatDoesNotCountIsWrittenDownAndNotCounted) {
  const NewTask task = SampleTask();
  fixture().Enqueue(task);
  TaskStep step = TryAgainAfter(0ms);
  step.counts = false;
  for (int i = 1; i <= 3; ++i) {
    const ClaimedTask claimed = seat().Handle(UnknownReport(), step);
    EXPECT_EQ(claimed.tries, 1);
    EXPECT_EQ(claimed.attempt, i);
  }
  EXPECT_EQ(Find(task.id).summary.attempts, 3);
  EXPECT_THAT(Find(task.id).attempts, SizeIs(3)) << "what was sent is on record";
  seat().Handle(RetryReport(), TryAgainAfter(0ms));
  const ClaimedTask claimed = seat().ClaimOne();
  EXPECT_EQ(claimed.tries, 2);
  EXPECT_TRUE(claimed.in_doubt);
}

// ---- keeping
// --------------------------------------------------------------------------------------------------------

TEST_P(TaskStoreContract, CountsWhatIsNotOver) {
  EXPECT_EQ(ValueOrThrow(seat().store().Count()).oldest_waiting_at, std::nullopt);
  fixture().Enqueue(SampleTask("done"));
  seat().Handle(SucceededReport(), Succeed());
  fixture().Enqueue(SampleTask("dead"));
  seat().Handle(RetryReport(), Die());
  const NewTask failed = SampleTask("failed");
  fixture().Enqueue(failed);
  seat().Handle(RetryReport(), TryAgainAfter(1h));
  fixture().Enqueue(SampleTask("sending"));
  seat().ClaimOne();
  fixture().LetTimePass(5s);
  fixture().Enqueue(SampleTask("pending-1"));
  fixture().Enqueue(ForTarget(SampleTask("pending-2"), "unknown"));
  const TaskCounts counts = ValueOrThrow(seat().store().Count());
  EXPECT_EQ(counts.pending, 2);
  EXPECT_EQ(counts.sending, 1);
  EXPECT_EQ(counts.failed, 1);
  EXPECT_EQ(counts.dead, 1);
  EXPECT_EQ(counts.oldest_waiting_at, Find(failed.id).summary.created_at);
}

TEST_P(TaskStoreContract, PruningForgetsOldTasksThatAreOver) {
  const NewTask done = SampleTask("done");
  const NewTask discarded = SampleTask("discarded");
  fixture().Enqueue(done);
  seat().Handle(SucceededReport(), Succeed());
  fixture().Enqueue(discarded);
  ValueOrThrow(fixture().OpenDesk()->Discard(discarded.id, {"ann", "wrong"}));
  const NewTask dead = SampleTask("dead");
  fixture().Enqueue(dead);
  seat().Handle(RetryReport(), Die());
  const NewTask waiting = NotBefore(SampleTask("waiting"), fixture().Now() + 1000h);
  fixture().Enqueue(waiting);
  fixture().LetTimePass(1h);
  const NewTask recent = SampleTask("recent");
  fixture().Enqueue(recent);
  seat().Handle(SucceededReport(), Succeed());
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 30min, 100)), 2);
  std::vector<EventId> left;
  for (const TaskSummary& task : ValueOrThrow(fixture().OpenDesk()->List({}))) left.push_back(task.id);
  EXPECT_THAT(left, UnorderedElementsAre(dead.id, waiting.id, recent.id));
  EXPECT_FALSE(fixture().Enqueue(SampleTask("done")).already_there) << "a task that is forgotten is new again";
}

TEST_P(TaskStoreContract, PruningOfSomeTargetsLeavesTheOthers) {
  for (const char* const target : {"billing", "mail"}) {
    fixture().Enqueue(ForTarget(SampleTask(), target));
    seat().Handle(SucceededReport(), Succeed());
  }
  fixture().LetTimePass(1h);
  const std::vector<std::string> some = {"mail", "unknown"};
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(some, 1min, 100)), 1);
  const std::vector<TaskSummary> left = ValueOrThrow(fixture().OpenDesk()->List({}));
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left[0].target, "billing");
  EXPECT_EQ(ValueOrThrow(seat().store().Prune({}, 1min, 100)), 0) << "none named: nothing";
  EXPECT_EQ(Tasks(), 1U);
}

TEST_P(TaskStoreContract, AgeIsCountedByTheStoresClockFromTheEnd) {
  fixture().Enqueue(SampleTask());
  fixture().LetTimePass(48h);
  seat().Handle(SucceededReport(), Succeed());
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 24h, 100)), 0) << "it is not over for a day";
  fixture().LetTimePass(25h);
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 26h, 100)), 0);
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), std::chrono::hours{24 * 36'500}, 100)), 0)
      << "the longest that can be configured";
  EXPECT_TRUE(fixture().Enqueue(SampleTask()).already_there);
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 24h, 100)), 1);
  EXPECT_FALSE(fixture().Enqueue(SampleTask()).already_there);
}

TEST_P(TaskStoreContract, PruningStopsAtItsLimitOverAllTargets) {
  for (const char* const target : {"billing", "mail"}) {
    for (const char* const key : {"1", "2"}) {
      fixture().Enqueue(ForTarget(SampleTask(key), target));
      seat().Handle(SucceededReport(), Succeed());
    }
  }
  fixture().LetTimePass(1h);
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 1min, 3)), 3);
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 1min, 3)), 1);
}

TEST_P(TaskStoreContract, PruningStopsAtItsLimit) {
  for (const char* const key : {"1", "2", "3"}) {
    fixture().Enqueue(SampleTask(key));
    seat().Handle(SucceededReport(), Succeed());
  }
  fixture().LetTimePass(1h);
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 1min, 2)), 2);
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 1min, 2)), 1);
  EXPECT_EQ(ValueOrThrow(seat().store().Prune(targets(), 1min, 2)), 0);
}

}  // namespace
}  // namespace sealane
