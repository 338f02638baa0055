#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "ops/dead_letters.hpp"
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

  std::int64_t waiting = 0;  ///< behind a failed event of its key, for a missing topic, or for its time
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

/// Where a new route begins.
struct RouteStart {
  enum class Kind : std::uint8_t { kBeginning, kNow, kTime };
  Kind kind = Kind::kBeginning;
  Timestamp at{};  ///< of kTime: events appended then or later, and a few that were appended shortly before
};

/// What rebasing an outbox does, or did.
struct RebaseReport {
  bool needed = false;  ///< the positions do not fit the server that the outbox is on now
  std::string home;     ///< the server that they belong to
  std::string here;     ///< the one that this is
  struct Route {
    std::string route;
    std::int64_t published = 0;  ///< events of the log that the route has come to, parked ones among them
    std::int64_t pending = 0;    ///< that it will publish
  };
  std::vector<Route> routes = {};
};

/// Port: the routes of an outbox, for operators. Every change and its audit record commit together. One connection,
/// not thread-safe.
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

  /// kRejected (`route_exists`, `invalid_route_name`).
  virtual Status Add(const std::string& route, const RouteStart& start, const OperatorAction& why) = 0;
  /// Removes a route with its positions, its tenants' rules and the records of what is parked on it; events stay in
  /// the log. kRejected (`unknown_route`; `route_busy` while a live relay works on it).
  virtual Status Remove(const std::string& route, const OperatorAction& why) = 0;

  /// What Rebase() would do. May read the whole log.
  virtual Result<RebaseReport> PlanRebase() = 0;
  /// Makes the positions of all routes fit the server that the outbox is on now, after it was restored or moved
  /// there. Every event that a route had not come to will be published; relays take their lanes anew. All or nothing.
  virtual Result<RebaseReport> Rebase(const OperatorAction& why) = 0;
};

}  // namespace sealane
