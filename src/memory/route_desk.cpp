#include <algorithm>
#include <utility>

#include "memory/database.hpp"
#include "memory/memory_store.hpp"
#include "ops/operator_action.hpp"

namespace sealane::memory {
namespace {

RouteSummary Summarize(const LogState& state, const std::string& name, const RouteState& route, Timestamp now) {
  RouteSummary summary;
  summary.route = name;
  summary.paused = route.paused;
  summary.lanes = static_cast<std::int32_t>(route.lanes.size());
  summary.leased = static_cast<std::int32_t>(
      std::ranges::count_if(route.lanes, [&](const LaneState& lane) { return route.IsHeld(lane, now); }));
  summary.live_relays = static_cast<std::int32_t>(
      std::ranges::count_if(route.members, [&](const auto& member) { return member.second.expires_at > now; }));
  for (const auto& [seq, message] : state.log) {
    if (route.parked.contains(seq)) continue;
    const auto due_at = message.envelope.available_at;
    if (due_at && route.delayed.contains({*due_at, seq})) continue;
    const DeliveryState where = StatusOf(message, name, route, now).state;
    if (where == DeliveryState::kPublished) continue;
    summary.pending += 1;
    const auto rule = route.tenants.find(message.envelope.tenant);
    if (rule != route.tenants.end() && (rule->second.paused || rule->second.rate_max > 0)) continue;
    const auto waited = std::max(now - message.appended_at, std::chrono::microseconds{0});
    summary.oldest_pending = std::max(summary.oldest_pending.value_or(waited), waited);
  }
  summary.waiting = static_cast<std::int64_t>(route.delayed.size());
  for (const auto& [seq, row] : route.parked) {
    if (row.state == ParkedState::kDiscarded || row.skipped) continue;
    std::int64_t& count = row.state == ParkedState::kWaiting  ? summary.waiting
                          : row.state == ParkedState::kFailed ? summary.failed
                                                              : summary.dead;
    count += 1;
  }
  for (const auto& [tenant, rule] : route.tenants) summary.tenants.push_back(rule);
  return summary;
}

class MemoryRouteDesk final : public RouteDesk {
 public:
  explicit MemoryRouteDesk(std::shared_ptr<Database> database) : database_(std::move(database)) {}

  Result<RouteReport> Look() override {
    return database_->WithLog([&](LogState& state) -> Result<RouteReport> {
      RouteReport report;
      report.at = database_->clock().Now();
      report.seq_high = state.seq_high;
      for (const auto& [name, route] : state.routes) {
        report.routes.push_back(Summarize(state, name, route, report.at));
        for (const auto& [owner, member] : route.members) {
          const bool live = member.expires_at > report.at;
          const auto lanes =
              std::ranges::count_if(route.lanes, [&, &owner = owner, &route = route](const LaneState& lane) {
                return lane.owner == owner && route.IsHeld(lane, report.at);
              });
          report.relays.push_back(
              {name, owner, member.started_at, member.expires_at, static_cast<std::int32_t>(lanes), live});
        }
      }
      return report;
    });
  }

  Status Add(const std::string& route, const RouteStart& start, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(CheckRouteName(route));
    return database_->WithLog([&](LogState& state) -> Status {
      if (state.routes.contains(route)) return RouteExists(route);
      std::int64_t done = start.kind == RouteStart::Kind::kBeginning ? 0 : state.seq_high;
      if (start.kind == RouteStart::Kind::kTime) {
        const auto first =
            std::ranges::find_if(state.log, [&](const auto& entry) { return entry.second.appended_at >= start.at; });
        if (first != state.log.end()) done = first->first - 1;
      }
      for (LaneState& lane : state.AddRoute(route).lanes) lane.positions.main = PositionAt(done);
      Record(state, "route.add", route, why);
      return Ok();
    });
  }

  Status Remove(const std::string& route, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    return database_->WithLog([&](LogState& state) -> Status {
      const auto found = state.routes.find(route);
      if (found == state.routes.end()) return UnknownRoute(route);
      const Timestamp now = database_->clock().Now();
      if (std::ranges::any_of(found->second.members,
                              [&](const auto& member) { return member.second.expires_at > now; })) {
        return RouteBusy(route);
      }
      state.routes.erase(found);
      Record(state, "route.remove", route, why);
      return Ok();
    });
  }

  // There is no other server.
  Result<RebaseReport> PlanRebase() override {
    SEALANE_ASSIGN_OR_RETURN(const RouteReport report, Look());
    RebaseReport plan{.needed = false, .home = "this process", .here = "this process"};
    for (const RouteSummary& route : report.routes) {
      plan.routes.push_back(
          {.route = route.route, .published = report.seq_high - route.pending, .pending = route.pending});
    }
    return plan;
  }
  Result<RebaseReport> Rebase(const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    return PlanRebase();
  }

 private:
  void Record(LogState& state, std::string_view action, const std::string& target, const OperatorAction& why) {
    const auto id = static_cast<std::int64_t>(state.audit.size()) + 1;
    state.audit.push_back(RecordOf(id, database_->clock().Now(), action, target, why));
  }

  std::shared_ptr<Database> database_;
};

}  // namespace

Result<std::unique_ptr<RouteDesk>> OpenRouteDesk(std::shared_ptr<Database> database) {
  return std::unique_ptr<RouteDesk>(std::make_unique<MemoryRouteDesk>(std::move(database)));
}

}  // namespace sealane::memory
