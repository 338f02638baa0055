#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane completion SHELL`: a script that completes command lines.
std::unique_ptr<Command> MakeCompletionCommand();

}  // namespace sealane::cli
