#pragma once

#include <map>
#include <string>
#include <vector>

#include "sealane/result.hpp"

#include "config/config.hpp"
#include "serve/webhook.hpp"

namespace sealane::cli {

/// What a section [receiver.NAME] says, with its secrets read. kMisconfigured naming the key that is at fault.
Result<WebhookRule> WebhookRuleOf(const std::string& name, const Settings& receiver,
                                  const std::map<std::string, std::string>& variables);

/// kMisconfigured when two of them listen at one path.
Status CheckPaths(const std::vector<WebhookRule>& rules);

}  // namespace sealane::cli
