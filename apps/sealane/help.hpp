#pragma once

#include <memory>
#include <span>
#include <string>

#include "command.hpp"

namespace sealane::cli {

/// The overview: examples first, then every command with its summary.
std::string Overview(std::span<const std::unique_ptr<Command>> commands);
/// One command: usage, examples, options, then the options all commands take.
std::string CommandHelp(Command& command);
/// A group such as `messages`: its commands.
std::string GroupHelp(std::string_view group, std::span<const std::unique_ptr<Command>> commands);
std::string ExitCodeHelp();

}  // namespace sealane::cli
