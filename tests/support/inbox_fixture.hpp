#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inbox/inbox_store.hpp"
#include "ops/dead_letters.hpp"
#include "ops/inbox_desk.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::testing {

/// One migrated, empty store of some kind, for the suites that say what every inbox promises. It has a table that
/// handlers write their effects to.
class InboxFixture {
 public:
  virtual ~InboxFixture() = default;

  /// Another connection to the inbox of the consumer.
  std::unique_ptr<InboxStore> Open(const std::string& consumer, InboxMode mode) {
    return ValueOrThrow(TryOpen(consumer, mode));
  }
  virtual Result<std::unique_ptr<InboxStore>> TryOpen(const std::string& consumer, InboxMode mode) = 0;
  /// The outbox of the same store.
  virtual std::unique_ptr<OutboxStore> OpenOutbox() = 0;

  /// What operators use on the same store, and the audit trail they leave.
  virtual std::unique_ptr<InboxDesk> OpenDesk() = 0;
  virtual std::unique_ptr<DeadLetters> OpenDeadLetters() = 0;

  /// Writes an effect, as a handler does.
  virtual Status Affect(HandlerTransaction& transaction, const std::string& what) = 0;
  /// The effects that are committed, in the order they were written.
  virtual std::vector<std::string> Effects() = 0;

  /// Makes what is parked that much older.
  virtual void LetTimePass(std::chrono::seconds duration) = 0;
  /// Gives a parked event up, as a person does.
  virtual void Skip(const std::string& consumer, const EventId& id) = 0;
  /// Writes where a partition is to go on, as an operator does.
  virtual void SetResume(const std::string& consumer, const Partition& partition, const std::string& from) = 0;
  /// How a statement writes its parameter of that number.
  virtual std::string Parameter(int number) const = 0;
};

/// `memory`, `sqlite` or `postgres`.
std::unique_ptr<InboxFixture> MakeInboxFixture(const std::string& kind);

/// The stores that have an inbox.
std::vector<std::string> InboxStores();

/// A message with everything an Arrival borrows.
struct Delivery {
  ReceivedMessage message;
  std::optional<Envelope> envelope;  ///< empty: it cannot be read
  EventId id;
  PayloadHash hash{};
  Timestamp filed_at{};
  std::string unit;

  Arrival arrival() const;
};

/// The message at an offset of partition 0 of `orders`, with a fresh event of the unit.
Delivery DeliveryOf(std::string_view unit, std::int64_t offset);
/// The same about version `version` of order `unit`.
Delivery VersionOf(std::string_view unit, std::int64_t version, std::int64_t offset);
/// A message that is no event, with key, value and headers that are no text.
Delivery UnreadableDelivery(std::string_view unit, std::int64_t offset);
/// The same event as it comes again, at another offset.
Delivery Again(Delivery delivery, std::int64_t offset);

std::vector<Arrival> ArrivalsOf(const std::vector<Delivery>& deliveries);

Outcome Processed(std::optional<std::int64_t> version_seen = {});
Outcome Ignored(std::string code);
/// Set aside without a failure of its own.
Outcome Waits();
Outcome WaitsForGap(std::optional<std::chrono::milliseconds> patience);
Outcome Failed(std::int32_t attempts, std::optional<std::chrono::milliseconds> retry_after);
Outcome Died(std::int32_t attempts);
/// Parked as given up, in a unit of its own.
Outcome GivenUp(std::string unit);

/// A consumer at work. In mode offsets it takes partition 0 of `orders` first and moves on with every batch.
class InboxSeat {
 public:
  InboxSeat(InboxFixture& fixture, const std::string& consumer, InboxMode mode);

  InboxStore& store() { return *store_; }
  const AttachedPartition& attached() const { return attached_; }
  /// Takes the partition again, as a process does that starts; whoever had it is fenced.
  const AttachedPartition& Attach(std::size_t recent_max = 100);

  Result<std::unique_ptr<InboxBatch>> TryOpen(const std::vector<Delivery>& deliveries, bool guard_versions = false);
  std::unique_ptr<InboxBatch> Open(const std::vector<Delivery>& deliveries, bool guard_versions = false) {
    return ValueOrThrow(TryOpen(deliveries, guard_versions));
  }
  /// Finishes the batch that was opened last.
  void Finish(InboxBatch& batch, const std::vector<Outcome>& outcomes);
  void Handle(const std::vector<Delivery>& deliveries, const std::vector<Outcome>& outcomes,
              bool guard_versions = false);
  /// What is known of an event, looked up and left.
  Standing Look(const Delivery& delivery, bool guard_versions = false);

  std::vector<std::string> Due(bool by_version = false, std::size_t limit = 100);
  std::optional<RetryBatch> Retry(const std::string& unit, bool by_version = false,
                                  std::chrono::milliseconds patience = std::chrono::seconds{60});
  /// Tries the first of the unit, which must be due, and finishes it; returns its id.
  EventId RetryWith(const std::string& unit, const Outcome& outcome, bool by_version = false);

  /// Ids up to there are forgotten with the next batch.
  void ForgetThrough(std::int64_t offset) { forget_through_ = offset; }

 private:
  InboxMode mode_;
  std::unique_ptr<InboxStore> store_;
  AttachedPartition attached_;
  std::vector<Delivery> held_;  // of the batch that was opened last, which borrows them
  std::int64_t position_ = 0;
  std::int64_t moving_to_ = 0;
  std::optional<std::int64_t> forget_through_;
};

}  // namespace sealane::testing
