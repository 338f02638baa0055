#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane consume`: applies the events of some topics once each, through SQL statements, until it is stopped or has
/// caught up.
std::unique_ptr<Command> MakeConsumeCommand();

}  // namespace sealane::cli
