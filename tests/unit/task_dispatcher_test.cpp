// What a dispatcher of tasks makes of every kind of attempt, and how it lives with a store that fails, with leases
// that end and with a stop in the middle.

#include "tasks/task_dispatcher.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/task_store.hpp"
#include "support/eventually.hpp"
#include "support/store_fixture.hpp"
#include "support/task_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using memory::TaskCall;
using memory::TaskFaults;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Error kDown(ErrorKind::kUnavailable, "store_down", "the store is down");

/// Does what a test says, attempt by attempt, and remembers what it was asked to do.
class FakeExecutor final : public TaskExecutor {
 public:
  using Behaviour = std::function<AttemptReport(const ClaimedTask&, std::stop_token)>;

  AttemptReport Execute(const ClaimedTask& task, std::stop_token stop) override {
    Behaviour behaviour;
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(task.task.idempotency_key);
      behaviour = behaviour_;
    }
    return behaviour(task, std::move(stop));
  }
  std::chrono::milliseconds time_limit() const override { return 50s; }

  void Answer(AttemptReport report) {
    Do([report = std::move(report)](const ClaimedTask&, const std::stop_token&) { return report; });
  }
  void Do(Behaviour behaviour) {
    const std::lock_guard lock(mutex_);
    behaviour_ = std::move(behaviour);
  }
  std::vector<std::string> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  mutable std::mutex mutex_;
  Behaviour behaviour_ = [](const ClaimedTask&, const std::stop_token&) { return SucceededReport(); };
  std::vector<std::string> seen_;
};

/// A store whose answers come late.
class SlowTaskStore final : public TaskStore {
 public:
  struct Delays {
    std::chrono::milliseconds claim{0};
    std::chrono::milliseconds count{0};
  };
  SlowTaskStore(std::unique_ptr<TaskStore> store, const Delays& delays, ManualClock& clock)
      : store_(std::move(store)), delays_(delays), clock_(clock) {}

  Result<std::vector<ClaimedTask>> Claim(const TaskClaim& claim) override {
    auto claimed = store_->Claim(claim);
    clock_.Advance(delays_.claim);
    return claimed;
  }
  Status Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) override {
    return store_->Finish(claimed, report, step);
  }
  Status Release(std::span<const ClaimedTask> claimed) override { return store_->Release(claimed); }
  Result<std::optional<std::chrono::milliseconds>> NextDue(std::span<const std::string> targets) override {
    return store_->NextDue(targets);
  }
  Result<TaskCounts> Count() override {
    clock_.Advance(delays_.count);
    return store_->Count();
  }
  Result<std::int64_t> Prune(std::span<const std::string> targets, std::chrono::milliseconds age,
                             std::size_t limit) override {
    return store_->Prune(targets, age, limit);
  }

 private:
  const std::unique_ptr<TaskStore> store_;
  const Delays& delays_;
  ManualClock& clock_;
};

