#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane emit`: appends one event, or the events of a JSON lines file, in one transaction.
std::unique_ptr<Command> MakeEmitCommand();

}  // namespace sealane::cli
