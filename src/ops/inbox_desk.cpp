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
