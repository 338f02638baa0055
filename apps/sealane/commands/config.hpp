#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane config print`: the settings in force, secrets hidden.
std::unique_ptr<Command> MakeConfigPrintCommand();
/// `sealane config check`: whether everything that is configured is well-formed.
std::unique_ptr<Command> MakeConfigCheckCommand();
/// `sealane config document` (hidden): docs/configuration.md.
std::unique_ptr<Command> MakeConfigDocumentCommand();

}  // namespace sealane::cli
