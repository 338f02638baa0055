#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane messages list`: the newest committed events, filtered.
std::unique_ptr<Command> MakeMessagesListCommand();

}  // namespace sealane::cli
