#include "commands/consume.hpp"

#include <algorithm>
#include <ostream>
#include <set>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "commands/consumer_flags.hpp"
#include "config/secret_file.hpp"
#include "config/units.hpp"
#include "connect/store_url.hpp"
#include "daemon/consumer_setup.hpp"
#include "daemon/daemon.hpp"
#include "daemon/foreground.hpp"
#include "daemon/signal_waiter.hpp"
#include "inbox/sql_script.hpp"
#include "serve/probe_server.hpp"
#include "store_factory.hpp"

namespace sealane::cli {
namespace {

constexpr std::size_t kScriptMax = std::size_t{1} << 20U;

std::string StatsJson(const ConsumerStats& stats, bool caught_up, double seconds) {
  return JsonDocument()
      .Text("apiVersion", kApiVersion)
      .Truth("caught_up", caught_up)
      .Text("consumer", stats.consumer)
      .Text("mode", stats.mode)
      .Integer("received", static_cast<std::int64_t>(stats.received))
      .Integer("effects", static_cast<std::int64_t>(stats.effects))
      .Integer("ignored", static_cast<std::int64_t>(stats.ignored))
      .Integer("duplicates", static_cast<std::int64_t>(stats.duplicates))
      .Integer("stale", static_cast<std::int64_t>(stats.stale))
      .Integer("too_old", static_cast<std::int64_t>(stats.too_old))
      .Integer("stopped_partitions", static_cast<std::int64_t>(stats.stopped.size()))
      .Integer("hash_mismatches", static_cast<std::int64_t>(stats.hash_mismatches))
      .Integer("parked", static_cast<std::int64_t>(stats.parked_total))
      .Integer("dead", static_cast<std::int64_t>(stats.dead_total))
      .TextIfAny("hold_code", stats.hold_code)
      .TextIfAny("problem", stats.problem)
      .Raw("duration_seconds", fmt::format("{:.3f}", seconds))
      .Finish();
}

std::string ProgressLine(const ConsumerStats& stats) {
  return fmt::format("{} effects, {} duplicates, {} parked, {} partitions{}", Grouped(stats.effects),
                     Grouped(stats.duplicates),
                     Grouped(static_cast<std::uint64_t>(std::max<std::int64_t>(stats.parked, 0))),
                     stats.partitions.size(), stats.problem.empty() ? "" : "; " + stats.problem);
}

class ConsumeCommand final : public Command {
 public:
  std::string_view path() const override { return "consume"; }
  std::string_view summary() const override { return "apply each event of some topics once, by SQL statements"; }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane consume --consumer billing --topic orders --sql bill.sql --store sqlite:./billing.db --broker "
        "journal:./journal.db",
        "sealane consume --consumer billing --topic orders --sql bill.sql --store postgres://billing@db/billing "
        "--broker kafka://b1:9092",
        "sealane consume --consumer report --topic orders --sql report.sql --mode offsets --batch 500",
        "sealane consume --consumer billing --topic orders --sql bill.sql --until caught-up -o json",
    };
  }

  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = flags_.Source();
    const std::vector<OptionSpec> own = {
        {"--sql", "FILE", "the effect: statements with :event_id, :key, :payload, ... for the event's fields", &sql_,
         true},
        {"--mode", "MODE", "record: a receipt per event (default); offsets: positions only", &mode_, false,
         "record|offsets"},
        {"--workers", "N", "keys side by side (default: 4)", &workers_},
        {"--versions", "LOW-HIGH", "schema versions that the statements understand (default: 1); any", &versions_},
        {"--guard-versions", "", "apply an aggregate's versions one by one: older ones are stale, gaps wait",
         &guard_},
        {"--gap-timeout", "TIME", "how long an event waits for an earlier version (default: 5m)", &gap_timeout_},
        {"--gap-policy", "WHAT", "then: hold (a person decides, default) or accept", &gap_policy_, false,
         "hold|accept"},
        {"--retry", "PRESET", "patient (default), brief or payments", &retry_, false, "patient|brief|payments"},
        {"--dead-letter-topic", "NAME", "dead events are also appended to this store's outbox, for this topic",
         &dead_letter_topic_},
    };
    options.insert(options.end(), own.begin(), own.end());
    const std::vector<OptionSpec> rest = flags_.Rest();
    options.insert(options.end(), rest.begin(), rest.end());
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_RETURN_IF_ERROR(flags_.Read(context));
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    SEALANE_ASSIGN_OR_RETURN(ConsumerSetup setup, Plan(*config));
    SEALANE_ASSIGN_OR_RETURN(const SqlScript script, ReadScript(setup));
    SEALANE_ASSIGN_OR_RETURN(const VersionRange versions, Versions());
    // A wrong URL, a missing schema or a wrong password is better told now than waited for.
    SEALANE_RETURN_IF_ERROR(CheckSource(setup));
    SEALANE_RETURN_IF_ERROR(CheckStore(setup, script));
    SEALANE_ASSIGN_OR_RETURN(const SignalWaiter signals, SignalWaiter::Make());
    const auto consumer =
        MakeConsumer(setup, MakeEffect(script, versions, setup), context.clock(), SystemRandom::Instance());
    SEALANE_ASSIGN_OR_RETURN(const auto server, flags_.StartProbes(context, [&consumer] {
      return ServedStats(std::vector<ConsumerStats>{consumer->stats()});
    }));
    LogInfo("consumer started", {{"consumer", setup.options.consumer},
                                 {"from", RedactUrl(setup.broker.Text(Key::kBrokerUrl))},
                                 {"to", RedactUrl(setup.store.Text(Key::kStoreUrl))},
                                 {"mode", ToString(setup.options.mode)},
                                 {"probes", server ? "http://" + server->address().ToString() : "off"}});
    context.OnInterrupt("what was not committed comes again");
    return Serve(context, *consumer, signals);
  }

 private:
  Result<ConsumerSetup> Plan(const Config& config) const {
    SEALANE_ASSIGN_OR_RETURN(ConsumerSetup setup, flags_.Plan(config));
    ConsumerOptions& options = setup.options;
    if (mode_) {
      const auto mode = ParseInboxMode(*mode_);
      if (!mode) return BadUsage(fmt::format("--mode: `{}` is neither record nor offsets", *mode_), {}, "--mode");
      options.mode = *mode;
    }
    if (workers_) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t workers, IntegerOption("--workers", *workers_, 1, 256));
      options.workers = static_cast<std::size_t>(workers);
    }
    options.guard_versions = guard_;
    if (gap_timeout_) {
      SEALANE_ASSIGN_OR_RETURN(options.gap_timeout, DurationOption("--gap-timeout", *gap_timeout_));
    }
    if (gap_policy_) {
      const auto policy = ParseGapPolicy(*gap_policy_);
      if (!policy) {
        return BadUsage(fmt::format("--gap-policy: `{}` is neither hold nor accept", *gap_policy_), {},
                        "--gap-policy");
      }
      options.gap_policy = *policy;
    }
    if (retry_) {
      SEALANE_ASSIGN_OR_RETURN(options.retry, RetryOption(*retry_));
    }
    options.dead_letter_topic = dead_letter_topic_.value_or("");
    SEALANE_RETURN_IF_ERROR(CheckOptions(options));
    return setup;
  }

  Result<SqlScript> ReadScript(const ConsumerSetup& setup) const {
    auto text = ReadSmallFile(*sql_, kScriptMax);
    if (!text) return BadUsage(fmt::format("--sql: {}", text.error().message()), "is the path right?", "--sql");
    SEALANE_ASSIGN_OR_RETURN(const StoreTarget target, ParseStoreUrl(setup.store.Text(Key::kStoreUrl)));
    auto script =
        SqlScript::Parse(*text, target.kind == StoreKind::kPostgres ? Placeholder::kDollar : Placeholder::kQuestion);
    if (!script) return std::move(std::move(script).error()).WithContext("in " + *sql_);
    return script;
  }

  Result<VersionRange> Versions() const {
    if (!versions_) return VersionRange{};
    if (*versions_ == "any") return VersionRange::Any();
    const std::size_t dash = versions_->find('-');
    constexpr std::int64_t kHigh = std::numeric_limits<std::int32_t>::max();
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t low,
                             IntegerOption("--versions", versions_->substr(0, dash), 1, kHigh));
    std::int64_t high = low;
    if (dash != std::string::npos) {
      SEALANE_ASSIGN_OR_RETURN(high, IntegerOption("--versions", versions_->substr(dash + 1), low, kHigh));
    }
    return VersionRange{static_cast<std::int32_t>(low), static_cast<std::int32_t>(high)};
  }

  Status CheckStore(const ConsumerSetup& setup, const SqlScript& script) const {
    SEALANE_ASSIGN_OR_RETURN(const auto store,
                             OpenStoreInbox(setup.store, setup.options.consumer, setup.options.mode));
    auto checked = CheckScript(script, *store);
    if (!checked && checked.error().code() == "script_refused") {
      return std::move(checked).error().WithContext("in " + *sql_);
    }
    return checked;
  }

  Handling MakeEffect(const SqlScript& script, VersionRange versions, const ConsumerSetup& setup) const {
    return [&script, versions, types = flags_.types(), name = setup.options.consumer](
               const Envelope& event, const ReceivedMessage& message, HandlerTransaction& tx) {
      if (!types.empty() && !types.contains(event.type)) return Decision::Ignore("no_handler");
      if (event.schema_version < versions.from || event.schema_version > versions.to) {
        return Decision::Reject("unknown_version",
                                fmt::format("the statements are for versions {} to {}, version {} of {} came",
                                            versions.from, versions.to, event.schema_version, event.type));
      }
      return RunScript(script, event, MessageContext::Of(message, name), tx);
    };
  }

  Result<ExitCode> Serve(CommandContext& context, Consumer& consumer, const SignalWaiter& signals) const {
    const ForegroundEnd end =
        RunInForeground(context, signals,
                        {.run = [&](std::stop_token stop) { return consumer.Run(stop, flags_.until_caught_up()); },
                         .progress = [&] { return ProgressLine(consumer.stats()); },
                         .stopping = "waiting for transactions under way",
                         .left_behind = "what is not committed comes again",
                         .limit = flags_.limit()});
    return Finish(context, consumer.stats(), end.status, end.stopped, end.timed_out, end.seconds);
  }

  Result<ExitCode> Finish(CommandContext& context, const ConsumerStats& stats, const Status& end, bool stopped,
                          bool timed_out, double seconds) const {
    LogInfo("consumer stopped", {{"consumer", stats.consumer},
                                 {"effects", stats.effects},
                                 {"duplicates", stats.duplicates},
                                 {"parked", stats.parked_total},
                                 {"seconds", seconds}});
    if (!end) return end.error();
    if (timed_out && stats.partitions.empty() && stats.problem.empty()) {
      return Error(ErrorKind::kUnavailable, "not_caught_up",
                   fmt::format("no partition came within {}", FormatDuration(*flags_.limit())))
          .WithHint("does every --topic exist? If so, other members of the consumer have all partitions");
    }
    if (timed_out) {
      return Error(ErrorKind::kUnavailable, "not_caught_up",
                   fmt::format("not caught up after {}{}", FormatDuration(*flags_.limit()),
                               stats.problem.empty() ? "" : ": " + stats.problem))
          .WithHint("give it more time with --timeout; nothing is lost");
    }
    if (flags_.until_caught_up()) {
      if (!context.is_table()) {
        context.out() << StatsJson(stats, !stopped, seconds) << '\n';
      } else {
        context.err() << fmt::format("{} {} effect{} in {:.1f} s, {} duplicate{}, {} parked\n",
                                     stopped ? "not caught up:" : "caught up:", Grouped(stats.effects),
                                     stats.effects == 1 ? "" : "s", seconds, Grouped(stats.duplicates),
                                     stats.duplicates == 1 ? "" : "s", stats.parked_total);
        if (stats.parked_total > 0) context.SuggestNext("sealane inbox parked --consumer " + stats.consumer);
      }
    }
    return flags_.until_caught_up() && stopped ? ExitCode::kInterrupted : ExitCode::kDone;
  }

  ConsumerFlags flags_;
  std::optional<std::string> sql_;
  std::optional<std::string> mode_;
  std::optional<std::string> workers_;
  std::optional<std::string> versions_;
  bool guard_ = false;
  std::optional<std::string> gap_timeout_;
  std::optional<std::string> gap_policy_;
  std::optional<std::string> retry_;
  std::optional<std::string> dead_letter_topic_;
};

}  // namespace

std::unique_ptr<Command> MakeConsumeCommand() {
  return std::make_unique<ConsumeCommand>();
}

}  // namespace sealane::cli
