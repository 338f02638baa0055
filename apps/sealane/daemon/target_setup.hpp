#pragma once

#include <string>
#include <vector>

#include "sealane/result.hpp"

#include "config/config.hpp"
#include "tasks/task_executor.hpp"

namespace sealane::cli {

/// The targets that a dispatcher serves: those of the configuration or, when there are flags, those that they name.
/// A flag is `NAME` for one of the configuration, or `NAME=URL` for an address that stands there or not. Errors name
/// the flag (`bad_usage`) or the key; kMisconfigured (`target_not_set`) when there are none.
Result<Config::Sections> SelectTargets(const Config& config, const std::vector<std::string>& flags);

/// Ready to carry out tasks; nothing is connected.
Result<TaskTargets> OpenTargets(const Config::Sections& targets);

/// Whether every configured target could be used.
Status CheckTargets(const Config& config);

}  // namespace sealane::cli
