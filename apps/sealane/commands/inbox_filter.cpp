#include "commands/inbox_filter.hpp"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "inbox/incoming.hpp"

namespace sealane::cli {

void InboxFilterOptions::AddTo(std::vector<OptionSpec>& options) {
  options.push_back({"--consumer", "NAME", "of this consumer only", &consumer});
  options.push_back({"--key", "KEY", "with this key only; needs --topic", &key});
  options.push_back({"--topic", "NAME", "of this topic only", &topic});
  options.push_back({"--code", "CODE", "that failed with this code only", &code});
}

Result<ParkedFilter> InboxFilterOptions::Filter() const {
  ParkedFilter filter{.consumer = consumer, .error_code = code, .topic = topic};
  if (!key) return filter;
  if (!topic) return BadUsage("--key: a key is one of a topic", "say of which one with --topic NAME", "--key");
  filter.unit = UnitOf(*topic, *key);
  return filter;
}

Result<std::size_t> LimitOption(const std::optional<std::string>& text) {
  if (!text) return std::size_t{50};
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t limit,
                           IntegerOption("--limit", *text, 1, static_cast<std::int64_t>(kDeadLettersMax)));
  return static_cast<std::size_t>(limit);
}

Result<std::optional<InboxState>> StateOption(const std::optional<std::string>& text, std::string_view allowed) {
  if (!text) return std::optional<InboxState>();
  const auto state = ParseInboxState(*text);
  if (state && allowed.find(ToString(*state)) != std::string_view::npos) return state;
  return BadUsage(fmt::format("--state: `{}` is none of {}", *text, allowed), {}, "--state");
}

Error NotParked(const EventId& id, const std::optional<std::string>& consumer) {
  return Error(ErrorKind::kRejected, "not_found",
               fmt::format("event {} is not set aside{}", id.ToString(), consumer ? " by " + *consumer : ""))
      .WithHint(fmt::format("sealane inbox show {} shows where it stands", id.ToString()));
}

Result<std::string> ConsumerOf(InboxDesk& desk, const std::optional<std::string>& named, const EventId& id) {
  if (named) return *named;
  SEALANE_ASSIGN_OR_RETURN(const InboxFindings found, desk.Find(std::nullopt, id));
  std::set<std::string> consumers;
  std::set<std::string> too_old_at;
  for (const ParkedEvent& event : found.parked) {
    if (event.state != InboxState::kSkipped) consumers.insert(event.consumer);
    if (event.state == InboxState::kSkipped && event.error_code == kTooOldCode) too_old_at.insert(event.consumer);
  }
  if (consumers.empty()) consumers = too_old_at;
  if (consumers.empty()) return NotParked(id, std::nullopt);
  if (consumers.size() == 1) return *consumers.begin();
  return BadUsage(
      fmt::format("several consumers have set event {} aside: {}", id.ToString(), fmt::join(consumers, ", ")),
      "say which one is meant with --consumer NAME", "--consumer");
}

}  // namespace sealane::cli
