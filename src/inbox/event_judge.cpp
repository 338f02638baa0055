#include "inbox/event_judge.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "inbox/caused_transaction.hpp"

namespace sealane {
namespace {

Ruling Known(Ruling::Kind kind) {
  return {.kind = kind, .outcome = {}, .undo = false, .trouble = {}};
}

Ruling Ignored(Ruling::Kind kind, std::string code) {
  Ruling ruling{.kind = kind};
  ruling.outcome.kind = Outcome::Kind::kIgnored;
  ruling.outcome.code = std::move(code);
  return ruling;
}

Ruling Parked(Ruling::Kind kind, ParkNote note) {
  Ruling ruling{.kind = kind};
  ruling.outcome.kind = Outcome::Kind::kParked;
  ruling.outcome.park = std::move(note);
  return ruling;
}

BatchMemory::AggregateKey KeyOf(const Envelope& event) {
  return {event.tenant, event.aggregate.type, event.aggregate.id};
}

std::string GapText(const Envelope& event, std::int64_t seen) {
  return fmt::format("version {} of {} {} came, {} is the last one seen", *event.aggregate.version,
                     event.aggregate.type, event.aggregate.id, seen);
}

/// Kept for a person, alone: the first one stands, and its key has nothing to wait for.
Ruling Mismatch(const Incoming& event) {
  ParkNote note{.state = InboxState::kDead, .attempts = 1};
  note.error_code = "payload_hash_mismatch";
  note.error_message = "an event with this id and another payload was seen before";
  note.unit = UnitAlone(event.message);
  return Parked(Ruling::Kind::kMismatch, std::move(note));
}

/// Kept for a person, alone and without waiting for a decision: later events of its key are not to wait for one that
/// was most likely applied long ago.
Ruling TooOld(const Incoming& event) {
  ParkNote note{.state = InboxState::kSkipped, .attempts = 0};
  note.error_code = "too_old";
  note.error_message =
      "receipts of that time are forgotten: it may have been applied before and is not applied again";
  note.unit = UnitAlone(event.message);
  return Parked(Ruling::Kind::kTooOld, std::move(note));
}

/// What code that is not ours says, or what becomes of the event for what it throws: `failed` names anything but a
/// SealaneException.
template <class Work>
Result<Decision> Contained(std::string_view failed, const Work& work) {
  try {
    return work();
  } catch (const SealaneException& thrown) {
    const Error& error = thrown.error();
    if (IsTrouble(error)) return error;
    // A wrong set-up may be put right while the event waits; anything else will not change by waiting.
    return error.kind() == ErrorKind::kMisconfigured ? Decision::RetryLater(error.code(), error.ToString())
                                                     : Decision::Reject(error.code(), error.ToString());
  } catch (const std::exception& thrown) {
    return Decision::RetryLater(std::string(failed), thrown.what());
  } catch (...) {
    return Decision::RetryLater(std::string(failed), "something was thrown that is no exception");
  }
}

Ruling Troubled(Error error) {
  return {.kind = Ruling::Kind::kFailed, .outcome = {}, .undo = true, .trouble = std::move(error)};
}

}  // namespace

bool IsTrouble(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::kUnavailable:
    case ErrorKind::kConflict:
    case ErrorKind::kInDoubt:
    case ErrorKind::kFenced:
    case ErrorKind::kCancelled:
      return true;
    default:
      return false;
  }
}

Ruling EventJudge::Dead(std::string code, std::string message, std::int32_t attempts) {
  return Parked(Ruling::Kind::kDead, {.state = InboxState::kDead,
                                      .attempts = attempts,
                                      .retry_after = {},
                                      .error_code = std::move(code),
                                      .error_message = std::move(message)});
}

Ruling EventJudge::Failure(const Decision& decision, std::int32_t attempts) const {
  if (decision.kind == Decision::Kind::kReject) return Dead(decision.code, decision.message, attempts);
  const auto wait = options_.retry.DelayAfter(attempts, random_);
  if (!wait) return Dead(decision.code, decision.message, attempts);
  return Parked(Ruling::Kind::kFailed, {.state = InboxState::kFailed,
                                        .attempts = attempts,
                                        .retry_after = decision.retry_after.value_or(*wait),
                                        .error_code = decision.code,
                                        .error_message = decision.message});
}

Ruling EventJudge::Postponed(const Error& trouble, std::int32_t attempts) const {
  return Parked(Ruling::Kind::kFailed, {.state = InboxState::kFailed,
                                        .attempts = attempts,
                                        .retry_after = options_.retry_patience,
                                        .error_code = trouble.code(),
                                        .error_message = trouble.ToString()});
}

std::optional<Ruling> EventJudge::Refuse(const Incoming& event, std::int32_t attempts) const {
  if (!event.envelope) return Dead(event.unreadable->code(), event.unreadable->ToString(), attempts);
  if (!options_.tenant_allowed) return std::nullopt;
  const std::string& tenant = event.envelope->tenant;
  Result<Decision> decision = Contained("tenant_check_failed", [&]() -> Decision {
    if (options_.tenant_allowed(tenant)) return Decision::Done();
    return Decision::Reject("tenant_not_allowed",
                            fmt::format("consumer {} takes no events of tenant '{}'", options_.consumer, tenant));
  });
  if (!decision) return Troubled(std::move(decision).error());
  if (decision->kind == Decision::Kind::kDone) return std::nullopt;
  return Failure(*decision, attempts);
}

