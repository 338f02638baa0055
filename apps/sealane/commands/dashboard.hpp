#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane dashboard`: a web page about one store, for whoever is on this machine.
std::unique_ptr<Command> MakeDashboardCommand();

}  // namespace sealane::cli
