// The commands by which a person decides about what was set aside.
#include <ostream>

#include <fmt/format.h>

#include "commands/dead.hpp"
#include "commands/dead_filter.hpp"
#include "commands/operator_options.hpp"
#include "dead_letter_view.hpp"
#include "ops/operator_action.hpp"

namespace sealane::cli {
namespace {

void PrintChanged(CommandContext& context, std::string_view verb, std::int64_t count) {
  if (context.is_table()) {
    context.out() << fmt::format("{} {}\n", count, verb);
  } else {
    context.out() << JsonDocument().Text("apiVersion", kApiVersion).Integer("changed", count).Finish() << '\n';
  }
}

class DeadRetryCommand final : public Command {
 public:
  std::string_view path() const override { return "dead retry"; }
  std::string_view summary() const override { return "try failed events again now, followers after them in order"; }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane dead retry 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --reason \"topic was created\"",
        "sealane dead retry --topic orders --dry-run --reason \"INC-42\"",
        "sealane dead retry --error-code message_too_large --reason \"limit raised\" --yes",
        "sealane dead retry --all --reason \"INC-42 is over\" --yes",
    };
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"id", "ID", "one event", &id_}};
    filter_.AddTo(options);
    options.push_back({"--all", "", "everything that is set aside", &all_});
    options.push_back({"--dry-run", "", "show what would be tried, and change nothing", &dry_run_});
    options.push_back({"--yes", "", "do not ask", &yes_});
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_RETURN_IF_ERROR(CheckSelection());
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    if (id_) return RetryOne(context, action);
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    DeadLetterFilter filter = filter_.Filter();
    filter.limit = kDeadLettersMax;
    SEALANE_ASSIGN_OR_RETURN(const auto found, letters->List(filter));
    if (dry_run_) return PrintPlan(context, found);
    if (found.empty()) {
      PrintChanged(context, "events to try again", 0);
      return ExitCode::kDone;
    }
    if (found.size() > 1) {
      SEALANE_RETURN_IF_ERROR(Confirm(context, yes_, fmt::format("try {} events again?", found.size())));
    }
    context.OnInterrupt("some of the events may be due already, look with: sealane dead list");
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, letters->Retry(filter, action));
    PrintChanged(context, count == 1 ? "event is due now" : "events are due now", count);
    if (found.size() == kDeadLettersMax) context.Warn("there may be more: run it again");
    context.SuggestNext("sealane dead list");
    return ExitCode::kDone;
  }

 private:
  Status CheckSelection() const {
    const bool filtered = all_ || filter_.route || !filter_.selects_all();
    if (id_ && (all_ || !filter_.selects_all())) {
      return BadUsage("an event and a filter cannot be given together", "give the id alone, or the filter alone",
                      "ID");
    }
    if (id_ && dry_run_)
      return BadUsage("--dry-run is for filters", "sealane dead show ID shows the event", "--dry-run");
    if (!id_ && !filtered) {
      return BadUsage("dead retry needs an event or a filter",
                      "give an ID, --topic, --key, --error-code, --tenant, --route, or --all", "ID");
    }
    if (all_ && !filter_.selects_all()) {
      return BadUsage("--all and a filter cannot be given together", "leave --all out", "--all");
    }
    return Ok();
  }

  Result<ExitCode> RetryOne(CommandContext& context, const OperatorAction& action) const {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseEventIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, letters->Retry(id, filter_.route, action));
    if (count == 0) return NotSetAside(id, filter_.route);
    PrintChanged(context, "due now", count);
    context.SuggestNext(fmt::format("sealane messages get {}", id.ToString()));
    return ExitCode::kDone;
  }

  static Result<ExitCode> PrintPlan(CommandContext& context, const std::vector<DeadLetter>& found) {
    if (context.is_table()) {
      if (!found.empty()) context.out() << DeadLetterTable(found, context.color());
      context.err() << fmt::format("{} events would be tried again; nothing was changed\n", found.size());
      return ExitCode::kDone;
    }
    std::vector<std::string> items;
    for (const DeadLetter& letter : found) items.push_back(DeadLetterJson(letter));
    context.out() << JsonDocument()
                         .Text("apiVersion", kApiVersion)
                         .Truth("dry_run", true)
                         .Integer("would_change", static_cast<std::int64_t>(found.size()))
                         .Raw("dead_letters", JsonArray(items))
                         .Finish()
                  << '\n';
    return ExitCode::kDone;
  }

  std::optional<std::string> id_;
  DeadFilterOptions filter_;
  bool all_ = false;
  bool dry_run_ = false;
  bool yes_ = false;
  OperatorOptions operator_;
};

/// `discard` and `skip`, which differ in what becomes of the event.
class DeadDecisionCommand : public Command {
 public:
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"id", "ID", "the event's id", &id_, true},
                                       {"--route", "NAME", "on this route only", &route_}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseEventIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto letters, context.OpenStoreDeadLetters());
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, Decide(*letters, id, route_, action));
    if (count == 0) return NotSetAside(id, route_);
    PrintChanged(context, Done(), count);
    context.SuggestNext(Next(id));
    return ExitCode::kDone;
  }

 protected:
  virtual Result<std::int64_t> Decide(DeadLetters& letters, const EventId& id,
                                      const std::optional<std::string>& route,
                                      const OperatorAction& action) const = 0;
  virtual std::string_view Done() const = 0;
  virtual std::string Next(const EventId& id) const = 0;

 private:
  std::optional<std::string> id_;
  std::optional<std::string> route_;
  OperatorOptions operator_;
};

class DeadDiscardCommand final : public DeadDecisionCommand {
 public:
  std::string_view path() const override { return "dead discard"; }
  std::string_view summary() const override { return "give one event up for good; those behind it go on"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane dead discard 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --reason \"sent by hand\""};
  }

 protected:
  Result<std::int64_t> Decide(DeadLetters& letters, const EventId& id, const std::optional<std::string>& route,
                              const OperatorAction& action) const override {
    return letters.Discard(id, route, action);
  }
  std::string_view Done() const override { return "discarded"; }
  std::string Next(const EventId& /*id*/) const override { return "sealane dead list"; }
};

class DeadSkipCommand final : public DeadDecisionCommand {
 public:
  std::string_view path() const override { return "dead skip"; }
  std::string_view summary() const override { return "let those behind a dead event go on, and keep the event"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane dead skip 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --reason \"order does not matter here\""};
  }

 protected:
  Result<std::int64_t> Decide(DeadLetters& letters, const EventId& id, const std::optional<std::string>& route,
                              const OperatorAction& action) const override {
    return letters.Skip(id, route, action);
  }
  std::string_view Done() const override { return "skipped; it can be retried later, out of order"; }
  std::string Next(const EventId& id) const override {
    return fmt::format("sealane dead retry {} --reason \"...\"", id.ToString());
  }
};

}  // namespace

std::unique_ptr<Command> MakeDeadRetryCommand() {
  return std::make_unique<DeadRetryCommand>();
}
std::unique_ptr<Command> MakeDeadDiscardCommand() {
  return std::make_unique<DeadDiscardCommand>();
}
std::unique_ptr<Command> MakeDeadSkipCommand() {
  return std::make_unique<DeadSkipCommand>();
}

}  // namespace sealane::cli
