// What every store promises to operators of tasks: they see what became of each and why, what they decide happens to
// those tasks alone, and it leaves a record.

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sample_events.hpp"
#include "support/task_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using enum TaskState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const OperatorAction kWhy{"ann", "because"};

/// One task of every state but DISCARDED, enqueued in this order: done, dead, failed, sending, pending.
class TaskDeskContract : public ::testing::TestWithParam<std::string> {
 protected:
  TaskDeskContract() {
    Enqueue(done_);
    seat_.Handle(SucceededReport(), Succeed());
    Enqueue(dead_);
    seat_.Handle(UnknownReport(), Die());
    Enqueue(failed_);
    seat_.Handle(RetryReport(), TryAgainAfter(1h));
    Enqueue(sending_);
    claimed_ = seat_.ClaimOne();
    Enqueue(pending_);
  }

  TaskFixture& fixture() { return *fixture_; }
  TaskSeat& seat() { return seat_; }
  TaskDesk& desk() { return *desk_; }
  const ClaimedTask& claimed() const { return claimed_; }
  void Enqueue(const NewTask& task) {
    fixture_->Enqueue(task);
    fixture_->LetTimePass(1s);
  }
  std::vector<EventId> Listed(const TaskFilter& filter) {
    std::vector<EventId> ids;
    for (const TaskSummary& task : ValueOrThrow(desk_->List(filter))) ids.push_back(task.id);
    return ids;
  }
  TaskDetails Find(const NewTask& task) {
    auto found = ValueOrThrow(desk_->Find(task.id));
    EXPECT_TRUE(found.has_value());
    return found.value_or(TaskDetails{});
  }
  TaskState StateOf(const NewTask& task) { return Find(task).summary.state; }
  /// Who did what to what, and why; newest first.
  std::vector<std::string> Records() {
    std::vector<std::string> records;
    for (const AuditRecord& record : ValueOrThrow(fixture_->OpenDeadLetters()->Audit(100))) {
      records.push_back(record.actor + " " + record.action + " " + record.target + ": " + record.reason);
    }
    return records;
  }
  static std::string RecordOf(std::string_view action, const NewTask& task) {
    return "ann " + std::string(action) + " " + task.id.ToString() + " on " + task.task.target + ": because";
  }

  const NewTask done_ = SampleTask("done");
  const NewTask dead_ = SampleTask("dead");
  const NewTask failed_ = ForTarget(SampleTask("failed"), "mail");
  const NewTask sending_ = SampleTask("sending");
  const NewTask pending_ = SampleTask("pending");

 private:
  std::unique_ptr<TaskFixture> fixture_ = MakeTaskFixture(GetParam());
  TaskSeat seat_{*fixture_};
  std::unique_ptr<TaskDesk> desk_ = fixture_->OpenDesk();
  ClaimedTask claimed_;
};

INSTANTIATE_TEST_SUITE_P(Store, TaskDeskContract, ::testing::ValuesIn(TaskStores()),
                         [](const auto& test) { return test.param; });

// ---- looking
// --------------------------------------------------------------------------------------------------------

TEST_P(TaskDeskContract, ListsTasksNewestFirst) {
  EXPECT_THAT(Listed({}), ElementsAre(pending_.id, sending_.id, failed_.id, dead_.id, done_.id));
  EXPECT_THAT(Listed({.limit = 2}), ElementsAre(pending_.id, sending_.id));
  EXPECT_THAT(Listed({.limit = 0}), ElementsAre(pending_.id)) << "a list has at least one";
}

TEST_P(TaskDeskContract, FiltersTasksByEveryField) {
  NewTask of_acme = SampleTask("acme");
  of_acme.task.tenant = "acme";
  of_acme.task.operation = "/refunds";
  Enqueue(of_acme);
  EXPECT_THAT(Listed({.state = kDead}), ElementsAre(dead_.id));
  EXPECT_THAT(Listed({.target = "mail"}), ElementsAre(failed_.id));
  EXPECT_THAT(Listed({.operation = "/refunds"}), ElementsAre(of_acme.id));
  EXPECT_THAT(Listed({.tenant = "acme"}), ElementsAre(of_acme.id));
  EXPECT_THAT(Listed({.tenant = ""}), SizeIs(5));
  EXPECT_THAT(Listed({.idempotency_key = "done"}), ElementsAre(done_.id));
  EXPECT_THAT(Listed({.error_code = "timeout"}), ElementsAre(dead_.id));
  EXPECT_THAT(Listed({.state = kFailed, .target = "billing"}), IsEmpty());
  EXPECT_THAT(Listed({.idempotency_key = "done' OR 1=1 --"}), IsEmpty());
}

