#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "sealane/outbox.hpp"

#include "inbox/consumer_gate.hpp"
#include "inbox/consumer_options.hpp"
#include "inbox/consumer_stats.hpp"
#include "inbox/event_judge.hpp"
#include "inbox/incoming.hpp"
#include "inbox/partition_run.hpp"

namespace sealane {

enum class ApplyEnd : std::uint8_t {
  kDone,       ///< all of it
  kTryLater,   ///< the store is away or in the way: the same again after a wait
  kFenced,     ///< the partition's position is not what we thought: it is to be attached again
  kCancelled,  ///< nobody wants the rest of it any more
};

/// Applies events: files them, runs the handler, and commits effect and receipt together, in as few transactions as
/// possible. One owner, one thread, one connection, which is opened when it is needed and again after an error.
///
/// A batch is one transaction. When a handler fails, everything is rolled back, the event gets its verdict without
/// being run again, and the rest of the batch is run once more around it; after a few of those, and when the commit
/// itself is refused, the batch is split until the culprit is alone.
class Applier {
 public:
  /// `gate` may be null: then nothing holds it up.
  Applier(const ConsumerOptions& options, const Handling& handling, OpenInboxStore open, ConsumerCounters& counters,
          Clock& clock, Random& random, ConsumerGate* gate = nullptr);

  /// Applies events in this order; `done` counts those at the front that are settled. Without receipts all are of
  /// `run`. Looks between transactions whether `run` is cancelled, and whether the gate still lets it work; a probe,
  /// which is one event, works without that, and tells the gate what it proved.
  ApplyEnd Apply(std::span<const Incoming> events, PartitionRun* run, std::size_t& done, bool probe = false);
  /// The event took too many processes with it: it is set aside as dead without being handled.
  ApplyEnd Condemn(const Incoming& event, PartitionRun* run);
  struct RetryReport {
    std::size_t tried = 0;  ///< messages
    bool more = false;      ///< something is due that was not tried, or may be due by now
    std::optional<std::chrono::milliseconds> next_due = {};
  };
  /// Looks at the store, tells the gate, and tries parked messages that are due, at most those of `units_max` order
  /// keys. A stop is noticed between two of them.
  Result<RetryReport> Retry(const ReadEnvelope& read, std::size_t units_max, std::stop_token stop);
  /// How long the last Retry() took to find out what is due.
  BootTime look_took() const { return look_took_; }

  /// How many events were committed so far that were not known already.
  std::uint64_t handled() const { return handled_; }

  /// The connection, opened if there is none.
  Result<InboxStore*> Store();
  /// The same for work that belongs to one life of the store. A connection of another life is opened again first:
  /// either may be the older one, and only the store that answers now tells which.
  Result<InboxStore*> StoreOf(const std::string& life);
  /// After an error that no connection survives.
  void Drop();
  /// There is nothing to do: a store that could not be reached is nothing that anybody waits for here.
  void Rest();
  /// And nothing is in hand: what the store did not take was dropped, for example with its partition.
  void LetGo();

 private:
  struct Plan;
  enum class StepEnd : std::uint8_t {
    kCommitted,
    kVerdict,
    kAgain,
    kRefused,
    kConflict,
    kNoRoom,
    kTryLater,
    kFenced
  };
  /// Messages of one unit that a round of retries takes at most, so that others have their turn.
  static constexpr std::size_t kRetriesPerUnit = 1'000;
  /// First messages of different order keys that are tried in one transaction; with fewer order keys each one goes
  /// alone, and takes its followers with it.
  static constexpr std::size_t kGroupMax = 64;
  static constexpr std::size_t kGroupMin = 8;
  static constexpr int kFailuresPerGroup = 3;
  static constexpr std::size_t kRefusalsMax = 1'000;
  static constexpr std::size_t kForgivenMax = 1'000;

  ApplyEnd Apply(Plan& plan, std::size_t& done);
  StepEnd Step(Plan& plan, std::size_t at, std::size_t count);
  /// After a posted statement failed: nobody knows yet whose it was.
  StepEnd AfterPosted(Plan& plan, const Error& error);
  StepEnd AfterError(const Error& error, bool may_be_an_event);
  void SayStuck(const Error& error);
  /// Appends the dead letter of an event that dies in this transaction.
  Status Bury(InboxBatch& batch, const Incoming& event, const ParkNote& note, std::optional<Timestamp> first_failed);
  Status RetryUnit(const std::string& unit, const ReadEnvelope& read, const std::stop_token& stop,
                   std::size_t messages_max, std::size_t& tried);
  /// Tries the first messages of these order keys together; `left` are those that have to go alone.
  Status RetryTogether(std::span<const std::string> units, const ReadEnvelope& read, std::size_t& tried,
                       std::vector<std::string>& left);
  /// One that failed permanently is tried again later, when the circuit breaker is open or about to open.
  Ruling Weigh(const Incoming& event, Ruling ruling, std::int32_t attempts);
  bool MayWork() const { return gate_ == nullptr || gate_->may_work(); }
  Status TryAgain(RetryBatch& retry, const ReadEnvelope& read, bool& goes_on);
  /// Writes what became of the attempt.
  Status EndRetry(RetryBatch& retry, const Incoming& event, const Ruling& ruling);
  void Count(std::span<const Incoming> events, std::span<const Ruling> rulings);

  const ConsumerOptions& options_;
  const OpenInboxStore open_;
  ConsumerCounters& counters_;
  Clock& clock_;
  Random& random_;
  ConsumerGate* const gate_;
  EventJudge judge_;
  Outbox outbox_;
  std::unique_ptr<InboxStore> store_;
  bool away_ = false;        // we are one of ConsumerStats::stores_away
  bool said_stuck_ = false;  // of ConsumerStats::stuck, and what was in hand then may still be
  /// Set aside events whose effect the store refused at the commit, and what it said: the next attempt sets them
  /// aside for good.
  std::map<EventId::Bytes, std::string> refusals_;
  /// Attempts at what was set aside that are counted in the store and were none: this process lived, and could not
  /// write what became of them.
  std::map<EventId::Bytes, std::int32_t> forgiven_;
  BootTime look_took_{0};
  std::optional<Ruling::Kind> probe_;  // as what the last retry counted
  std::uint64_t handled_ = 0;
};

}  // namespace sealane
