#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "sealane/result.hpp"

#include "daemon/route_setup.hpp"
#include "relay/route_relay.hpp"

namespace sealane::cli {

/// What the daemon does with a route: a RouteRelay, or what a test puts in its place.
class RouteWork {
 public:
  virtual ~RouteWork() = default;
  /// Opens the store and the broker once, to meet mistakes that no waiting heals. Before Run(), in any thread.
  virtual Status Check() = 0;
  virtual RelayEnd Run(std::stop_token stop, bool until_drained) = 0;
  /// Thread-safe, as is Wake().
  virtual RouteStats stats() const = 0;
  virtual void Wake() = 0;
};

using MakeRouteWork = std::function<std::unique_ptr<RouteWork>(const RouteSetup& setup)>;

/// Puts something of its own around a publisher.
using WrapPublisher = std::function<std::unique_ptr<Publisher>(std::unique_ptr<Publisher>)>;

/// A relay between the store and the broker that the set-up names. `wrap` is for demonstrations; empty: nothing.
std::unique_ptr<RouteWork> MakeRelayWork(const RouteSetup& setup, Clock& clock, Random& random,
                                         WrapPublisher wrap = {});

}  // namespace sealane::cli
