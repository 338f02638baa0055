#pragma once

#include <string>

#include "command_tree.hpp"

namespace sealane::cli {

/// Scripts that teach a shell the commands, options and values of `sealane`. They hold everything they offer and
/// start no program.
std::string BashCompletion(const CommandTree& tree);
std::string ZshCompletion(const CommandTree& tree);
std::string FishCompletion(const CommandTree& tree);

}  // namespace sealane::cli
