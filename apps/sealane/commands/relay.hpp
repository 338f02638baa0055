#pragma once

#include <memory>

#include "command.hpp"
#include "daemon/route_work.hpp"

namespace sealane::cli {

/// `sealane relay`: ships the outbox to the broker until it is stopped, or until everything is shipped.
std::unique_ptr<Command> MakeRelayCommand();
/// The same with something else in the place of relays.
std::unique_ptr<Command> MakeRelayCommand(MakeRouteWork make);

}  // namespace sealane::cli
