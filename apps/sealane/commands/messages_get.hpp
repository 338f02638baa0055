#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane messages get`: everything about one event, or its payload's bytes and nothing else.
std::unique_ptr<Command> MakeMessagesGetCommand();

}  // namespace sealane::cli
