#include "help.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace sealane::cli {
namespace {

struct Line {
  std::string left;
  std::string right;
};

std::string TwoColumns(const std::vector<Line>& lines) {
  std::size_t width = 0;
  for (const Line& line : lines) width = std::max(width, line.left.size());
  std::string text;
  for (const Line& line : lines) text += fmt::format("  {:<{}}  {}\n", line.left, width, line.right);
  return text;
}

std::string Spelled(const OptionSpec& option) {
  std::string names = option.names;
  if (const std::size_t comma = names.find(','); comma != std::string::npos) names.replace(comma, 1, ", ");
  if (!names.starts_with('-')) return option.value_name;
  return option.value_name.empty() ? names : fmt::format("{} {}", names, option.value_name);
}

std::string OptionLines(const std::vector<OptionSpec>& options) {
  std::vector<Line> lines;
  for (const OptionSpec& option : options) {
    if (option.hidden) continue;
    lines.push_back({Spelled(option), option.required ? option.help + " (required)" : option.help});
  }
  return TwoColumns(lines);
}

std::string ExampleLines(const std::vector<std::string_view>& examples) {
  std::string text;
  for (const std::string_view example : examples) text += fmt::format("  {}\n", example);
  return text;
}

std::string CommandLines(std::string_view prefix, std::span<const std::unique_ptr<Command>> commands) {
  std::vector<Line> lines;
  for (const auto& command : commands) {
    if (command->hidden() || !command->path().starts_with(prefix)) continue;
    lines.push_back({std::string(command->path()), std::string(command->summary())});
  }
  return TwoColumns(lines);
}

}  // namespace

std::string Overview(std::span<const std::unique_ptr<Command>> commands) {
  return fmt::format(
      R"(sealane: events sealed in your transaction, delivered by lane, applied once

Examples:
  sealane migrate up --store sqlite:./shop.db
  sealane emit --store sqlite:./shop.db --topic orders --key o-1 --type OrderPlaced --payload '{{"id":1}}'
  sealane relay --store sqlite:./shop.db --broker journal:./journal.db
  sealane messages list --store sqlite:./shop.db

Commands:
{}
The store comes from --store, from SEALANE_STORE__URL or from store.url in sealane.toml.
More: sealane help COMMAND, sealane help exit-codes
)",
      CommandLines("", commands));
}

std::string CommandHelp(Command& command) {
  std::string usage = fmt::format("sealane {}", command.path());
  const std::vector<OptionSpec> options = command.Options();
  for (const OptionSpec& option : options) {
    if (option.required) usage += fmt::format(" {}", Spelled(option));
  }
  std::string text = fmt::format("{}\n\nExamples:\n{}\nUsage: {} [options]\n", command.summary(),
                                 ExampleLines(command.examples()), usage);
  if (!options.empty()) text += fmt::format("\nOptions:\n{}", OptionLines(options));
  return text + fmt::format("\nOptions of all commands:\n{}", OptionLines(CommonOptions().Options()));
}

std::string GroupHelp(std::string_view group, std::span<const std::unique_ptr<Command>> commands) {
  return fmt::format("Commands:\n{}\nMore: sealane help {} COMMAND\n",
                     CommandLines(fmt::format("{} ", group), commands), group);
}

std::string ExitCodeHelp() {
  std::vector<Line> lines;
  for (const ExitCodeText& row : ExitCodes()) {
    lines.push_back({fmt::format("{:>3}", static_cast<int>(row.code)), std::string(row.meaning)});
  }
  return fmt::format("Exit codes:\n{}", TwoColumns(lines));
}

}  // namespace sealane::cli
