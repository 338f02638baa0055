#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "memory/call_faults.hpp"
#include "tasks/task_store.hpp"

namespace sealane::memory {

/// The calls of a TaskStore, for tests that count them or let them fail.
enum class TaskCall : std::uint8_t {
  kClaim,
  kFinish,
  kRelease,
  kOutlook,
  kReportOutage,
  kCount,
  kPrune,
};
inline constexpr std::size_t kTaskCalls = 7;

/// Which calls of task stores fail, and how. A commit whose answer is lost is a kFinish that fails after the work.
using TaskFaults = CallFaults<TaskCall, kTaskCalls>;

/// `store`, of any kind, with faults in front of it.
std::unique_ptr<TaskStore> WithFaults(std::unique_ptr<TaskStore> store, std::shared_ptr<TaskFaults> faults);

}  // namespace sealane::memory
