#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "ops/dead_letters.hpp"

namespace sealane::cli {

/// Who does something and why: the options of every command that changes what a relay does.
struct OperatorOptions {
  std::optional<std::string> reason;
  std::optional<std::string> actor;

  void AddTo(std::vector<OptionSpec>& options);
  /// The actor is --actor, else the user who runs the command.
  Result<OperatorAction> Action(const CommandContext& context) const;
};

/// Asks on a terminal; elsewhere only --yes is a yes. `approval_missing` when it is none.
Status Confirm(CommandContext& context, bool yes, const std::string& question);

}  // namespace sealane::cli
