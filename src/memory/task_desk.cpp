#include <algorithm>
#include <map>
#include <utility>

#include "memory/database.hpp"
#include "ops/inbox_desk.hpp"
#include "ops/operator_action.hpp"

namespace sealane::memory {
namespace {

template <class T>
bool Fits(const std::optional<T>& wanted, const T& value) {
  return !wanted || *wanted == value;
}

bool Fits(const TaskFilter& filter, const TaskRecord& record) {
  const Task& task = record.task.task;
  return Fits(filter.state, record.state) && Fits(filter.target, task.target) &&
         Fits(filter.operation, task.operation) && Fits(filter.tenant, task.tenant) &&
         Fits(filter.idempotency_key, task.idempotency_key) && Fits(filter.error_code, record.error_code);
}

TaskSummary Show(const TaskRecord& record) {
  const Task& task = record.task.task;
  return {.id = record.task.id,
          .state = record.state,
          .tenant = task.tenant,
          .target = task.target,
          .operation = task.operation,
          .idempotency_key = task.idempotency_key,
          .attempts = record.attempts,
          .created_at = record.created_at,
          .next_attempt_at = record.claimable_at(),
          .ended_at = record.ended_at,
          .status = record.status,
          .error_code = record.error_code,
          .error_message = record.error_message};
}

bool CanBeRetried(const TaskRecord& record) {
  return record.state == TaskState::kFailed || record.state == TaskState::kDead;
}

bool CanBeGivenUp(const TaskRecord& record) {
  return record.waits() || record.state == TaskState::kDead;
}

void MakeDue(TaskRecord& record, Timestamp now) {
  record.state = TaskState::kFailed;
  record.tries = 0;
  // Whoever asks for another attempt has found out, or takes it upon himself.
  record.in_doubt = false;
  record.due_at = now;
  record.ended_at.reset();
}

void GiveUp(TaskRecord& record, Timestamp now) {
  record.state = TaskState::kDiscarded;
  record.ended_at = now;
}

void AddOutage(std::optional<TargetDown>& down, const OutageRecord& outage, Timestamp now) {
  if (!down) down = {.since = outage.since, .next_probe_at = outage.next_probe_at};
  ++down->dispatchers;
  down->since = std::min(down->since, outage.since);
  down->next_probe_at = std::min(down->next_probe_at, outage.next_probe_at);
  down->probing = down->next_probe_at <= now;
  down->error_code = outage.code;
  down->error_message = outage.message;
}

void AddTask(TargetSummary& summary, const TaskRecord& record, Timestamp now) {
  const Timestamp at = *record.claimable_at();
  if (record.state == TaskState::kSending) ++summary.in_flight;
  std::optional<Timestamp>& first = at <= now ? summary.oldest_due_at : summary.next_due_at;
  first = std::min(first.value_or(at), at);
  if (at <= now) summary.due = std::min(summary.due + 1, TaskCounts::kCountMax);
}

class MemoryTaskDesk final : public TaskDesk {
 public:
  explicit MemoryTaskDesk(std::shared_ptr<Database> database) : database_(std::move(database)) {}

  Result<std::vector<TaskSummary>> List(const TaskFilter& filter) override {
    return database_->WithTasks([&](const TaskTables& tables) -> Result<std::vector<TaskSummary>> {
      std::vector<TaskSummary> summaries;
      for (auto entry = tables.tasks.rbegin(); entry != tables.tasks.rend(); ++entry) {
        if (summaries.size() == DeskLimit(filter.limit)) break;
        if (Fits(filter, entry->second)) summaries.push_back(Show(entry->second));
      }
      return summaries;
    });
  }

  Result<std::optional<TaskDetails>> Find(const EventId& id) override {
    return database_->WithTasks([&](TaskTables& tables) -> Result<std::optional<TaskDetails>> {
      const TaskRecord* const record = tables.Find(id);
      if (record == nullptr) return std::optional<TaskDetails>();
      TaskDetails details{.summary = Show(*record),
                          .task = record->task.task,
                          .request_hash = record->task.request_hash,
                          .attempts = {}};
      const std::size_t shown = std::min(record->tried.size(), TaskDetails::kAttemptsMax);
      details.attempts.assign(record->tried.end() - static_cast<std::ptrdiff_t>(shown), record->tried.end());
      return std::optional(std::move(details));
    });
  }

