#include "ops/inbox_desk.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {

Error UnknownConsumer(std::string_view consumer) {
  return Error(ErrorKind::kRejected, "unknown_consumer",
               fmt::format("there is no consumer \"{}\"", EscapeForTerminal(consumer)))
      .WithField("consumer")
      .WithHint("a consumer exists once it has run; check the name");
}

namespace {

/// `orders/0-2`, `orders/4`, ... in the order of the names, at most so many.
std::string PartitionsText(const std::vector<InboxPosition>& known) {
  constexpr std::size_t kShownMax = 10;
  std::string text;
  std::size_t shown = 0;
  for (std::size_t first = 0, last = 0; first < known.size(); first = last + 1) {
    const auto follows = [&](std::size_t one) {
      return one + 1 < known.size() && known[one + 1].partition.topic == known[one].partition.topic &&
             known[one + 1].partition.number == known[one].partition.number + 1;
    };
    for (last = first; follows(last);) ++last;
    if (++shown > kShownMax) return text + ", ...";
    const Partition& begin = known[first].partition;
    text += fmt::format("{}{}/{}", shown == 1 ? "" : ", ", EscapeForTerminal(begin.topic), begin.number);
    if (last > first) text += fmt::format("-{}", known[last].partition.number);
  }
  return text;
}

}  // namespace

Error UnknownPartition(std::string_view consumer, std::string_view topic, std::optional<std::int32_t> partition,
                       const std::vector<InboxPosition>& known) {
  const std::string name = EscapeForTerminal(consumer);
  const std::string wanted = partition ? fmt::format("partition {} of ", *partition) : "";
  return Error(ErrorKind::kRejected, "unknown_partition",
               fmt::format("consumer {} has never read {}topic \"{}\"", name, wanted, EscapeForTerminal(topic)))
      .WithField(partition ? "partition" : "topic")
      .WithHint(known.empty() ? fmt::format("{} has not read any partition yet", name)
                              : fmt::format("{} knows: {}", name, PartitionsText(known)));
}

Error ConsumerAttached(std::string_view consumer, const Partition& partition) {
  return Error(ErrorKind::kRejected, "consumer_attached",
               fmt::format("consumer {} is running: a member has {}/{}", EscapeForTerminal(consumer),
                           EscapeForTerminal(partition.topic), partition.number))
      .WithField("consumer")
      .WithHint("stop its members first; if they ended without releasing their partitions, add --although-attached");
}

Error TooOldToRetry(std::string_view consumer, const EventId& id) {
  return Error(ErrorKind::kRejected, std::string(kTooOldCode),
               fmt::format("event {} is older than what consumer {} remembers: it may have been applied before",
                           id.ToString(), EscapeForTerminal(consumer)))
      .WithHint("check its effect first; if it is missing, or safe to apply again, add --may-apply-twice");
}

Error NoParkedVersion(std::string_view consumer, const GapChoice& which) {
  const std::string what = which.event_id ? "event " + which.event_id->ToString()
                                          : fmt::format("a version of {} {}", EscapeForTerminal(which.aggregate.type),
                                                        EscapeForTerminal(which.aggregate.id));
  return Error(ErrorKind::kRejected, "not_found",
               fmt::format("consumer {} has not parked {}", EscapeForTerminal(consumer), what))
      .WithHint("look with: sealane inbox gaps, or sealane inbox parked --state DEAD");
}

Error NoGap(std::string_view consumer, const EventId& id, std::optional<std::int64_t> version, std::int64_t seen) {
  const std::string state =
      version ? fmt::format("its version is {}, the last one applied is {}", *version, seen) : "it has no version";
  return Error(ErrorKind::kRejected, "no_gap",
               fmt::format("event {} does not wait for an earlier version at consumer {}: {}", id.ToString(),
                           EscapeForTerminal(consumer), state))
      .WithHint("to try it again: sealane inbox retry " + id.ToString() + " --reason TEXT");
}

Error NotFirstGap(std::string_view consumer, const EventId& first, std::int64_t version) {
  return Error(ErrorKind::kRejected, "not_first_gap",
               fmt::format("version {} of the same aggregate, event {}, waits at consumer {} as well and comes first",
                           version, first.ToString(), EscapeForTerminal(consumer)))
      .WithHint("accept that one, or skip it first: sealane inbox skip " + first.ToString() + " --reason TEXT");
}

std::string AcceptGapTarget(std::string_view consumer, const AcceptedGap& gap) {
  return fmt::format("{} on {}: version {} after {}", gap.id.ToString(), consumer, gap.version, gap.seen);
}

bool WaitsForGap(const ParkedEvent& event, std::int64_t seen) {
  if (!event.aggregate_version || *event.aggregate_version <= seen + 1) return false;
  return event.state == InboxState::kGap || event.state == InboxState::kReceived ||
         event.error_code == kVersionGapCode;
}

std::string ResumeTarget(std::string_view consumer, const Partition& partition, const ResumePoint& from) {
  return fmt::format("{}/{} of {} from {}", partition.topic, partition.number, consumer, ToString(from));
}

bool PassesVersion(const ParkedEvent& skipped, std::int64_t seen) {
  if (!skipped.aggregate_version || *skipped.aggregate_version <= seen) return false;
  // Of one that is dead the time to wait for what is missing is over; before that the missing one may still come, and
  // must not be taken for stale.
  return *skipped.aggregate_version == seen + 1 || skipped.state == InboxState::kDead;
}

std::size_t DeskLimit(std::size_t asked) {
  return std::clamp<std::size_t>(asked, 1, kDeadLettersMax);
}

}  // namespace sealane
