// The only file that includes CLI11, which takes seconds to compile. CLI11 splits the words; the checks that people
// see are made here, so that every message has a suggestion and one exit code.
#include "argument_parser.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::cli {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// `--output` of `-o,--output`; empty for a positional argument.
std::string LongName(const OptionSpec& option) {
  const std::size_t dashes = option.names.find("--");
  return dashes == std::string::npos ? std::string() : option.names.substr(dashes);
}

// CLI11's texts are "--name: 1 required TEXT missing" and "--name: At Most 1 required but received 2".
Error Mismatch(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  const bool repeated = text.find("received") != std::string::npos;
  return BadUsage(fmt::format("{} {}", name, repeated ? "is given more than once" : "needs a value"),
                  repeated ? "give it once" : fmt::format("write {}=VALUE", name), name);
}

void AddOption(CLI::App& app, const OptionSpec& spec) {
  std::visit(Overloaded{
                 [&](bool* target) {
                   app.add_flag_callback(
                       spec.names, [target] { *target = true; }, spec.help);
                 },
                 [&](std::optional<std::string>* target) {
                   app.add_option_function<std::string>(
                          spec.names, [target](const std::string& value) { *target = value; }, spec.help)
                       ->expected(1)
                       ->allow_extra_args(false)
                       ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
                 },
                 [&](std::vector<std::string>* target) {
                   app.add_option(spec.names, *target, spec.help)
                       ->expected(1)
                       ->allow_extra_args(false)
                       ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
                 },
             },
             spec.target);
}

// Unknown words are collected rather than thrown, to be judged with all commands in view.
void Prepare(CLI::App& app) {
  app.set_help_flag();
  app.set_help_all_flag();
  app.allow_extras();
  app.fallthrough();
  app.require_subcommand(0, 1);
}

class Tree {
 public:
  Tree(std::span<const std::unique_ptr<Command>> commands, CommonOptions& common) {
    Prepare(root_);
    for (const OptionSpec& option : common.Options()) AddOption(root_, option);
    for (const auto& command : commands) {
      CLI::App* const app = AppFor(command->path());
      for (const OptionSpec& option : command->Options()) AddOption(*app, option);
      by_app_[app] = command.get();
    }
  }

  Status Parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // the order CLI11 takes them in
    // CLI11 reports by exception; it ends here.
    try {
      root_.parse(std::move(arguments));
    } catch (const CLI::ArgumentMismatch& error) {
      return Mismatch(error.what());
    } catch (const CLI::ParseError& error) {
      return BadUsage(error.what(), "sealane help shows the commands");
    }
    return Ok();
  }

  ParsedArguments Selected() const {
    const CLI::App* app = &root_;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    const auto found = by_app_.find(app);
    if (found != by_app_.end()) return {.command = found->second, .group = {}, .group_only = false};
    return {.command = nullptr, .group = app == &root_ ? "" : app->get_name(), .group_only = true};
  }

  std::vector<std::string> Extras() const { return root_.remaining(true); }

 private:
  CLI::App* AppFor(std::string_view path) {
    CLI::App* app = &root_;
    for (std::size_t at = 0; at < path.size();) {
      const std::size_t end = std::min(path.find(' ', at), path.size());
      const std::string word(path.substr(at, end - at));
      const auto known = app->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
      if (known.empty()) {
        app = app->add_subcommand(word);
        Prepare(*app);
      } else {
        app = known.front();
      }
      at = end + 1;
    }
    return app;
  }

  CLI::App root_{"", "sealane"};
  std::map<const CLI::App*, Command*> by_app_;
};

// `--name=` with nothing behind it is an empty value, but CLI11 would take the next word for it.
std::vector<std::string> WithEmptyValuesApart(std::span<const std::string> arguments,
                                              std::span<const std::unique_ptr<Command>> commands,
                                              CommonOptions& common) {
  std::set<std::string> with_value;
  const auto note = [&](const std::vector<OptionSpec>& options) {
    for (const OptionSpec& option : options) {
      if (!option.value_name.empty()) with_value.insert(LongName(option));
    }
  };
  note(common.Options());
  for (const auto& command : commands) note(command->Options());

  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.ends_with('=') && with_value.contains(word.substr(0, word.size() - 1))) {
      words.push_back(word.substr(0, word.size() - 1));
      words.emplace_back();
      continue;
    }
    words.push_back(word);
    // The word after an option is its value, whatever it looks like.
    if (with_value.contains(word) && i + 1 < arguments.size()) words.push_back(arguments[++i]);
  }
  return words;
}

