#pragma once

#include <string>

#include "sealane/outbox.hpp"

#include "inbox/consumer_options.hpp"
#include "inbox/incoming.hpp"

namespace sealane {

/// What is known about the end of an event at a consumer.
struct DeathNotice {
  std::string code;
  std::string message;
  std::int32_t attempts = 1;
  Timestamp first_failed_at{};
  Timestamp last_failed_at{};
  bool replayable = true;  ///< it may succeed later: not when its bytes can never be read or trusted
};

/// The dead-letter event for the consumer's outbox: the message's value unchanged as the payload, the message's key,
/// and everything about the failure in headers (docs/inbox.md lists them). Committed with the record that the event
/// is dead, so there is exactly one.
Event MakeDeadLetter(const Incoming& incoming, const DeathNotice& notice, const ConsumerOptions& options);

}  // namespace sealane
