// The commands by which an operator decides about parked events of consumers, and where consumers go on.
#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "commands/dead_filter.hpp"
#include "commands/inbox.hpp"
#include "commands/inbox_filter.hpp"
#include "commands/operator_options.hpp"
#include "inbox_view.hpp"
#include "time_option.hpp"

namespace sealane::cli {
namespace {

/// Events that one transaction makes due. Whoever applies one of them waits for it.
constexpr std::size_t kRetriesPerCall = 1'000;

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
    options.push_back(
        {"--may-apply-twice", "",
         "also an event that was skipped as too_old, although it may have been applied before; needs ID",
         &may_apply_twice_});
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
      const std::string_view more = found.size() == kDeadLettersMax ? " or more" : "";
      SEALANE_RETURN_IF_ERROR(Confirm(context, yes_, fmt::format("try {}{} events again?", found.size(), more)));
    }
    context.OnInterrupt("some of the events may be due already, look with: sealane inbox parked");
    std::int64_t count = 0;
    filter.limit = kRetriesPerCall;
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t changed, desk->Retry(filter, action));
      count += changed;
      if (changed < static_cast<std::int64_t>(filter.limit)) break;
    }
    PrintChanged(context, count == 1 ? "event is due now" : "events are due now", count);
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
    if (!id_ && may_apply_twice_) {
      return BadUsage("--may-apply-twice is for one event", "give the ID of an event whose effect you have checked",
                      "--may-apply-twice");
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
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, desk->Retry(consumer, id, action, may_apply_twice_));
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
  bool may_apply_twice_ = false;
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

/// A consumer that exists.
Result<InboxSummary> SummaryOf(InboxDesk& desk, const std::string& consumer) {
  SEALANE_ASSIGN_OR_RETURN(std::vector<InboxSummary> summaries, desk.Summaries());
  for (InboxSummary& summary : summaries) {
    if (summary.consumer == consumer) return std::move(summary);
  }
  return UnknownConsumer(consumer);
}

std::string Counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

class InboxResumeCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox resume"; }
  std::string_view summary() const override { return "say where partitions of a consumer go on, stopped or not"; }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane inbox resume --consumer billing --topic orders --from beginning --reason \"topic was made again\"",
        "sealane inbox resume --consumer billing --topic orders --partition 3 --from 1200 --reason \"INC-42\" --yes",
        "sealane inbox resume --consumer billing --topic orders --from now --dry-run --reason \"INC-42\"",
    };
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {
        {"--consumer", "NAME", "the consumer", &consumer_, true},
        {"--topic", "NAME", "the topic", &topic_, true},
        {"--partition", "N", "this partition only (default: all that the consumer knows)", &partition_},
        {"--from", "WHERE", "beginning, now, group, an offset, a time (RFC 3339), or 15m ago", &from_, true},
        {"--dry-run", "", "show what it means, and change nothing", &dry_run_},
        {"--yes", "", "do not ask", &yes_}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const ResumePoint from, Point());
    std::optional<std::int32_t> number;
    if (partition_) {
      SEALANE_ASSIGN_OR_RETURN(const std::int64_t parsed, IntegerOption("--partition", *partition_, 0,
                                                                        std::numeric_limits<std::int32_t>::max()));
      number = static_cast<std::int32_t>(parsed);
    }
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(InboxSummary consumer, SummaryOf(*desk, *consumer_));
    const std::vector<InboxPosition> known = consumer.partitions;
    std::erase_if(consumer.partitions, [&](const InboxPosition& one) {
      return one.partition.topic != *topic_ || number.value_or(one.partition.number) != one.partition.number;
    });
    if (consumer.partitions.empty()) return UnknownPartition(*consumer_, *topic_, number, known);
    if (from.kind == ResumePoint::Kind::kOffset && consumer.partitions.size() > 1) {
      return BadUsage("--from: an offset is one of a single partition", "say of which one with --partition N",
                      "--partition");
    }

    const std::string what = fmt::format("{} of topic {} from {}", Counted(consumer.partitions.size(), "partition"),
                                         *topic_, ToString(from));
    const std::string meaning = Meaning(consumer, from);
    if (dry_run_) {
      if (context.is_table()) {
        context.out() << fmt::format("consumer {} would resume {}: {}\nnothing was changed\n", *consumer_, what,
                                     meaning);
      } else {
        Print(context, consumer, from, meaning, 0);
      }
      return ExitCode::kDone;
    }
    if (MaySkip(consumer, from)) {
      const std::string question = fmt::format("resume {} at consumer {}? {}", what, *consumer_, meaning);
      SEALANE_RETURN_IF_ERROR(Confirm(context, yes_, question));
    } else if (context.is_table()) {
      context.err() << meaning << '\n';
    }
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, desk->Resume(*consumer_, *topic_, number, from, action));
    if (!context.is_table()) {
      Print(context, consumer, from, meaning, count);
      return ExitCode::kDone;
    }
    context.out() << fmt::format("consumer {} resumes {}; members that run take it up within seconds\n", *consumer_,
                                 what);
    context.SuggestNext(fmt::format("sealane inbox position --consumer {}", PasteableWord(*consumer_)));
    return ExitCode::kDone;
  }

 private:
  Result<ResumePoint> Point() const {
    // A member may take it up much later: what is published until then is not to be skipped.
    if (*from_ == "now") return ResumePoint{.kind = ResumePoint::Kind::kTime, .time = SystemClock::Instance().Now()};
    if (const auto point = ParseResumePoint(*from_)) return *point;
    if (const auto time = ParsePastTime(*from_, SystemClock::Instance().Now())) {
      return ResumePoint{.kind = ResumePoint::Kind::kTime, .time = *time};
    }
    return BadUsage(fmt::format("--from: `{}` is no place to resume from", *from_),
                    "beginning, now, group, an offset, a time like 2026-01-31T00:00:00Z, or 15m for 15 minutes ago",
                    "--from");
  }

  /// Whether events that were not applied may be passed over.
  static bool MaySkip(const InboxSummary& consumer, const ResumePoint& from) {
    if (from.kind != ResumePoint::Kind::kOffset) return from.kind != ResumePoint::Kind::kBeginning;
    return std::ranges::any_of(consumer.partitions, [&](const InboxPosition& one) {
      // A position of another topic than today's, or none at all, compares with nothing.
      return one.stop || !one.next_offset || from.offset > *one.next_offset;
    });
  }

  static std::string Meaning(const InboxSummary& consumer, const ResumePoint& from) {
    const std::string again =
        consumer.mode == InboxMode::kOffsets
            ? "events that come again have no second effect while the consumer remembers them (the newest of each "
              "partition); older ones are applied again"
            : "events that come again have no second effect while the consumer has their receipts; older ones are "
              "skipped as too_old";
    switch (from.kind) {
      case ResumePoint::Kind::kBeginning:
        return "everything that the topic still has is read again: " + again;
      case ResumePoint::Kind::kGroup:
        return "reading goes on where the group stands at the broker: events before that which were not applied are "
               "skipped, and " +
               again;
      case ResumePoint::Kind::kOffset:
        if (!MaySkip(consumer, from)) return "everything from that offset on is read again: " + again;
        return fmt::format("events before offset {} which were not applied are skipped", from.offset);
      case ResumePoint::Kind::kTime:
        return "reading goes on at the first message of that time or later: events before it which were not applied "
               "are skipped, and " +
               again;
    }
    return {};
  }

  void Print(CommandContext& context, const InboxSummary& consumer, const ResumePoint& from,
             const std::string& meaning, std::int64_t changed) const {
    std::vector<std::string> partitions;
    for (const InboxPosition& position : consumer.partitions) {
      partitions.push_back(InboxPositionJson(consumer.consumer, position));
    }
    context.out() << JsonDocument()
                         .Text("apiVersion", kApiVersion)
                         .Truth("dry_run", dry_run_)
                         .Text("consumer", consumer.consumer)
                         .Text("topic", *topic_)
                         .Text("from", ToString(from))
                         .Text("meaning", meaning)
                         .Integer("changed", changed)
                         .Raw("before", JsonArray(partitions))
                         .Finish()
                  << '\n';
  }

  std::optional<std::string> consumer_;
  std::optional<std::string> topic_;
  std::optional<std::string> partition_;
  std::optional<std::string> from_;
  bool dry_run_ = false;
  bool yes_ = false;
  OperatorOptions operator_;
};

class InboxRemoveCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox remove"; }
  std::string_view summary() const override {
    return "remove a consumer with its receipts, positions and parked events";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox remove --consumer trial --dry-run --reason \"was an experiment\"",
            "sealane inbox remove --consumer trial --reason \"was an experiment\" --yes"};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {
        {"--consumer", "NAME", "the consumer", &consumer_, true},
        {"--although-attached", "", "also while a member has a partition, or ended without releasing it",
         &although_attached_},
        {"--dry-run", "", "show what would go, and change nothing", &dry_run_},
        {"--yes", "", "do not ask", &yes_}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(const InboxSummary summary, SummaryOf(*desk, *consumer_));
    for (const InboxPosition& position : summary.partitions) {
      if (position.attached && !although_attached_) return ConsumerAttached(*consumer_, position.partition);
    }
    const std::string loss = Loss(summary);
    if (dry_run_) return Print(context, fmt::format("consumer {} would be removed: {}", *consumer_, loss), 0);
    SEALANE_RETURN_IF_ERROR(Confirm(context, yes_, fmt::format("remove consumer {}? {}", *consumer_, loss)));
    context.OnInterrupt("a part of the consumer is removed: run the command again to remove the rest");
    const bool shows_progress = context.err_is_terminal() && context.is_table();
    std::int64_t rows = 0;
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const RemoveReport step,
                               desk->Remove(*consumer_, although_attached_, kRowsPerStep, action));
      rows += step.rows;
      if (!step.more) break;
      if (shows_progress) context.err() << fmt::format("\r{} rows removed", rows) << std::flush;
    }
    if (shows_progress && rows >= static_cast<std::int64_t>(kRowsPerStep)) context.err() << '\n';
    return Print(
        context,
        fmt::format("consumer {} is removed, with {}", *consumer_, Counted(static_cast<std::size_t>(rows), "row")),
        rows);
  }

 private:
  static constexpr std::size_t kRowsPerStep = 5'000;

  static std::string Loss(const InboxSummary& summary) {
    std::int64_t receipts = 0;
    for (const auto& [state, count] : summary.receipts) receipts += count;
    return fmt::format(
        "{} of events it has seen, {} that will not be applied, and positions of {} are lost",
        Counted(static_cast<std::size_t>(receipts), summary.more_receipts ? "or more receipt" : "receipt"),
        Counted(static_cast<std::size_t>(summary.waiting.parked), "parked event"),
        Counted(summary.partitions.size(), "partition"));
  }

  Result<ExitCode> Print(CommandContext& context, const std::string& line, std::int64_t rows) const {
    if (context.is_table()) {
      context.out() << line << '\n';
    } else {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Truth("dry_run", dry_run_)
                           .Text("consumer", *consumer_)
                           .Integer("removed_rows", rows)
                           .Finish()
                    << '\n';
    }
    return ExitCode::kDone;
  }

  std::optional<std::string> consumer_;
  bool although_attached_ = false;
  bool dry_run_ = false;
  bool yes_ = false;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeInboxRetryCommand() {
  return std::make_unique<InboxRetryCommand>();
}
std::unique_ptr<Command> MakeInboxSkipCommand() {
  return std::make_unique<InboxSkipCommand>();
}
std::unique_ptr<Command> MakeInboxResumeCommand() {
  return std::make_unique<InboxResumeCommand>();
}
std::unique_ptr<Command> MakeInboxRemoveCommand() {
  return std::make_unique<InboxRemoveCommand>();
}

}  // namespace sealane::cli