AttemptReport RefusedReport() {
  AttemptReport report;
  report.verdict = AttemptVerdict::kRefused;
  report.status = 422;
  report.code = "http_422";
  report.message = "no such customer";
  return report;
}

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() {
    // Waits that a test can tell: 1 s, 2 s, then it is over.
    retry_.first = 1s;
    retry_.factor = 2.0;
    retry_.jitter = 0;
    retry_.attempts_max = 3;
  }

  std::unique_ptr<TaskDispatcher> Make() {
    TaskTarget target;
    target.executor = executor_;
    target.retry = retry_;
    target.resend_in_doubt = resend_in_doubt_;
    options_.name = "host-1";
    return std::make_unique<TaskDispatcher>(
        options_, TaskTargets{{"billing", target}},
        [this]() -> Result<std::unique_ptr<TaskStore>> {
          ++opened_;
          return std::unique_ptr<TaskStore>(
              std::make_unique<SlowTaskStore>(memory::MakeTaskStore(database_, faults_), delays_, clock_));
        },
        outbox_, clock_, random_);
  }
  EventId Enqueue(const NewTask& task) {
    InTransaction(*store_, [&](Transaction& transaction) -> Status {
      SEALANE_RETURN_IF_ERROR(transaction.EnqueueTask(task));
      return Ok();
    });
    return task.id;
  }
  TaskDetails Find(const EventId& id) { return ValueOrThrow(desk_->Find(id)).value_or(TaskDetails{}); }
  TaskState StateOf(const EventId& id) { return Find(id).summary.state; }
  std::vector<StoredMessage> Events() { return ValueOrThrow(store_->ListMessages({.with_payload = true})); }
  static NewTask WithResult(NewTask task) {
    task.task.result_topic = "charges";
    return task;
  }

  ManualClock clock_;
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, 60s);
  std::unique_ptr<OutboxStore> store_ = ValueOrThrow(memory::OpenOutboxStore(database_));
  std::unique_ptr<TaskDesk> desk_ = ValueOrThrow(memory::OpenTaskDesk(database_));
  std::shared_ptr<TaskFaults> faults_ = std::make_shared<TaskFaults>();
  std::shared_ptr<FakeExecutor> executor_ = std::make_shared<FakeExecutor>();
  Outbox outbox_{OutboxOptions{.producer = "test"}};
  SeededRandom random_{7};
  TaskDispatcherOptions options_;
  RetryPolicy retry_;
  bool resend_in_doubt_ = true;
  SlowTaskStore::Delays delays_;
  std::atomic<int> opened_ = 0;
};

// ---- one attempt
// ----------------------------------------------------------------------------------------------------

TEST_F(DispatcherTest, NothingDueIsAnIdleRound) {
  const auto dispatcher = Make();
  EXPECT_TRUE(ValueOrThrow(dispatcher->RunOnce()).idle());
  EXPECT_TRUE(dispatcher->stats().store_reached);
}

TEST_F(DispatcherTest, ATaskThatSucceedsIsDone) {
  const EventId id = Enqueue(SampleTask());
  const auto dispatcher = Make();
  const TaskDispatchReport report = ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(report.claimed, 1U);
  EXPECT_EQ(report.finished, 1U);
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
  EXPECT_EQ(Find(id).attempts.at(0).owner, "host-1");
  EXPECT_EQ(dispatcher->stats().targets.at("billing").succeeded, 1U);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").seconds.total, 1U);
  EXPECT_EQ(dispatcher->stats().under_way, 0U);
}

TEST_F(DispatcherTest, TasksForUnknownTargetsAreLeftAlone) {
  const EventId id = Enqueue(ForTarget(SampleTask(), "elsewhere"));
  EXPECT_TRUE(ValueOrThrow(Make()->RunOnce()).idle());
  EXPECT_EQ(StateOf(id), TaskState::kPending);
}

TEST_F(DispatcherTest, AFailedAttemptIsRepeatedAfterTheWaitsOfThePolicyUntilTheyAreUsedUp) {
  const EventId id = Enqueue(SampleTask());
  executor_->Answer(RetryReport());
  const auto dispatcher = Make();
  for (const auto wait : {1s, 2s}) {
    ValueOrThrow(dispatcher->RunOnce());
    EXPECT_EQ(StateOf(id), TaskState::kFailed);
    EXPECT_EQ(Find(id).summary.next_attempt_at, clock_.Now() + wait);
    clock_.Advance(wait - 1ms);
    EXPECT_TRUE(ValueOrThrow(dispatcher->RunOnce()).idle());
    clock_.Advance(1ms);
  }
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kDead);
  EXPECT_EQ(Find(id).summary.error_code, "http_503");
  EXPECT_THAT(executor_->seen(), SizeIs(3));
  EXPECT_EQ(dispatcher->stats().targets.at("billing").failed, 2U);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").unknown, 0U);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").dead, 1U);
}

TEST_F(DispatcherTest, AWaitThatTheReceiverAsksForCountsAtLeast) {
  AttemptReport report = RetryReport();
  const EventId id = Enqueue(SampleTask());
  const auto dispatcher = Make();
  report.retry_after = 90s;
  executor_->Answer(report);
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(Find(id).summary.next_attempt_at, clock_.Now() + 90s);
  clock_.Advance(90s);
  report.retry_after = 1ms;
  executor_->Answer(report);
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(Find(id).summary.next_attempt_at, clock_.Now() + 2s) << "the policy's wait is longer";
}

