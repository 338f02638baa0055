#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "sealane/result.hpp"

#include "command.hpp"
#include "daemon/signal_waiter.hpp"

namespace sealane::cli {

/// What a command does until it ends by itself or is asked to stop.
struct ForegroundWork {
  std::function<Status(std::stop_token)> run;           ///< on a thread of its own
  std::function<std::string()> progress;                ///< one line, for the service manager and a terminal
  std::string stopping;                                 ///< what is waited for after a signal, for the log
  std::string left_behind;                              ///< what leaving at once means, for the log
  std::optional<std::chrono::milliseconds> limit = {};  ///< stopped then
};

/// How it came to its end.
struct ForegroundEnd {
  Status status = Ok();
  bool stopped = false;    ///< by a signal or the limit
  bool timed_out = false;  ///< by the limit
  double seconds = 0;
};

/// Runs it in front of a service manager and, where there is one, a terminal. The first SIGTERM or SIGINT asks it to
/// stop, the second ends the process at once with 130.
ForegroundEnd RunInForeground(CommandContext& context, const SignalWaiter& signals, const ForegroundWork& work);

}  // namespace sealane::cli
