#pragma once

#include <string>

#include "outbox/outbox_log.hpp"

namespace sealane::cli {

/// What an operator has decided about a tenant of a route, as a JSON object on one line.
std::string TenantRuleJson(const std::string& route, const TenantRule& rule);

}  // namespace sealane::cli
