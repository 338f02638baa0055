#include "commands/demo.hpp"

#include <atomic>
#include <fstream>
#include <future>
#include <mutex>
#include <ostream>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "base/json_text.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "build_info.hpp"
#include "commands/relay.hpp"
#include "daemon/signal_waiter.hpp"
#include "dashboard/dashboard.hpp"
#include "demo/director.hpp"
#include "demo/frame.hpp"
#include "demo/hasty_publisher.hpp"
#include "demo/screen.hpp"

namespace sealane::cli {
namespace {

using demo::Finding;
using demo::Outcome;
using std::chrono::milliseconds;

constexpr milliseconds kFrame{100};
// Much longer than a relay waits until it writes its progress: whenever it is killed, something is marked and not
// sent.
constexpr milliseconds kHastyBy{3'000};

std::string VerdictJson(const Outcome& outcome, const demo::DemoOptions& options, const std::string& dashboard) {
  std::vector<std::string> findings;
  for (const Finding& finding : outcome.verdict.findings) {
    std::vector<std::string> problems;
    for (const std::string& problem : finding.problems) problems.push_back(JsonString(problem));
    findings.push_back(JsonDocument()
                           .Text("name", finding.name)
                           .Text("broken", finding.broken)
                           .Text("counted", finding.counted)
                           .Truth("holds", finding.holds)
                           .Raw("problems", JsonArray(problems))
                           .Finish());
  }
  return JsonDocument()
      .Text("apiVersion", kApiVersion)
      .Truth("holds", outcome.verdict.holds())
      .Text("place", demo::Describe(options.place))
      .Integer("seconds", options.pace.seconds)
      .Integer("rate", options.pace.rate)
      .Integer("seed", static_cast<std::int64_t>(options.pace.seed))
      .Raw("first_applied_seconds", fmt::format("{:.3f}", static_cast<double>(outcome.first_applied.count()) / 1000))
      .Integer("committed", outcome.counts.committed)
      .Integer("deliveries", outcome.counts.deliveries)
      .Integer("delivered", outcome.counts.delivered)
      .Integer("applied", outcome.counts.applied)
      .Integer("set_aside", outcome.counts.parked)
      .Raw("findings", JsonArray(findings))
      .TextIfAny("dashboard", dashboard)
      .Finish();
}

/// What could not be done and nobody has to stop for. Thread-safe.
class Complaints {
 public:
  void Add(std::string text) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(std::move(text));
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(texts_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;  // guarded by mutex_
};

class DemoCommand final : public Command {
 public:
  std::string_view path() const override { return "demo"; }
  std::string_view summary() const override {
    return "run a small shop, break everything on purpose, and count what is left";
  }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane demo",
        "sealane demo --seconds 60 --rate 1000 --seed 2",
        "sealane demo --keep",
        "sealane demo --store postgres://app@db/shop --broker kafka://b1:9092",
    };
  }

  std::vector<OptionSpec> Options() override {
    return {
        {"--seconds", "N", "how long the shop is open (default: 12)", &seconds_},
        {"--rate", "N", "events per second (default: 200)", &rate_},
        {"--seed", "N", "another run of the same kind (default: 1)", &seed_},
        {"--broker", "URL", "kafka://host:port (default: a journal file)", &broker_},
        {"--dir", "DIR", "a new or empty folder for files, which stay (default: a temporary one)", &folder_},
        {"--keep", "", "let relay and consumers run on afterwards, with a dashboard, and keep the files", &keep_},
        {"--dashboard", "HOST:PORT", "where, with --keep (default: 127.0.0.1 and a free port)", &dashboard_},
        {"--listen", "HOST:PORT", "where the relay serves /livez, /readyz and /metrics, or off", &listen_},
        {"--broker-away", "COMMAND", "takes a Kafka away for some seconds; with --broker-back", &broker_away_},
        {"--broker-back", "COMMAND", "brings it back", &broker_back_},
        {.names = "--plant",
         .value_name = "BUG",
         .help = "mark-before-publish or effect-outside-transaction: see the verdict turn red",
         .target = &plant_,
         .hidden = true},
        {.names = "--screenshot-svg",
         .value_name = "FILE",
         .help = "a picture of the screen at the end",
         .target = &picture_,
         .hidden = true},
    };
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(demo::DemoOptions options, ReadOptions(context));
    Complaints complaints;
    options.place.complain = [&complaints](std::string text) { complaints.Add(std::move(text)); };
    SEALANE_RETURN_IF_ERROR(SetLogLevel(context));
    // From here on Ctrl-C is heard by this thread, which sees to it that nothing is left behind.
    SEALANE_ASSIGN_OR_RETURN(const SignalWaiter signals, SignalWaiter::Make());
    demo::Board board(context.clock());
    const std::unique_ptr<demo::Screen> screen = MakeScreen(context, {demo::Describe(options.place), options.pace});

    std::promise<Result<Outcome>> promise;
    std::future<Result<Outcome>> coming = promise.get_future();
    std::atomic<bool> ended = false;
    std::jthread stage([&](std::stop_token stop) {
      Perform(options, board, context.clock(), stop, promise, signals);
      ended = true;
      signals.Poke();
    });

    std::optional<Result<Outcome>> outcome;
    const auto look = [&] {
      if (outcome) return;
      const bool over = coming.wait_for(milliseconds{0}) == std::future_status::ready;
      const demo::BoardView view = board.View();
      const bool begun = !view.phase.empty();
      if (!over && begun) screen->Show(view);
      if (!over) return;
      outcome = coming.get();
      if (begun) screen->End(view);
      if (*outcome) Tell(context, options, view, **outcome);
    };
    bool stopping = false;
    bool unheard = false;
    while (!ended) {
      if (signals.Wait(kFrame)) {
        if (std::exchange(stopping, true)) LeaveAtOnce(context, options);
        stage.request_stop();
      }
      if (!context.out() && !std::exchange(unheard, true)) stage.request_stop();  // nobody looks any more
      look();
    }
    stage.join();
    look();
    for (const std::string& text : complaints.Take()) context.Warn(text);
    if (!*outcome && unheard && !stopping) {
      return Error(ErrorKind::kUnavailable, "output_failed", "cannot write to standard output; there is no verdict")
          .WithHint("is the disk full or the reader gone?");
    }
    if (!*outcome) return outcome->error();
    return (*outcome)->verdict.holds() ? ExitCode::kDone : ExitCode::kConditionFalse;
  }

 private:
  Result<demo::DemoOptions> ReadOptions(const CommandContext& context) const {
    demo::DemoOptions options;
    const auto number = [](const char* flag, const std::optional<std::string>& text, std::int64_t low,
                           std::int64_t high, std::int64_t otherwise) -> Result<std::int64_t> {
      return text ? IntegerOption(flag, *text, low, high) : Result<std::int64_t>(otherwise);
    };
    SEALANE_ASSIGN_OR_RETURN(options.pace.seconds, number("--seconds", seconds_, 2, 3'600, options.pace.seconds));
    SEALANE_ASSIGN_OR_RETURN(options.pace.rate, number("--rate", rate_, 20, 5'000, options.pace.rate));
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t seed, number("--seed", seed_, 0, 1'000'000'000'000, 1));
    options.pace.seed = static_cast<std::uint64_t>(seed);
    if (plant_) {
      const auto plant = demo::ParsePlant(*plant_);
      if (!plant) {
        return BadUsage(fmt::format("--plant: `{}` is neither mark-before-publish nor effect-outside-transaction",
                                    EscapeForTerminal(*plant_)),
                        {}, "--plant");
      }
      options.plant = *plant;
    }
    if (broker_away_.has_value() != broker_back_.has_value()) {
      return BadUsage("--broker-away and --broker-back go together", "give both, or none", "--broker-away");
    }
    if (broker_away_ && !broker_) {
      return BadUsage("--broker-away is for a Kafka", "the journal is taken away without it", "--broker-away");
    }
    if (broker_away_) options.outage = demo::OutageCommands{*broker_away_, *broker_back_};
    if (dashboard_ && !keep_) return BadUsage("--dashboard goes with --keep", "add --keep", "--dashboard");
    if (dashboard_) {
      SEALANE_ASSIGN_OR_RETURN(const ListenAddress address, DashboardAddress());
      SEALANE_RETURN_IF_ERROR(CheckDashboardAddress(address));
    }
    if (context.options().config || context.options().schema) {
      return BadUsage("the demo reads no configuration and makes a schema of its own",
                      "leave --config and --schema out");
    }
    options.place = {.store = context.options().store,
                     .broker = broker_,
                     .folder = folder_,
                     .listen = listen_.value_or("127.0.0.1:0"),
                     .keep = keep_,
                     .variables = context.environment().variables};
    return options;
  }

  // What consumers have to say about all this would be written over the screen: it is heard only when asked for.
  static Status SetLogLevel(const CommandContext& context) {
    constexpr auto kNothing = static_cast<LogLevel>(static_cast<std::uint8_t>(LogLevel::kError) + 1);
    const auto& wanted = context.options().log_level;
    const auto level = wanted ? ParseLogLevel(*wanted) : kNothing;
    if (!level) return BadUsage("--log-level is none of debug, info, warning, error", {}, "--log-level");
    Logger::Instance().SetLevel(*level);
    return Ok();
  }

  static std::unique_ptr<demo::Screen> MakeScreen(CommandContext& context, demo::Heading heading) {
    if (!context.is_table()) return demo::MakeSilentScreen();
    const bool can_draw = context.out_is_terminal() && context.environment().variables.count("TERM") > 0 &&
                          context.environment().variables.at("TERM") != "dumb";
    if (!can_draw) return demo::MakePlainScreen(context.out(), std::move(heading));
    return demo::MakeLiveScreen(context.out(), std::move(heading), context.color());
  }

  // On a thread of its own, from the first file to the last.
  void Perform(const demo::DemoOptions& options, demo::Board& board, Clock& clock, const std::stop_token& stop,
               std::promise<Result<Outcome>>& promise, const SignalWaiter& signals) {
    demo::Director director(options, board, clock, SystemRandom::Instance());
    if (const Status ready = director.SetUp(stop); !ready) return promise.set_value(ready.error());
    probes_url_ = director.place().probes_url();
    config_file_ = director.place().config_file();
    removal_ = director.place().RemovalCommands();
    // From the beginning, so that it shows afterwards what the outage looked like.
    std::unique_ptr<Dashboard> dashboard;
    if (keep_) {
      auto started = StartDashboard(director.place(), clock);
      if (!started) return promise.set_value(started.error());
      dashboard = *std::move(started);
      dashboard_url_ = dashboard->url();
      board.Say("dashboard: " + dashboard_url_);
    }
    Result<Outcome> outcome = director.Play(stop);
    const bool stay = keep_ && outcome;
    promise.set_value(std::move(outcome));
    signals.Poke();
    while (stay && clock.SleepFor(std::chrono::hours{1}, stop)) continue;
  }

  Result<ListenAddress> DashboardAddress() const {
    const auto address = ParseListenAddress(dashboard_.value_or("127.0.0.1:0"));
    if (address) return *address;
    return BadUsage(fmt::format("--dashboard: {}", address.error().message()), address.error().hint(), "--dashboard");
  }

  Result<std::unique_ptr<Dashboard>> StartDashboard(const demo::Place& place, Clock& clock) const {
    SEALANE_ASSIGN_OR_RETURN(const ListenAddress address, DashboardAddress());
    return Dashboard::Start({.address = address,
                             .facts = {.version = LibraryVersions().at("version"),
                                       .store = RedactUrl(place.store().Text(Key::kStoreUrl)),
                                       .command_flags = "--config " + PasteableWord(place.config_file())}},
                            OpenersOf(place.store()), clock);
  }

  [[noreturn]] static void LeaveAtOnce(CommandContext& context, const demo::DemoOptions& options) {
    demo::RestoreTerminal();
    std::string left = "files";
    if (options.place.store) left += ", a schema sealane_demo_*";
    if (options.place.broker) left += ", topics sealane_demo_*";
    std::string hint;
    if (options.outage) hint = fmt::format("if the broker is away, bring it back: {}", options.outage->back);
    const Error error =
        Error(ErrorKind::kCancelled, "interrupted",
              fmt::format("second signal, leaving at once; the relay dies with this program, {} may be left", left))
            .WithHint(EscapeForTerminal(hint));
    context.err() << RenderError(error, context.format(), false) << std::flush;
    ::_exit(static_cast<int>(ExitCode::kInterrupted));
  }

  void Tell(CommandContext& context, const demo::DemoOptions& options, const demo::BoardView& view,
            const Outcome& outcome) const {
    const std::vector<demo::Line> verdict = demo::VerdictLines(outcome.verdict);
    if (picture_) {
      std::vector<demo::Line> lines =
          demo::LiveFrame(view, {demo::Describe(options.place), options.pace}, view.lines.size());
      lines.emplace_back();
      lines.insert(lines.end(), verdict.begin(), verdict.end());
      std::ofstream file(*picture_);
      file << demo::ToSvg(lines, "sealane demo") << std::flush;
      if (!file) context.Warn(fmt::format("the picture could not be written to {}", EscapeForTerminal(*picture_)));
    }
    if (!context.is_table()) {
      context.out() << VerdictJson(outcome, options, dashboard_url_) << std::endl;
      return;
    }
    for (const demo::Line& line : verdict) context.out() << demo::ToAnsi(line, context.color()) << '\n';
    context.out() << std::flush;
    TellNext(context);
  }

  void TellNext(CommandContext& context) const {
    const auto next = [&](const std::string& command) { context.err() << "next: " << command << '\n'; };
    context.err() << '\n';
    if (keep_) {
      context.err() << fmt::format(
          "relay and consumers run on until Ctrl-C{}\n",
          probes_url_.empty() ? ""
                              : fmt::format("; metrics: {}/metrics, probes: {}/readyz", probes_url_, probes_url_));
      context.err() << "dashboard: " << dashboard_url_ << '\n';
    }
    if (keep_ || folder_) {
      next("sealane messages list --limit 5 --config " + PasteableWord(config_file_));
      next("sealane inbox parked --config " + PasteableWord(config_file_));
      if (!removal_.empty()) context.err() << "what the demo made on servers stays; when you have seen enough:\n";
      for (const std::string& command : removal_) next(command);
    } else {
      next("sealane demo --keep");
      next("sealane demo --seconds 60 --rate 1000 --seed 2");
    }
    context.err() << std::flush;
  }

  std::optional<std::string> seconds_;
  std::optional<std::string> rate_;
  std::optional<std::string> seed_;
  std::optional<std::string> broker_;
  std::optional<std::string> folder_;
  std::optional<std::string> listen_;
  std::optional<std::string> dashboard_;
  std::optional<std::string> broker_away_;
  std::optional<std::string> broker_back_;
  std::optional<std::string> plant_;
  std::optional<std::string> picture_;
  bool keep_ = false;
  // Of the place; written before the outcome is promised, read after it came.
  std::string probes_url_;
  std::string dashboard_url_;
  std::string config_file_;
  std::vector<std::string> removal_;
};

class HastyRelayCommand final : public Command {
 public:
  HastyRelayCommand()
      : relay_(MakeRelayCommand([](const RouteSetup& setup) {
          return MakeRelayWork(setup, SystemClock::Instance(), SystemRandom::Instance(),
                               [](std::unique_ptr<Publisher> real) {
                                 return demo::MakeHastyPublisher(std::move(real), kHastyBy, SystemClock::Instance());
                               });
        })) {}

  std::string_view path() const override { return "demo-hasty-relay"; }
  std::string_view summary() const override { return "a relay with a mistake, for sealane demo --plant"; }
  std::vector<std::string_view> examples() const override { return {"sealane demo --plant mark-before-publish"}; }
  std::vector<OptionSpec> Options() override { return relay_->Options(); }
  bool hidden() const override { return true; }
  Result<ExitCode> Run(CommandContext& context) override { return relay_->Run(context); }

 private:
  const std::unique_ptr<Command> relay_;
};

}  // namespace

std::unique_ptr<Command> MakeDemoCommand() {
  return std::make_unique<DemoCommand>();
}
std::unique_ptr<Command> MakeHastyRelayCommand() {
  return std::make_unique<HastyRelayCommand>();
}

}  // namespace sealane::cli
