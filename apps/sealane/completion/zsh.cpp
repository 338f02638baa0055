#include <fmt/format.h>
#include <fmt/ranges.h>

#include "completion/completion.hpp"
#include "completion/shell_text.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kLogic = R"zsh(
_sealane() {
  local at= option= word
  local -a offered options valued common common_valued values
  for word in "${(@)words[2,CURRENT-1]}"; do
    _sealane_of "$at"
    if [[ -n $option ]]; then
      option=
    elif (( ${common_valued[(Ie)$word]} || ${valued[(Ie)$word]} )); then
      option=$word
    elif [[ $word == -* || ( -z $at && $word == help ) ]]; then
      continue
    elif (( ${offered[(I)$word:*]} )); then
      at=${at:+$at }$word
    fi
  done
  if [[ -z $option && $words[CURRENT] == --*=* ]]; then
    option=${words[CURRENT]%%=*}
    compset -P '*='
  fi
  if [[ -n $option ]]; then
    _sealane_values "$at" "$option"
    if [[ $values == FILE ]]; then
      compset -P '*:'
      _files
    elif (( $#values )); then
      compadd -- $values
    fi
    return
  fi
  _sealane_of "$at"
  if [[ $words[CURRENT] == -* ]]; then
    _describe -o option options -- common
  elif (( $#offered )); then
    _describe command offered
  fi
}

if [[ $funcstack[1] == _sealane ]]; then
  _sealane "$@"
else
  compdef _sealane sealane
fi
)zsh";

// `'name:what it does'`: what _describe shows.
std::string Described(std::string_view name, std::string_view text) {
  return ShellQuote(fmt::format("{}:{}", name, text));
}

std::string DescribedOptions(const std::vector<OptionEntry>& options) {
  std::string text;
  for (const OptionEntry& option : options) {
    for (const std::string& name : option.names) text += fmt::format("{} ", Described(name, option.help));
  }
  return text;
}

std::string DescribedWords(const CommandTree& tree, const CommandEntry& entry) {
  std::string text;
  for (const std::string& word : entry.subcommands) {
    text += fmt::format("{} ", Described(word, tree.Find(JoinPath(entry.path, word)).summary));
  }
  if (entry.path.empty()) text += Described("help", "show help for a command");
  for (const OptionEntry& option : entry.options) {
    if (!option.names.empty()) continue;
    for (const std::string& choice : option.choices) text += fmt::format("{} ", Described(choice, option.help));
  }
  return text;
}

void AddValues(std::string_view path, const std::vector<OptionEntry>& options, std::string& text) {
  for (const OptionEntry& option : options) {
    const std::string values = ValueWords(option);
    if (values.empty()) continue;
    for (const std::string& name : option.names) {
      const std::string pattern = path == "*" ? fmt::format("*' {}'", name) : fmt::format("'{} {}'", path, name);
      text += fmt::format("    {}) values=({}) ;;\n", pattern, values);
    }
  }
}

}  // namespace

std::string ZshCompletion(const CommandTree& tree) {
  std::string text = "#compdef sealane\n# Completion of sealane for zsh, made by `sealane completion zsh`.\n\n";
  text += "# Sets offered (words), options and valued (those with a value) of a command.\n_sealane_of() {\n";
  text += fmt::format("  common=({})\n  common_valued=({})\n  case $1 in\n", DescribedOptions(tree.common),
                      ValuedNames(tree.common));
  for (const CommandEntry& entry : tree.entries) {
    text += fmt::format("    {}) offered=({}) options=({}) valued=({}) ;;\n", ShellQuote(entry.path),
                        DescribedWords(tree, entry), DescribedOptions(entry.options), ValuedNames(entry.options));
  }
  text += "  esac\n}\n\n# Sets values to those of an option of a command; FILE is any file.\n_sealane_values() {\n";
  text += "  values=()\n  case \"$1 $2\" in\n";
  for (const CommandEntry& entry : tree.entries) AddValues(entry.path, entry.options, text);
  AddValues("*", tree.common, text);
  return text + "  esac\n}\n" + std::string(kLogic);
}

}  // namespace sealane::cli
