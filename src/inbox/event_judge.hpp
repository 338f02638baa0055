#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "inbox/consumer_options.hpp"
#include "inbox/consumer_stats.hpp"
#include "inbox/incoming.hpp"

namespace sealane {

/// What is to be written about an event, and as what it counts.
struct Ruling {
  enum class Kind : std::uint8_t {
    kEffect,
    kIgnored,
    kDuplicate,
    kStale,
    kTooOld,    ///< may have been applied before: kept, skipped
    kMismatch,  ///< known id, other bytes: set aside for a person
    kWaits,     ///< behind an earlier event of its unit
    kGap,
    kFailed,  ///< will be tried again
    kDead,
  };
  Kind kind = Kind::kEffect;
  Outcome outcome = {};
  /// The handler ran and failed: the transaction has to be undone before anything else.
  bool undo = false;
  /// The store is at fault, not the event: nothing is to be written.
  std::optional<Error> trouble = {};
};

/// What a transaction has learnt about units and aggregates from its own earlier events.
struct BatchMemory {
  using AggregateKey = std::tuple<std::string, std::string, std::string>;
  /// Units of which an event of this batch is set aside; those whose first one waits for an earlier version of an
  /// aggregate say of which.
  std::map<std::string, std::optional<AggregateKey>, std::less<>> units = {};
  std::map<AggregateKey, std::int64_t> versions = {};
};

/// Whether an error tells about the store and not about the event that was being handled.
bool IsTrouble(const Error& error);

/// Decides about one event at a time: known, stale, too early, not allowed, or for the handler.
class EventJudge {
 public:
  EventJudge(const ConsumerOptions& options, const Handling& handling, ConsumerCounters& counters, Clock& clock,
             Random& random)
      : options_(options), handling_(handling), counters_(counters), clock_(clock), random_(random) {}

  /// Looks, and runs the handler when it is its turn, unless there is a verdict about it from an earlier run. Keeps
  /// `memory` up to date.
  Ruling Judge(const Incoming& event, const Standing& standing, const std::optional<Ruling>& verdict,
               BatchMemory& memory, HandlerTransaction& tx) const;
  /// The same for one that was set aside.
  Ruling JudgeAgain(const Incoming& event, const RetryMessage& retry, HandlerTransaction& tx) const;

  /// The event failed for this reason, for the `attempts`-th time.
  Ruling Failure(const Decision& decision, std::int32_t attempts) const;
  /// The store was in the way, or something that the handler needs: it comes again after the patience of a retry, and
  /// stands at as many attempts as before.
  Ruling Postponed(const Error& trouble, std::int32_t attempts) const;
  /// Never to be handled.
  static Ruling Dead(std::string code, std::string message, std::int32_t attempts = 1);

 private:
  static void Remember(const Incoming& event, const Ruling& ruling, BatchMemory& memory);
  /// Without the handler: empty when the event may be handled.
  std::optional<Ruling> Refuse(const Incoming& event, std::int32_t attempts) const;
  Ruling Handle(const Incoming& event, std::int32_t attempts, HandlerTransaction& tx) const;
  bool Guarded(const Incoming& event) const {
    return options_.guard_versions && event.envelope && event.envelope->aggregate.version.has_value() &&
           !event.envelope->aggregate.id.empty();
  }

  const ConsumerOptions& options_;
  const Handling& handling_;
  ConsumerCounters& counters_;
  Clock& clock_;
  Random& random_;
};

}  // namespace sealane
