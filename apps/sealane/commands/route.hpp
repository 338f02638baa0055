#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane route list|add|remove`: which routes there are.
std::unique_ptr<Command> MakeRouteListCommand();
std::unique_ptr<Command> MakeRouteAddCommand();
std::unique_ptr<Command> MakeRouteRemoveCommand();
/// `sealane route pause|resume`: whether a route flows.
std::unique_ptr<Command> MakeRoutePauseCommand();
std::unique_ptr<Command> MakeRouteResumeCommand();
/// `sealane route rebase`: after the outbox has moved to another server.
std::unique_ptr<Command> MakeRouteRebaseCommand();

}  // namespace sealane::cli
