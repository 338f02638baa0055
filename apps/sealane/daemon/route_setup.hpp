#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sealane/result.hpp"

#include "config/config.hpp"
#include "relay/route_options.hpp"

namespace sealane::cli {

/// One route of one store, with everything that is needed to run it.
struct RouteSetup {
  RouteOptions options;  ///< with an empty owner: each start gets a new one
  std::string owner_base;
  Settings store;
  std::string broker_name;
  Settings broker;
  /// Changes when anything changes that a running relay would have to be restarted for.
  std::string fingerprint;

  /// `default/main`: store and route, unique in a process.
  std::string label() const { return options.store + "/" + options.route; }
};

/// What the command line selects.
struct RouteSelection {
  std::vector<std::string> routes = {};    ///< empty: all
  std::optional<std::string> store = {};   ///< runs the routes on this store, whatever they are configured for
  std::optional<std::string> broker = {};  ///< likewise
};

/// The options of every route that is selected, checked as far as that is possible without a connection. Errors are
/// kMisconfigured and name the key; a route that is not configured is `bad_usage`.
Result<std::vector<RouteSetup>> PlanRoutes(const Config& config, const RouteSelection& selection);

/// Whether every configured route has options a relay would accept. Stores and brokers need not be set.
Status CheckRoutes(const Config& config);

}  // namespace sealane::cli
