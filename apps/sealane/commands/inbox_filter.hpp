#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "ops/inbox_desk.hpp"

namespace sealane::cli {

/// The options that select events that consumers have set aside.
struct InboxFilterOptions {
  std::optional<std::string> consumer;
  std::optional<std::string> key;
  std::optional<std::string> topic;
  std::optional<std::string> code;

  void AddTo(std::vector<OptionSpec>& options);
  Result<ParkedFilter> Filter() const;
  /// Nothing but the consumer, if that, narrows it down.
  bool selects_all() const { return !key && !topic && !code; }
};

/// --limit, or 50.
Result<std::size_t> LimitOption(const std::optional<std::string>& text);
/// --state among those that are allowed here, separated by commas and spaces in `allowed`.
Result<std::optional<InboxState>> StateOption(const std::optional<std::string>& text, std::string_view allowed);
/// An event that is not set aside, at that consumer or at all.
Error NotParked(const EventId& id, const std::optional<std::string>& consumer);
/// The consumer that is meant: the one that is named, or the only one that has parked the event, or the only one that
/// skipped it as too old.
Result<std::string> ConsumerOf(InboxDesk& desk, const std::optional<std::string>& named, const EventId& id);

}  // namespace sealane::cli
