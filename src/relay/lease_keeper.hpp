#pragma once

#include <memory>

#include "sealane/clock.hpp"

#include "relay/lease_board.hpp"
#include "relay/route_options.hpp"

namespace sealane {

/// Keeps a relay's leases alive on a connection of its own, so that neither a long read nor a slow broker lets them
/// run out, takes its share of the lanes, and does the store's housekeeping.
///
/// The share is lanes / live relays, rounded up. Nobody takes from the living: a relay that has too much gives back,
/// and the lanes of a dead one become free when their time is over. Orders that span lanes need one owner for all of
/// them: the relay that holds the lowest lane takes the others too, everybody else waits.
class LeaseKeeper {
 public:
  LeaseKeeper(const RouteOptions& options, LeaseBoard& board, Clock& clock);

  /// One heartbeat and what follows from it.
  Status RunOnce(OutboxLog& log);
  /// Until the next heartbeat.
  std::chrono::milliseconds interval() const { return options_.lease_ttl / 6; }

 private:
  std::size_t Target(const Membership& membership) const;
  Status TakeShare(OutboxLog& log, const Membership& membership);

  const RouteOptions& options_;
  LeaseBoard& board_;
  Clock& clock_;
  BootTime tended_{-1};
};

}  // namespace sealane
