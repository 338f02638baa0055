#include "tasks/task_board.hpp"

#include <chrono>

namespace sealane {

TaskDispatcherStats TaskBoard::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void TaskBoard::Ended(const std::string& target, const AttemptReport& report, TaskState state) {
  const std::lock_guard lock(mutex_);
  TaskTargetStats& share = stats_.targets[target];
  if (state == TaskState::kSucceeded) ++share.succeeded;
  if (state == TaskState::kDead) ++share.dead;
  if (state == TaskState::kFailed) ++share.failed;
  // Whatever comes of it: where nothing is sent again in doubt, the task is dead.
  if (report.verdict == AttemptVerdict::kUnknown) ++share.unknown;
  share.seconds.Add(std::chrono::duration<double>(report.took).count());
}

void TaskBoard::Fenced() {
  const std::lock_guard lock(mutex_);
  ++stats_.fenced;
}

void TaskBoard::Reached() {
  const std::lock_guard lock(mutex_);
  stats_.store_reached = true;
  stats_.problem.clear();
}

void TaskBoard::Problem(const Error& error) {
  const std::lock_guard lock(mutex_);
  stats_.store_reached = error.kind() != ErrorKind::kUnavailable && stats_.store_reached;
  stats_.problem = error.ToString();
}

void TaskBoard::Waiting(const TaskCounts& counts) {
  const std::lock_guard lock(mutex_);
  stats_.waiting = counts;
}

}  // namespace sealane