  Result<std::int64_t> Retry(const TaskFilter& which, const OperatorAction& why) override {
    const auto wanted = [&](const TaskRecord& record) { return CanBeRetried(record) && Fits(which, record); };
    return Apply("task.retry", DeskLimit(which.limit), why, wanted, MakeDue);
  }
  Result<std::int64_t> Retry(const EventId& id, const OperatorAction& why) override {
    const auto wanted = [&](const TaskRecord& record) { return CanBeRetried(record) && record.task.id == id; };
    return Apply("task.retry", 1, why, wanted, MakeDue);
  }
  Result<std::int64_t> Discard(const EventId& id, const OperatorAction& why) override {
    const auto wanted = [&](const TaskRecord& record) { return CanBeGivenUp(record) && record.task.id == id; };
    return Apply("task.discard", 1, why, wanted, GiveUp);
  }

  Result<std::vector<TargetSummary>> Targets() override {
    const Timestamp now = database_->clock().Now();
    return database_->WithTasks([&](TaskTables& tables) -> Result<std::vector<TargetSummary>> {
      std::map<std::string, TargetSummary> targets;
      for (const auto& [target, pause] : tables.pauses) targets[target].pause = pause;
      for (const auto& [key, outage] : tables.outages) {
        if (outage.next_probe_at >= now - TaskStore::kOutageKept) AddOutage(targets[key.first].down, outage, now);
      }
      for (const TaskRecord* const record : tables.Claimable()) {
        AddTask(targets[record->task.task.target], *record, now);
      }
      std::vector<TargetSummary> summaries;
      for (auto& [name, summary] : targets) {
        summary.target = name;
        if (summary.oldest_due_at) summary.next_due_at.reset();
        summaries.push_back(std::move(summary));
      }
      return summaries;
    });
  }

  Result<PauseOutcome> Pause(const std::string& target, bool is_known, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    const Timestamp now = database_->clock().Now();
    return database_->WithLogAndTasks([&](LogState& log, TaskTables& tables) -> Result<PauseOutcome> {
      if (tables.pauses.contains(target)) return PauseOutcome::kAlready;
      const auto is_for = [&](const auto& entry) { return entry.second.task.task.target == target; };
      if (!is_known && !std::ranges::any_of(tables.tasks, is_for)) return PauseOutcome::kUnknown;
      tables.pauses[target] = {.at = now, .actor = why.actor, .reason = why.reason};
      Note(log, "task.pause", target, why, now);
      return PauseOutcome::kPaused;
    });
  }

  Result<bool> Resume(const std::string& target, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    const Timestamp now = database_->clock().Now();
    return database_->WithLogAndTasks([&](LogState& log, TaskTables& tables) -> Result<bool> {
      if (tables.pauses.erase(target) == 0) return false;
      Note(log, "task.resume", target, why, now);
      return true;
    });
  }

 private:
  static void Note(LogState& log, std::string_view action, std::string target, const OperatorAction& why,
                   Timestamp now) {
    const auto id = static_cast<std::int64_t>(log.audit.size()) + 1;
    log.audit.push_back(RecordOf(id, now, action, std::move(target), why));
  }

  template <class Wanted, class Change>
  Result<std::int64_t> Apply(std::string_view action, std::size_t limit, const OperatorAction& why,
                             const Wanted& wanted, const Change& change) {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    const Timestamp now = database_->clock().Now();
    return database_->WithLogAndTasks([&](LogState& log, TaskTables& tables) -> Result<std::int64_t> {
      std::size_t changed = 0;
      for (auto& [place, record] : tables.tasks) {
        if (changed == limit) break;
        if (!wanted(record)) continue;
        change(record, now);
        Note(log, action, AuditTarget(record.task.id.ToString(), record.task.task.target), why, now);
        ++changed;
      }
      return static_cast<std::int64_t>(changed);
    });
  }

  std::shared_ptr<Database> database_;
};

}  // namespace

Result<std::unique_ptr<TaskDesk>> OpenTaskDesk(std::shared_ptr<Database> database) {
  return std::unique_ptr<TaskDesk>(std::make_unique<MemoryTaskDesk>(std::move(database)));
}

}  // namespace sealane::memory
