#include "command_line.hpp"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "argument_parser.hpp"
#include "command.hpp"
#include "help.hpp"

namespace sealane::cli {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

// `help emit` is `emit --help`.
std::vector<std::string> WithHelpAsFlag(std::span<const std::string> arguments) {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

Result<OutputFormat> ChosenFormat(const CommonOptions& common) {
  if (!common.output) return OutputFormat::kTable;
  if (const auto format = ParseOutputFormat(*common.output)) return *format;
  return BadUsage(fmt::format("--output: `{}` is none of table, json, jsonl", *common.output), {}, "--output");
}

struct Colors {
  bool out = false;
  bool err = false;
};

Result<Colors> ChosenColors(const CommonOptions& common, const Streams& streams, const Environment& environment) {
  const std::string when = common.color.value_or("auto");
  if (when == "always") return Colors{true, true};
  if (when == "never") return Colors{};
  if (when != "auto") {
    return BadUsage(fmt::format("--color: `{}` is none of auto, always, never", when), {}, "--color");
  }
  const auto variable = [&](const char* name) {
    const auto found = environment.variables.find(name);
    return found == environment.variables.end() ? std::string() : found->second;
  };
  if (!variable("NO_COLOR").empty() || variable("TERM") == "dumb") return Colors{};
  return Colors{streams.out_is_terminal, streams.err_is_terminal};
}

Result<ExitCode> ShowHelp(const ParsedArguments& parsed, const Commands& commands, Streams& streams) {
  if (parsed.command != nullptr) {
    streams.out << CommandHelp(*parsed.command);
  } else if (parsed.group.empty()) {
    streams.out << Overview(commands);
  } else {
    streams.out << GroupHelp(parsed.group, commands);
  }
  return ExitCode::kDone;
}

Error NoCommand(const ParsedArguments& parsed) {
  if (parsed.group.empty()) return BadUsage("no command is given", "sealane help shows the commands");
  return BadUsage(fmt::format("`{}` needs to be told what to do", parsed.group),
                  fmt::format("sealane help {} shows its commands", parsed.group));
}

Command* FindCommand(const Commands& commands, std::string_view path) {
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const auto& c) { return c->path() == path; });
  SEALANE_ASSERT(found != commands.end(), "a command that the program itself names exists");
  return found->get();
}

// Results that could not be written are no results.
Result<ExitCode> Flushed(Result<ExitCode> result, Streams& streams) {
  streams.out.flush();
  if (!result || streams.out) return result;
  return Error(ErrorKind::kUnavailable, "output_failed", "cannot write to standard output")
      .WithHint("is the disk full or the reader gone? The command itself was carried out");
}

Result<ExitCode> Run(std::span<const std::string> arguments, Streams& streams, const Environment& environment,
                     Colors& colors) {
  const Commands commands = AllCommands();
  std::vector<std::string> words = WithHelpAsFlag(arguments);
  if (words.size() == 2 && words[0] == "exit-codes" && words[1] == "--help") {
    streams.out << ExitCodeHelp();
    return ExitCode::kDone;
  }
  CommonOptions common;
  SEALANE_ASSIGN_OR_RETURN(ParsedArguments parsed, ParseArguments(words, commands, common));
  SEALANE_ASSIGN_OR_RETURN(const OutputFormat format, ChosenFormat(common));
  SEALANE_ASSIGN_OR_RETURN(colors, ChosenColors(common, streams, environment));
  if (common.help) return ShowHelp(parsed, commands, streams);
  if (common.version && parsed.group_only) parsed.command = FindCommand(commands, "version");
  if (parsed.command == nullptr) return NoCommand(parsed);
  CommandContext context(streams, environment, common, format, colors.out, colors.err);
  context.OnInterrupt("nothing was changed");
  auto result = parsed.command->Run(context);
  if (!result) return context.WithPasteableHint(std::move(result).error());
  return result;
}

}  // namespace

int RunCommandLine(std::span<const std::string> arguments, Streams& streams, const Environment& environment) {
  Colors colors;
  const Result<ExitCode> result = Flushed(Run(arguments, streams, environment, colors), streams);
  if (result) return static_cast<int>(*result);
  streams.err << RenderError(result.error(), GuessOutputFormat(arguments), colors.err);
  streams.err.flush();
  return static_cast<int>(ExitCodeOf(result.error()));
}

}  // namespace sealane::cli