TEST_P(TaskDeskContract, SummarizesATask) {
  const TaskSummary failed = ValueOrThrow(desk().List({.state = kFailed})).at(0);
  EXPECT_EQ(failed.state, kFailed);
  EXPECT_EQ(failed.tenant, "");
  EXPECT_EQ(failed.target, "mail");
  EXPECT_EQ(failed.operation, "/charges");
  EXPECT_EQ(failed.idempotency_key, "failed");
  EXPECT_EQ(failed.attempts, 1);
  EXPECT_EQ(failed.status, 503);
  EXPECT_EQ(failed.error_code, "http_503");
  EXPECT_EQ(failed.error_message, "it said no");
  ASSERT_TRUE(failed.next_attempt_at.has_value());
  EXPECT_GE(*failed.next_attempt_at - failed.created_at, 1h);
  EXPECT_FALSE(failed.ended_at.has_value());
  const TaskSummary dead = ValueOrThrow(desk().List({.state = kDead})).at(0);
  EXPECT_FALSE(dead.next_attempt_at.has_value());
  EXPECT_TRUE(dead.ended_at.has_value());
  const TaskSummary pending = ValueOrThrow(desk().List({.state = kPending})).at(0);
  EXPECT_EQ(pending.attempts, 0);
  EXPECT_EQ(pending.status, std::nullopt);
  EXPECT_TRUE(pending.next_attempt_at.has_value());
}

TEST_P(TaskDeskContract, TellsEverythingAboutATask) {
  const NewTask task = FullTask();
  fixture().Enqueue(task);
  const TaskDetails details = Find(task);
  EXPECT_EQ(details.summary.id, task.id);
  EXPECT_EQ(details.task.request, task.task.request);
  EXPECT_EQ(details.task.headers, task.task.headers);
  EXPECT_EQ(details.task.order_key, "order-key");
  EXPECT_EQ(details.task.result_topic, "charges");
  EXPECT_EQ(details.task.not_before, task.task.not_before);
  EXPECT_EQ(details.request_hash, task.request_hash);
  EXPECT_THAT(details.attempts, IsEmpty());
  EXPECT_EQ(ValueOrThrow(desk().Find(FreshId())), std::nullopt);
}

TEST_P(TaskDeskContract, ShowsTheNewestAttemptsOldestFirst) {
  const NewTask task = ForTarget(SampleTask("often"), "often");
  fixture().Enqueue(task);
  const auto store = fixture().Open();
  constexpr std::int32_t kAttempts = 103;
  for (std::int32_t i = 0; i < kAttempts; ++i) {
    const auto claimed = ValueOrThrow(store->Claim({.owner = "x", .targets = {"often"}, .limit = 1, .lease = 60s}));
    ASSERT_THAT(claimed, SizeIs(1));
    ValueOrThrow(store->Finish(claimed.at(0), RetryReport(), TryAgainAfter(0ms)));
  }
  const TaskDetails details = Find(task);
  EXPECT_EQ(details.summary.attempts, kAttempts);
  ASSERT_THAT(details.attempts, SizeIs(TaskDetails::kAttemptsMax));
  EXPECT_EQ(details.attempts.front().number, 4);
  EXPECT_EQ(details.attempts.back().number, kAttempts);
}

// ---- deciding
// -------------------------------------------------------------------------------------------------------

TEST_P(TaskDeskContract, ARetriedTaskIsDueNowAndItsTriesCountFromZero) {
  EXPECT_EQ(ValueOrThrow(desk().Retry(dead_.id, kWhy)), 1);
  EXPECT_EQ(StateOf(dead_), kFailed);
  EXPECT_FALSE(Find(dead_).summary.ended_at.has_value());
  EXPECT_THAT(Records(), ElementsAre(RecordOf("task.retry", dead_)));
  fixture().LetTimePass(1s);
  std::vector<ClaimedTask> claimed = seat().Claim();
  std::erase_if(claimed, [&](const ClaimedTask& task) { return task.id != dead_.id; });
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].attempt, 2) << "attempts are counted over its whole life";
  EXPECT_EQ(claimed[0].tries, 1);
  EXPECT_FALSE(claimed[0].in_doubt) << "whoever asks for a retry has settled the doubt";
}

