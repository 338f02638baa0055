#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/dead_letters.hpp"
#include "ops/task_desk.hpp"
#include "outbox/outbox_store.hpp"
#include "tasks/task_store.hpp"

namespace sealane::testing {

/// One migrated, empty store of some kind, for the suites that say what every store of tasks promises.
class TaskFixture {
 public:
  virtual ~TaskFixture() = default;

  /// Another connection to the tasks.
  virtual std::unique_ptr<TaskStore> Open() = 0;
  /// What operators use on the same store, and the audit trail they leave.
  virtual std::unique_ptr<TaskDesk> OpenDesk() = 0;
  virtual std::unique_ptr<DeadLetters> OpenDeadLetters() = 0;
  /// The outbox of the same store; tasks are enqueued in its transactions.
  virtual std::unique_ptr<OutboxStore> OpenOutbox() = 0;

  /// Makes everything that is written about tasks that much older: created_at, not_before, leases, ends.
  virtual void LetTimePass(std::chrono::seconds duration) = 0;
  /// The store's clock.
  virtual Timestamp Now() const = 0;

  /// Enqueues and commits.
  EnqueuedTask Enqueue(const NewTask& task);
};

/// `memory`, `sqlite` or `postgres`.
std::unique_ptr<TaskFixture> MakeTaskFixture(const std::string& kind);

/// The stores that have tasks.
std::vector<std::string> TaskStores();

/// A task for `billing`, as it is admitted, with the required fields only and a fresh id.
NewTask SampleTask(std::string_view idempotency_key = "charge-1");
/// Every field set, each to another value.
NewTask FullTask();
/// The task with another request and another hash.
NewTask WithRequest(NewTask task, std::string request);
NewTask InOrder(NewTask task, std::string_view order_key);
NewTask ForTarget(NewTask task, std::string_view target);
NewTask NotBefore(NewTask task, Timestamp not_before);

AttemptReport SucceededReport();
/// 503: it surely did not happen.
AttemptReport RetryReport();
AttemptReport UnknownReport();

TaskStep Succeed();
TaskStep TryAgainAfter(std::chrono::milliseconds wait);
TaskStep Die();

/// A dispatcher's hands, for targets `billing` and `mail` with a lease of a minute.
class TaskSeat {
 public:
  explicit TaskSeat(TaskFixture& fixture, std::string owner = "host-1");

  TaskStore& store() { return *store_; }
  std::vector<ClaimedTask> Claim(std::size_t limit = 100);
  /// Claims one, which must be due.
  ClaimedTask ClaimOne();
  /// Claims one, which must be due, and finishes it.
  ClaimedTask Handle(const AttemptReport& report, const TaskStep& step);
  std::optional<std::chrono::milliseconds> NextDue();

 private:
  std::vector<std::string> targets_ = {"billing", "mail"};
  std::string owner_;
  std::unique_ptr<TaskStore> store_;
};

}  // namespace sealane::testing
