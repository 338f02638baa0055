#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "ops/task_desk.hpp"

namespace sealane::cli {

/// The options that select tasks.
struct TaskFilterOptions {
  std::optional<std::string> state;
  std::optional<std::string> target;
  std::optional<std::string> operation;
  std::optional<std::string> tenant;
  std::optional<std::string> key;
  std::optional<std::string> code;

  void AddTo(std::vector<OptionSpec>& options, std::string_view states);
  /// `states` are those that are allowed here, separated by commas and spaces.
  Result<TaskFilter> Filter(std::string_view states) const;
  bool selects_all() const { return !state && !target && !operation && !tenant && !key && !code; }
};

/// `bad_usage` for anything that is no task id.
Result<EventId> ParseTaskIdOption(const std::string& text);
/// A task that is not there, or not in a state for what was asked.
Error NoSuchTask(const EventId& id, std::string_view why);

}  // namespace sealane::cli
