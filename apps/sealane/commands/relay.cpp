#include "commands/relay.hpp"

#include <ostream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "build_info.hpp"
#include "config/units.hpp"
#include "connect/broker_url.hpp"
#include "daemon/daemon.hpp"
#include "daemon/journal_keepers.hpp"
#include "doctor/stranded.hpp"
#include "outbox/bell.hpp"
#include "serve/probe_server.hpp"

namespace sealane::cli {
namespace {

using std::chrono::milliseconds;

// A relay that works beats several times per lease.
milliseconds BeatMax(const Config& config) {
  return std::max(3 * config.Duration(Key::kRelayLease), milliseconds{30'000});
}

/// What a run did, over all routes.
struct Summary {
  std::uint64_t published = 0;
  std::uint64_t repeated = 0;
  std::uint64_t filtered = 0;
  std::int64_t parked = 0;
  double seconds = 0;

  double PerSecond() const { return seconds > 0 ? static_cast<double>(published) / seconds : 0; }
};

Summary Summarize(const std::vector<RouteStats>& stats, double seconds) {
  Summary summary{.seconds = seconds};
  for (const RouteStats& route : stats) {
    summary.published += route.published;
    summary.repeated += route.repeated;
    summary.filtered += route.filtered;
    summary.parked += route.parked;
  }
  return summary;
}

std::string SummaryJson(const Summary& summary, bool drained, const std::vector<RouteStats>& stats) {
  std::vector<std::string> routes;
  for (const RouteStats& route : stats) {
    routes.push_back(JsonDocument()
                         .Text("store", route.store)
                         .Text("route", route.route)
                         .Integer("published", static_cast<std::int64_t>(route.published))
                         .Integer("repeated", static_cast<std::int64_t>(route.repeated))
                         .Integer("filtered", static_cast<std::int64_t>(route.filtered))
                         .Integer("parked", route.parked)
                         .TextIfAny("problem", route.problem)
                         .Finish());
  }
  return JsonDocument()
      .Text("apiVersion", kApiVersion)
      .Truth("drained", drained)
      .Integer("published", static_cast<std::int64_t>(summary.published))
      .Integer("repeated", static_cast<std::int64_t>(summary.repeated))
      .Integer("filtered", static_cast<std::int64_t>(summary.filtered))
      .Integer("parked", summary.parked)
      .Raw("duration_seconds", fmt::format("{:.3f}", summary.seconds))
      .Raw("events_per_second", fmt::format("{:.1f}", summary.PerSecond()))
      .Raw("routes", JsonArray(routes))
      .Finish();
}

// Why the routes are not drained, as the error that says most about it.
Error NotDrained(const std::vector<RouteStats>& stats, std::string_view limit) {
  for (const RouteStats& route : stats) {
    if (route.problem.empty()) continue;
    const bool at_broker = route.state == RelayState::kHolding || route.problem_code == "broker_unreachable";
    return Error(ErrorKind::kUnavailable, at_broker ? "broker_unreachable" : route.problem_code,
                 fmt::format("not drained after {}: {}", limit, route.problem))
        .WithHint("everything that is left is sent by the next relay")
        .WithContext(fmt::format("on route {}/{}", route.store, route.route));
  }
  return Error(ErrorKind::kUnavailable, "not_drained", fmt::format("not drained after {}", limit))
      .WithHint("give it more time with --timeout, or let it run without --until; nothing is lost");
}

class RelayCommand final : public Command {
 public:
  explicit RelayCommand(MakeRouteWork make) : make_(std::move(make)) {}

  std::string_view path() const override { return "relay"; }
  std::string_view summary() const override { return "ship the outbox to the broker, in the foreground"; }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane relay --store sqlite:./shop.db --broker journal:./journal.db",
        "sealane relay --store postgres://relay@db/shop --broker kafka://b1:9092,b2:9092",
        "sealane relay --until drained --timeout 60s -o json",
        "sealane relay --config /etc/sealane/sealane.toml --route main --route billing",
    };
  }

  std::vector<OptionSpec> Options() override {
    return {
        {"--broker", "URL", "kafka://host:port, journal:PATH, http(s)://..., stdout: or null:", &broker_},
        {"--route", "NAME", "run this route only; may be repeated (default: all that are configured)", &routes_},
        {"--until", "WHEN", "drained: end when everything committed by now is published or set aside", &until_, false,
         "drained"},
        {"--listen", "HOST:PORT", "where /livez, /readyz and /metrics are served, or off", &listen_},
    };
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_RETURN_IF_ERROR(ReadFlags(context));
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    SEALANE_ASSIGN_OR_RETURN(std::vector<RouteSetup> setups, PlanRoutes(*config, Selection(context, *config)));
    for (RouteSetup& setup : setups) setup.options.drain_timeout = DrainWithin(setup.options.drain_timeout);
    SEALANE_ASSIGN_OR_RETURN(const SignalWaiter signals, SignalWaiter::Make());
    RelayHost host(MakerFor(context), [&signals] { signals.Poke(); });
    // With several routes one that is badly configured must not keep the others from running; it shows its problem.
    if (setups.size() == 1 || until_) SEALANE_RETURN_IF_ERROR(host.Check(setups));
    WarnOfStranded(context, *config, setups);
    SEALANE_ASSIGN_OR_RETURN(const auto server, StartProbes(context, *config, host));
    const BootTime begin = context.clock().SinceBoot();
    host.Start(setups, until_.has_value());
    const auto bell = StartBell(*config, host);
    JournalKeepers journals(context.clock());
    journals.KeepFor(setups);
    Announce(context, setups, server.get());

    const ServiceManager manager(context.environment().variables);
    DaemonOptions options{.beat_max = BeatMax(*config)};
    if (limit_) options.deadline = begin + *limit_ - DrainWithin(config->Duration(Key::kRelayDrainTimeout));
    if (context.err_is_terminal() && context.is_table()) options.progress = &context.err();
    Daemon daemon(options, host, signals, manager, context.clock(),
                  [&] { Reload(context, *config, host, journals); });
    const DaemonEnd end = daemon.Run();
    const double seconds = std::chrono::duration<double>(context.clock().SinceBoot() - begin).count();
    return Finish(context, host, setups, end, seconds);
  }

 private:
  Status ReadFlags(CommandContext& context) {
    if (until_ && *until_ != "drained") {
      return BadUsage(fmt::format("--until: `{}` is not drained", *until_), "write --until drained", "--until");
    }
    if (until_) {
      context.TakeTimeoutAsLimit();
      if (const auto& timeout = context.options().timeout) {
        auto limit = ParseDuration(*timeout);
        if (!limit) {
          return BadUsage(fmt::format("--timeout: {}", limit.error().message()), limit.error().hint(), "--timeout");
        }
        limit_ = *limit;
      }
    }
    if (broker_) context.AddFlag({Key::kBrokerUrl, "--broker", *broker_});
    if (listen_) context.AddFlag({Key::kRelayListen, "--listen", *listen_});
    return Ok();
  }

  // The limit is one for the whole run: its last tenth, at most, is for messages that wait for their answer.
  milliseconds DrainWithin(milliseconds timeout) const { return limit_ ? std::min(timeout, *limit_ / 10) : timeout; }

  RouteSelection Selection(CommandContext& context, const Config& config) const {
    RouteSelection selection{.routes = routes_};
    if (context.options().store) selection.store = config.store_name();
    if (broker_) selection.broker = std::string(kDefaultName);
    return selection;
  }

  // A route that was left out by mistake looks like one that has nothing to do.
  static void WarnOfStranded(CommandContext& context, const Config& config, const std::vector<RouteSetup>& setups) {
    std::set<std::string> asked;
    for (const RouteSetup& setup : setups) {
      const std::string& store = setup.options.store;
      if (!asked.insert(store).second) continue;
      const auto routes = RoutesOn(config, store, context.options().store.has_value());
      for (const StrandedRoute& route : FindStranded(setup.store, routes)) {
        context.Warn(fmt::format("{}; add [route.{}] to the configuration if a relay should ship them",
                                 Describe(route), route.route));
      }
    }
  }

  MakeRouteWork MakerFor(CommandContext& context) const {
    if (make_) return make_;
    return [&clock = context.clock()](const RouteSetup& setup) {
      return MakeRelayWork(setup, clock, SystemRandom::Instance());
    };
  }

  // Null when there is to be none.
  Result<std::unique_ptr<ProbeServer>> StartProbes(CommandContext& context, const Config& config,
                                                   const RelayHost& host) const {
    const Setting& listen = config.Of(Key::kRelayListen);
    // A run that ends by itself is watched by whoever started it.
    const bool wanted = listen.value != "off" && (!until_ || listen.origin != "default");
    if (!wanted) return std::unique_ptr<ProbeServer>();
    SEALANE_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(listen.value));
    auto server = ProbeServer::Start({.address = address, .build = LibraryVersions(), .beat_max = BeatMax(config)},
                                     context.clock(), [&host] { return host.Stats(); });
    if (server || listen.origin != "default") return server;
    // Nobody asked for this address: a second relay on one machine is no reason to fail.
    context.Warn(fmt::format("no probes and metrics: {}; {}", server.error().message(), server.error().hint()));
    return std::unique_ptr<ProbeServer>();
  }

