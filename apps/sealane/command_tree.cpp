#include "command_tree.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sealane::cli {
namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<OptionEntry> EntriesOf(const std::vector<OptionSpec>& options) {
  std::vector<OptionEntry> entries;
  for (const OptionSpec& option : options) {
    if (option.hidden) continue;
    entries.push_back({.names = option.names.starts_with('-') ? Split(option.names, ',') : std::vector<std::string>(),
                       .value_name = option.value_name,
                       .help = option.help,
                       .choices = Split(option.choices, '|'),
                       .required = option.required,
                       .repeatable = std::holds_alternative<std::vector<std::string>*>(option.target)});
  }
  return entries;
}

CommandEntry* FindEntry(CommandTree& tree, std::string_view path) {
  const auto found = std::find_if(tree.entries.begin(), tree.entries.end(),
                                  [&](const CommandEntry& entry) { return entry.path == path; });
  return found == tree.entries.end() ? nullptr : &*found;
}

void Add(CommandTree& tree, CommandEntry entry) {
  const std::size_t space = entry.path.rfind(' ');
  const std::string group = space == std::string::npos ? std::string() : entry.path.substr(0, space);
  if (FindEntry(tree, group) == nullptr) {
    Add(tree, {.path = group, .summary = {}, .examples = {}, .options = {}, .subcommands = {}});
  }
  FindEntry(tree, group)
      ->subcommands.push_back(space == std::string::npos ? entry.path : entry.path.substr(space + 1));
  tree.entries.push_back(std::move(entry));
}

}  // namespace

bool OptionEntry::takes_file() const {
  return value_name == "FILE" || (value_name == "URL" && help.find("PATH") != std::string::npos);
}

const CommandEntry& CommandTree::Find(std::string_view path) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const CommandEntry& entry) { return entry.path == path; });
  SEALANE_ASSERT(found != entries.end(), "a path of the tree is looked up in it");
  return *found;
}

CommandTree WalkCommands(std::span<const std::unique_ptr<Command>> commands) {
  CommandTree tree;
  tree.common = EntriesOf(CommonOptions().Options());
  tree.entries.push_back({.path = {}, .summary = {}, .examples = {}, .options = {}, .subcommands = {}});
  for (const auto& command : commands) {
    if (command->hidden()) continue;
    const std::vector<std::string_view> examples = command->examples();
    Add(tree, {.path = std::string(command->path()),
               .summary = std::string(command->summary()),
               .examples = {examples.begin(), examples.end()},
               .options = EntriesOf(command->Options()),
               .subcommands = {}});
  }
  for (CommandEntry& entry : tree.entries) {
    if (!entry.subcommands.empty()) entry.summary = fmt::format("{}", fmt::join(entry.subcommands, ", "));
  }
  return tree;
}

std::string JoinPath(std::string_view group, std::string_view word) {
  return group.empty() ? std::string(word) : fmt::format("{} {}", group, word);
}

}  // namespace sealane::cli
