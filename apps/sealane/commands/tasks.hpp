#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane tasks run`: carries out tasks at their targets, until it is stopped or nothing is due.
std::unique_ptr<Command> MakeTasksRunCommand();
/// `sealane tasks enqueue`: writes one task, in a transaction of its own.
std::unique_ptr<Command> MakeTasksEnqueueCommand();
/// `sealane tasks list`: tasks, newest first.
std::unique_ptr<Command> MakeTasksListCommand();
/// `sealane tasks show`: everything about one, with its attempts.
std::unique_ptr<Command> MakeTasksShowCommand();
/// `sealane tasks retry`: makes one, or all that match, due now.
std::unique_ptr<Command> MakeTasksRetryCommand();
/// `sealane tasks discard`: gives one up.
std::unique_ptr<Command> MakeTasksDiscardCommand();
/// `sealane tasks targets`: which are down or paused, and what waits for them.
std::unique_ptr<Command> MakeTasksTargetsCommand();
/// `sealane tasks pause|resume`: whether tasks of a target are sent.
std::unique_ptr<Command> MakeTasksPauseCommand();
std::unique_ptr<Command> MakeTasksResumeCommand();

}  // namespace sealane::cli
