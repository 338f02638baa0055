// The commands that look at inboxes and change nothing.
#include "inbox_view.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "commands/dead_filter.hpp"
#include "commands/inbox.hpp"
#include "commands/inbox_filter.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kAllStates = "PROCESSED, IGNORED, RECEIVED, GAP, FAILED, DEAD, SKIPPED";
constexpr std::string_view kParkedStates = "RECEIVED, GAP, FAILED, DEAD, SKIPPED";

/// A list in one of the two JSON shapes; `more` says that the limit ended it.
void PrintList(CommandContext& context, std::string_view name, const std::vector<std::string>& items,
               std::optional<bool> more) {
  if (context.format() == OutputFormat::kJsonl) {
    for (const std::string& item : items) context.out() << item << '\n';
    return;
  }
  JsonDocument json;
  json.Text("apiVersion", kApiVersion).Raw(name, JsonArray(items));
  if (more) json.Truth("more", *more);
  context.out() << json.Finish() << '\n';
}

class InboxStatusCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox status"; }
  std::string_view summary() const override { return "show how each consumer stands"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox status", "sealane inbox status -o json"};
  }
  std::vector<OptionSpec> Options() override { return {}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(const auto summaries, desk->Summaries());
    if (!context.is_table()) {
      std::vector<std::string> items;
      for (const InboxSummary& summary : summaries) items.push_back(InboxSummaryJson(summary));
      PrintList(context, "consumers", items, std::nullopt);
      return ExitCode::kDone;
    }
    if (summaries.empty()) {
      context.err() << "no consumer has run here\n";
      return ExitCode::kDone;
    }
    context.out() << InboxSummaryTable(summaries, context.color());
    for (const InboxSummary& summary : summaries) {
      if (summary.pause) context.Warn(fmt::format("{} is paused: {}", summary.consumer, summary.pause->reason));
      if (summary.hold) context.Warn(fmt::format("{} holds: {}", summary.consumer, summary.hold->message));
      if (!summary.pause && !summary.hold) continue;
      context.SuggestNext(
          fmt::format("sealane inbox unpause --consumer {} --reason \"...\"", PasteableWord(summary.consumer)));
      return ExitCode::kDone;
    }
    const bool stopped = std::ranges::any_of(summaries, [](const auto& one) { return StoppedPartitions(one) > 0; });
    if (stopped) {
      context.Warn("some partitions are stopped: their events are not applied until an operator decides");
      context.SuggestNext("sealane inbox position");
      return ExitCode::kDone;
    }
    for (const InboxSummary& summary : summaries) {
      if (summary.waiting.parked == 0) continue;
      context.SuggestNext("sealane inbox parked");
      break;
    }
    return ExitCode::kDone;
  }
};

class InboxPositionCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox position"; }
  std::string_view summary() const override {
    return "show where each consumer stands in each partition, and which are stopped";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox position", "sealane inbox position --consumer billing --topic orders -o json"};
  }
  std::vector<OptionSpec> Options() override {
    return {{"--consumer", "NAME", "of this consumer only", &consumer_},
            {"--topic", "NAME", "of this topic only", &topic_}};
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(std::vector<InboxSummary> summaries, desk->Summaries());
    if (consumer_) {
      std::erase_if(summaries, [&](const InboxSummary& summary) { return summary.consumer != *consumer_; });
      if (summaries.empty()) return UnknownConsumer(*consumer_);
    }
    std::vector<std::string> items;
    for (InboxSummary& summary : summaries) {
      std::erase_if(summary.partitions, [&](const auto& one) { return topic_ && one.partition.topic != *topic_; });
      for (const auto& position : summary.partitions) items.push_back(InboxPositionJson(summary.consumer, position));
    }
    if (!context.is_table()) {
      PrintList(context, "positions", items, std::nullopt);
      return ExitCode::kDone;
    }
    if (items.empty()) {
      context.err() << (topic_ ? "no consumer has read that topic\n" : "no consumer has read a partition\n");
      return ExitCode::kDone;
    }
    context.out() << InboxPositionTable(summaries, context.color());
    for (const InboxSummary& summary : summaries) {
      for (const InboxPosition& position : summary.partitions) {
        if (!position.stop) continue;
        context.out() << fmt::format("\n{}\n  {}\n", StoppedText(summary.consumer, position),
                                     context.Pasteable(ResumeCommand(summary.consumer, position)));
      }
    }
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> consumer_;
  std::optional<std::string> topic_;
};

class InboxListCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox list"; }
  std::string_view summary() const override {
    return "list receipts of events that consumers have seen, newest first";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox list --consumer billing", "sealane inbox list --state IGNORED --topic orders -o json"};
  }
  std::vector<OptionSpec> Options() override {
    return {{"--consumer", "NAME", "of this consumer only", &filter_.consumer},
            {"--state", "STATE", "PROCESSED, IGNORED, RECEIVED, GAP, FAILED, DEAD or SKIPPED", &state_, false,
             "PROCESSED|IGNORED|RECEIVED|GAP|FAILED|DEAD|SKIPPED"},
            {"--id", "ID", "of this event only", &id_},
            {"--topic", "NAME", "of this topic only", &filter_.topic},
            {"--aggregate-type", "TYPE", "about aggregates of this type only", &filter_.aggregate_type},
            {"--aggregate-id", "ID", "about this aggregate only", &filter_.aggregate_id},
            {"--limit", "N", "at most this many (default: 50)", &limit_}};
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(filter_.limit, LimitOption(limit_));
    SEALANE_ASSIGN_OR_RETURN(filter_.state, StateOption(state_, kAllStates));
    if (id_) {
      SEALANE_ASSIGN_OR_RETURN(filter_.event_id, ParseEventIdOption(*id_));
    }
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(const auto found, desk->List(filter_));
    const bool more = found.size() == filter_.limit;
    if (!context.is_table()) {
      std::vector<std::string> items;
      for (const InboxReceipt& receipt : found) items.push_back(InboxReceiptJson(receipt));
      PrintList(context, "receipts", items, more);
      return ExitCode::kDone;
    }
    if (found.empty()) {
      context.err() << "there are no such receipts\n";
      return ExitCode::kDone;
    }
    context.out() << InboxReceiptTable(found, context.color());
    if (more) context.err() << "there may be more: raise --limit or narrow it down\n";
    return ExitCode::kDone;
  }

 private:
  ReceiptFilter filter_;
  std::optional<std::string> state_;
  std::optional<std::string> id_;
  std::optional<std::string> limit_;
};

