#pragma once

#include <memory>

#include "command.hpp"

namespace sealane::cli {

/// `sealane dead list`: events that were set aside, those that wait longest first.
std::unique_ptr<Command> MakeDeadListCommand();
/// `sealane dead show`: everything about one.
std::unique_ptr<Command> MakeDeadShowCommand();
/// `sealane dead retry`: tries one, or all that match, again now.
std::unique_ptr<Command> MakeDeadRetryCommand();
/// `sealane dead discard`: gives one up; its followers go on.
std::unique_ptr<Command> MakeDeadDiscardCommand();
/// `sealane dead skip`: lets the followers go on and keeps the event.
std::unique_ptr<Command> MakeDeadSkipCommand();

/// `sealane dead reroute`: sends dead events of a topic, and what waits behind them, to another topic.
std::unique_ptr<Command> MakeDeadRerouteCommand();
/// `sealane messages reroute`: sends events that wait for a missing topic to another topic.
std::unique_ptr<Command> MakeMessagesRerouteCommand();

}  // namespace sealane::cli
