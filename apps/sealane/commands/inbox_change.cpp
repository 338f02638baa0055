// The commands by which a person decides about what consumers have set aside.
#include <ostream>

#include <fmt/format.h>

#include "commands/dead_filter.hpp"
#include "commands/inbox.hpp"
#include "commands/inbox_filter.hpp"
#include "commands/operator_options.hpp"
#include "inbox_view.hpp"

namespace sealane::cli {
namespace {

void PrintChanged(CommandContext& context, std::string_view verb, std::int64_t count) {
  if (context.is_table()) {
    context.out() << fmt::format("{} {}\n", count, verb);
  } else {
    context.out() << JsonDocument().Text("apiVersion", kApiVersion).Integer("changed", count).Finish() << '\n';
  }
}

class InboxRetryCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox retry"; }
  std::string_view summary() const override {
    return "have consumers try failed events again now, followers after them in order";
  }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane inbox retry 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --reason \"account was opened\"",
        "sealane inbox retry --consumer billing --code unknown_currency --dry-run --reason \"INC-42\"",
        "sealane inbox retry --consumer billing --code unknown_currency --reason \"currency added\" --yes",
        "sealane inbox retry --all --reason \"INC-42 is over\" --yes",
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
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(ParkedFilter filter, filter_.Filter());
    filter.limit = kDeadLettersMax;
    SEALANE_ASSIGN_OR_RETURN(const auto found, desk->Parked(filter));
    if (dry_run_) return PrintPlan(context, found);
    if (found.empty()) {
      PrintChanged(context, "events to try again", 0);
      return ExitCode::kDone;
    }
    if (found.size() > 1) {
      SEALANE_RETURN_IF_ERROR(Confirm(context, yes_, fmt::format("try {} events again?", found.size())));
    }
    context.OnInterrupt("some of the events may be due already, look with: sealane inbox parked");
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, desk->Retry(filter, action));
    PrintChanged(context, count == 1 ? "event is due now" : "events are due now", count);
    if (found.size() == kDeadLettersMax) context.Warn("there may be more: run it again");
    context.SuggestNext("sealane inbox parked");
    return ExitCode::kDone;
  }

 private:
  Status CheckSelection() const {
    const bool filtered = all_ || filter_.consumer || !filter_.selects_all();
    if (id_ && (all_ || !filter_.selects_all())) {
      return BadUsage("an event and a filter cannot be given together", "give the id alone, or the filter alone",
                      "ID");
    }
    if (id_ && dry_run_) {
      return BadUsage("--dry-run is for filters", "sealane inbox show ID shows the event", "--dry-run");
    }
    if (!id_ && !filtered) {
      return BadUsage("inbox retry needs an event or a filter",
                      "give an ID, --consumer, --key, --topic, --code, or --all", "ID");
    }
    if (all_ && !filter_.selects_all()) {
      return BadUsage("--all and a filter cannot be given together", "leave --all out", "--all");
    }
    return Ok();
  }

  Result<ExitCode> RetryOne(CommandContext& context, const OperatorAction& action) const {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseEventIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(const std::string consumer, ConsumerOf(*desk, filter_.consumer, id));
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, desk->Retry(consumer, id, action));
    if (count == 0) return NotParked(id, consumer);
    PrintChanged(context, "due now", count);
    context.SuggestNext(fmt::format("sealane inbox show {}", id.ToString()));
    return ExitCode::kDone;
  }

  static Result<ExitCode> PrintPlan(CommandContext& context, const std::vector<ParkedEvent>& found) {
    if (context.is_table()) {
      if (!found.empty()) context.out() << ParkedEventTable(found, context.color());
      context.err() << fmt::format("{} events would be tried again; nothing was changed\n", found.size());
      return ExitCode::kDone;
    }
    context.out() << JsonDocument()
                         .Text("apiVersion", kApiVersion)
                         .Truth("dry_run", true)
                         .Integer("would_change", static_cast<std::int64_t>(found.size()))
                         .Raw("parked", JsonArray(ParkedEventsJson(found)))
                         .Finish()
                  << '\n';
    return ExitCode::kDone;
  }

  std::optional<std::string> id_;
  InboxFilterOptions filter_;
  bool all_ = false;
  bool dry_run_ = false;
  bool yes_ = false;
  OperatorOptions operator_;
};

class InboxSkipCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox skip"; }
  std::string_view summary() const override { return "give one event up for good; those behind it go on"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox skip 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --reason \"booked by hand\""};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"id", "ID", "the event's id", &id_, true},
                                       {"--consumer", "NAME", "at this consumer", &consumer_}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseEventIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(const std::string consumer, ConsumerOf(*desk, consumer_, id));
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, desk->Skip(consumer, id, action));
    if (count == 0) return NotParked(id, consumer);
    PrintChanged(context, "skipped", count);
    context.SuggestNext("sealane inbox parked");
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> id_;
  std::optional<std::string> consumer_;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeInboxRetryCommand() {
  return std::make_unique<InboxRetryCommand>();
}
std::unique_ptr<Command> MakeInboxSkipCommand() {
  return std::make_unique<InboxSkipCommand>();
}

}  // namespace sealane::cli