  // Null when there is to be none, or when it cannot be had: the relay then works at the pace of its polls.
  static std::unique_ptr<BellListener> StartBell(const Config& config, const RelayHost& host) {
    const std::string& address = config.Text(Key::kRelayWake);
    if (address.empty()) return nullptr;
    auto listener = BellListener::Start(address, [&host] { host.Wake(); });
    if (listener) return *std::move(listener);
    LogWarning("no wake-ups", {{"address", address}, {"error", listener.error().ToString()}});
    return nullptr;
  }

  static void Announce(CommandContext& context, const std::vector<RouteSetup>& setups, const ProbeServer* server) {
    const std::string probes = server == nullptr ? "off" : "http://" + server->address().ToString();
    for (const RouteSetup& setup : setups) {
      LogInfo("relay started", {{"store", setup.options.store},
                                {"from", RedactUrl(setup.store.Text(Key::kStoreUrl))},
                                {"route", setup.options.route},
                                {"to", RedactUrl(setup.broker.Text(Key::kBrokerUrl))},
                                {"probes", probes}});
    }
    context.OnInterrupt("what was not settled is sent again by the next relay");
  }

  void Reload(CommandContext& context, const Config& old, RelayHost& host, JournalKeepers& journals) const {
    const auto refused = [](const Error& error) {
      std::string problems = error.ToString();
      for (const std::string& problem : error.context()) problems += "; " + problem;
      LogError("configuration not reloaded, the old one stays in force",
               {{"code", error.code()}, {"error", error.context().empty() ? error.ToString() : problems}});
    };
    if (until_) return LogWarning("configuration not reloaded: the relay ends by itself");
    auto config = context.ReadConfigAgain();
    if (!config) return refused(config.error());
    auto setups = PlanRoutes(*config, Selection(context, *config));
    if (!setups) return refused(setups.error());
    ApplyLogSettings(*config);
    for (const std::string& warning : config->warnings()) LogWarning(warning);
    for (const Key key : {Key::kRelayListen, Key::kRelayWake, Key::kRelayOwner}) {
      if (config->Text(key) == old.Text(key)) continue;
      LogWarning("this setting changes with the next start only", {{"key", SpecOf(key).name}});
    }
    const ReloadReport report = host.Reload(*setups);
    journals.KeepFor(*setups);
    LogInfo("configuration reloaded", {{"restarted", fmt::format("{}", fmt::join(report.restarted, ","))},
                                       {"added", fmt::format("{}", fmt::join(report.added, ","))},
                                       {"removed", fmt::format("{}", fmt::join(report.removed, ","))},
                                       {"unchanged", report.unchanged}});
  }

