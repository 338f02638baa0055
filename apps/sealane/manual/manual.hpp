#pragma once

#include <string>

#include "command_tree.hpp"

namespace sealane::cli {

/// sealane(1): every command with its options and examples, and the exit codes.
std::string ProgramManual(const CommandTree& tree);
/// sealane.toml(5): every key of the configuration.
std::string ConfigurationManual();

}  // namespace sealane::cli
