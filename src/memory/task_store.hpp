#pragma once

#include <memory>

#include "memory/memory_store.hpp"
#include "memory/task_store_faults.hpp"
#include "tasks/task_store.hpp"

namespace sealane::memory {

/// The tasks of the database, with the promises of the real ones. Times run by the clock of the database, so that
/// tests own them; `faults`, when given, decides which calls fail.
std::unique_ptr<TaskStore> MakeTaskStore(std::shared_ptr<Database> database,
                                         std::shared_ptr<TaskFaults> faults = nullptr);

}  // namespace sealane::memory
