#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane man [PAGE]`: the manual pages that are installed, sealane(1) and sealane.toml(5). Hidden.
std::unique_ptr<Command> MakeManCommand();

}  // namespace sealane::cli
