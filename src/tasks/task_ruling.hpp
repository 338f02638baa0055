#pragma once

#include <chrono>
#include <optional>

#include "sealane/random.hpp"

#include "tasks/task_executor.hpp"
#include "tasks/task_store.hpp"

namespace sealane {

/// Why a claimed task must not be attempted; empty: it may. An attempt of it was interrupted, and it was the last one
/// that the policy allows (`attempts_exhausted`), or the target wants none after one in doubt (`in_doubt`).
std::optional<AttemptReport> Forbidden(const ClaimedTask& task, const TaskTarget& target);

/// What an attempt leads to.
struct Ruling {
  TaskState state = TaskState::kSucceeded;                    ///< kSucceeded, kFailed, kDead
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< with kFailed
  bool counts = true;                                         ///< as in TaskStep
};
/// `next_probe`: the target is down and is tried again after this, so that the attempt does not count. Changes the
/// report to `in_doubt` where that is the reason why the task is dead.
Ruling RuleOn(const ClaimedTask& task, const TaskTarget& target, AttemptReport& report, Random& random,
              std::optional<std::chrono::milliseconds> next_probe = {});

}  // namespace sealane
