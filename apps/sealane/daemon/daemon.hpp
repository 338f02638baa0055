#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>
#include <optional>
#include <vector>

#include "sealane/clock.hpp"

#include "daemon/relay_host.hpp"
#include "daemon/service_manager.hpp"
#include "daemon/signal_waiter.hpp"

namespace sealane::cli {

struct DaemonOptions {
  std::optional<BootTime> deadline = {};       ///< gives up then; only for `--until drained`
  std::chrono::milliseconds beat_max{60'000};  ///< a relay that works beats at least this often
  std::ostream* progress = nullptr;            ///< a terminal for a line that is drawn again and again
};

/// How a run came to its end.
enum class DaemonEnd : std::uint8_t {
  kEnded,    ///< every route ended by itself
  kStopped,  ///< a signal asked for it
  kTimedOut,
};

/// The main thread of `sealane relay`: passes signals on, tends the routes, tells the service manager.
///
/// The first SIGTERM or SIGINT drains, the second ends the process at once with 130: safe, what is not settled is
/// sent again. SIGHUP calls `reload`.
class Daemon {
 public:
  Daemon(DaemonOptions options, RelayHost& host, const SignalWaiter& signals, const ServiceManager& manager,
         Clock& clock, std::function<void()> reload);

  /// Until every route has ended.
  DaemonEnd Run();

 private:
  void OnSignal(int signal);
  void Stop(DaemonEnd why);
  void Tell();
  std::chrono::milliseconds NextWait() const;

  const DaemonOptions options_;
  RelayHost& host_;
  const SignalWaiter& signals_;
  const ServiceManager& manager_;
  Clock& clock_;
  const std::function<void()> reload_;
  std::optional<DaemonEnd> stopping_;
  BootTime told_at_;
  std::uint64_t published_then_ = 0;
};

/// `default/main 12,400 published, 1,240/s, oldest waits 0.4 s, 2 parked`, over all routes.
std::string ProgressText(const std::vector<RouteStats>& stats, double published_per_second);

/// Digits in groups of three.
std::string Grouped(std::uint64_t number);

}  // namespace sealane::cli
