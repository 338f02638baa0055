#include "demo/plan.hpp"

#include <algorithm>

namespace sealane::demo {
namespace {

constexpr double kEventsPerOrder = 2;

}  // namespace

std::string_view ToString(Plant plant) {
  switch (plant) {
    case Plant::kNone:
      return "none";
    case Plant::kMarkBeforePublish:
      return "mark-before-publish";
    case Plant::kEffectOutsideTransaction:
      return "effect-outside-transaction";
  }
  return "";
}

std::optional<Plant> ParsePlant(std::string_view text) {
  for (const Plant plant : {Plant::kMarkBeforePublish, Plant::kEffectOutsideTransaction}) {
    if (text == ToString(plant)) return plant;
  }
  return std::nullopt;
}

Plan PlanFor(const Pace& pace) {
  const Plan::Time end = std::chrono::seconds{pace.seconds};
  const auto at = [&](double share) {
    return Plan::Time{static_cast<Plan::Time::rep>(share * static_cast<double>(end.count()))};
  };
  Plan plan;
  plan.end = end;
  plan.poison = at(0.08);
  plan.early = at(0.14);
  plan.early_resolved = at(0.20);
  plan.broker_away = at(0.26);
  plan.broker_back = at(0.44);
  plan.relay_killed = at(0.58);
  plan.relay_restarted = at(0.61);
  plan.noise = at(0.78);
  plan.noisy_orders = std::clamp<std::int64_t>(pace.rate * pace.seconds / 4, 60, 5'000);
  // A rule lets a second's worth pass at once, and the rest second by second: the noise lasts for three seconds.
  plan.noisy_rate = plan.noisy_orders / 2;
  plan.orders_per_second = static_cast<double>(pace.rate) / kEventsPerOrder;
  plan.lease = std::clamp(end / 8, Plan::Time{1'000}, Plan::Time{2'000});
  return plan;
}

}  // namespace sealane::demo
