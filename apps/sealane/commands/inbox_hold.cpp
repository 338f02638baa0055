// The commands that stop a consumer, let it go on, and let it go on over versions that are missing.
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "commands/dead_filter.hpp"
#include "commands/inbox.hpp"
#include "commands/inbox_filter.hpp"
#include "commands/operator_options.hpp"

namespace sealane::cli {
namespace {

/// `pause` and `unpause`.
class InboxPauseCommand final : public Command {
 public:
  explicit InboxPauseCommand(bool pause) : pause_(pause) {}
  std::string_view path() const override { return pause_ ? "inbox pause" : "inbox unpause"; }
  std::string_view summary() const override {
    return pause_ ? "stop all members of a consumer from applying events, until it is unpaused"
                  : "let a consumer that is paused, or whose circuit breaker is open, apply events again";
  }
  std::vector<std::string_view> examples() const override {
    if (pause_) return {"sealane inbox pause --consumer billing --reason \"database upgrade\""};
    return {"sealane inbox unpause --consumer billing --reason \"handler was mended\""};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"--consumer", "NAME", "the consumer", &consumer_, true}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(const bool changed,
                             pause_ ? desk->Pause(*consumer_, action) : desk->Unpause(*consumer_, action));
    if (!context.is_table()) {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Text("consumer", *consumer_)
                           .Truth("paused", pause_)
                           .Truth("changed", changed)
                           .Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    context.out() << fmt::format("consumer {} {}\n", *consumer_, Text(changed));
    context.SuggestNext("sealane inbox status");
    return ExitCode::kDone;
  }

 private:
  std::string_view Text(bool changed) const {
    if (pause_) return changed ? "is paused; members that run hear it within about a second" : "was paused already";
    return changed ? "goes on; members that run hear it within about a second" : "was neither paused nor held";
  }

  const bool pause_;
  std::optional<std::string> consumer_;
  OperatorOptions operator_;
};

class InboxAcceptGapCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox accept-gap"; }
  std::string_view summary() const override {
    return "apply an event although versions of its aggregate before it are missing, and go on from there";
  }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane inbox accept-gap 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --reason \"version 4 was never published\"",
        "sealane inbox accept-gap --consumer billing --aggregate order/42 --reason \"INC-42\"",
    };
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {
        {"id", "ID", "the event that waits", &id_},
        {"--aggregate", "TYPE/ID", "instead of an event: the lowest parked version of this aggregate", &aggregate_},
        {"--tenant", "NAME", "of this tenant; with --aggregate", &tenant_},
        {"--consumer", "NAME", "at this consumer", &consumer_}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    if (id_.has_value() == aggregate_.has_value()) {
      return BadUsage("inbox accept-gap needs an event or an aggregate", "give an ID, or --aggregate TYPE/ID", "ID");
    }
    if (tenant_ && !aggregate_) return BadUsage("--tenant is for --aggregate", "leave --tenant out", "--tenant");
    if (aggregate_ && !consumer_) {
      return BadUsage("--aggregate needs a consumer", "say which one with --consumer NAME", "--consumer");
    }
    GapChoice which;
    if (id_) {
      SEALANE_ASSIGN_OR_RETURN(which.event_id, ParseEventIdOption(*id_));
    } else {
      const std::size_t slash = aggregate_->find('/');
      if (slash == std::string::npos || slash + 1 == aggregate_->size()) {
        return BadUsage(fmt::format("--aggregate: `{}` is not TYPE/ID", *aggregate_), "write order/42, for example",
                        "--aggregate");
      }
      which.aggregate = {tenant_.value_or(""), aggregate_->substr(0, slash), aggregate_->substr(slash + 1)};
    }
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    std::string consumer;
    if (which.event_id) {
      SEALANE_ASSIGN_OR_RETURN(consumer, ConsumerOf(*desk, consumer_, *which.event_id));
    } else {
      consumer = *consumer_;
    }
    SEALANE_ASSIGN_OR_RETURN(const AcceptedGap gap, desk->AcceptGap(consumer, which, action));
    if (!context.is_table()) {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Text("consumer", consumer)
                           .Text("id", gap.id.ToString())
                           .Integer("version", gap.version)
                           .Integer("last_applied_version", gap.seen)
                           .Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    context.out() << fmt::format("version {} ({}) is due now; versions {} to {} count as seen\n", gap.version,
                                 gap.id.ToString(), gap.seen + 1, gap.version - 1);
    context.SuggestNext(fmt::format("sealane inbox show {}", gap.id.ToString()));
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> id_;
  std::optional<std::string> aggregate_;
  std::optional<std::string> tenant_;
  std::optional<std::string> consumer_;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeInboxPauseCommand() {
  return std::make_unique<InboxPauseCommand>(true);
}
std::unique_ptr<Command> MakeInboxUnpauseCommand() {
  return std::make_unique<InboxPauseCommand>(false);
}
std::unique_ptr<Command> MakeInboxAcceptGapCommand() {
  return std::make_unique<InboxAcceptGapCommand>();
}

}  // namespace sealane::cli
