#include "daemon/foreground.hpp"

#include <atomic>
#include <csignal>
#include <ostream>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "daemon/service_manager.hpp"

namespace sealane::cli {

using std::chrono::milliseconds;

ForegroundEnd RunInForeground(CommandContext& context, const SignalWaiter& signals, const ForegroundWork& work) {
  const ServiceManager manager(context.environment().variables);
  const BootTime begin = context.clock().SinceBoot();
  ForegroundEnd end;
  std::atomic<bool> ended = false;
  std::jthread runner([&](std::stop_token stop) {
    end.status = work.run(stop);
    ended = true;
    signals.Poke();
  });
  manager.Notify("READY=1");
  const bool draw = context.err_is_terminal() && context.is_table();
  bool signalled = false;
  while (!ended) {
    const auto signal = signals.Wait(milliseconds{250});
    if (signal && (*signal == SIGTERM || *signal == SIGINT)) {
      if (std::exchange(signalled, true)) {
        LogWarning("second signal, leaving at once; " + work.left_behind);
        ::_exit(static_cast<int>(ExitCode::kInterrupted));
      }
      LogInfo("stopping: " + work.stopping);
      manager.Notify("STOPPING=1");
      end.stopped = true;
      runner.request_stop();
    }
    if (work.limit && !end.stopped && context.clock().SinceBoot() - begin >= *work.limit) {
      end.stopped = end.timed_out = true;
      runner.request_stop();
    }
    const std::string line = work.progress();
    manager.Notify(fmt::format("{}STATUS={}", manager.watchdog() ? "WATCHDOG=1\n" : "", line));
    if (draw) context.err() << "\r\x1b[K" << EscapeForTerminal(line).substr(0, 110) << std::flush;
  }
  runner.join();
  if (draw) context.err() << "\r\x1b[K" << std::flush;
  end.seconds = std::chrono::duration<double>(context.clock().SinceBoot() - begin).count();
  return end;
}

}  // namespace sealane::cli
