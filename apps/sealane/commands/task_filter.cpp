#include "commands/task_filter.hpp"

#include <fmt/format.h>

namespace sealane::cli {

void TaskFilterOptions::AddTo(std::vector<OptionSpec>& options, std::string_view states) {
  options.push_back({"--state", "STATE", std::string(states), &state});
  options.push_back({"--target", "NAME", "for this target only", &target});
  options.push_back({"--operation", "TEXT", "with this operation only", &operation});
  options.push_back({"--tenant", "NAME", "of this tenant only", &tenant});
  options.push_back({"--key", "KEY", "with this idempotency key only", &key});
  options.push_back({"--code", "CODE", "whose last attempt ended with this code only", &code});
}

Result<TaskFilter> TaskFilterOptions::Filter(std::string_view states) const {
  TaskFilter filter{
      .target = target, .operation = operation, .tenant = tenant, .idempotency_key = key, .error_code = code};
  if (!state) return filter;
  filter.state = ParseTaskState(*state);
  if (!filter.state || states.find(ToString(*filter.state)) == std::string_view::npos) {
    return BadUsage(fmt::format("--state: `{}` is none of {}", *state, states), {}, "--state");
  }
  return filter;
}

Result<EventId> ParseTaskIdOption(const std::string& text) {
  if (const auto id = EventId::Parse(text)) return *id;
  return BadUsage(fmt::format("`{}` is not a task id", text), "an id is a UUID of 36 characters", "ID");
}

Error NoSuchTask(const EventId& id, std::string_view why) {
  return Error(ErrorKind::kRejected, "not_found", fmt::format("task {} {}", id.ToString(), why))
      .WithHint(fmt::format("sealane tasks show {} shows where it stands", id.ToString()));
}

}  // namespace sealane::cli
