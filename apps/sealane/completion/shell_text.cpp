#include "completion/shell_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sealane::cli {

std::string ShellQuote(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string FishQuote(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string OptionNames(const std::vector<OptionEntry>& options) {
  std::vector<std::string> names;
  for (const OptionEntry& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

std::string ValuedNames(const std::vector<OptionEntry>& options) {
  std::string names = " ";
  for (const OptionEntry& option : options) {
    if (!option.takes_value()) continue;
    for (const std::string& name : option.names) names += name + " ";
  }
  return names;
}

std::vector<std::string> WordsOf(const CommandEntry& entry) {
  std::vector<std::string> words = entry.subcommands;
  if (entry.path.empty()) words.emplace_back("help");
  for (const OptionEntry& option : entry.options) {
    if (option.names.empty()) words.insert(words.end(), option.choices.begin(), option.choices.end());
  }
  return words;
}

std::string ValueWords(const OptionEntry& option) {
  if (!option.choices.empty()) return fmt::format("{}", fmt::join(option.choices, " "));
  return option.takes_file() ? "FILE" : "";
}

}  // namespace sealane::cli
