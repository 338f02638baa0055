#include "commands/dead_filter.hpp"

#include <fmt/format.h>

namespace sealane::cli {

void DeadFilterOptions::AddTo(std::vector<OptionSpec>& options) {
  options.push_back({"--route", "NAME", "on this route only", &route});
  options.push_back({"--tenant", "NAME", "of this tenant only", &tenant});
  options.push_back({"--topic", "NAME", "of this topic only", &topic});
  options.push_back({"--key", "KEY", "with this key only", &key});
  options.push_back({"--error-code", "CODE", "that failed with this code only", &error_code});
}

DeadLetterFilter DeadFilterOptions::Filter() const {
  return {.route = route, .tenant = tenant, .topic = topic, .key = key, .error_code = error_code};
}

Result<EventId> ParseEventIdOption(const std::string& text) {
  if (const auto id = EventId::Parse(text)) return *id;
  return BadUsage(fmt::format("`{}` is not an event id", text), "an id is a UUID of 36 characters", "ID");
}

Error NotSetAside(const EventId& id, const std::optional<std::string>& route) {
  return Error(ErrorKind::kRejected, "not_found",
               fmt::format("event {} is not set aside{}", id.ToString(), route ? " on route " + *route : ""))
      .WithHint(fmt::format("sealane messages get {} shows where it stands", id.ToString()));
}

}  // namespace sealane::cli
