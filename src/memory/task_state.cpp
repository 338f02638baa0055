#include "memory/task_state.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace sealane::memory {

TaskName NameOf(const Task& task) {
  return {task.tenant, task.target, task.operation, task.idempotency_key};
}

void TaskRecord::CloseAttempt(std::int64_t claim, const AttemptReport& report, Timestamp now) {
  const auto attempt = std::ranges::find(tried, claim, &BegunAttempt::claim);
  if (attempt == tried.end()) return;
  // Whoever says late how it went knows more than whoever found nobody there.
  if (attempt->report && attempt->report->code != "interrupted") return;
  attempt->ended_at = now;
  attempt->report = report;
}

void TaskTables::Add(NewTask task, Timestamp now) {
  TaskRecord record;
  record.place = ++last_place;
  record.created_at = now;
  record.due_at = task.task.not_before.value_or(now);
  record.task = std::move(task);
  place_of_name.emplace(NameOf(record.task.task), record.place);
  place_of.emplace(record.task.id, record.place);
  tasks.emplace(record.place, std::move(record));
}

TaskRecord* TaskTables::Find(const EventId& id) {
  const auto place = place_of.find(id);
  return place == place_of.end() ? nullptr : &tasks.at(place->second);
}

std::vector<TaskRecord*> TaskTables::Claimable() {
  std::vector<TaskRecord*> claimable;
  std::set<std::tuple<std::string, std::string, std::string>> held;  // tenant, target, order key
  for (auto& [place, record] : tasks) {
    if (record.is_over()) continue;
    const Task& task = record.task.task;
    const bool first = task.order_key.empty() || held.emplace(task.tenant, task.target, task.order_key).second;
    if (first && record.claimable_at()) claimable.push_back(&record);
  }
  return claimable;
}

void TaskTables::Erase(const EventId& id) {
  const auto place = place_of.find(id);
  if (place == place_of.end()) return;
  place_of_name.erase(NameOf(tasks.at(place->second).task.task));
  tasks.erase(place->second);
  place_of.erase(place);
}

}  // namespace sealane::memory
