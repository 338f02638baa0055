#include "commands/forward.hpp"

#include <algorithm>
#include <ostream>
#include <thread>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "commands/consumer_flags.hpp"
#include "commands/outbox_setup.hpp"
#include "config/units.hpp"
#include "connect/owner_name.hpp"
#include "daemon/daemon.hpp"
#include "daemon/foreground.hpp"
#include "daemon/forwarding.hpp"
#include "http/task_executor.hpp"
#include "store_factory.hpp"
#include "tasks/task_dispatcher.hpp"

namespace sealane::cli {
namespace {

/// A consumer that makes tasks of events, and a dispatcher that carries them out, over one store.
struct Forwarder {
  std::string target;
  std::unique_ptr<Consumer> consumer;
  std::unique_ptr<TaskDispatcher> dispatcher;
  OpenTaskStore open_tasks;
  Clock& clock;

  TaskTargetStats sent() const {
    const TaskDispatcherStats stats = dispatcher->stats();
    const auto found = stats.targets.find(target);
    return found == stats.targets.end() ? TaskTargetStats{} : found->second;
  }

  // Until a stop is asked for, or one of the two has a problem that a person has to look at.
  Status Run(std::stop_token stop) {
    std::stop_source both;
    const std::stop_callback pass_on(stop, [&] { both.request_stop(); });
    Status sending = Ok();
    std::jthread sender([&] {
      sending = dispatcher->Run(both.get_token());
      both.request_stop();
    });
    Status taking = consumer->Run(both.get_token());
    both.request_stop();
    sender.join();
    return taking ? sending : taking;
  }

  // Until every event that is there is a task, and no task waits but behind one that is dead.
  Status RunUntilCaughtUp(std::stop_token stop) {
    SEALANE_RETURN_IF_ERROR(consumer->Run(stop, true));
    while (!stop.stop_requested()) {
      SEALANE_RETURN_IF_ERROR(dispatcher->Run(stop, true));
      SEALANE_ASSIGN_OR_RETURN(const auto store, open_tasks());
      SEALANE_ASSIGN_OR_RETURN(const auto outlook, store->Outlook({&target, 1}));
      const auto due = outlook.front().due_in;
      if (!due) break;
      // What is due and was not sent waits for its target: it is down or paused.
      const std::chrono::milliseconds held{1'000};
      clock.SleepFor(due->count() > 0 ? std::max(*due, std::chrono::milliseconds{50}) : held, stop);
    }
    return Ok();
  }
};

class ForwardCommand final : public Command {
 public:
  std::string_view path() const override { return "forward"; }
  std::string_view summary() const override { return "send each event of some topics to an HTTP receiver, in order"; }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane forward --consumer erp --topic orders --to https://erp.example.org/events --header "
        "Authorization=file:/run/secrets/erp --store postgres://forwarder@db/shop --broker kafka://b1:9092",
        "sealane forward --consumer erp --topic orders --to http://127.0.0.1:8080/events --store sqlite:forward.db "
        "--broker journal:journal.db --until caught-up",
        "sealane forward --consumer mail --topic mail --to https://old.example.org/send --in-doubt hold",
    };
  }

  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = flags_.Source();
    const std::vector<OptionSpec> own = {
        {"--to", "URL", "the receiver: http:// or https://; each event is one POST", &to_, true},
        {"--header", "NAME=VALUE", "sent along; the value may be env:VARIABLE or file:PATH; may be repeated",
         &headers_},
        {"--ca-file", "FILE", "certificates to trust, in PEM (default: the system's)", &ca_file_},
        {"--request-timeout", "TIME", "how long one request may take (default: 30s)", &request_timeout_},
        {"--retry", "PRESET", "patient, brief or payments (default: as patient, and never giving up)", &retry_, false,
         "patient|brief|payments"},
        {"--in-doubt", "WHAT", "a request that may have arrived: resend with the same key (default), or hold",
         &in_doubt_, false, "resend|hold"},
        {"--conflict", "MEANING", "409 means refused (default), retry or success", &conflict_, false,
         "refused|retry|success"},
        {"--workers", "N", "requests at a time, of different keys (default: 8)", &workers_},
        {"--lease-margin", "TIME",
         "what a forwarder that died was sending is taken over after --request-timeout and this (default: 10s)",
         &lease_margin_},
        {"--task-retention", "TIME",
         "how long what was sent is remembered, body included (default: 2d); 0 is for ever", &task_retention_},
    };
    options.insert(options.end(), own.begin(), own.end());
    const std::vector<OptionSpec> rest = flags_.Rest();
    options.insert(options.end(), rest.begin(), rest.end());
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_RETURN_IF_ERROR(flags_.Read(context));
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    SEALANE_ASSIGN_OR_RETURN(const ConsumerSetup setup, flags_.Plan(*config));
    SEALANE_RETURN_IF_ERROR(CheckOptions(setup.options));
    SEALANE_ASSIGN_OR_RETURN(const ForwardAddress address, Address());
    SEALANE_ASSIGN_OR_RETURN(TaskTarget target, Target(address, context.environment().variables));
    SEALANE_ASSIGN_OR_RETURN(const TaskDispatcherOptions options, DispatcherOptions());
    SEALANE_ASSIGN_OR_RETURN(const auto outbox, OutboxSetup::Make(context));
    // A wrong URL, a missing schema or a wrong password is better told now than waited for.
    SEALANE_RETURN_IF_ERROR(CheckSource(setup));
    SEALANE_RETURN_IF_ERROR(OpenStoreInbox(setup.store, setup.options.consumer, setup.options.mode));
    const OpenTaskStore open_tasks = [store = setup.store] { return OpenStoreTasks(store); };
    SEALANE_RETURN_IF_ERROR(open_tasks());
    SEALANE_ASSIGN_OR_RETURN(const SignalWaiter signals, SignalWaiter::Make());

