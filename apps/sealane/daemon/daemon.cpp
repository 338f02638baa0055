#include "daemon/daemon.hpp"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "exit_code.hpp"
#include "serve/probes.hpp"

namespace sealane::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{1'000};
constexpr milliseconds kProgressTick{250};

std::uint64_t Published(const std::vector<RouteStats>& stats) {
  std::uint64_t sum = 0;
  for (const RouteStats& route : stats) sum += route.published;
  return sum;
}

}  // namespace

std::string Grouped(std::uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string ProgressText(const std::vector<RouteStats>& stats, double published_per_second) {
  std::int64_t parked = 0;
  double oldest = 0;
  std::string problems;
  for (const RouteStats& route : stats) {
    parked += route.parked;
    oldest = std::max(oldest, route.oldest_pending_seconds);
    if (route.problem.empty()) continue;
    problems += fmt::format("; {}/{} {}: {}", route.store, route.route, ToString(route.state), route.problem);
  }
  return fmt::format("{} published, {}/s, oldest waits {:.1f} s, {} parked{}", Grouped(Published(stats)),
                     Grouped(static_cast<std::uint64_t>(published_per_second)), oldest,
                     Grouped(static_cast<std::uint64_t>(std::max<std::int64_t>(parked, 0))), problems);
}

Daemon::Daemon(DaemonOptions options, RelayHost& host, const SignalWaiter& signals, const ServiceManager& manager,
               Clock& clock, std::function<void()> reload)
    : options_(options),
      host_(host),
      signals_(signals),
      manager_(manager),
      clock_(clock),
      reload_(std::move(reload)),
      told_at_(clock.SinceBoot()) {}

DaemonEnd Daemon::Run() {
  manager_.Notify("READY=1");
  while (true) {
    host_.Tend();
    if (host_.Idle()) break;
    if (const auto signal = signals_.Wait(NextWait())) OnSignal(*signal);
    if (options_.deadline && !stopping_ && clock_.SinceBoot() >= *options_.deadline) Stop(DaemonEnd::kTimedOut);
    Tell();
  }
  if (options_.progress != nullptr) *options_.progress << "\r\x1b[K" << std::flush;
  return stopping_.value_or(DaemonEnd::kEnded);
}

milliseconds Daemon::NextWait() const {
  milliseconds wait = options_.progress != nullptr ? kProgressTick : kTick;
  if (const auto watchdog = manager_.watchdog()) wait = std::min(wait, *watchdog);
  if (options_.deadline && !stopping_) {
    const auto left = std::chrono::ceil<milliseconds>(*options_.deadline - clock_.SinceBoot());
    wait = std::clamp(left, milliseconds{0}, wait);
  }
  return wait;
}

void Daemon::OnSignal(int signal) {
  if (signal == SIGHUP) {
    manager_.Notify("RELOADING=1");
    reload_();
    manager_.Notify("READY=1");
    return;
  }
  if (stopping_) {
    LogWarning("second signal, leaving at once; what is not settled will be sent again");
    ::_exit(static_cast<int>(ExitCode::kInterrupted));
  }
  LogInfo("stopping: waiting for messages on their way", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
  Stop(DaemonEnd::kStopped);
}

void Daemon::Stop(DaemonEnd why) {
  stopping_ = why;
  manager_.Notify("STOPPING=1");
  host_.RequestStop();
}

void Daemon::Tell() {
  const BootTime now = clock_.SinceBoot();
  const double seconds = std::chrono::duration<double>(now - told_at_).count();
  // A burst of signals or ended routes is no reason to talk more often.
  if (seconds < 0.2) return;
  const std::vector<RouteStats> stats = host_.Stats();
  const std::uint64_t published = Published(stats);
  const double rate = published < published_then_ ? 0 : static_cast<double>(published - published_then_) / seconds;
  told_at_ = now;
  published_then_ = published;
  const std::string text = ProgressText(stats, rate);
  const bool alive = std::all_of(stats.begin(), stats.end(), [&](const RouteStats& route) {
    return IsAlive(route, clock_.Now(), options_.beat_max);
  });
  manager_.Notify(fmt::format("{}STATUS={}", manager_.watchdog() && alive ? "WATCHDOG=1\n" : "", text));
  if (options_.progress == nullptr) return;
  // One line of a terminal: a longer one would leave its head behind when it is drawn again.
  *options_.progress << "\r\x1b[K" << EscapeForTerminal(text).substr(0, 110) << std::flush;
}

}  // namespace sealane::cli
