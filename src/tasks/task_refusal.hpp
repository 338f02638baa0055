#pragma once

#include "sealane/error.hpp"

#include "tasks/task_store.hpp"

namespace sealane {

// What every task store says in the same words, whatever it found it out with.

/// kFenced (`task_fenced`).
Error TaskFenced(const ClaimedTask& claimed);
/// How an attempt is closed that nobody reported about: kUnknown (`interrupted`).
AttemptReport InterruptedAttempt();

}  // namespace sealane