TEST_F(DispatcherTest, ARefusedTaskIsDeadAtOnce) {
  const EventId id = Enqueue(SampleTask());
  executor_->Answer(RefusedReport());
  ValueOrThrow(Make()->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kDead);
  EXPECT_EQ(Find(id).summary.error_code, "http_422");
}

TEST_F(DispatcherTest, AnUnknownAttemptIsRepeated) {
  const EventId id = Enqueue(SampleTask());
  executor_->Answer(UnknownReport());
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kFailed);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").unknown, 1U);
}

TEST_F(DispatcherTest, AnUnknownAttemptIsNotRepeatedWhereTheTargetSaysSo) {
  resend_in_doubt_ = false;
  const EventId id = Enqueue(SampleTask());
  executor_->Answer(UnknownReport());
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kDead);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").unknown, 1U);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").dead, 1U);
  EXPECT_EQ(Find(id).summary.error_code, "in_doubt");
  EXPECT_THAT(Find(id).summary.error_message, HasSubstr("timeout"));
}

TEST_F(DispatcherTest, AnExecutorThatThrowsLeavesTheAttemptUnknown) {
  const EventId id = Enqueue(SampleTask());
  executor_->Do(
      [](const ClaimedTask&, const std::stop_token&) -> AttemptReport { throw std::runtime_error("out of\norder"); });
  ValueOrThrow(Make()->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kFailed);
  const AttemptReport report = Find(id).attempts.at(0).report.value_or(AttemptReport{});
  EXPECT_EQ(report.verdict, AttemptVerdict::kUnknown);
  EXPECT_EQ(report.code, "executor_failed");
  EXPECT_EQ(report.message, "out of\\norder");
}

// ---- interrupted attempts
// -------------------------------------------------------------------------------------------

/// An attempt that another dispatcher began and died in.
void Interrupt(const std::shared_ptr<memory::Database>& database, ManualClock& clock) {
  const auto claimed = ValueOrThrow(
      memory::MakeTaskStore(database)->Claim({.owner = "gone", .targets = {"billing"}, .limit = 1, .lease = 60s}));
  ASSERT_THAT(claimed, SizeIs(1));
  clock.Advance(61s);
}

TEST_F(DispatcherTest, AnInterruptedAttemptIsRepeatedWithTheSameKey) {
  const EventId id = Enqueue(SampleTask());
  Interrupt(database_, clock_);
  ValueOrThrow(Make()->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
  EXPECT_EQ(Find(id).summary.attempts, 2);
  EXPECT_THAT(executor_->seen(), ElementsAre("charge-1"));
}

TEST_F(DispatcherTest, AnInterruptedLastAttemptIsTheEnd) {
  retry_.attempts_max = 1;
  const EventId id = Enqueue(SampleTask());
  Interrupt(database_, clock_);
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kDead);
  EXPECT_EQ(Find(id).summary.error_code, "attempts_exhausted");
  EXPECT_THAT(executor_->seen(), IsEmpty()) << "nothing is sent";
  EXPECT_EQ(dispatcher->stats().targets.at("billing").dead, 1U);
}

TEST_F(DispatcherTest, AnInterruptedAttemptIsTheEndWhereNothingIsSentInDoubt) {
  resend_in_doubt_ = false;
  const EventId id = Enqueue(SampleTask());
  Interrupt(database_, clock_);
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kDead);
  EXPECT_EQ(Find(id).summary.error_code, "in_doubt");
  EXPECT_THAT(executor_->seen(), IsEmpty());
  EXPECT_EQ(ValueOrThrow(desk_->Retry(id, {"ann", "it did not happen"})), 1);
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded) << "a person has settled the doubt";
}

