#include "inbox_view.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/text.hpp"
#include "base/time_text.hpp"
#include "command.hpp"
#include "output.hpp"

namespace sealane::cli {
namespace {

std::string TimeOrDash(const std::optional<Timestamp>& time) {
  return time ? ToRfc3339(*time) : "-";
}

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

/// Keys of a broker are bytes: what is no text is shown in hexadecimal digits.
std::string UnitText(const std::string& unit) {
  if (IsUtf8(unit)) return unit;
  std::string text = "\\x";
  AppendHex(text, unit);
  return text;
}

std::string SourceText(const PartitionOffset& source) {
  return fmt::format("{}/{} @{}", source.partition.topic, source.partition.number, source.offset);
}

std::string Bounded(std::int64_t count, std::int64_t most) {
  return count >= most ? fmt::format("{}+", most) : fmt::format("{}", count);
}

template <class Event>
std::string AggregateText(const Event& event) {
  if (event.aggregate_id.empty()) return {};
  const std::string version = event.aggregate_version ? fmt::format(" version {}", *event.aggregate_version) : "";
  return fmt::format("{} {}{}", event.aggregate_type, event.aggregate_id, version);
}

/// What receipts and parked events have in common.
template <class Event>
void AddEvent(JsonDocument& json, const Event& event) {
  json.Text("id", event.id.ToString())
      .Text("consumer", event.consumer)
      .Text("state", ToString(event.state))
      .Text("topic", event.source.partition.topic)
      .Integer("partition", event.source.partition.number)
      .Integer("offset", event.source.offset)
      .TextIfAny("type", event.type)
      .TextIfAny("tenant", event.tenant)
      .TextIfAny("aggregate_type", event.aggregate_type)
      .TextIfAny("aggregate_id", event.aggregate_id);
  if (event.aggregate_version) json.Integer("aggregate_version", *event.aggregate_version);
}

/// Lines of a name and a value; what is empty is left out.
class Details {
 public:
  Details& Line(std::string_view name, const std::string& value) {
    if (!value.empty()) text_ += fmt::format("{:<16}{}\n", name, EscapeForTerminal(value));
    return *this;
  }
  Details& Line(std::string_view name, const std::optional<Timestamp>& time) {
    return Line(name, time ? ToRfc3339(*time) : std::string());
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string Reason(const std::string& code, const std::string& message) {
  return message.empty() ? code : fmt::format("{}: {}", code, message);
}

std::int64_t CountOf(const InboxSummary& summary, InboxState state) {
  const auto found = summary.receipts.find(state);
  return found == summary.receipts.end() ? 0 : found->second;
}

std::string_view PositionState(const InboxPosition& position) {
  if (position.stop) return "stopped";
  if (position.resume) return "resumes";
  return position.next_offset ? "reads" : "no_position";
}

std::string PositionStateText(const InboxPosition& position) {
  if (position.stop) return "stopped";
  if (position.resume) return "resumes from " + ToString(*position.resume);
  return position.next_offset ? "reads" : "no position yet";
}

}  // namespace

std::int64_t StoppedPartitions(const InboxSummary& summary) {
  return std::ranges::count_if(summary.partitions, [](const InboxPosition& one) { return one.stop.has_value(); });
}

std::string StoppedText(const std::string& consumer, const InboxPosition& position) {
  const std::string since = position.stopped_at ? " since " + ToRfc3339(*position.stopped_at) : "";
  return EscapeForTerminal(fmt::format("{}/{} of {} is stopped{}: {}", position.partition.topic,
                                       position.partition.number, consumer, since,
                                       Reason(position.stop->code, position.stop->message)));
}

std::string ResumeCommand(const std::string& consumer, const InboxPosition& position) {
  return fmt::format("sealane inbox resume --consumer {} --topic {} --partition {} --from beginning --reason \"...\"",
                     PasteableWord(consumer), PasteableWord(position.partition.topic), position.partition.number);
}

std::string InboxPositionJson(const std::string& consumer, const InboxPosition& position) {
  JsonDocument json;
  json.Text("consumer", consumer)
      .Text("topic", position.partition.topic)
      .Integer("partition", position.partition.number)
      .Integer("epoch", position.epoch);
  if (position.next_offset) json.Integer("next_offset", *position.next_offset);
  json.TextIfAny("topic_id", position.topic_id)
      .Truth("attached", position.attached)
      .Text("state", PositionState(position));
  if (position.stop) json.Text("stop_code", position.stop->code).Text("stop_message", position.stop->message);
  if (position.stopped_at) json.Time("stopped_at", *position.stopped_at);
  if (position.stop) json.Text("resume_command", ResumeCommand(consumer, position));
  if (position.resume) json.Text("resume_from", ToString(*position.resume));
  return json.Finish();
}

std::string_view ConsumerStateText(const InboxSummary& summary) {
  if (summary.pause) return "paused";
  return summary.hold ? "holds" : "ok";
}

std::string InboxSummaryJson(const InboxSummary& summary) {
  JsonDocument receipts;
  for (const auto& [state, count] : summary.receipts) receipts.Integer(ToString(state), count);
  std::vector<std::string> partitions;
  for (const InboxPosition& position : summary.partitions) {
    partitions.push_back(InboxPositionJson(summary.consumer, position));
  }
  JsonDocument json;
  json.Text("consumer", summary.consumer)
      .Text("mode", ToString(summary.mode))
      .Raw("receipts", receipts.Finish())
      .Truth("more_receipts", summary.more_receipts)
      .Integer("parked", summary.waiting.parked)
      .Integer("dead", summary.waiting.dead)
      .Integer("gaps", summary.waiting.gaps)
      .Integer("stopped", StoppedPartitions(summary))
      .Text("state", ConsumerStateText(summary));
  if (summary.pause) {
    json.Time("paused_at", summary.pause->at)
        .Text("pause_actor", summary.pause->actor)
        .Text("pause_reason", summary.pause->reason);
  }
  if (summary.hold) json.Text("hold_code", summary.hold->code).Text("hold_message", summary.hold->message);
  if (summary.held_at) json.Time("held_at", *summary.held_at);
  if (summary.oldest_parked_at) json.Time("oldest_parked_at", *summary.oldest_parked_at);
  return json.Raw("partitions", JsonArray(partitions)).Finish();
}

std::string InboxReceiptJson(const InboxReceipt& receipt) {
  JsonDocument json;
  AddEvent(json, receipt);
  json.Time("filed_at", receipt.filed_at).Time("received_at", receipt.received_at);
  if (receipt.finished_at) json.Time("finished_at", *receipt.finished_at);
  return json.TextIfAny("code", receipt.code).TextIfAny("message", receipt.message).Finish();
}

std::string ParkedEventJson(const ParkedEvent& event) {
  JsonDocument json;
  AddEvent(json, event);
  json.Text("unit", UnitText(event.unit))
      .Integer("attempts", event.attempts)
      .Truth("claimed", event.is_claimed)
      .Integer("followers", event.followers)
      .Text("error_code", event.error_code)
      .Text("error_message", event.error_message)
      .Time("parked_at", event.parked_at);
  if (event.next_attempt_at) json.Time("next_attempt_at", *event.next_attempt_at);
  if (event.gap_until) json.Time("gap_until", *event.gap_until);
  if (event.first_failed_at) json.Time("first_failed_at", *event.first_failed_at);
  if (event.last_failed_at) json.Time("last_failed_at", *event.last_failed_at);
  return json.Finish();
}

std::vector<std::string> ParkedEventsJson(const std::vector<ParkedEvent>& events) {
  std::vector<std::string> items;
  for (const ParkedEvent& event : events) items.push_back(ParkedEventJson(event));
  return items;
}

std::string InboxSummaryTable(const std::vector<InboxSummary>& summaries, bool color) {
  Table table({"CONSUMER", "MODE", "PROCESSED", "IGNORED", "SKIPPED", "PARKED", "DEAD", "GAPS", "OLDEST PARKED",
               "PARTITIONS", "STOPPED", "STATE"});
  for (const InboxSummary& summary : summaries) {
    const std::string more = summary.more_receipts ? "+" : "";
    const auto count = [&](InboxState state) { return fmt::format("{}{}", CountOf(summary, state), more); };
    const auto waiting = [](std::int64_t number) { return Bounded(number, InboxCounts::kCountMax); };
    table.Add({summary.consumer, std::string(ToString(summary.mode)), count(InboxState::kProcessed),
               count(InboxState::kIgnored), count(InboxState::kSkipped), waiting(summary.waiting.parked),
               waiting(summary.waiting.dead), waiting(summary.waiting.gaps), TimeOrDash(summary.oldest_parked_at),
               fmt::format("{}", summary.partitions.size()), fmt::format("{}", StoppedPartitions(summary)),
               std::string(ConsumerStateText(summary))});
  }
  return table.Render(color);
}

std::string InboxPositionTable(const std::vector<InboxSummary>& summaries, bool color) {
  Table table({"CONSUMER", "TOPIC", "PARTITION", "POSITION", "ATTACHED", "STATE"});
  for (const InboxSummary& summary : summaries) {
    for (const InboxPosition& position : summary.partitions) {
      table.Add({summary.consumer, position.partition.topic, fmt::format("{}", position.partition.number),
                 position.next_offset ? fmt::format("{}", *position.next_offset) : "-",
                 position.attached ? "yes" : "no", PositionStateText(position)});
    }
  }
  return table.Render(color);
}

std::string InboxReceiptTable(const std::vector<InboxReceipt>& receipts, bool color) {
  Table table({"TIME", "STATE", "CONSUMER", "SOURCE", "TYPE", "AGGREGATE", "CODE", "ID"});
  for (const InboxReceipt& receipt : receipts) {
    table.Add({ToRfc3339(receipt.filed_at), std::string(ToString(receipt.state)), receipt.consumer,
               SourceText(receipt.source), OrDash(receipt.type), OrDash(AggregateText(receipt)), OrDash(receipt.code),
               receipt.id.ToString()});
  }
  return table.Render(color);
}

std::string ParkedEventTable(const std::vector<ParkedEvent>& events, bool color) {
  Table table({"SINCE", "STATE", "CONSUMER", "KEY", "TYPE", "ATTEMPTS", "WAITING", "NEXT ATTEMPT", "ERROR", "ID"});
  for (const ParkedEvent& event : events) {
    table.Add({ToRfc3339(event.parked_at), std::string(ToString(event.state)), event.consumer, UnitText(event.unit),
               OrDash(event.type), fmt::format("{}", event.attempts),
               Bounded(event.followers, InboxDesk::kFollowersMax), TimeOrDash(event.next_attempt_at),
               OrDash(event.error_code), event.id.ToString()});
  }
  return table.Render(color);
}

std::string InboxReceiptDetails(const InboxReceipt& receipt) {
  return Details()
      .Line("id", receipt.id.ToString())
      .Line("consumer", receipt.consumer)
      .Line("state", std::string(ToString(receipt.state)))
      .Line("source", SourceText(receipt.source))
      .Line("type", receipt.type)
      .Line("tenant", receipt.tenant)
      .Line("aggregate", AggregateText(receipt))
      .Line("filed at", receipt.filed_at)
      .Line("received at", receipt.received_at)
      .Line("finished at", receipt.finished_at)
      .Line("reason", Reason(receipt.code, receipt.message))
      .Take();
}

std::string ParkedEventDetails(const ParkedEvent& event) {
  return Details()
      .Line("id", event.id.ToString())
      .Line("consumer", event.consumer)
      .Line("parked as", std::string(ToString(event.state)) + (event.is_claimed ? " (tried right now)" : ""))
      .Line("key", UnitText(event.unit))
      .Line("source", SourceText(event.source))
      .Line("type", event.type)
      .Line("tenant", event.tenant)
      .Line("aggregate", AggregateText(event))
      .Line("attempts", fmt::format("{}", event.attempts))
      .Line("error", Reason(event.error_code, event.error_message))
      .Line("parked at", event.parked_at)
      .Line("first failed", event.first_failed_at)
      .Line("last failed", event.last_failed_at)
      .Line("next attempt", event.next_attempt_at)
      .Line("gap until", event.gap_until)
      .Line("waiting behind",
            fmt::format("{} events of the same key", Bounded(event.followers, InboxDesk::kFollowersMax)))
      .Take();
}

}  // namespace sealane::cli
