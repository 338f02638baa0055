#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "sealane/result.hpp"

#include "daemon/route_setup.hpp"
#include "relay/relay.hpp"

namespace sealane::cli {

/// What the daemon does with a route: a Relay, or what a test puts in its place.
class RouteWork {
 public:
  virtual ~RouteWork() = default;
  /// Opens the store and the broker once, to meet mistakes that no waiting heals. Before Run(), in any thread.
  virtual Status Check() = 0;
  virtual RelayEnd Run(std::stop_token stop, bool until_drained) = 0;
  /// Thread-safe, as is Wake().
  virtual RelayStats stats() const = 0;
  virtual void Wake() = 0;
};

using MakeRouteWork = std::function<std::unique_ptr<RouteWork>(const RouteSetup& setup)>;

/// A relay between the store and the broker that the set-up names.
std::unique_ptr<RouteWork> MakeRelayWork(const RouteSetup& setup, Clock& clock, Random& random);

}  // namespace sealane::cli
