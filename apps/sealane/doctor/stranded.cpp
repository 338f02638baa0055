#include "doctor/stranded.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "store_factory.hpp"

namespace sealane::cli {

std::vector<StrandedRoute> FindStranded(const Settings& store, const std::set<std::string>& configured) {
  std::vector<StrandedRoute> stranded;
  auto outbox = OpenOutboxStore(store);
  if (!outbox) return stranded;
  const auto newest = (*outbox)->ListMessages({.limit = 1});
  if (!newest || newest->empty()) return stranded;
  for (const RouteStatus& status : newest->front().routes) {
    // Where nobody works the newest event waits. That is asked first, because a long log of published ones would be
    // searched in vain.
    if (configured.contains(status.route) || status.state != DeliveryState::kPending) continue;
    const auto waiting =
        (*outbox)->ListMessages({.state = DeliveryState::kPending, .route = status.route, .limit = kStrandedMax});
    stranded.push_back({status.route, waiting ? std::max<std::size_t>(waiting->size(), 1) : 1});
  }
  return stranded;
}

std::set<std::string> RoutesOn(const Config& config, const std::string& store, bool everywhere) {
  std::set<std::string> names;
  for (const auto& [name, route] : config.routes()) {
    const std::vector<std::string> stores = route.List(Key::kRouteStore);
    if (everywhere || std::find(stores.begin(), stores.end(), store) != stores.end()) names.insert(name);
  }
  return names;
}

std::string Describe(const StrandedRoute& route) {
  return fmt::format(
      "route {} of the store is in no configuration, {} event{} wait{}", route.route,
      route.waiting >= kStrandedMax ? fmt::format("{} or more", route.waiting) : fmt::format("{}", route.waiting),
      route.waiting == 1 ? "" : "s", route.waiting == 1 ? "s" : "");
}

std::vector<Finding> JudgeStranded(const std::string& subject, const std::vector<StrandedRoute>& routes,
                                   const std::string& file) {
  std::vector<Finding> findings;
  for (const StrandedRoute& route : routes) {
    findings.push_back({.level = Finding::Level::kNotice,
                        .code = "route_stranded",
                        .subject = subject,
                        .symptom = Describe(route),
                        .evidence = fmt::format("add [route.{}] to {} if a relay should ship them", route.route,
                                                file.empty() ? "sealane.toml" : file),
                        .next = fmt::format("sealane messages list --route {} --status PENDING", route.route)});
  }
  return findings;
}

}  // namespace sealane::cli
