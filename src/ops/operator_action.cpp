#include "ops/operator_action.hpp"

#include <fmt/format.h>

namespace sealane {
namespace {

constexpr std::int32_t kWeightMax = 1000;

}  // namespace

Status CheckAction(const OperatorAction& why) {
  if (why.actor.empty()) {
    return Error(ErrorKind::kRejected, "actor_required", "it is not said who does this")
        .WithField("actor")
        .WithHint("name yourself: the audit trail keeps who did what");
  }
  if (why.reason.empty()) {
    return Error(ErrorKind::kRejected, "reason_required", "it is not said why this is done")
        .WithField("reason")
        .WithHint("give a reason: the audit trail keeps why it was done");
  }
  return Ok();
}

Status CheckRule(const TenantRule& rule) {
  if (rule.rate_max >= 0 && rule.weight >= 1 && rule.weight <= kWeightMax) return Ok();
  return Error(ErrorKind::kRejected, "invalid_tenant_rule",
               fmt::format("a rate of {} with a weight of {} is no rule", rule.rate_max, rule.weight))
      .WithField(rule.rate_max < 0 ? "rate_max" : "weight")
      .WithHint(fmt::format("the rate is 0 (no limit) or more, the weight 1 to {}", kWeightMax));
}

Error UnknownRoute(std::string_view route) {
  return Error(ErrorKind::kRejected, "unknown_route", fmt::format("there is no route \"{}\"", route))
      .WithField("route")
      .WithHint("a route exists once a relay has run it; check the name");
}

std::string AuditTarget(std::string_view what, std::string_view route) {
  return fmt::format("{} on {}", what, route);
}

std::string_view AuditAction(const TenantRule& before, const TenantRule& after) {
  if (before.paused == after.paused) return "tenant.change";
  return after.paused ? "tenant.pause" : "tenant.resume";
}

}  // namespace sealane
