#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane forward`: carries the events of some topics to an HTTP receiver, in order and once each.
std::unique_ptr<Command> MakeForwardCommand();

}  // namespace sealane::cli