/// `parked` and `gaps`, which differ in the states they show.
class ParkedListCommand : public Command {
 public:
  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(ParkedFilter filter, options_.Filter());
    SEALANE_ASSIGN_OR_RETURN(filter.limit, LimitOption(limit_));
    SEALANE_ASSIGN_OR_RETURN(filter.state, State());
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(const auto found, desk->Parked(filter));
    const bool more = found.size() == filter.limit;
    if (!context.is_table()) {
      PrintList(context, "parked", ParkedEventsJson(found), more);
      return ExitCode::kDone;
    }
    if (found.empty()) {
      context.err() << "nothing is set aside\n";
      return ExitCode::kDone;
    }
    context.out() << ParkedEventTable(found, context.color());
    if (more) context.err() << "there may be more: raise --limit or narrow it down\n";
    context.SuggestNext(fmt::format("sealane inbox show {}", found.front().id.ToString()));
    return ExitCode::kDone;
  }

 protected:
  virtual Result<std::optional<InboxState>> State() const = 0;
  void AddTo(std::vector<OptionSpec>& options) {
    options_.AddTo(options);
    options.push_back({"--limit", "N", "at most this many (default: 50)", &limit_});
  }

 private:
  InboxFilterOptions options_;
  std::optional<std::string> limit_;
};

class InboxParkedCommand final : public ParkedListCommand {
 public:
  std::string_view path() const override { return "inbox parked"; }
  std::string_view summary() const override {
    return "list events that consumers have set aside, longest waiting first";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox parked", "sealane inbox parked --consumer billing --state DEAD -o json"};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options;
    AddTo(options);
    options.push_back({"--state", "STATE", "RECEIVED, GAP, FAILED, DEAD or SKIPPED (default: GAP, FAILED and DEAD)",
                       &state_, false, "RECEIVED|GAP|FAILED|DEAD|SKIPPED"});
    return options;
  }

 protected:
  Result<std::optional<InboxState>> State() const override { return StateOption(state_, kParkedStates); }

 private:
  std::optional<std::string> state_;
};

class InboxGapsCommand final : public ParkedListCommand {
 public:
  std::string_view path() const override { return "inbox gaps"; }
  std::string_view summary() const override { return "list events that wait for an earlier version"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox gaps", "sealane inbox gaps --consumer billing -o json"};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options;
    AddTo(options);
    return options;
  }

 protected:
  Result<std::optional<InboxState>> State() const override { return std::optional(InboxState::kGap); }
};

class InboxShowCommand final : public Command {
 public:
  std::string_view path() const override { return "inbox show"; }
  std::string_view summary() const override { return "show what became of one event at each consumer"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane inbox show 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f"};
  }
  std::vector<OptionSpec> Options() override {
    return {{"id", "ID", "the event's id", &id_, true}, {"--consumer", "NAME", "at this consumer only", &consumer_}};
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseEventIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreInboxDesk());
    SEALANE_ASSIGN_OR_RETURN(const InboxFindings found, desk->Find(consumer_, id));
    if (found.empty()) {
      return Error(ErrorKind::kRejected, "not_found", fmt::format("no consumer knows event {}", id.ToString()))
          .WithHint("it has not come, or its receipt is forgotten; a consumer with mode offsets keeps none");
    }
    if (!context.is_table()) {
      std::vector<std::string> receipts;
      for (const InboxReceipt& receipt : found.receipts) receipts.push_back(InboxReceiptJson(receipt));
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Raw("receipts", JsonArray(receipts))
                           .Raw("parked", JsonArray(ParkedEventsJson(found.parked)))
                           .Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    std::string_view between;
    for (const InboxReceipt& receipt : found.receipts) {
      context.out() << std::exchange(between, "\n") << InboxReceiptDetails(receipt);
    }
    for (const ParkedEvent& event : found.parked) {
      context.out() << std::exchange(between, "\n") << ParkedEventDetails(event);
    }
    if (!found.parked.empty()) {
      context.SuggestNext(fmt::format("sealane inbox retry {} --reason \"...\"", id.ToString()));
    }
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> id_;
  std::optional<std::string> consumer_;
};

}  // namespace

std::unique_ptr<Command> MakeInboxStatusCommand() {
  return std::make_unique<InboxStatusCommand>();
}
std::unique_ptr<Command> MakeInboxPositionCommand() {
  return std::make_unique<InboxPositionCommand>();
}
std::unique_ptr<Command> MakeInboxListCommand() {
  return std::make_unique<InboxListCommand>();
}
std::unique_ptr<Command> MakeInboxParkedCommand() {
  return std::make_unique<InboxParkedCommand>();
}
std::unique_ptr<Command> MakeInboxGapsCommand() {
  return std::make_unique<InboxGapsCommand>();
}
std::unique_ptr<Command> MakeInboxShowCommand() {
  return std::make_unique<InboxShowCommand>();
}

}  // namespace sealane::cli
