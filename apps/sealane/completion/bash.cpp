#include <fmt/format.h>
#include <fmt/ranges.h>

#include "completion/completion.hpp"
#include "completion/shell_text.hpp"

namespace sealane::cli {
namespace {

// The line is split at blanks, because bash would also split it at `:` and `=`, which URLs and `--name=value`
// contain. What is offered replaces the part behind the last of these.
constexpr std::string_view kLogic = R"bash(
# Sets path to the command that the words before the last one name, and option to one that waits for its value.
_sealane_read() {
  local word words options valued
  path='' option=''
  while (($# > 1)); do
    word=$1
    shift
    _sealane_of "$path"
    if [[ -n $option ]]; then
      option=
    elif [[ "$common_valued$valued" == *" $word "* ]]; then
      option=$word
    elif [[ $word == -* || ( -z $path && $word == help ) ]]; then
      continue
    elif [[ " $words " == *" $word "* ]]; then
      path=${path:+$path }$word
    fi
  done
}

_sealane() {
  local line=${COMP_LINE:0:COMP_POINT} current path option words options valued values
  local -a typed
  read -ra typed <<<"$line"
  if [[ $line == *[[:space:]] ]]; then typed+=(''); fi
  current=${typed[-1]}
  _sealane_read "${typed[@]:1}"
  if [[ -z $option && $current == --*=* ]]; then option=${current%%=*}; fi
  COMPREPLY=()
  if [[ -n $option ]]; then
    current=${current##*[=:]}
    _sealane_values "$path" "$option"
    if [[ $values == FILE ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    else
      mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    fi
    return
  fi
  _sealane_of "$path"
  if [[ $current == -* ]]; then words="$options $common"; fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _sealane sealane
)bash";

void AddValues(std::string_view path, const std::vector<OptionEntry>& options, std::string& text) {
  for (const OptionEntry& option : options) {
    const std::string values = ValueWords(option);
    if (values.empty()) continue;
    for (const std::string& name : option.names) {
      const std::string pattern = path == "*" ? fmt::format("*' {}'", name) : fmt::format("'{} {}'", path, name);
      text += fmt::format("    {}) values={} ;;\n", pattern, ShellQuote(values));
    }
  }
}

}  // namespace

std::string BashCompletion(const CommandTree& tree) {
  std::string text = "# Completion of sealane for bash, made by `sealane completion bash`.\n\n";
  text += "# Sets words, options and valued (those with a value) of a command.\n_sealane_of() {\n";
  text += fmt::format("  common={}\n  common_valued={}\n  case $1 in\n", ShellQuote(OptionNames(tree.common)),
                      ShellQuote(ValuedNames(tree.common)));
  for (const CommandEntry& entry : tree.entries) {
    text += fmt::format("    {}) words={} options={} valued={} ;;\n", ShellQuote(entry.path),
                        ShellQuote(fmt::format("{}", fmt::join(WordsOf(entry), " "))),
                        ShellQuote(OptionNames(entry.options)), ShellQuote(ValuedNames(entry.options)));
  }
  text += "  esac\n}\n\n# Sets values to those of an option of a command; FILE is any file.\n_sealane_values() {\n";
  text += "  values=\n  case \"$1 $2\" in\n";
  for (const CommandEntry& entry : tree.entries) AddValues(entry.path, entry.options, text);
  AddValues("*", tree.common, text);
  return text + "  esac\n}\n" + std::string(kLogic);
}

}  // namespace sealane::cli
