#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command_tree.hpp"

namespace sealane::cli {

/// A word in single quotes, for bash and zsh.
std::string ShellQuote(std::string_view text);
/// A word in single quotes, for fish, which knows escapes inside them.
std::string FishQuote(std::string_view text);

/// Every name of these options: `-o --output --store`.
std::string OptionNames(const std::vector<OptionEntry>& options);
/// The names of those that take a value, with a space on both sides of each.
std::string ValuedNames(const std::vector<OptionEntry>& options);
/// What can stand in place of a command: subcommands, and the values of positional arguments.
std::vector<std::string> WordsOf(const CommandEntry& entry);

/// The words that may follow an option for a file name: `FILE` stands for any file.
std::string ValueWords(const OptionEntry& option);

}  // namespace sealane::cli