    const Tasks tasks(ForwardLimits());
    const std::string& name = setup.options.consumer;
    Forwarder forwarder{
        .target = name,
        .consumer = MakeConsumer(setup, MakeForwarding(tasks, name, address.operation, flags_.types()),
                                 context.clock(), SystemRandom::Instance()),
        .dispatcher = std::make_unique<TaskDispatcher>(options, TaskTargets{{name, std::move(target)}}, open_tasks,
                                                       outbox->outbox(), context.clock(), SystemRandom::Instance()),
        .open_tasks = open_tasks,
        .clock = context.clock()};
    SEALANE_ASSIGN_OR_RETURN(const auto server,
                             flags_.StartProbes(context, [&forwarder] { return Served(forwarder); }));
    LogInfo("forwarder started", {{"consumer", name},
                                  {"from", RedactUrl(setup.broker.Text(Key::kBrokerUrl))},
                                  {"to", RedactUrl(*to_)},
                                  {"store", RedactUrl(setup.store.Text(Key::kStoreUrl))},
                                  {"probes", server ? "http://" + server->address().ToString() : "off"}});
    context.OnInterrupt("what was not sent is sent later");
    return Serve(context, forwarder, signals);
  }

 private:
  Result<ForwardAddress> Address() const {
    auto address = ParseForwardUrl(*to_);
    if (!address) return BadUsage("--to: " + address.error().message(), address.error().hint(), "--to");
    return address;
  }

  Result<TaskTarget> Target(const ForwardAddress& address,
                            const std::map<std::string, std::string>& variables) const {
    TaskTarget target;
    target.retry.attempts_max = 0;
    if (retry_) {
      SEALANE_ASSIGN_OR_RETURN(target.retry, RetryOption(*retry_));
    }
    if (in_doubt_ && *in_doubt_ != "resend" && *in_doubt_ != "hold") {
      return BadUsage(fmt::format("--in-doubt: `{}` is neither resend nor hold", *in_doubt_), {}, "--in-doubt");
    }
    target.resend_in_doubt = in_doubt_.value_or("resend") == "resend";
    HttpTaskOptions options;
    options.caller.url = address.origin;
    options.caller.ca_file = ca_file_.value_or("");
    // Unseen repetitions are as bad as others to a receiver that keeps no keys.
    options.caller.reuse_connections = target.resend_in_doubt;
    if (request_timeout_) {
      SEALANE_ASSIGN_OR_RETURN(options.caller.timeout, DurationOption("--request-timeout", *request_timeout_));
    }
    if (conflict_) {
      const auto meaning = ParseConflictMeaning(*conflict_);
      if (!meaning) {
        return BadUsage(fmt::format("--conflict: `{}` is none of refused, retry, success", *conflict_), {},
                        "--conflict");
      }
      options.conflict = *meaning;
    }
    for (const std::string& text : headers_) {
      auto header = ParseForwardHeader(text, variables);
      if (!header) return BadUsage("--header: " + header.error().message(), header.error().hint(), "--header");
      options.headers.push_back(*std::move(header));
    }
    SEALANE_ASSIGN_OR_RETURN(target.executor, OpenHttpTaskExecutor(std::move(options)));
    return target;
  }

