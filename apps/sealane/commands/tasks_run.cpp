#include <algorithm>
#include <atomic>
#include <ostream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "build_info.hpp"
#include "commands/outbox_setup.hpp"
#include "commands/tasks.hpp"
#include "config/units.hpp"
#include "connect/owner_name.hpp"
#include "daemon/daemon.hpp"
#include "daemon/service_manager.hpp"
#include "daemon/signal_waiter.hpp"
#include "daemon/target_setup.hpp"
#include "serve/probe_server.hpp"
#include "store_factory.hpp"
#include "tasks/task_dispatcher.hpp"

namespace sealane::cli {
namespace {

using std::chrono::milliseconds;

/// The shares of all targets together.
TaskTargetStats Total(const TaskDispatcherStats& stats) {
  TaskTargetStats total;
  for (const auto& [name, share] : stats.targets) {
    total.succeeded += share.succeeded;
    total.failed += share.failed;
    total.unknown += share.unknown;
    total.dead += share.dead;
  }
  return total;
}

std::string_view StateOf(const TargetHealth& health) {
  return health.paused ? "paused" : ToString(health.state);
}

/// For people: targets whose tasks wait although they are due.
std::string HeldTargets(const TaskDispatcherStats& stats) {
  std::vector<std::string> held;
  for (const auto& [name, share] : stats.targets) {
    if (share.health.paused || share.health.state != BreakerState::kClosed) {
      held.push_back(fmt::format("{} is {}", EscapeForTerminal(name), share.health.paused ? "paused" : "down"));
    }
  }
  return fmt::format("{}", fmt::join(held, ", "));
}

JsonDocument& AddCounts(JsonDocument& json, const TaskTargetStats& share) {
  return json.Integer("succeeded", static_cast<std::int64_t>(share.succeeded))
      .Integer("failed", static_cast<std::int64_t>(share.failed))
      .Integer("unknown", static_cast<std::int64_t>(share.unknown))
      .Integer("dead", static_cast<std::int64_t>(share.dead));
}

std::string StatsJson(const TaskDispatcherStats& stats, bool drained, double seconds) {
  JsonDocument targets;
  for (const auto& [name, share] : stats.targets) {
    JsonDocument target;
    target.Text("state", StateOf(share.health));
    targets.Raw(name, AddCounts(target, share).Finish());
  }
  JsonDocument json;
  json.Text("apiVersion", kApiVersion).Truth("drained", drained);
  return AddCounts(json, Total(stats))
      .Integer("fenced", static_cast<std::int64_t>(stats.fenced))
      .Raw("targets", targets.Finish())
      .TextIfAny("problem", stats.problem)
      .Raw("duration_seconds", fmt::format("{:.3f}", seconds))
      .Finish();
}

std::string ProgressLine(const TaskDispatcherStats& stats) {
  const TaskTargetStats total = Total(stats);
  const std::string held = HeldTargets(stats);
  return fmt::format("{} done, {} failed attempts, {} dead, {} under way{}{}", Grouped(total.succeeded),
                     Grouped(total.failed), Grouped(total.dead), stats.under_way, held.empty() ? "" : "; " + held,
                     stats.problem.empty() ? "" : "; " + stats.problem);
}

class TasksRunCommand final : public Command {
 public:
  std::string_view path() const override { return "tasks run"; }
  std::string_view summary() const override {
    return "carry out tasks at their targets, with one key however often that takes";
  }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane tasks run --target billing=https://billing.example/v1",
        "sealane tasks run --config sealane.toml --workers 32 --listen 127.0.0.1:9466",
        "sealane tasks run --target billing --until drained -o json",
    };
  }
  std::vector<OptionSpec> Options() override {
    return {
        {"--target", "NAME[=URL]", "serve this target of the configuration, or this URL; may be repeated", &targets_},
        {"--workers", "N", "attempts side by side, divided over the targets with work (default: 8)", &workers_},
        {"--lease-margin", "TIME",
         "what a dispatcher that died leaves is taken over after the longest attempt and "
         "this (default: 10s)",
         &lease_margin_},
        {"--retention", "TIME", "how long tasks that are over are remembered (default: 90d); 0 is for ever",
         &retention_},
        {"--until", "WHEN", "drained: end when nothing is due", &until_, false, "drained"},
        {"--listen", "HOST:PORT", "where /livez, /readyz and /metrics are served (default: off)", &listen_},
    };
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_RETURN_IF_ERROR(ReadFlags(context));
    SEALANE_ASSIGN_OR_RETURN(const TaskDispatcherOptions options, DispatcherOptions());
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    SEALANE_ASSIGN_OR_RETURN(const Config::Sections sections, SelectTargets(*config, targets_));
    SEALANE_ASSIGN_OR_RETURN(TaskTargets targets, OpenTargets(sections));
    SEALANE_ASSIGN_OR_RETURN(const auto outbox, OutboxSetup::Make(context));
    // A wrong URL, a missing schema or a wrong password is better told now than waited for.
    SEALANE_RETURN_IF_ERROR(OpenStoreTasks(config->store()));
    SEALANE_ASSIGN_OR_RETURN(const SignalWaiter signals, SignalWaiter::Make());
    TaskDispatcher dispatcher(
        options, std::move(targets), [store = config->store()] { return OpenStoreTasks(store); }, outbox->outbox(),
        context.clock(), SystemRandom::Instance());
    SEALANE_ASSIGN_OR_RETURN(const auto server, StartProbes(context, dispatcher));
    std::vector<std::string_view> names;
    for (const auto& section : sections) names.push_back(section.first);
    LogInfo("dispatcher started", {{"name", options.name},
                                   {"store", RedactUrl(config->store().Text(Key::kStoreUrl))},
                                   {"targets", fmt::format("{}", fmt::join(names, ","))},
                                   {"workers", options.workers},
                                   {"probes", server ? "http://" + server->address().ToString() : "off"}});
    context.OnInterrupt("what was not finished is tried again with the same key");
    return Serve(context, dispatcher, signals);
  }

