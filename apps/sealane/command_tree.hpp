#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"

namespace sealane::cli {

/// One option, or positional argument, as completions and the manual show it.
struct OptionEntry {
  std::vector<std::string> names;  ///< `-o`, `--output`; empty for a positional argument
  std::string value_name;          ///< empty for a switch
  std::string help;
  std::vector<std::string> choices;
  bool required = false;
  bool repeatable = false;

  bool takes_value() const { return !value_name.empty(); }
  /// Whether a value is the name of a file, or can be one.
  bool takes_file() const;
};

/// A command, or a group such as `messages`, which has subcommands and no options of its own.
struct CommandEntry {
  std::string path;  ///< `messages list`; empty for the program itself
  std::string summary;
  std::vector<std::string> examples;
  std::vector<OptionEntry> options;
  std::vector<std::string> subcommands;  ///< their last words
};

/// All commands that are not hidden.
struct CommandTree {
  std::vector<CommandEntry> entries;  ///< the program first, a group before its commands
  std::vector<OptionEntry> common;    ///< the options of all commands

  const CommandEntry& Find(std::string_view path) const;
};

CommandTree WalkCommands(std::span<const std::unique_ptr<Command>> commands);

/// `messages list` and `list` are `messages list`.
std::string JoinPath(std::string_view group, std::string_view word);

}  // namespace sealane::cli
