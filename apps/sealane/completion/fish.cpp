#include <fmt/format.h>
#include <fmt/ranges.h>

#include "completion/completion.hpp"
#include "completion/shell_text.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kLogic = R"fish(
# Whether the words so far name exactly this command; all of them when none is given.
function __sealane_at
    set -l path ''
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
        else if string match -q -- '* '$word' *' (__sealane_valued "$path")
            set value yes
        else if string match -q -- '-*' $word; or test "$path$word" = help
            continue
        else if contains -- $word (__sealane_words "$path")
            set path (string trim -- "$path $word")
        end
    end
    test "$path" = "$argv[1]"
end

complete -c sealane -f
)fish";

std::string OptionLine(std::string_view condition, const OptionEntry& option) {
  std::string line = "complete -c sealane";
  if (!condition.empty()) line += fmt::format(" -n {}", FishQuote(condition));
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
  }
  if (option.takes_value()) line += option.choices.empty() && option.takes_file() ? " -r -F" : " -x";
  if (!option.choices.empty()) line += fmt::format(" -a {}", FishQuote(ValueWords(option)));
  return fmt::format("{} -d {}\n", line, FishQuote(option.help));
}

std::string WordLine(std::string_view condition, std::string_view word, std::string_view help) {
  return fmt::format("complete -c sealane -n {} -a {} -d {}\n", FishQuote(condition), FishQuote(word),
                     FishQuote(help));
}

std::string CommandLines(const CommandTree& tree, const CommandEntry& entry) {
  const std::string condition = fmt::format("__sealane_at {}", FishQuote(entry.path));
  std::string text;
  for (const std::string& word : entry.subcommands) {
    text += WordLine(condition, word, tree.Find(JoinPath(entry.path, word)).summary);
  }
  if (entry.path.empty()) text += WordLine(condition, "help", "show help for a command");
  for (const OptionEntry& option : entry.options) {
    if (!option.names.empty()) {
      text += OptionLine(condition, option);
      continue;
    }
    for (const std::string& choice : option.choices) text += WordLine(condition, choice, option.help);
  }
  return text;
}

}  // namespace

std::string FishCompletion(const CommandTree& tree) {
  std::string words =
      "# The words that may follow a command or group.\nfunction __sealane_words\n    switch $argv[1]\n";
  std::string valued =
      "# The options of a command that take a value.\nfunction __sealane_valued\n    switch $argv[1]\n";
  std::string lines;
  const std::string common = ValuedNames(tree.common);
  for (const CommandEntry& entry : tree.entries) {
    const std::vector<std::string> offered = WordsOf(entry);
    if (!offered.empty()) {
      words += fmt::format("        case {}\n            string split ' ' {}\n", FishQuote(entry.path),
                           FishQuote(fmt::format("{}", fmt::join(offered, " "))));
    }
    valued += fmt::format("        case {}\n            echo {}\n", FishQuote(entry.path),
                          FishQuote(common + ValuedNames(entry.options)));
    lines += CommandLines(tree, entry);
  }
  for (const OptionEntry& option : tree.common) lines += OptionLine("", option);
  return "# Completion of sealane for fish, made by `sealane completion fish`.\n\n" + words + "    end\nend\n\n" +
         valued + "    end\nend\n" + std::string(kLogic) + lines;
}

}  // namespace sealane::cli
