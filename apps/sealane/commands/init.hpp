#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane init`: writes a commented sealane.toml and shows what to do next.
std::unique_ptr<Command> MakeInitCommand();

}  // namespace sealane::cli