std::string Suggestion(std::string_view word, const std::vector<std::string>& known, std::string_view otherwise) {
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const std::string_view meant = ClosestMatch(word, candidates);
  return meant.empty() ? std::string(otherwise) : fmt::format("did you mean `{}`?", meant);
}

void AddLongNames(const std::vector<OptionSpec>& options, std::vector<std::string>& names) {
  for (const OptionSpec& option : options) {
    if (option.hidden) continue;
    if (std::string name = LongName(option); !name.empty()) names.push_back(std::move(name));
  }
}

Error UnknownOption(std::string_view word, Command* command, CommonOptions& common) {
  const std::string name(word.substr(0, word.find('=')));
  std::vector<std::string> known;
  if (command != nullptr) AddLongNames(command->Options(), known);
  AddLongNames(common.Options(), known);
  const std::string where = command == nullptr ? "" : fmt::format(" {}", command->path());
  return BadUsage(fmt::format("unknown option `{}`", name),
                  Suggestion(name, known, fmt::format("sealane help{} shows the options", where)), name);
}

Error UnknownCommand(const ParsedArguments& parsed, std::string_view word,
                     std::span<const std::unique_ptr<Command>> commands) {
  const std::string typed = parsed.group.empty() ? std::string(word) : fmt::format("{} {}", parsed.group, word);
  std::vector<std::string> known;
  for (const auto& command : commands) {
    if (command->hidden()) continue;
    const std::string path(command->path());
    known.push_back(path);
    // `mesages` alone is meant to be the group.
    if (parsed.group.empty()) known.push_back(path.substr(0, path.find(' ')));
  }
  return BadUsage(fmt::format("unknown command `{}`", typed),
                  Suggestion(typed, known, "sealane help shows the commands"));
}

bool IsGiven(const OptionSpec& option) {
  return std::visit(Overloaded{
                        [](const bool* target) { return *target; },
                        [](const std::optional<std::string>* target) { return target->has_value(); },
                        [](const std::vector<std::string>* target) { return !target->empty(); },
                    },
                    option.target);
}

Status CheckRequired(Command& command) {
  for (const OptionSpec& option : command.Options()) {
    if (!option.required || IsGiven(option)) continue;
    const std::string name = option.names.starts_with('-') ? option.names : option.value_name;
    return BadUsage(fmt::format("{} needs {}", command.path(), name),
                    fmt::format("sealane help {} shows examples", command.path()), name);
  }
  return Ok();
}

}  // namespace

Result<ParsedArguments> ParseArguments(std::span<const std::string> arguments,
                                       std::span<const std::unique_ptr<Command>> commands, CommonOptions& common) {
  Tree tree(commands, common);
  SEALANE_RETURN_IF_ERROR(tree.Parse(WithEmptyValuesApart(arguments, commands, common)));
  const ParsedArguments parsed = tree.Selected();
  if (const std::vector<std::string> extras = tree.Extras(); !extras.empty()) {
    const std::string& word = extras.front();
    if (word.size() > 1 && word.starts_with('-')) return UnknownOption(word, parsed.command, common);
    if (parsed.group_only) return UnknownCommand(parsed, word, commands);
    return BadUsage(fmt::format("unexpected argument `{}`", word),
                    fmt::format("sealane help {} shows how to use it", parsed.command->path()));
  }
  if (parsed.command != nullptr && !common.help) SEALANE_RETURN_IF_ERROR(CheckRequired(*parsed.command));
  return parsed;
}

OutputFormat GuessOutputFormat(std::span<const std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    std::string_view value;
    if ((word == "-o" || word == "--output") && i + 1 < arguments.size()) {
      value = arguments[i + 1];
    } else if (word.starts_with("--output=")) {
      value = word.substr(9);
    } else if (word.starts_with("-o") && word.size() > 2) {
      value = word.substr(word[2] == '=' ? 3 : 2);
    }
    if (const auto format = ParseOutputFormat(value); format && *format != OutputFormat::kTable) return *format;
  }
  return OutputFormat::kTable;
}

}  // namespace sealane::cli
