#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "outbox/outbox_log.hpp"

namespace sealane {

/// A relay that has said it is there, on one route.
struct RelayMember {
  std::string route;
  std::string owner;
  Timestamp started_at{};
  Timestamp expires_at{};  ///< it said so with a heartbeat that counts until then
  std::int32_t lanes = 0;  ///< that it has leased
  bool live = true;
};

/// How far one route is.
struct RouteSummary {
  std::string route;
  bool paused = false;
  std::int32_t lanes = 0;
  std::int32_t leased = 0;       ///< lanes that some relay has
  std::int32_t live_relays = 0;  ///< of this route

  /// Committed events that the route has not come to; those set aside are not among them. A lower bound unless
  /// `pending_exact`.
  std::int64_t pending = 0;
  bool pending_exact = true;
  /// How long the oldest of these has waited, by the store's clock, those of tenants apart that are paused or
  /// limited, which wait on purpose; empty when there is none.
  std::optional<std::chrono::microseconds> oldest_pending = {};

  std::int64_t waiting = 0;  ///< set aside behind another, or until its time comes
  std::int64_t failed = 0;   ///< will be tried again
  std::int64_t dead = 0;     ///< waits for a person, and its followers for it
  bool aside_exact = true;   ///< otherwise there are more

  std::vector<TenantRule> tenants = {};  ///< in the order of their names
};

/// An outbox at one moment.
struct RouteReport {
  Timestamp at{};             ///< by the store's clock
  std::int64_t seq_high = 0;  ///< the highest number handed out
  std::vector<RouteSummary> routes = {};
  std::vector<RelayMember> relays = {};  ///< also those that have stopped beating and are not forgotten yet
};

/// Port: how far the routes of an outbox are, for people who watch. Changes nothing. One connection, not thread-safe.
class RouteDesk {
 public:
  /// However much there is, a look counts at most about so many rows of the log and of what was set aside.
  static constexpr std::int64_t kPendingMax = 20'000;
  static constexpr std::int64_t kAsideMax = 20'000;
  static constexpr std::int64_t kTenantsMax = 200;  ///< rules of a route
  static constexpr std::int64_t kRelaysMax = 1'000;

  virtual ~RouteDesk() = default;

  /// Routes and relays in the order of their names.
  virtual Result<RouteReport> Look() = 0;
};

}  // namespace sealane
