#include "commands/operator_options.hpp"

#include <istream>
#include <ostream>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

namespace sealane::cli {
namespace {

std::string CurrentUser(const CommandContext& context) {
  const auto& variables = context.environment().variables;
  const auto user = variables.find("USER");
  if (user != variables.end() && !user->second.empty()) return user->second;
  passwd entry{};
  passwd* found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(::geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr)
    return found->pw_name;
  return {};
}

}  // namespace

void OperatorOptions::AddTo(std::vector<OptionSpec>& options) {
  options.push_back({"--reason", "TEXT", "why, for the audit trail", &reason, true});
  options.push_back({"--actor", "NAME", "who, for the audit trail (default: $USER)", &actor});
}

Result<OperatorAction> OperatorOptions::Action(const CommandContext& context) const {
  if (reason->find_first_not_of(" \t") == std::string::npos) {
    return BadUsage("--reason is empty", "say why in a few words; it is kept in the audit trail", "--reason");
  }
  OperatorAction action{.actor = actor.value_or(CurrentUser(context)), .reason = *reason};
  if (action.actor.empty()) return BadUsage("nobody knows who you are", "give --actor NAME", "--actor");
  return action;
}

Status Confirm(CommandContext& context, bool yes, const std::string& question) {
  if (yes) return Ok();
  if (context.in_is_terminal() && context.is_table()) {
    context.err() << question << " [y/N] " << std::flush;
    std::string answer;
    std::getline(context.in(), answer);
    if (answer == "y" || answer == "Y" || answer == "yes") return Ok();
    return Error(ErrorKind::kRejected, "approval_missing", "nothing was changed");
  }
  return Error(ErrorKind::kRejected, "approval_missing", fmt::format("not done without a yes: {}", question))
      .WithHint("add --yes, or look first with --dry-run");
}

}  // namespace sealane::cli
