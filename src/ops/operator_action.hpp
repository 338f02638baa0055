#pragma once

#include <string>
#include <string_view>

#include "ops/dead_letters.hpp"

namespace sealane {

/// kRejected (`actor_required`, `reason_required`): nothing is changed by nobody or for nothing.
Status CheckAction(const OperatorAction& why);
/// kRejected (`invalid_tenant_rule`) for a rate below 0 or a weight outside 1 .. 1000.
Status CheckRule(const TenantRule& rule);
/// kRejected (`unknown_route`).
Error UnknownRoute(std::string_view route);

/// AuditRecord::target for something on a route, for example `0190... on main`: what first, so that it can be found.
std::string AuditTarget(std::string_view what, std::string_view route);
/// AuditRecord::action for a rule that replaces another: `tenant.pause`, `tenant.resume` or `tenant.change`.
std::string_view AuditAction(const TenantRule& before, const TenantRule& after);

/// How many events one call lists or changes at most.
inline constexpr std::size_t kDeadLettersMax = 10'000;

}  // namespace sealane