TEST_F(DispatcherTest, AnAttemptThatEndsAfterATakeoverIsFenced) {
  const EventId id = Enqueue(WithResult(SampleTask()));
  executor_->Do([&](const ClaimedTask&, const std::stop_token&) {
    clock_.Advance(61s);
    EXPECT_THAT(ValueOrThrow(memory::MakeTaskStore(database_)->Claim(
                    {.owner = "other", .targets = {"billing"}, .limit = 1, .lease = 60s})),
                SizeIs(1));
    return SucceededReport();
  });
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kSending);
  EXPECT_EQ(dispatcher->stats().fenced, 1U);
  EXPECT_THAT(Events(), IsEmpty());
}

TEST_F(DispatcherTest, WhatWasClaimedTooLateToEndWithinTheLeaseIsGivenBack) {
  const EventId id = Enqueue(SampleTask());
  // An attempt takes up to 50 s, and the lease is 10 s longer.
  delays_.claim = 10s + 1ms;
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_THAT(executor_->seen(), IsEmpty()) << "somebody else could send at the same time";
  EXPECT_EQ(StateOf(id), TaskState::kPending);
  EXPECT_EQ(Find(id).summary.attempts, 0);
  delays_.claim = 10s;
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
}

// ---- results
// --------------------------------------------------------------------------------------------------------

TEST_F(DispatcherTest, TheEndOfATaskIsToldWhereItWasAskedFor) {
  const EventId id = Enqueue(WithResult(SampleTask()));
  Enqueue(SampleTask("silent"));
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  ValueOrThrow(dispatcher->RunOnce());
  const auto events = Events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].envelope.type, "TaskSucceeded");
  EXPECT_EQ(events[0].envelope.topic, "charges");
  EXPECT_EQ(events[0].envelope.aggregate.id, id.ToString());
}

TEST_F(DispatcherTest, AFailedAttemptIsNotToldUntilTheTaskIsDead) {
  retry_.attempts_max = 2;
  Enqueue(WithResult(SampleTask()));
  executor_->Answer(RetryReport());
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_THAT(Events(), IsEmpty());
  clock_.Advance(10s);
  ValueOrThrow(dispatcher->RunOnce());
  ASSERT_THAT(Events(), SizeIs(1));
  EXPECT_EQ(Events()[0].envelope.type, "TaskDead");
}