TEST_P(TaskDeskContract, ATaskThatWaitsForItsNextAttemptCanBeHurried) {
  EXPECT_EQ(ValueOrThrow(desk().Retry(failed_.id, kWhy)), 1);
  EXPECT_THAT(Records(), ElementsAre(RecordOf("task.retry", failed_)));
  fixture().LetTimePass(1s);
  bool found = false;
  for (const ClaimedTask& task : seat().Claim()) found = found || task.id == failed_.id;
  EXPECT_TRUE(found);
}

TEST_P(TaskDeskContract, RetriesAllThatFitAndCanBeRetried) {
  EXPECT_EQ(ValueOrThrow(desk().Retry(TaskFilter{.target = "billing"}, kWhy)), 1);
  EXPECT_EQ(StateOf(dead_), kFailed);
  EXPECT_EQ(StateOf(done_), kSucceeded);
  EXPECT_EQ(StateOf(pending_), kPending);
  EXPECT_EQ(ValueOrThrow(desk().Retry(TaskFilter{}, kWhy)), 2);
  EXPECT_EQ(ValueOrThrow(desk().Retry(TaskFilter{.limit = 1}, kWhy)), 1);
  EXPECT_EQ(ValueOrThrow(desk().Retry(TaskFilter{.state = kPending}, kWhy)), 0);
  EXPECT_THAT(Records(), SizeIs(4));
}

TEST_P(TaskDeskContract, WhatIsDoneOrUnderWayIsNotRetried) {
  for (const NewTask* const task : {&done_, &sending_, &pending_}) {
    EXPECT_EQ(ValueOrThrow(desk().Retry(task->id, kWhy)), 0);
  }
  EXPECT_EQ(ValueOrThrow(desk().Retry(FreshId(), kWhy)), 0);
  EXPECT_EQ(StateOf(done_), kSucceeded);
  EXPECT_EQ(StateOf(sending_), kSending);
  EXPECT_THAT(Records(), IsEmpty());
}

TEST_P(TaskDeskContract, ADiscardedTaskIsGivenUp) {
  for (const NewTask* const task : {&pending_, &failed_, &dead_}) {
    EXPECT_EQ(ValueOrThrow(desk().Discard(task->id, kWhy)), 1);
    const TaskSummary summary = Find(*task).summary;
    EXPECT_EQ(summary.state, kDiscarded);
    EXPECT_TRUE(summary.ended_at.has_value());
    EXPECT_FALSE(summary.next_attempt_at.has_value());
  }
  EXPECT_THAT(Records(), ElementsAre(RecordOf("task.discard", dead_), RecordOf("task.discard", failed_),
                                     RecordOf("task.discard", pending_)));
  fixture().LetTimePass(30s);
  EXPECT_THAT(seat().Claim(), IsEmpty());
  EXPECT_EQ(ValueOrThrow(desk().Retry(dead_.id, kWhy)), 0) << "given up is given up";
}

TEST_P(TaskDeskContract, WhatIsUnderWayCannotBeCalledBack) {
  EXPECT_EQ(ValueOrThrow(desk().Discard(sending_.id, kWhy)), 0);
  EXPECT_EQ(ValueOrThrow(desk().Discard(done_.id, kWhy)), 0);
  EXPECT_EQ(StateOf(sending_), kSending);
  EXPECT_EQ(StateOf(done_), kSucceeded);
  EXPECT_THAT(Records(), IsEmpty());
  ValueOrThrow(seat().store().Finish(claimed(), SucceededReport(), Succeed()));
}

TEST_P(TaskDeskContract, NothingIsDoneByNobodyOrForNothing) {
  const auto nobody = desk().Retry(dead_.id, {"", "because"});
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code(), "actor_required");
  const auto for_nothing = desk().Discard(dead_.id, {"ann", ""});
  ASSERT_FALSE(for_nothing.has_value());
  EXPECT_EQ(for_nothing.error().code(), "reason_required");
  EXPECT_FALSE(desk().Retry(TaskFilter{}, {"", ""}).has_value());
  EXPECT_EQ(StateOf(dead_), kDead);
  EXPECT_THAT(Records(), IsEmpty());
}

// ---- targets
// --------------------------------------------------------------------------------------------------------