  Result<TaskDispatcherOptions> DispatcherOptions() const {
    TaskDispatcherOptions options;
    options.name = DefaultOwner();
    // That an event was sent is known by its receipt.
    options.retention = std::chrono::hours{48};
    if (task_retention_) {
      SEALANE_ASSIGN_OR_RETURN(const auto retention, DurationOption("--task-retention", *task_retention_));
      options.retention.reset();
      if (retention.count() > 0) options.retention = retention;
    }
    if (workers_) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t workers, IntegerOption("--workers", *workers_, 1, 256));
      options.workers = static_cast<std::size_t>(workers);
    }
    if (lease_margin_) {
      SEALANE_ASSIGN_OR_RETURN(options.lease_margin, DurationOption("--lease-margin", *lease_margin_));
      if (options.lease_margin < std::chrono::seconds{1}) {
        return BadUsage("--lease-margin: less than a second", "give at least 1s", "--lease-margin");
      }
    }
    return options;
  }

  static ServedStats Served(const Forwarder& forwarder) {
    ServedStats served(std::vector<ConsumerStats>{forwarder.consumer->stats()});
    served.dispatchers.push_back(forwarder.dispatcher->stats());
    return served;
  }

  static std::string ProgressLine(const Forwarder& forwarder) {
    const ConsumerStats taken = forwarder.consumer->stats();
    const TaskDispatcherStats sending = forwarder.dispatcher->stats();
    const TaskTargetStats sent = forwarder.sent();
    std::string problem = taken.problem.empty() ? sending.problem : taken.problem;
    return fmt::format("{} taken, {} sent, {} attempts failed, {} dead{}", Grouped(taken.effects),
                       Grouped(sent.succeeded), Grouped(sent.failed), Grouped(sent.dead),
                       problem.empty() ? "" : "; " + problem);
  }

  Result<ExitCode> Serve(CommandContext& context, Forwarder& forwarder, const SignalWaiter& signals) const {
    const bool until = flags_.until_caught_up();
    const ForegroundEnd end = RunInForeground(
        context, signals,
        {.run = [&](std::stop_token stop) { return until ? forwarder.RunUntilCaughtUp(stop) : forwarder.Run(stop); },
         .progress = [&] { return ProgressLine(forwarder); },
         .stopping = "waiting for requests under way",
         .left_behind = "what was under way is sent again with the same key",
         .limit = flags_.limit()});
    LogInfo("forwarder stopped", {{"consumer", forwarder.target}, {"did", ProgressLine(forwarder)}});
    if (!end.status) return end.status.error();
    if (end.timed_out) {
      return Error(
                 ErrorKind::kUnavailable, "not_caught_up",
                 fmt::format("not caught up after {}: {}", FormatDuration(*flags_.limit()), ProgressLine(forwarder)))
          .WithHint("give it more time with --timeout; nothing is lost");
    }
    if (until) Print(context, forwarder, end);
    return until && end.stopped ? ExitCode::kInterrupted : ExitCode::kDone;
  }

  static void Print(CommandContext& context, const Forwarder& forwarder, const ForegroundEnd& end) {
    const ConsumerStats taken = forwarder.consumer->stats();
    const TaskTargetStats sent = forwarder.sent();
    if (!context.is_table()) {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Truth("caught_up", !end.stopped)
                           .Text("consumer", taken.consumer)
                           .Integer("received", static_cast<std::int64_t>(taken.received))
                           .Integer("taken", static_cast<std::int64_t>(taken.effects))
                           .Integer("ignored", static_cast<std::int64_t>(taken.ignored))
                           .Integer("duplicates", static_cast<std::int64_t>(taken.duplicates))
                           .Integer("parked", static_cast<std::int64_t>(taken.parked_total))
                           .Integer("sent", static_cast<std::int64_t>(sent.succeeded))
                           .Integer("attempts_failed", static_cast<std::int64_t>(sent.failed))
                           .Integer("dead", static_cast<std::int64_t>(sent.dead))
                           .Raw("duration_seconds", fmt::format("{:.3f}", end.seconds))
                           .Finish()
                    << '\n';
      return;
    }
    context.err() << fmt::format("{} {} in {:.1f} s\n",
                                 end.stopped ? "not caught up:" : "caught up:", ProgressLine(forwarder), end.seconds);
    if (sent.dead > 0) context.SuggestNext("sealane tasks list --state DEAD --target " + forwarder.target);
  }

  ConsumerFlags flags_;
  std::optional<std::string> to_;
  std::vector<std::string> headers_;
  std::optional<std::string> ca_file_;
  std::optional<std::string> request_timeout_;
  std::optional<std::string> retry_;
  std::optional<std::string> in_doubt_;
  std::optional<std::string> conflict_;
  std::optional<std::string> workers_;
  std::optional<std::string> lease_margin_;
  std::optional<std::string> task_retention_;
};

}  // namespace

std::unique_ptr<Command> MakeForwardCommand() {
  return std::make_unique<ForwardCommand>();
}

}  // namespace sealane::cli
