#include "outbox/refusal.hpp"

#include <string>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {

Error DuplicateEventId(const EventId& id) {
  return Error(ErrorKind::kRejected, "duplicate_event_id", fmt::format("event id {} exists already", id.ToString()))
      .WithField("id");
}

Error DuplicateVersion(const Envelope& envelope) {
  const std::string message =
      fmt::format("there is a {} event for {} {} version {} of tenant \"{}\" already", envelope.type,
                  envelope.aggregate.type, envelope.aggregate.id, *envelope.aggregate.version, envelope.tenant);
  return Error(ErrorKind::kRejected, "duplicate_version", EscapeForTerminal(message)).WithField("aggregate_version");
}

Error VersionConflict(const AggregateName& aggregate, std::int64_t expected, std::optional<std::int64_t> current) {
  const std::string stands = current ? fmt::format("at version {}", *current) : "elsewhere";
  const std::string message =
      fmt::format("{} {} stands {}, not at {}", aggregate.type, aggregate.id, stands, expected);
  return Error(ErrorKind::kConflict, "version_conflict", EscapeForTerminal(message))
      .WithField("expected")
      .WithHint("roll back, read the aggregate again and decide anew");
}

Error RequestNotBegun(const IdempotencyClaim& claim) {
  const std::string message =
      fmt::format("request \"{}\" of tenant \"{}\" was not begun with this hash, or is complete already", claim.key,
                  claim.tenant);
  return Error(ErrorKind::kMisuse, "not_begun", EscapeForTerminal(message)).WithField("key");
}

Error TaskConflict(const Task& task, const EventId& earlier) {
  const std::string message =
      fmt::format("{} at {} with idempotency key \"{}\" of tenant \"{}\" is task {} already, with another request",
                  task.operation, task.target, task.idempotency_key, task.tenant, earlier.ToString());
  return Error(ErrorKind::kConflict, "task_conflict", EscapeForTerminal(message))
      .WithField("idempotency_key")
      .WithHint("choose the key so that another wish has another key, for example with what it is about in it");
}

}  // namespace sealane