  Result<ExitCode> Finish(CommandContext& context, const RelayHost& host, const std::vector<RouteSetup>& setups,
                          DaemonEnd end, double seconds) const {
    const std::vector<RouteStats> stats = host.Stats();
    const Summary summary = Summarize(stats, seconds);
    if (host.left_unresolved()) {
      LogWarning("messages without an answer were left behind and will be sent again: they may arrive twice");
    }
    LogInfo("relay stopped", {{"published", summary.published},
                              {"repeated", summary.repeated},
                              {"parked", summary.parked},
                              {"seconds", summary.seconds}});
    if (until_) Print(context, setups, summary, end == DaemonEnd::kEnded, stats);
    if (end == DaemonEnd::kTimedOut) return NotDrained(stats, FormatDuration(*limit_));
    if (host.left_unresolved()) return ExitCode::kFailed;
    return until_ && end == DaemonEnd::kStopped ? ExitCode::kInterrupted : ExitCode::kDone;
  }

  static void Print(CommandContext& context, const std::vector<RouteSetup>& setups, const Summary& summary,
                    bool drained, const std::vector<RouteStats>& stats) {
    // Standard output belongs to the events when they go there.
    const bool taken = std::any_of(setups.begin(), setups.end(), [](const RouteSetup& setup) {
      const auto target = ParseBrokerUrl(setup.broker.Text(Key::kBrokerUrl));
      return target && target->kind == BrokerKind::kStdout;
    });
    if (!context.is_table()) {
      (taken ? context.err() : context.out()) << SummaryJson(summary, drained, stats) << '\n';
      return;
    }
    context.err() << fmt::format(
        "{} {} event{} in {:.1f} s ({}/s), {} possibly repeated, {} parked\n",
        drained ? "drained:" : "not drained:", Grouped(summary.published), summary.published == 1 ? "" : "s",
        summary.seconds, Grouped(static_cast<std::uint64_t>(summary.PerSecond())), summary.repeated, summary.parked);
    if (summary.parked > 0) context.SuggestNext("sealane dead list");
  }

  const MakeRouteWork make_;
  std::optional<std::string> broker_;
  std::vector<std::string> routes_;
  std::optional<std::string> until_;
  std::optional<std::string> listen_;
  std::optional<milliseconds> limit_;
};

}  // namespace

std::unique_ptr<Command> MakeRelayCommand() {
  return std::make_unique<RelayCommand>(MakeRouteWork());
}
std::unique_ptr<Command> MakeRelayCommand(MakeRouteWork make) {
  return std::make_unique<RelayCommand>(std::move(make));
}

}  // namespace sealane::cli
