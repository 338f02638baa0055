#include "ops/operator_action.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

namespace sealane {
namespace {

constexpr std::int32_t kWeightMax = 1000;
constexpr std::size_t kRouteNameMax = 63;
constexpr std::size_t kTopicNameMax = 249;

/// By the process, not by $USER, which the caller can set.
std::string SystemUser() {
  passwd entry{};
  passwd* found = nullptr;
  char buffer[4096];
  if (::getpwuid_r(::getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr) return found->pw_name;
  return fmt::format("uid {}", ::getuid());
}

std::string HostName() {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return host;
}

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
      .WithHint("see the routes there are with: sealane route list");
}

Status CheckRouteName(std::string_view route) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  const bool good = !route.empty() && route.size() <= kRouteNameMax && route.front() >= 'a' && route.front() <= 'z' &&
                    std::all_of(route.begin(), route.end(), allowed);
  if (good) return Ok();
  return Error(ErrorKind::kRejected, "invalid_route_name", fmt::format("\"{}\" cannot be a route", route))
      .WithField("route")
      .WithHint("use a lower-case letter and then lower-case letters, digits, _ and -, at most 63 characters");
}

Error RouteExists(std::string_view route) {
  return Error(ErrorKind::kRejected, "route_exists", fmt::format("route \"{}\" is there already", route))
      .WithField("route")
      .WithHint("nothing was changed; choose another name, or remove it first with: sealane route remove");
}

Error RouteBusy(std::string_view route) {
  return Error(ErrorKind::kRejected, "route_busy", fmt::format("a relay works on route \"{}\"", route))
      .WithField("route")
      .WithHint("stop its relays, or take the route out of their configuration; nothing was changed");
}

std::string AuditTarget(std::string_view what, std::string_view route) {
  return fmt::format("{} on {}", what, route);
}

AuditRecord RecordOf(std::int64_t id, Timestamp at, std::string_view action, std::string target,
                     const OperatorAction& why) {
  return {.id = id,
          .at = at,
          .actor = why.actor,
          .action = std::string(action),
          .target = std::move(target),
          .reason = why.reason,
          .login = SystemUser(),
          .client = HostName(),
          .application = program_invocation_short_name};
}

std::string_view AuditAction(const TenantRule& before, const TenantRule& after) {
  if (before.paused == after.paused) return "tenant.change";
  return after.paused ? "tenant.pause" : "tenant.resume";
}

Status CheckReroute(const RerouteRequest& request) {
  if (request.topic.empty() || request.to.empty()) {
    return Error(ErrorKind::kRejected, "invalid_topic", "a topic has no name").WithHint("name both topics");
  }
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (request.to == "." || request.to == ".." || request.to.size() > kTopicNameMax ||
      !std::all_of(request.to.begin(), request.to.end(), allowed)) {
    return Error(ErrorKind::kRejected, "invalid_topic", fmt::format("\"{}\" cannot be a topic", request.to))
        .WithHint("use letters, digits, '.', '_' and '-', at most 249 of them");
  }
  if (request.topic == request.to) {
    return Error(ErrorKind::kRejected, "invalid_topic", "both topics are the same").WithHint("name another topic");
  }
  return Ok();
}

std::string_view AuditAction(const RerouteRequest& request) {
  return request.waiting ? "messages.reroute" : "dead.reroute";
}

}  // namespace sealane