 private:
  Status ReadFlags(CommandContext& context) {
    if (!until_) return Ok();
    if (*until_ != "drained") {
      return BadUsage(fmt::format("--until: `{}` is not drained", *until_), "write --until drained", "--until");
    }
    context.TakeTimeoutAsLimit();
    if (const auto& timeout = context.options().timeout) {
      SEALANE_ASSIGN_OR_RETURN(limit_, Duration("--timeout", *timeout));
    }
    return Ok();
  }

  static Result<milliseconds> Duration(const std::string& flag, const std::string& text) {
    auto value = ParseDuration(text);
    if (!value) return BadUsage(fmt::format("{}: {}", flag, value.error().message()), value.error().hint(), flag);
    return *value;
  }

  Result<TaskDispatcherOptions> DispatcherOptions() const {
    TaskDispatcherOptions options;
    options.name = DefaultOwner();
    if (workers_) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t workers, IntegerOption("--workers", *workers_, 1, 256));
      options.workers = static_cast<std::size_t>(workers);
    }
    if (lease_margin_) {
      SEALANE_ASSIGN_OR_RETURN(options.lease_margin, Duration("--lease-margin", *lease_margin_));
      if (options.lease_margin < std::chrono::seconds{1}) {
        return BadUsage("--lease-margin: less than a second", "give at least 1s", "--lease-margin");
      }
    }
    if (retention_) {
      SEALANE_ASSIGN_OR_RETURN(const milliseconds retention, Duration("--retention", *retention_));
      options.retention.reset();
      if (retention.count() > 0) options.retention = retention;
    }
    return options;
  }

  Result<std::unique_ptr<ProbeServer>> StartProbes(CommandContext& context, const TaskDispatcher& dispatcher) const {
    if (!listen_ || *listen_ == "off") return std::unique_ptr<ProbeServer>();
    SEALANE_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(*listen_));
    return ProbeServer::Start({.address = address, .build = LibraryVersions()}, context.clock(),
                              [&dispatcher] { return ServedStats(dispatcher.stats()); });
  }

  Result<ExitCode> Serve(CommandContext& context, TaskDispatcher& dispatcher, const SignalWaiter& signals) const {
    const ServiceManager manager(context.environment().variables);
    const BootTime begin = context.clock().SinceBoot();
    std::optional<Status> end;
    std::atomic<bool> ended = false;
    std::jthread runner([&](std::stop_token stop) {
      end = dispatcher.Run(stop, until_.has_value());
      ended = true;
      signals.Poke();
    });
    manager.Notify("READY=1");
    const bool draw = context.err_is_terminal() && context.is_table();
    bool stopped = false;
    bool timed_out = false;
    while (!ended) {
      const auto signal = signals.Wait(milliseconds{250});
      if (signal && (*signal == SIGTERM || *signal == SIGINT)) {
        if (stopped) {
          LogWarning("second signal, leaving at once; attempts under way are made again with the same key");
          ::_exit(static_cast<int>(ExitCode::kInterrupted));
        }
        LogInfo("stopping: waiting for attempts under way");
        manager.Notify("STOPPING=1");
        stopped = true;
        runner.request_stop();
      }
      if (limit_ && !stopped && context.clock().SinceBoot() - begin >= *limit_) {
        stopped = timed_out = true;
        runner.request_stop();
      }
      const std::string line = ProgressLine(dispatcher.stats());
      manager.Notify(fmt::format("{}STATUS={}", manager.watchdog() ? "WATCHDOG=1\n" : "", line));
      if (draw) context.err() << "\r\x1b[K" << EscapeForTerminal(line).substr(0, 110) << std::flush;
    }
    runner.join();
    if (draw) context.err() << "\r\x1b[K" << std::flush;
    const double seconds = std::chrono::duration<double>(context.clock().SinceBoot() - begin).count();
    return Finish(context, dispatcher.stats(), *end, stopped, timed_out, seconds);
  }

  Result<ExitCode> Finish(CommandContext& context, const TaskDispatcherStats& stats, const Status& end, bool stopped,
                          bool timed_out, double seconds) const {
    const TaskTargetStats total = Total(stats);
    LogInfo("dispatcher stopped",
            {{"succeeded", total.succeeded}, {"failed", total.failed}, {"dead", total.dead}, {"seconds", seconds}});
    if (!end) return end.error();
    if (timed_out) {
      return Error(ErrorKind::kUnavailable, "not_drained",
                   fmt::format("not drained after {}{}", FormatDuration(*limit_),
                               stats.problem.empty() ? "" : ": " + stats.problem))
          .WithHint("give it more time with --timeout; nothing is lost");
    }
    if (!context.is_table()) {
      context.out() << StatsJson(stats, !stopped, seconds) << '\n';
    } else if (until_) {
      context.err() << fmt::format("{} {} done in {:.1f} s, {} failed attempts, {} dead\n",
                                   stopped ? "not drained:" : "drained:", Grouped(total.succeeded), seconds,
                                   Grouped(total.failed), Grouped(total.dead));
      if (const std::string held = HeldTargets(stats); !held.empty()) {
        context.Warn(fmt::format("tasks may wait: {}", held));
        context.SuggestNext("sealane tasks targets");
      } else if (total.dead > 0) {
        context.SuggestNext("sealane tasks list --state DEAD");
      }
    }
    return until_ && stopped ? ExitCode::kInterrupted : ExitCode::kDone;
  }

  std::vector<std::string> targets_;
  std::optional<std::string> workers_;
  std::optional<std::string> lease_margin_;
  std::optional<std::string> retention_;
  std::optional<std::string> until_;
  std::optional<std::string> listen_;
  std::optional<milliseconds> limit_;
};

}  // namespace

std::unique_ptr<Command> MakeTasksRunCommand() {
  return std::make_unique<TasksRunCommand>();
}

}  // namespace sealane::cli
