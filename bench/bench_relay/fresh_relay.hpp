#pragma once

#include <memory>
#include <string>

#include "relay/route_relay.hpp"

namespace sealane::bench {

/// Where our relay publishes to. Without a broker: nowhere.
struct Destination {
  std::string broker_url = {};
  std::string topic = {};
  WireProfile profile = WireProfile::kEnvelope;
};

/// The defaults, with a route and an owner that nobody used before.
RouteOptions FreshRoute(const Destination& destination);
OpenPublisher PublisherTo(const Destination& destination);

/// A relay as the daemon would wire it, on the machine's clock.
std::unique_ptr<RouteRelay> MakeRelay(const std::string& url, const RouteOptions& options,
                                      OpenPublisher open_publisher);

}  // namespace sealane::bench
