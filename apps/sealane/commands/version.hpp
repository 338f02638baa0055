#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane version`: of this program, its compiler and the libraries it runs with.
std::unique_ptr<Command> MakeVersionCommand();

}  // namespace sealane::cli
