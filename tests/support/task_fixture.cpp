#include "support/task_fixture.hpp"

#include <utility>

#include <gtest/gtest.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "memory/task_store.hpp"
#include "support/sample_events.hpp"
#include "support/sql_task_fixture.hpp"
#include "support/store_fixture.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class MemoryTaskFixture final : public TaskFixture {
 public:
  std::unique_ptr<TaskStore> Open() override { return memory::MakeTaskStore(database_); }
  std::unique_ptr<TaskDesk> OpenDesk() override { return ValueOrThrow(memory::OpenTaskDesk(database_)); }
  std::unique_ptr<DeadLetters> OpenDeadLetters() override { return ValueOrThrow(memory::OpenDeadLetters(database_)); }
  std::unique_ptr<OutboxStore> OpenOutbox() override { return ValueOrThrow(memory::OpenOutboxStore(database_)); }
  void LetTimePass(seconds duration) override { clock_.Advance(duration); }
  Timestamp Now() const override { return clock_.Now(); }

 private:
  ManualClock clock_;
  // Generous, so that slow machines never see a lock given up.
  std::shared_ptr<memory::Database> database_ = memory::MakeDatabase(clock_, seconds{60});
};

AttemptReport ReportOf(AttemptVerdict verdict, std::optional<std::int32_t> status, std::string code) {
  AttemptReport report;
  report.verdict = verdict;
  report.status = status;
  report.code = std::move(code);
  if (!report.code.empty()) report.message = "it said no";
  report.took = std::chrono::microseconds{12'345};
  return report;
}

}  // namespace

EnqueuedTask TaskFixture::Enqueue(const NewTask& task) {
  EnqueuedTask enqueued;
  InTransaction(*OpenOutbox(), [&](Transaction& transaction) -> Status {
    SEALANE_ASSIGN_OR_RETURN(enqueued, transaction.EnqueueTask(task));
    return Ok();
  });
  return enqueued;
}

std::unique_ptr<TaskFixture> MakeTaskFixture(const std::string& kind) {
  if (kind == "memory") return std::make_unique<MemoryTaskFixture>();
  if (kind == "sqlite") return MakeSqliteTaskFixture();
  SEALANE_ASSERT(kind == "postgres", "a task fixture is named memory, sqlite or postgres");
  return MakePostgresTaskFixture();
}

std::vector<std::string> TaskStores() {
  return {"memory", "sqlite", "postgres"};
}

NewTask SampleTask(std::string_view idempotency_key) {
  NewTask task;
  task.id = FreshId();
  task.task.target = "billing";
  task.task.operation = "/charges";
  task.task.idempotency_key = idempotency_key;
  return WithRequest(std::move(task), R"({"amount":5})");
}

NewTask FullTask() {
  NewTask task = SampleTask("full-1");
  task.task.operation = "/charges/späti?x='1'";
  task.task.tenant = "acme";
  task.task.content_type = "application/octet-stream";
  task.task.headers = {{"x-twice", "1"}, {"X-Empty", ""}, {"x-twice", "ä\"\\"}};
  task.task.correlation_id = "correlation-1";
  task.task.causation_id = "causation-1";
  task.task.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  task.task.result_topic = "charges";
  task.task.result_key = "result-key";
  task.task.order_key = "order-key";
  task.task.not_before = Timestamp{seconds{1'500'000'000} + std::chrono::microseconds{7}};
  return WithRequest(std::move(task), std::string("\x00\xff bytes\n\x00", 10));
}

NewTask WithRequest(NewTask task, std::string request) {
  task.request_hash = ToHex(Sha256(request));
  task.task.request = std::move(request);
  return task;
}

NewTask InOrder(NewTask task, std::string_view order_key) {
  task.task.order_key = order_key;
  return task;
}

NewTask ForTarget(NewTask task, std::string_view target) {
  task.task.target = target;
  return task;
}

NewTask NotBefore(NewTask task, Timestamp not_before) {
  task.task.not_before = not_before;
  return task;
}

AttemptReport SucceededReport() {
  AttemptReport report = ReportOf(AttemptVerdict::kSucceeded, 201, "");
  report.response = R"({"charge":"c-1"})";
  report.response_type = "application/json";
  return report;
}

AttemptReport RetryReport() {
  return ReportOf(AttemptVerdict::kRetry, 503, "http_503");
}

AttemptReport UnknownReport() {
  return ReportOf(AttemptVerdict::kUnknown, std::nullopt, "timeout");
}

TaskStep Succeed() {
  return {.state = TaskState::kSucceeded};
}

TaskStep TryAgainAfter(milliseconds wait) {
  return {.state = TaskState::kFailed, .retry_after = wait};
}

TaskStep Die() {
  return {.state = TaskState::kDead};
}

TaskSeat::TaskSeat(TaskFixture& fixture, std::string owner) : owner_(std::move(owner)), store_(fixture.Open()) {}

std::vector<ClaimedTask> TaskSeat::Claim(std::size_t limit) {
  return ValueOrThrow(store_->Claim({.owner = owner_,
                                     .targets = {targets_.begin(), targets_.end()},
                                     .limit = limit,
                                     .lease = milliseconds{60'000}}));
}

ClaimedTask TaskSeat::ClaimOne() {
  std::vector<ClaimedTask> claimed = Claim(1);
  if (claimed.empty()) {
    ADD_FAILURE() << "nothing is due";
    return {};
  }
  return std::move(claimed.front());
}

ClaimedTask TaskSeat::Handle(const AttemptReport& report, const TaskStep& step) {
  ClaimedTask claimed = ClaimOne();
  ValueOrThrow(store_->Finish(claimed, report, step));
  return claimed;
}

std::optional<milliseconds> TaskSeat::NextDue() {
  return FirstDue(ValueOrThrow(store_->Outlook(targets_)));
}

}  // namespace sealane::testing
