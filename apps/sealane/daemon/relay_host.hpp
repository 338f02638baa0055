#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/route_work.hpp"

namespace sealane::cli {

/// What a reload changed, by label (`default/main`).
struct ReloadReport {
  std::vector<std::string> added = {};
  std::vector<std::string> removed = {};
  std::vector<std::string> restarted = {};
  std::size_t unchanged = 0;
};

/// Runs any number of routes, each with a thread of its own that nothing of the others can stop.
///
/// One thread (main) starts, stops, reloads and tends; Stats() and Wake() may be called from any.
class RelayHost {
 public:
  /// `ended` is called from a route's thread when it has ended: the signal to Tend().
  RelayHost(MakeRouteWork make, std::function<void()> ended);
  /// Stops and waits.
  ~RelayHost();
  RelayHost(const RelayHost&) = delete;
  RelayHost& operator=(const RelayHost&) = delete;

  /// The first problem that no waiting heals, of any of these routes. Outages are none.
  Status Check(const std::vector<RouteSetup>& setups) const;
  void Start(const std::vector<RouteSetup>& setups, bool until_drained);
  /// Routes that are new are started, those that are gone or changed are asked to drain. Tend() starts the changed
  /// ones again when they have.
  ReloadReport Reload(const std::vector<RouteSetup>& setups);
  void RequestStop();
  /// Takes leave of routes that have ended.
  void Tend();

  /// Nothing runs, and nothing will be started again.
  bool Idle() const;
  /// Some route ended with messages that got no answer.
  bool left_unresolved() const { return left_unresolved_; }
  /// Those that ended for good at the end.
  std::vector<RouteStats> Stats() const;
  void Wake() const;

 private:
  class Runner;

  void Launch(const RouteSetup& setup, bool until_drained);

  const MakeRouteWork make_;
  const std::function<void()> ended_;
  bool left_unresolved_ = false;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Runner>> runners_;  // guarded by mutex_, as is the next
  std::vector<RouteStats> last_words_;
};

}  // namespace sealane::cli
