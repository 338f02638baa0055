#include "memory/task_store.hpp"

#include <algorithm>
#include <utility>

#include "memory/database.hpp"
#include "memory/memory_transaction.hpp"
#include "tasks/task_refusal.hpp"

namespace sealane::memory {
namespace {

using std::chrono::milliseconds;

bool Names(std::span<const std::string> targets, const TaskRecord* record) {
  return std::ranges::find(targets, record->task.task.target) != targets.end();
}

void Remember(TaskRecord& record, const AttemptReport& report) {
  record.in_doubt = record.in_doubt || report.verdict == AttemptVerdict::kUnknown;
  record.status = report.status;
  record.error_code = report.code;
  record.error_message = report.message;
}

ClaimedTask Begin(TaskRecord& record, const TaskClaim& claim, Timestamp now) {
  if (record.state == TaskState::kSending) {
    record.CloseAttempt(record.claims, InterruptedAttempt(), now);
    Remember(record, InterruptedAttempt());
  }
  record.state = TaskState::kSending;
  record.lease_until = now + claim.lease;
  ++record.claims;
  ++record.attempts;
  ++record.tries;
  BegunAttempt& begun = record.tried.emplace_back();
  begun.claim = record.claims;
  begun.number = record.attempts;
  begun.owner = claim.owner;
  begun.started_at = now;
  return {.id = record.task.id,
          .task = record.task.task,
          .request_hash = record.task.request_hash,
          .claim = record.claims,
          .attempt = record.attempts,
          .tries = record.tries,
          .in_doubt = record.in_doubt,
          .created_at = record.created_at};
}

class MemoryTaskStore final : public TaskStore {
 public:
  explicit MemoryTaskStore(std::shared_ptr<Database> database) : database_(std::move(database)) {}

  Result<std::vector<ClaimedTask>> Claim(const TaskClaim& claim) override {
    const Timestamp now = database_->clock().Now();
    return database_->WithTasks([&](TaskTables& tables) -> Result<std::vector<ClaimedTask>> {
      std::vector<TaskRecord*> due = tables.Claimable();
      std::erase_if(due, [&](const TaskRecord* record) {
        return !Names(claim.targets, record) || *record->claimable_at() > now;
      });
      std::ranges::stable_sort(due, {}, [](const TaskRecord* record) { return *record->claimable_at(); });
      if (due.size() > claim.limit) due.resize(claim.limit);
      std::vector<ClaimedTask> claimed;
      for (TaskRecord* const record : due) claimed.push_back(Begin(*record, claim, now));
      return claimed;
    });
  }

  Status Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) override {
    MemoryTransaction transaction(database_, std::make_shared<char>());
    if (step.event) SEALANE_RETURN_IF_ERROR(transaction.Append({&*step.event, 1}));
    const Timestamp now = database_->clock().Now();
    const std::function<Status(TaskTables&)> move_on = [&](TaskTables& tables) -> Status {
      TaskRecord* const record = tables.Find(claimed.id);
      if (record == nullptr || !record->is_at(claimed)) return TaskFenced(claimed);
      record->CloseAttempt(claimed.claim, report, now);
      Remember(*record, report);
      record->state = step.state;
      record->lease_until.reset();
      if (step.state == TaskState::kFailed) {
        record->due_at = now + step.retry_after.value_or(milliseconds{0});
      } else {
        record->ended_at = now;
      }
      return Ok();
    };
    Status moved = transaction.CommitWith(move_on);
    if (moved) return moved;
    database_->WithTasks([&](TaskTables& tables) {
      if (TaskRecord* const record = tables.Find(claimed.id)) record->CloseAttempt(claimed.claim, report, now);
    });
    return moved;
  }

  Status Release(std::span<const ClaimedTask> claimed) override {
    database_->WithTasks([&](TaskTables& tables) {
      for (const ClaimedTask& one : claimed) {
        TaskRecord* const record = tables.Find(one.id);
        if (record == nullptr || !record->is_at(one)) continue;
        --record->attempts;
        --record->tries;
        record->tried.pop_back();
        record->lease_until.reset();
        record->state = record->attempts == 0 ? TaskState::kPending : TaskState::kFailed;
      }
    });
    return Ok();
  }

  Result<std::optional<milliseconds>> NextDue(std::span<const std::string> targets) override {
    const Timestamp now = database_->clock().Now();
    return database_->WithTasks([&](TaskTables& tables) -> Result<std::optional<milliseconds>> {
      std::optional<milliseconds> next;
      for (const TaskRecord* const record : tables.Claimable()) {
        if (!Names(targets, record)) continue;
        // Rounded up: whoever looks again after this time finds it due.
        const milliseconds wait =
            std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(*record->claimable_at() - now));
        next = std::min(next.value_or(wait), wait);
      }
      return next;
    });
  }

  Result<TaskCounts> Count() override {
    return database_->WithTasks([](TaskTables& tables) -> Result<TaskCounts> {
      TaskCounts counts;
      const auto add = [](std::int64_t& count) { count = std::min(count + 1, TaskCounts::kCountMax); };
      for (const auto& [place, record] : tables.tasks) {
        if (record.state == TaskState::kPending) add(counts.pending);
        if (record.state == TaskState::kSending) add(counts.sending);
        if (record.state == TaskState::kFailed) add(counts.failed);
        if (record.state == TaskState::kDead) add(counts.dead);
        if (record.waits() && !counts.oldest_waiting_at) counts.oldest_waiting_at = record.created_at;
      }
      return counts;
    });
  }

  Result<std::int64_t> Prune(std::span<const std::string> targets, milliseconds age, std::size_t limit) override {
    const Timestamp now = database_->clock().Now();
    return database_->WithTasks([&](TaskTables& tables) -> Result<std::int64_t> {
      std::vector<EventId> old;
      for (const auto& [place, record] : tables.tasks) {
        if (!Names(targets, &record) || !record.is_over() || old.size() >= limit) continue;
        // Compared as durations: a very long retention would lie before the beginning of time.
        if (now - *record.ended_at > age) old.push_back(record.task.id);
      }
      for (const EventId& id : old) tables.Erase(id);
      return static_cast<std::int64_t>(old.size());
    });
  }

 private:
  std::shared_ptr<Database> database_;
};

}  // namespace

std::unique_ptr<TaskStore> MakeTaskStore(std::shared_ptr<Database> database, std::shared_ptr<TaskFaults> faults) {
  std::unique_ptr<TaskStore> store = std::make_unique<MemoryTaskStore>(std::move(database));
  return faults == nullptr ? std::move(store) : WithFaults(std::move(store), std::move(faults));
}

}  // namespace sealane::memory
