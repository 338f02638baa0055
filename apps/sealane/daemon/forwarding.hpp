#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "sealane/envelope.hpp"
#include "sealane/event.hpp"
#include "sealane/result.hpp"
#include "sealane/task.hpp"
#include "sealane/tasks.hpp"

#include "inbox/consumer_options.hpp"

namespace sealane::cli {

/// A receiver's URL, taken apart as tasks want it.
struct ForwardAddress {
  std::string origin;     ///< `https://user:password@host:port`: configuration, never stored
  std::string operation;  ///< path and query: part of every task
};

/// kMisconfigured (`bad_forward_url`) for anything but http:// and https:// with a host, and for a path that no task
/// may have. The error hides passwords.
Result<ForwardAddress> ParseForwardUrl(std::string_view url);

/// Reads `NAME=env:VARIABLE`, `NAME=file:PATH` or `NAME=text`.
Result<Header> ParseForwardHeader(const std::string& text, const std::map<std::string, std::string>& variables);

/// The task that carries an event on: its id is the idempotency key, topic and ordering key the order key, its
/// payload the request, and its attributes are CloudEvents headers of the HTTP binding.
Task ForwardTask(const Envelope& event, const std::string& target, const std::string& operation);

/// Larger than an application's: an event that was let in is let out, with the headers it gets on the way.
TaskLimits ForwardLimits();

/// Enqueues a task per event, in the transaction of its receipt. Types that are not wanted are ignored; empty: all
/// are. `tasks` must outlive it.
Handling MakeForwarding(const Tasks& tasks, std::string target, std::string operation,
                        std::set<std::string, std::less<>> types);

}  // namespace sealane::cli
