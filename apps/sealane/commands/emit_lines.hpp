#pragma once

#include <string>

#include "command.hpp"

namespace sealane::cli {

/// Appends the events of a JSON lines file, or of standard input for `-`, in one transaction: all or none. Blank
/// lines are skipped; an error names the line. Events travel in batches, so memory does not grow with the file.
Result<ExitCode> EmitLines(CommandContext& context, const std::string& source);

}  // namespace sealane::cli
