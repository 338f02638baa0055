#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane tenants list`: the rules of a route's tenants.
std::unique_ptr<Command> MakeTenantsListCommand();
/// `sealane tenants pause|resume|limit|weight`: change one.
std::unique_ptr<Command> MakeTenantsPauseCommand();
std::unique_ptr<Command> MakeTenantsResumeCommand();
std::unique_ptr<Command> MakeTenantsLimitCommand();
std::unique_ptr<Command> MakeTenantsWeightCommand();

}  // namespace sealane::cli
