#include "memory/task_store.hpp"

#include <algorithm>
#include <map>
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
      std::erase_if(due, [&](const TaskRecord* record) { return *record->claimable_at() > now; });
      std::ranges::stable_sort(due, {}, [](const TaskRecord* record) { return *record->claimable_at(); });
      std::map<std::string, std::size_t> quotas;
      for (const TargetQuota& quota : claim.targets) {
        if (!tables.pauses.contains(quota.target)) quotas[quota.target] = quota.limit;
      }
      std::vector<ClaimedTask> claimed;
      for (TaskRecord* const record : due) {
        const auto quota = quotas.find(record->task.task.target);
        if (quota == quotas.end() || quota->second == 0) continue;
        if (claimed.size() == claim.limit) break;
        --quota->second;
        claimed.push_back(Begin(*record, claim, now));
      }
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
      if (!step.counts) --record->tries;
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

  Result<std::vector<TargetOutlook>> Outlook(std::span<const std::string> targets) override {
    const Timestamp now = database_->clock().Now();
    return database_->WithTasks([&](TaskTables& tables) -> Result<std::vector<TargetOutlook>> {
      std::vector<TargetOutlook> outlooks(targets.size());
      const std::vector<TaskRecord*> claimable = tables.Claimable();
      for (std::size_t i = 0; i < targets.size(); ++i) {
        TargetOutlook& outlook = outlooks[i];
        outlook.paused = tables.pauses.contains(targets[i]);
        for (const TaskRecord* const record : claimable) {
          if (record->task.task.target != targets[i]) continue;
          // Rounded up: whoever looks again after this time finds it due.
          const milliseconds wait =
              std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(*record->claimable_at() - now));
          outlook.due_in = std::min(outlook.due_in.value_or(wait), wait);
        }
      }
      return outlooks;
    });
  }

  Status ReportOutage(std::string_view owner, std::string_view target,
                      const std::optional<TargetOutage>& outage) override {
    const Timestamp now = database_->clock().Now();
    database_->WithTasks([&](TaskTables& tables) {
      std::erase_if(tables.outages, [&](const auto& entry) {
        return entry.first.first == target && entry.second.next_probe_at < now - kOutageKept;
      });
      const std::pair key{std::string(target), std::string(owner)};
      if (!outage) {
        tables.outages.erase(key);
        return;
      }
      OutageRecord& record = tables.outages.try_emplace(key, OutageRecord{.since = now}).first->second;
      record.next_probe_at = now + outage->next_probe_in;
      record.code = outage->code;
      record.message = outage->message;
    });
    return Ok();
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
