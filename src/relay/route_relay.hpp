#pragma once

#include <memory>
#include <stop_token>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"
#include "sealane/result.hpp"

#include "relay/route_options.hpp"
#include "relay/route_stats.hpp"

namespace sealane {

/// What one step did; for loops that decide how long to wait, and for tests.
struct RelayReport {
  std::size_t read = 0;       ///< events
  std::size_t submitted = 0;  ///< messages
  std::size_t delivered = 0;
  bool settled = false;    ///< progress was written
  bool caught_up = false;  ///< everything up to the last horizon is done
  bool idle() const { return read == 0 && submitted == 0 && delivered == 0 && !settled; }
};

enum class RelayEnd : std::uint8_t {
  kDrained,     ///< nothing is left in flight, progress is written, lanes are released
  kUnresolved,  ///< messages without an answer were left behind: a successor sends them again
};

/// Ships one route of one outbox to one destination: leases lanes, reads what was committed, publishes it in order,
/// writes down how far it got, and sets aside what fails.
///
/// Any number of relays run the same route side by side. A relay may die at any moment; what it had not settled is
/// sent again by whoever takes its lanes (docs/guarantees.md). Nothing here knows which store or broker it works on.
///
/// Errors of the store or the destination do not end Run(): they are logged, shown in stats(), and tried again with a
/// growing wait.
class RouteRelay {
 public:
  /// Nothing is opened yet. The options have passed CheckOptions(). `clock` and `random` must outlive the relay.
  RouteRelay(RouteOptions options, OpenLog open_log, OpenPublisher open_publisher, Clock& clock, Random& random);
  ~RouteRelay();

  /// One step of each loop, in the caller's thread. Do not mix with Run().
  Result<RelayReport> RunOnce();

  /// Works until a stop is requested, or, with `until_drained`, until it holds every lane and everything that was
  /// committed when it began is published or set aside. Then stops reading, waits for what is in flight, settles, and
  /// releases its lanes.
  RelayEnd Run(std::stop_token stop, bool until_drained = false);

  /// RunOnce() callers: the last stage of a stop. Safe to call twice.
  RelayEnd Drain();

  /// Thread-safe.
  RouteStats stats() const;
  /// Says that something was committed: the next look at the log happens at once. Thread-safe.
  void Wake();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sealane