Ruling EventJudge::Handle(const Incoming& event, std::int32_t attempts, HandlerTransaction& tx) const {
  CausedTransaction caused(tx, *event.envelope);
  const BootTime begun = clock_.SinceBoot();
  Result<Decision> said =
      Contained("handler_failed", [&] { return handling_(*event.envelope, event.message, caused); });
  if (!said) return Troubled(std::move(said).error());
  Decision decision = std::move(said).value();
  const double seconds = std::chrono::duration<double>(clock_.SinceBoot() - begun).count();
  counters_.Update([&](ConsumerStats& stats) { stats.handler.Add(seconds); });

  if (decision.kind == Decision::Kind::kDone || decision.kind == Decision::Kind::kIgnore) {
    // A handler that passes over the error of its statement would leave the blame to whoever comes next.
    if (const Status usable = tx.Check(); !usable) {
      if (IsTrouble(usable.error())) return Troubled(usable.error());
      decision = Decision::Reject("handler_passed_over_an_error", usable.error().ToString());
    }
  }
  switch (decision.kind) {
    case Decision::Kind::kDone: {
      Ruling ruling{.kind = Ruling::Kind::kEffect};
      ruling.outcome.kind = Outcome::Kind::kProcessed;
      return ruling;
    }
    case Decision::Kind::kIgnore:
      return Ignored(Ruling::Kind::kIgnored, std::move(decision.code));
    default:
      break;
  }
  Ruling ruling = Failure(decision, attempts);
  ruling.undo = true;
  return ruling;
}

Ruling EventJudge::Judge(const Incoming& event, const Standing& standing, const std::optional<Ruling>& verdict,
                         BatchMemory& memory, HandlerTransaction& tx) const {
  switch (standing.known) {
    case Standing::Known::kDone:
    case Standing::Known::kParked:
      return Known(Ruling::Kind::kDuplicate);
    case Standing::Known::kOtherBytes:
      return Mismatch(event);
    case Standing::Known::kTooOld:
      return TooOld(event);
    case Standing::Known::kNew:
      break;
  }

  const auto waiting = memory.units.find(event.unit);
  std::int64_t seen = 0;
  const bool guarded = Guarded(event);
  if (guarded) {
    seen = memory.versions.emplace(KeyOf(*event.envelope), standing.version_seen).first->second;
    if (*event.envelope->aggregate.version <= seen) return Ignored(Ruling::Kind::kStale, "stale");
  }
  const bool next_version = guarded && *event.envelope->aggregate.version == seen + 1;
  // What waits for an earlier version of this aggregate waits for exactly this event: it passes.
  const bool held_in_store = standing.unit_waits && !(standing.unit_waits_for_gap && next_version);
  const bool held_in_batch =
      waiting != memory.units.end() && !(next_version && waiting->second == KeyOf(*event.envelope));
  if (held_in_store || held_in_batch) {
    return Parked(Ruling::Kind::kWaits, {.state = InboxState::kReceived});
  }
  std::optional<Ruling> refused = verdict ? verdict : Refuse(event, 1);
  if (!refused && guarded && !next_version) {
    refused = Parked(Ruling::Kind::kGap, {.state = InboxState::kGap,
                                          .attempts = 0,
                                          .retry_after = options_.gap_timeout,
                                          .error_code = "version_gap",
                                          .error_message = GapText(*event.envelope, seen)});
  }
  Ruling ruling = refused ? std::move(*refused) : Handle(event, 1, tx);
  if (!ruling.undo) {
    if (guarded && !refused) ruling.outcome.version_seen = event.envelope->aggregate.version;
    Remember(event, ruling, memory);
  }
  return ruling;
}

void EventJudge::Remember(const Incoming& event, const Ruling& ruling, BatchMemory& memory) {
  if (ruling.outcome.kind == Outcome::Kind::kParked) {
    // One that passed and failed is what the others wait for now, whatever they waited for before.
    auto& waits_for = memory.units[event.unit];
    waits_for.reset();
    if (ruling.kind == Ruling::Kind::kGap) waits_for = KeyOf(*event.envelope);
  }
  if (ruling.outcome.version_seen) memory.versions[KeyOf(*event.envelope)] = *ruling.outcome.version_seen;
}

Ruling EventJudge::JudgeAgain(const Incoming& event, const RetryMessage& retry, HandlerTransaction& tx) const {
  if (auto refused = Refuse(event, retry.attempts)) return std::move(*refused);
  // An attempt is counted before it is made: more than are allowed means that the last ones took the process with
  // them.
  if (options_.retry.attempts_max > 0 && retry.attempts > options_.retry.attempts_max) {
    return Dead("handler_crashed", "the process ended while it handled this event", retry.attempts - 1);
  }
  const bool guarded = Guarded(event);
  if (guarded) {
    const std::int64_t version = *event.envelope->aggregate.version;
    if (version <= retry.version_seen) return Ignored(Ruling::Kind::kStale, "stale");
    if (version != retry.version_seen + 1) {
      const std::string text = GapText(*event.envelope, retry.version_seen);
      // One that was accepted over a gap and failed is past that.
      const bool accepted = options_.gap_policy == GapPolicy::kAccept && retry.state == InboxState::kFailed;
      if (!retry.gap_overdue && !accepted) {
        // Waiting is no attempt.
        return Parked(Ruling::Kind::kGap, {.state = InboxState::kGap,
                                           .attempts = retry.attempts - 1,
                                           .retry_after = options_.gap_timeout,
                                           .error_code = "version_gap",
                                           .error_message = text});
      }
      if (options_.gap_policy == GapPolicy::kHold) {
        return Dead("version_gap", text + "; the missing one did not come in time", retry.attempts);
      }
    }
  }
  Ruling ruling = Handle(event, retry.attempts, tx);
  if (guarded && !ruling.undo) ruling.outcome.version_seen = event.envelope->aggregate.version;
  return ruling;
}

}  // namespace sealane
