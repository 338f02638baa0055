#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "doctor/finding.hpp"

namespace sealane::cli {

/// A route that a store has and nobody runs, with events that wait for it.
struct StrandedRoute {
  std::string route;
  std::size_t waiting = 0;  ///< at most kStrandedMax are counted
};
inline constexpr std::size_t kStrandedMax = 100;

/// The routes of a store that are not among these and have a backlog, as far as this user may see: a store that
/// cannot be asked has none here, because others tell that.
std::vector<StrandedRoute> FindStranded(const Settings& store, const std::set<std::string>& configured);

/// The routes that a configuration runs on a store. `everywhere`: a flag has named the store for all of them.
std::set<std::string> RoutesOn(const Config& config, const std::string& store, bool everywhere);

/// `route main of the store is in no configuration, 3 events wait`.
std::string Describe(const StrandedRoute& route);

/// One notice for each.
std::vector<Finding> JudgeStranded(const std::string& subject, const std::vector<StrandedRoute>& routes,
                                   const std::string& file);

}  // namespace sealane::cli
