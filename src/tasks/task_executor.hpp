#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "core/retry_policy.hpp"
#include "tasks/circuit_breaker.hpp"
#include "tasks/task_attempt.hpp"
#include "tasks/task_store.hpp"

namespace sealane {

/// Port: carries out tasks at one destination. Thread-safe: several attempts run side by side.
class TaskExecutor {
 public:
  virtual ~TaskExecutor() = default;

  /// One attempt, ended within time_limit(). Errors are part of the report. When a stop is requested before anything
  /// was sent it may end at once with kRetry (`stopped`); what was sent is waited for.
  virtual AttemptReport Execute(const ClaimedTask& task, std::stop_token stop) = 0;

  /// How long an attempt can take at most, connecting included.
  virtual std::chrono::milliseconds time_limit() const = 0;
};

/// A destination by its name in Task::target.
struct TaskTarget {
  std::shared_ptr<TaskExecutor> executor;
  RetryPolicy retry = {};
  /// An attempt that may have taken effect is repeated with the same key: right for every receiver that keeps keys.
  /// False: such a task is dead (`in_doubt`), and a person finds out.
  bool resend_in_doubt = true;
  std::size_t concurrency = 0;  ///< attempts side by side at most; 0: as many as the dispatcher has workers
  BreakerOptions breaker = {};
};
using TaskTargets = std::map<std::string, TaskTarget, std::less<>>;

}  // namespace sealane
