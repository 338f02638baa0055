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
/// kRejected (`invalid_route_name`) unless it is a lower-case letter and up to 62 of those, digits, `_` and `-`.
Status CheckRouteName(std::string_view route);
/// kRejected (`route_exists`).
Error RouteExists(std::string_view route);
/// kRejected (`route_busy`).
Error RouteBusy(std::string_view route);

/// kRejected (`invalid_topic`) for a topic that is empty, and for one that is sent to itself.
Status CheckReroute(const RerouteRequest& request);
/// `messages.reroute` or `dead.reroute`.
std::string_view AuditAction(const RerouteRequest& request);

/// AuditRecord::target for something on a route, for example `0190... on main`: what first, so that it can be found.
std::string AuditTarget(std::string_view what, std::string_view route);
/// AuditRecord::action for a rule that replaces another: `tenant.pause`, `tenant.resume` or `tenant.change`.
std::string_view AuditAction(const TenantRule& before, const TenantRule& after);

/// A record of a change to a store that has no server to say where a change comes from: the login, the host and the
/// program are those of this process.
AuditRecord RecordOf(std::int64_t id, Timestamp at, std::string_view action, std::string target,
                     const OperatorAction& why);

/// How many events one call lists or changes at most.
inline constexpr std::size_t kDeadLettersMax = 10'000;

}  // namespace sealane
