#pragma once

#include <mutex>
#include <string>

#include "sealane/error.hpp"

#include "tasks/task_dispatcher.hpp"

namespace sealane {

/// What a dispatcher tells about itself. Thread-safe.
class TaskBoard {
 public:
  TaskDispatcherStats stats() const;

  /// An attempt came to this state.
  void Ended(const std::string& target, const AttemptReport& report, TaskState state);
  void Fenced();
  void Reached();
  void Problem(const Error& error);
  void Waiting(const TaskCounts& counts);

 private:
  mutable std::mutex mutex_;
  TaskDispatcherStats stats_;  // guarded by mutex_
};

}  // namespace sealane
