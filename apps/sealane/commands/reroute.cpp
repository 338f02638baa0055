// The commands that send events to another topic than the one they were appended for.
#include <ostream>

#include <fmt/format.h>

#include "commands/dead.hpp"
#include "commands/operator_options.hpp"
#include "output.hpp"

namespace sealane::cli {
namespace {

/// Plans first, asks, and then changes them in batches, each of which is one transaction with its audit record.
class RerouteCommand final : public Command {
 public:
  explicit RerouteCommand(bool waiting) : waiting_(waiting) {}

  std::string_view path() const override { return waiting_ ? "messages reroute" : "dead reroute"; }
  std::string_view summary() const override {
    return waiting_ ? "send events that wait for a missing topic to another topic"
                    : "send dead events of a topic, and those behind them, to another topic";
  }
  std::vector<std::string_view> examples() const override {
    if (waiting_) {
      return {"sealane messages reroute --topic order --to orders --dry-run --reason \"INC-42\"",
              "sealane messages reroute --topic order --to orders --reason \"typo in release 12\" --yes"};
    }
    return {"sealane dead reroute --topic order --to orders --dry-run --reason \"INC-42\"",
            "sealane dead reroute --topic order --to orders --reason \"typo in release 12\" --yes"};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {
        {"--topic", "TOPIC", waiting_ ? "the missing topic they wait for" : "the topic of the events", &topic_, true},
        {"--to", "TOPIC", "the topic they go to instead", &to_, true},
        {"--route", "NAME", "on this route only", &route_},
        {"--dry-run", "", "show how many would be changed, and change nothing", &dry_run_},
        {"--yes", "", "do not ask", &yes_}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    if (topic_->empty()) return BadUsage("--topic is empty", "name the topic of the events", "--topic");
    if (to_->empty()) return BadUsage("--to is empty", "name the topic they go to", "--to");
    if (*topic_ == *to_) return BadUsage("--topic and --to are the same", "name another topic with --to", "--to");
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    const RerouteRequest request{.route = route_, .topic = *topic_, .to = *to_, .waiting = waiting_};
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t planned, letters->CountReroute(request));
    if (dry_run_ || planned == 0) {
      Print(context, dry_run_ ? "would_change" : "changed", planned);
      return ExitCode::kDone;
    }
    SEALANE_RETURN_IF_ERROR(
        Confirm(context, yes_, fmt::format("send {} events of topic {} to {}?", planned, *topic_, *to_)));
    context.OnInterrupt("some of the events may be sent to the other topic already; run it again for the rest");
    std::int64_t changed = 0;
    while (changed < planned) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t batch, letters->Reroute(request, action));
      if (batch == 0) break;
      changed += batch;
    }
    Print(context, "changed", changed);
    return ExitCode::kDone;
  }

 private:
  void Print(CommandContext& context, std::string_view what, std::int64_t count) const {
    if (context.is_table()) {
      context.out() << fmt::format("{} event{} of topic {} {} to {}\n", count, count == 1 ? "" : "s", *topic_,
                                   dry_run_ ? "would be sent" : (count == 1 ? "is sent" : "are sent"), *to_);
      return;
    }
    context.out() << JsonDocument()
                         .Text("apiVersion", kApiVersion)
                         .Truth("dry_run", dry_run_)
                         .Text("topic", *topic_)
                         .Text("to", *to_)
                         .Integer(what, count)
                         .Finish()
                  << '\n';
  }

  const bool waiting_;
  std::optional<std::string> topic_;
  std::optional<std::string> to_;
  std::optional<std::string> route_;
  bool dry_run_ = false;
  bool yes_ = false;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeDeadRerouteCommand() {
  return std::make_unique<RerouteCommand>(false);
}
std::unique_ptr<Command> MakeMessagesRerouteCommand() {
  return std::make_unique<RerouteCommand>(true);
}

}  // namespace sealane::cli