TEST_F(DispatcherTest, AResponseTooLargeForAnEventIsShortenedAndTheEndIsKept) {
  OutboxOptions small;
  small.limits.payload_max = 2'000;
  const Outbox outbox(small);
  const EventId id = Enqueue(WithResult(SampleTask()));
  AttemptReport report = SucceededReport();
  report.response = std::string(50'000, 'x');
  executor_->Answer(report);
  TaskTarget target;
  target.executor = executor_;
  TaskDispatcher dispatcher(
      options_, TaskTargets{{"billing", target}},
      [this]() -> Result<std::unique_ptr<TaskStore>> { return memory::MakeTaskStore(database_); }, outbox, clock_,
      random_);
  ValueOrThrow(dispatcher.RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
  ASSERT_THAT(Events(), SizeIs(1));
  EXPECT_THAT(Events()[0].envelope.payload, HasSubstr(R"("response_cut":true)"));
  EXPECT_THAT(Events()[0].envelope.payload, HasSubstr("xxxxxxxx"));
}

// ---- a store that fails
// ---------------------------------------------------------------------------------------------

TEST_F(DispatcherTest, ABrokenConnectionIsOpenedAgain) {
  const EventId id = Enqueue(SampleTask());
  const auto dispatcher = Make();
  faults_->Fail(TaskCall::kClaim, kDown);
  EXPECT_FALSE(dispatcher->RunOnce().has_value());
  EXPECT_FALSE(dispatcher->stats().store_reached);
  EXPECT_THAT(dispatcher->stats().problem, HasSubstr("the store is down"));
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(opened_, 2);
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
  EXPECT_EQ(dispatcher->stats().problem, "");
}

TEST_F(DispatcherTest, AnEndThatCouldNotBeWrittenIsWrittenLaterAndNothingIsSentAgain) {
  const EventId id = Enqueue(WithResult(SampleTask()));
  const auto dispatcher = Make();
  faults_->Fail(TaskCall::kFinish, kDown);
  EXPECT_FALSE(dispatcher->RunOnce().has_value());
  EXPECT_EQ(StateOf(id), TaskState::kSending);
  EXPECT_EQ(ValueOrThrow(dispatcher->RunOnce()).finished, 1U);
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
  EXPECT_THAT(executor_->seen(), SizeIs(1));
  EXPECT_THAT(Events(), SizeIs(1));
}

TEST_F(DispatcherTest, AnEndWhoseAnswerIsLostCountsOnce) {
  const EventId id = Enqueue(WithResult(SampleTask()));
  const auto dispatcher = Make();
  faults_->Fail(TaskCall::kFinish, kDown, TaskFaults::When::kAfterTheWork);
  EXPECT_FALSE(dispatcher->RunOnce().has_value());
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
  EXPECT_THAT(Events(), SizeIs(1));
  EXPECT_EQ(dispatcher->stats().targets.at("billing").succeeded, 1U);
  EXPECT_EQ(dispatcher->stats().fenced, 0U);
}

TEST_F(DispatcherTest, OldTasksAreForgottenFromTimeToTime) {
  const EventId id = Enqueue(SampleTask());
  options_.retention = std::chrono::hours{1};
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  clock_.Advance(2h);
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_FALSE(ValueOrThrow(desk_->Find(id)).has_value());
}

TEST_F(DispatcherTest, WhatADispatcherDoesNotServeIsNotForgotten) {
  const EventId own = Enqueue(SampleTask());
  const EventId other = Enqueue(ForTarget(SampleTask(), "elsewhere"));
  ASSERT_EQ(ValueOrThrow(desk_->Discard(other, {"ann", "wrong"})), 1);
  options_.retention = std::chrono::hours{1};
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  clock_.Advance(2h);
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_FALSE(ValueOrThrow(desk_->Find(own)).has_value());
  EXPECT_TRUE(ValueOrThrow(desk_->Find(other)).has_value());
}

TEST_F(DispatcherTest, WhatWaitsIsCounted) {
  Enqueue(ForTarget(SampleTask(), "elsewhere"));
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(dispatcher->stats().waiting.pending, 1);
}

TEST_F(DispatcherTest, CountingThatTakesLongDoesNotComeBeforeEveryTask) {
  delays_.count = 6s;
  for (const char* const key : {"a", "b", "c"}) Enqueue(SampleTask(key));
  const auto dispatcher = Make();
  for (int i = 0; i < 3; ++i) ValueOrThrow(dispatcher->RunOnce());
  EXPECT_THAT(executor_->seen(), SizeIs(3));
  EXPECT_EQ(faults_->count(TaskCall::kCount), 1);
  clock_.Advance(5s);
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(faults_->count(TaskCall::kCount), 2);
}

// ---- running
// --------------------------------------------------------------------------------------------------------

TEST_F(DispatcherTest, RunsUntilNothingIsDue) {
  std::vector<EventId> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(Enqueue(SampleTask(fmt::format("charge-{}", i))));
  const EventId later = Enqueue(NotBefore(SampleTask("later"), clock_.Now() + 1h));
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->Run({}, true));
  for (const EventId& id : ids) EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
  EXPECT_EQ(StateOf(later), TaskState::kPending);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").succeeded, 20U);
  EXPECT_EQ(dispatcher->stats().under_way, 0U);
}

TEST_F(DispatcherTest, TasksWithAnOrderKeyEndInTheirOrder) {
  std::vector<std::string> expected;
  for (int i = 0; i < 10; ++i) {
    expected.push_back(fmt::format("charge-{}", i));
    Enqueue(InOrder(SampleTask(expected.back()), "o"));
  }
  ValueOrThrow(Make()->Run({}, true));
  EXPECT_EQ(executor_->seen(), expected);
}

TEST_F(DispatcherTest, WorkersAttemptSideBySide) {
  constexpr std::size_t kWorkers = 4;
  options_.workers = kWorkers;
  for (std::size_t i = 0; i < kWorkers; ++i) Enqueue(SampleTask(fmt::format("charge-{}", i)));
  std::atomic<std::size_t> inside = 0;
  executor_->Do([&](const ClaimedTask&, const std::stop_token&) {
    ++inside;
    EXPECT_TRUE(Eventually([&] { return inside == kWorkers; }));
    return SucceededReport();
  });
  ValueOrThrow(Make()->Run({}, true));
  EXPECT_EQ(inside, kWorkers);
}

TEST_F(DispatcherTest, AnAttemptUnderWayIsFinishedBeforeAStop) {
  const EventId id = Enqueue(SampleTask());
  std::stop_source stop;
  executor_->Do([&](const ClaimedTask&, const std::stop_token& token) {
    stop.request_stop();
    EXPECT_TRUE(token.stop_requested());
    return SucceededReport();
  });
  ValueOrThrow(Make()->Run(stop.get_token()));
  EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
}

TEST_F(DispatcherTest, AnAttemptThatAStopPreventedIsGivenBack) {
  const EventId id = Enqueue(SampleTask());
  std::stop_source stop;
  executor_->Do([&](const ClaimedTask&, const std::stop_token&) {
    stop.request_stop();
    AttemptReport report;
    report.verdict = AttemptVerdict::kRetry;
    report.code = "stopped";
    return report;
  });
  ValueOrThrow(Make()->Run(stop.get_token()));
  EXPECT_EQ(StateOf(id), TaskState::kPending);
  EXPECT_EQ(Find(id).summary.attempts, 0);
}

TEST_F(DispatcherTest, AnIdleDispatcherSleepsAndWakesForAStop) {
  std::stop_source stop;
  const auto dispatcher = Make();
  std::jthread running([&] { ValueOrThrow(dispatcher->Run(stop.get_token())); });
  EXPECT_TRUE(Eventually([&] { return faults_->count(TaskCall::kNextDue) >= 1; }));
  stop.request_stop();
  running.join();
  EXPECT_EQ(faults_->count(TaskCall::kClaim), 1) << "one worker looks, once, while no time passes";
}

TEST_F(DispatcherTest, AnOutageIsSurvivedWithTheEndInHand) {
  const EventId id = Enqueue(WithResult(SampleTask()));
  faults_->FailAll(TaskCall::kFinish, kDown);
  faults_->FailAll(TaskCall::kCount, kDown);
  std::stop_source stop;
  const auto dispatcher = Make();
  std::jthread running([&] { ValueOrThrow(dispatcher->Run(stop.get_token())); });
  // Time passes until the end was tried several times, then the store is back.
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(100ms);
    return faults_->count(TaskCall::kFinish) >= 3;
  }));
  EXPECT_NE(dispatcher->stats().problem, "");
  faults_->Heal();
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(100ms);
    return StateOf(id) == TaskState::kSucceeded;
  }));
  stop.request_stop();
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(100ms);
    return dispatcher->stats().under_way == 0;
  }));
  running.join();
  EXPECT_THAT(executor_->seen(), SizeIs(1));
  EXPECT_THAT(Events(), SizeIs(1));
}

TEST_F(DispatcherTest, AStopDuringAnOutageEndsWithTheLease) {
  const EventId id = Enqueue(SampleTask());
  faults_->FailAll(TaskCall::kFinish, kDown);
  std::stop_source stop;
  std::atomic<bool> ended = false;
  const auto dispatcher = Make();
  std::jthread running([&] {
    ValueOrThrow(dispatcher->Run(stop.get_token()));
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] { return faults_->count(TaskCall::kFinish) >= 1; }));
  stop.request_stop();
  EXPECT_FALSE(ended);
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(1s);
    return ended.load();
  }));
  running.join();
  EXPECT_EQ(StateOf(id), TaskState::kSending) << "whoever comes next takes it over";
}

TEST_F(DispatcherTest, WithoutATargetThereIsNothingToRun) {
  TaskDispatcher dispatcher(
      options_, {}, [this]() -> Result<std::unique_ptr<TaskStore>> { return memory::MakeTaskStore(database_); },
      outbox_, clock_, random_);
  const Status refused = dispatcher.Run({}, true);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), "no_targets");
}

}  // namespace
}  // namespace sealane