TEST_P(TaskDeskContract, APausedTargetIsPausedOnceAndResumedOnce) {
  EXPECT_EQ(ValueOrThrow(desk().Pause("billing", false, {"ann", "because"})), PauseOutcome::kPaused);
  EXPECT_EQ(ValueOrThrow(desk().Pause("billing", true, {"bob", "also"})), PauseOutcome::kAlready);
  const auto targets = ValueOrThrow(desk().Targets());
  ASSERT_THAT(targets, SizeIs(2));
  EXPECT_EQ(targets[0].target, "billing");
  EXPECT_EQ(targets[0].state(), "paused");
  ASSERT_TRUE(targets[0].pause.has_value());
  EXPECT_EQ(targets[0].pause->actor, "ann") << "the first pause stays";
  EXPECT_EQ(targets[0].pause->reason, "because");
  EXPECT_GT(targets[0].pause->at, fixture().Now() - 1h);
  EXPECT_EQ(targets[1].state(), "closed");
  EXPECT_TRUE(ValueOrThrow(desk().Resume("billing", kWhy)));
  EXPECT_FALSE(ValueOrThrow(desk().Resume("billing", kWhy)));
  EXPECT_THAT(Records(), ElementsAre("ann task.resume billing: because", "ann task.pause billing: because"));
}

TEST_P(TaskDeskContract, ATargetThatIsNotKnownIsNotPaused) {
  EXPECT_EQ(ValueOrThrow(desk().Pause("biling", false, kWhy)), PauseOutcome::kUnknown);
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_EQ(ValueOrThrow(desk().Pause("new", true, kWhy)), PauseOutcome::kPaused) << "the caller knows it";
  EXPECT_THAT(Records(), SizeIs(1));
  for (const OperatorAction& missing : {OperatorAction{"", "because"}, OperatorAction{"ann", ""}}) {
    EXPECT_FALSE(desk().Pause("billing", true, missing).has_value());
    EXPECT_FALSE(desk().Resume("new", missing).has_value());
  }
  EXPECT_THAT(Records(), SizeIs(1));
}

TEST_P(TaskDeskContract, ShowsWhatWaitsForEachTarget) {
  const auto targets = ValueOrThrow(desk().Targets());
  ASSERT_THAT(targets, SizeIs(2));
  EXPECT_EQ(targets[0].target, "billing");
  EXPECT_EQ(targets[0].due, 1);
  EXPECT_EQ(targets[0].in_flight, 1);
  EXPECT_EQ(targets[0].oldest_due_at, Find(pending_).summary.next_attempt_at);
  EXPECT_EQ(targets[0].next_due_at, std::nullopt);
  EXPECT_EQ(targets[1].target, "mail");
  EXPECT_EQ(targets[1].due, 0);
  EXPECT_EQ(targets[1].in_flight, 0);
  EXPECT_EQ(targets[1].oldest_due_at, std::nullopt);
  EXPECT_EQ(targets[1].next_due_at, Find(failed_).summary.next_attempt_at);
}

TEST_P(TaskDeskContract, ShowsTargetsThatDispatchersFindDown) {
  const TargetOutage outage{.next_probe_in = 1min, .failures = 5, .code = "timeout", .message = "no answer"};
  ValueOrThrow(seat().store().ReportOutage("host-1", "billing", outage));
  ValueOrThrow(seat().store().ReportOutage("host-2", "billing", outage));
  ValueOrThrow(seat().store().ReportOutage("host-1", "idle", TargetOutage{.next_probe_in = 0ms}));
  auto targets = ValueOrThrow(desk().Targets());
  ASSERT_THAT(targets, SizeIs(3));
  EXPECT_EQ(targets[0].state(), "open");
  ASSERT_TRUE(targets[0].down.has_value());
  EXPECT_EQ(targets[0].down->dispatchers, 2);
  EXPECT_EQ(targets[0].down->error_code, "timeout");
  EXPECT_EQ(targets[0].down->error_message, "no answer");
  EXPECT_GT(targets[0].down->next_probe_at, fixture().Now());
  EXPECT_EQ(targets[1].target, "idle");
  EXPECT_EQ(targets[1].state(), "half-open");
  EXPECT_EQ(targets[2].state(), "closed");

  ValueOrThrow(seat().store().ReportOutage("host-1", "billing", std::nullopt));
  ValueOrThrow(seat().store().ReportOutage("host-1", "billing", std::nullopt));
  EXPECT_EQ(ValueOrThrow(desk().Targets()).at(0).down->dispatchers, 1) << "each speaks for itself";
  fixture().LetTimePass(17min);
  targets = ValueOrThrow(desk().Targets());
  EXPECT_EQ(targets.at(0).state(), "closed") << "a dispatcher that died says nothing any more";
  EXPECT_THAT(targets, SizeIs(2));
}

}  // namespace
}  // namespace sealane
