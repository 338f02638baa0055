#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane receive`: takes webhooks and makes each an event of the outbox, once.
std::unique_ptr<Command> MakeReceiveCommand();

}  // namespace sealane::cli
