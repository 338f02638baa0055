// What a dispatcher of tasks makes of every kind of attempt, and how it lives with a store that fails, with leases
// that end and with a stop in the middle.

#include "tasks/task_dispatcher.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
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
  Result<std::vector<TargetOutlook>> Outlook(std::span<const std::string> targets) override {
    return store_->Outlook(targets);
  }
  Status ReportOutage(std::string_view owner, std::string_view target,
                      const std::optional<TargetOutage>& outage) override {
    return store_->ReportOutage(owner, target, outage);
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

  TaskTarget Target(std::shared_ptr<FakeExecutor> executor) {
    TaskTarget target;
    target.executor = std::move(executor);
    target.retry = retry_;
    target.resend_in_doubt = resend_in_doubt_;
    target.breaker = breaker_;
    return target;
  }
  std::unique_ptr<TaskDispatcher> Make() { return Make({{"billing", Target(executor_)}}); }
  std::unique_ptr<TaskDispatcher> Make(TaskTargets targets) {
    options_.name = "host-1";
    return std::make_unique<TaskDispatcher>(
        options_, std::move(targets),
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
  BreakerOptions breaker_;
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
  clock_.Advance(10min);
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(faults_->count(TaskCall::kCount), 1) << "it would take a noticeable part of the time";
  clock_.Advance(10min);
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
  EXPECT_TRUE(Eventually([&] { return faults_->count(TaskCall::kOutlook) >= 1; }));
  stop.request_stop();
  running.join();
  EXPECT_EQ(faults_->count(TaskCall::kOutlook), 1) << "one thread looks, once, while no time passes";
  EXPECT_EQ(faults_->count(TaskCall::kClaim), 0);
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

// ---- several targets
// ------------------------------------------------------------------------------------------------

/// An executor that hangs until it is released.
class Gate {
 public:
  ~Gate() { Open(); }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    moved_.notify_all();
  }
  FakeExecutor::Behaviour Hang(AttemptReport report = SucceededReport()) {
    return [this, report](const ClaimedTask&, const std::stop_token&) {
      std::unique_lock lock(mutex_);
      ++inside_;
      most_ = std::max(most_, inside_);
      moved_.notify_all();
      moved_.wait(lock, [&] { return open_; });
      --inside_;
      return report;
    };
  }
  std::size_t inside() const {
    const std::lock_guard lock(mutex_);
    return inside_;
  }
  std::size_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  bool open_ = false;
  std::size_t inside_ = 0;
  std::size_t most_ = 0;
};

/// A dispatcher that runs beside the test while its clock moves.
class Running {
 public:
  Running(TaskDispatcher& dispatcher, ManualClock& clock)
      : clock_(clock), thread_([&dispatcher](const std::stop_token& stop) { ValueOrThrow(dispatcher.Run(stop)); }) {}
  bool Until(const std::function<bool()>& so) {
    return Eventually([&] {
      clock_.Advance(10ms);
      return so();
    });
  }

 private:
  ManualClock& clock_;
  std::jthread thread_;
};

TEST_F(DispatcherTest, AHangingTargetStopsNoOther) {
  options_.workers = 4;
  const auto hanging = std::make_shared<FakeExecutor>();
  Gate gate;
  hanging->Do(gate.Hang());
  TaskTargets targets = {{"hanging", Target(hanging)}};
  std::map<std::string, std::shared_ptr<FakeExecutor>> healthy;
  for (int i = 0; i < 9; ++i) {
    const std::string name = fmt::format("healthy-{}", i);
    healthy[name] = std::make_shared<FakeExecutor>();
    targets[name] = Target(healthy[name]);
  }
  for (int i = 0; i < 50; ++i) Enqueue(ForTarget(SampleTask(fmt::format("h-{}", i)), "hanging"));
  const auto dispatcher = Make(targets);
  Running running(*dispatcher, clock_);
  ASSERT_TRUE(running.Until([&] { return gate.inside() == 4; })) << "alone it uses all workers";
  for (const auto& [name, executor] : healthy) {
    for (int i = 0; i < 20; ++i) Enqueue(ForTarget(SampleTask(fmt::format("{}-{}", name, i)), name));
  }
  for (const auto& [name, executor] : healthy) {
    EXPECT_TRUE(running.Until([&] { return executor->seen().size() == 20; })) << name;
  }
  EXPECT_EQ(gate.most(), 4U);
  gate.Open();
}

TEST_F(DispatcherTest, NewWorkOfAnotherTargetGetsItsShareAtOnce) {
  options_.workers = 8;
  const auto other = std::make_shared<FakeExecutor>();
  Gate first;
  Gate second;
  executor_->Do(first.Hang());
  other->Do(second.Hang());
  for (int i = 0; i < 20; ++i) Enqueue(SampleTask(fmt::format("a-{}", i)));
  const auto dispatcher = Make({{"billing", Target(executor_)}, {"mail", Target(other)}});
  Running running(*dispatcher, clock_);
  ASSERT_TRUE(running.Until([&] { return first.inside() == 8; }));
  for (int i = 0; i < 20; ++i) Enqueue(ForTarget(SampleTask(fmt::format("b-{}", i)), "mail"));
  EXPECT_TRUE(running.Until([&] { return second.inside() == 4; })) << "half of the workers";
  EXPECT_EQ(dispatcher->stats().targets.at("mail").health.in_flight, 4U);
  EXPECT_EQ(dispatcher->stats().under_way, 12U);
  second.Open();
  EXPECT_TRUE(running.Until([&] { return other->seen().size() == 20; }));
  EXPECT_EQ(second.most(), 4U);
  first.Open();
}

TEST_F(DispatcherTest, ATargetHasNoMoreAttemptsUnderWayThanItsConcurrency) {
  options_.workers = 8;
  Gate gate;
  executor_->Do(gate.Hang());
  TaskTarget target = Target(executor_);
  target.concurrency = 3;
  for (int i = 0; i < 20; ++i) Enqueue(SampleTask(fmt::format("a-{}", i)));
  const auto dispatcher = Make({{"billing", target}});
  Running running(*dispatcher, clock_);
  ASSERT_TRUE(running.Until([&] { return gate.inside() == 3; }));
  gate.Open();
  EXPECT_TRUE(running.Until([&] { return executor_->seen().size() == 20; }));
  EXPECT_EQ(gate.most(), 3U);
}

TEST_F(DispatcherTest, APausedTargetIsLeftAloneUntilItIsResumed) {
  const EventId id = Enqueue(SampleTask());
  ValueOrThrow(desk_->Pause("billing", true, {"ann", "maintenance"}));
  const auto dispatcher = Make();
  Running running(*dispatcher, clock_);
  EXPECT_TRUE(running.Until([&] { return dispatcher->stats().targets.at("billing").health.paused; }));
  EXPECT_THAT(executor_->seen(), IsEmpty());
  EXPECT_EQ(Find(id).summary.attempts, 0);
  ValueOrThrow(desk_->Resume("billing", {"ann", "it is over"}));
  EXPECT_TRUE(running.Until([&] { return StateOf(id) == TaskState::kSucceeded; }));
}

// ---- a target that is down
// -----------------------------------------------------------------------------------------

AttemptReport Down(AttemptReport report = UnknownReport()) {
  report.target_down = true;
  return report;
}

TEST_F(DispatcherTest, ATargetThatIsDownIsLeftAloneButForProbes) {
  breaker_ = {.failures = 3, .first = 10s, .max = 25s};
  for (int i = 0; i < 50; ++i) Enqueue(SampleTask(fmt::format("charge-{}", i)));
  executor_->Answer(Down());
  const auto dispatcher = Make();
  const auto health = [&] { return dispatcher->stats().targets.at("billing").health; };
  for (int i = 0; i < 3; ++i) ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(health().state, BreakerState::kOpen);
  EXPECT_EQ(health().opened, 1U);
  EXPECT_EQ(health().problem, "it said no");
  EXPECT_EQ(ValueOrThrow(desk_->Targets()).at(0).state(), "open");
  std::size_t sent = 3;
  for (const auto wait : {10s, 20s, 25s, 25s}) {
    clock_.Advance(wait - 1ms);
    EXPECT_TRUE(ValueOrThrow(dispatcher->RunOnce()).idle());
    EXPECT_THAT(executor_->seen(), SizeIs(sent));
    clock_.Advance(1ms);
    EXPECT_EQ(health().state, BreakerState::kHalfOpen);
    EXPECT_FALSE(ValueOrThrow(dispatcher->RunOnce()).idle()) << "the probe";
    EXPECT_TRUE(ValueOrThrow(dispatcher->RunOnce()).idle()) << "one is enough";
    EXPECT_THAT(executor_->seen(), SizeIs(++sent));
  }
  EXPECT_EQ(health().opened, 1U) << "one outage";
  executor_->Answer(SucceededReport());
  clock_.Advance(25s);
  for (int i = 0; i < 50; ++i) ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(health().state, BreakerState::kClosed);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").succeeded, 50U);
  EXPECT_THAT(ValueOrThrow(desk_->Targets()), IsEmpty()) << "operators are told that it is back";
}

TEST_F(DispatcherTest, NoTaskDiesBecauseItsTargetIsAwayForHours) {
  std::vector<EventId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(Enqueue(SampleTask(fmt::format("charge-{}", i))));
  executor_->Answer(Down());
  const auto dispatcher = Make();
  for (int minutes = 0; minutes < 6 * 60; ++minutes) {
    for (int i = 0; i < 3; ++i) ValueOrThrow(dispatcher->RunOnce());
    clock_.Advance(1min);
  }
  for (const EventId& id : ids) EXPECT_EQ(StateOf(id), TaskState::kFailed);
  EXPECT_GT(executor_->seen().size(), 100U) << "it was probed all the time";
  executor_->Answer(SucceededReport());
  for (int i = 0; i < 4; ++i) ValueOrThrow(dispatcher->RunOnce());
  for (const EventId& id : ids) EXPECT_EQ(StateOf(id), TaskState::kSucceeded);
}

TEST_F(DispatcherTest, ALoneTaskDoesNotDieOfAnOutageEither) {
  retry_.attempts_max = 2;
  const EventId id = Enqueue(SampleTask());
  executor_->Answer(Down());
  const auto dispatcher = Make();
  for (int i = 0; i < 20; ++i) {
    ValueOrThrow(dispatcher->RunOnce());
    clock_.Advance(1min);
  }
  EXPECT_EQ(StateOf(id), TaskState::kFailed);
  EXPECT_THAT(Find(id).attempts, SizeIs(20)) << "what was sent is on record";
}

TEST_F(DispatcherTest, ATaskThatFailsWhereOthersSucceedDiesOfItsAttempts) {
  const EventId poison = Enqueue(SampleTask("poison"));
  executor_->Do([](const ClaimedTask& task, const std::stop_token&) {
    return task.task.idempotency_key == "poison" ? Down() : SucceededReport();
  });
  const auto dispatcher = Make();
  for (int i = 0; i < 3; ++i) {
    Enqueue(SampleTask(fmt::format("good-{}", i)));
    for (int j = 0; j < 2; ++j) ValueOrThrow(dispatcher->RunOnce());
    clock_.Advance(10s);
  }
  EXPECT_EQ(StateOf(poison), TaskState::kDead);
  EXPECT_EQ(dispatcher->stats().targets.at("billing").health.opened, 0U);
}

TEST_F(DispatcherTest, WithoutABreakerAttemptsAreUsedUp) {
  breaker_.failures = 0;
  const EventId id = Enqueue(SampleTask());
  executor_->Answer(Down());
  const auto dispatcher = Make();
  for (int i = 0; i < 3; ++i) {
    ValueOrThrow(dispatcher->RunOnce());
    clock_.Advance(1min);
  }
  EXPECT_EQ(StateOf(id), TaskState::kDead);
}

TEST_F(DispatcherTest, WhatMayHaveTakenEffectIsHeldForAPersonAlsoInAnOutage) {
  resend_in_doubt_ = false;
  const EventId id = Enqueue(SampleTask());
  executor_->Answer(Down());
  ValueOrThrow(Make()->RunOnce());
  EXPECT_EQ(StateOf(id), TaskState::kDead);
  EXPECT_EQ(Find(id).summary.error_code, "in_doubt");
}

TEST_F(DispatcherTest, ATargetThatAsksToWaitIsNotProbedBefore) {
  breaker_.failures = 1;
  Enqueue(SampleTask());
  AttemptReport report = Down(RetryReport());
  report.retry_after = 10min;
  executor_->Answer(report);
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  clock_.Advance(10min - 1ms);
  EXPECT_TRUE(ValueOrThrow(dispatcher->RunOnce()).idle());
  clock_.Advance(1ms);
  EXPECT_FALSE(ValueOrThrow(dispatcher->RunOnce()).idle());
}

TEST_F(DispatcherTest, WhatIsDownOrPausedDoesNotKeepARunFromEnding) {
  breaker_.failures = 1;
  for (int i = 0; i < 5; ++i) Enqueue(SampleTask(fmt::format("charge-{}", i)));
  options_.workers = 1;
  executor_->Answer(Down());
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->Run({}, true));
  EXPECT_THAT(executor_->seen(), SizeIs(1));
  EXPECT_EQ(ValueOrThrow(desk_->Targets()).at(0).state(), "closed") << "who has ended says nothing about a target";
}

TEST_F(DispatcherTest, NewsThatCannotBeToldIsToldLater) {
  breaker_.failures = 1;
  Enqueue(SampleTask());
  executor_->Answer(Down());
  faults_->Fail(TaskCall::kReportOutage, kDown);
  const auto dispatcher = Make();
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(ValueOrThrow(desk_->Targets()).at(0).state(), "closed");
  clock_.Advance(1s);
  ValueOrThrow(dispatcher->RunOnce());
  EXPECT_EQ(ValueOrThrow(desk_->Targets()).at(0).state(), "open");
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
