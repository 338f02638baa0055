#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "ops/dead_letters.hpp"

namespace sealane::cli {

/// The options that select events that were set aside.
struct DeadFilterOptions {
  std::optional<std::string> route;
  std::optional<std::string> tenant;
  std::optional<std::string> topic;
  std::optional<std::string> key;
  std::optional<std::string> error_code;

  void AddTo(std::vector<OptionSpec>& options);
  DeadLetterFilter Filter() const;
  /// Nothing but the route, if that, narrows it down.
  bool selects_all() const { return !tenant && !topic && !key && !error_code; }
};

/// `bad_usage` for anything that is no event id.
Result<EventId> ParseEventIdOption(const std::string& text);
/// An event that was not set aside, on that route or at all.
Error NotSetAside(const EventId& id, const std::optional<std::string>& route);

}  // namespace sealane::cli
