#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "command.hpp"

namespace sealane::cli {

/// What the words on the command line select.
struct ParsedArguments {
  Command* command = nullptr;  ///< null: none was named completely
  std::string group;           ///< `messages` when only that was named
  bool group_only = false;     ///< nothing but a group or nothing at all was named
};

/// Fills the targets of the commands' options and of `common`. Errors are `bad_usage` and suggest the nearest name.
/// A missing required option is not an error when help was asked for.
Result<ParsedArguments> ParseArguments(std::span<const std::string> arguments,
                                       std::span<const std::unique_ptr<Command>> commands, CommonOptions& common);

/// The output format that the arguments ask for, found without parsing them, so that a failure to parse is reported
/// in it too.
OutputFormat GuessOutputFormat(std::span<const std::string> arguments);

}  // namespace sealane::cli
