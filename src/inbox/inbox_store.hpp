#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/envelope.hpp"
#include "sealane/handler.hpp"
#include "sealane/inbox_mode.hpp"
#include "sealane/result.hpp"

#include "broker/subscription.hpp"

namespace sealane {

/// Life of an event at a consumer. A receipt has one of these; what is parked has one of all but the first two.
enum class InboxState : std::uint8_t {
  kProcessed,
  kIgnored,
  kReceived,  ///< waits behind an earlier event of its unit
  kGap,       ///< waits for an earlier version of its aggregate
  kFailed,    ///< will be tried again
  kDead,      ///< waits for a person
  kSkipped,   ///< given up by a person; its followers go on
};
/// `PROCESSED`, `IGNORED`, `RECEIVED`, `GAP`, `FAILED`, `DEAD`, `SKIPPED`.
std::string_view ToString(InboxState state);
std::optional<InboxState> ParseInboxState(std::string_view text);

/// An event that came, borrowed for the life of the batch it is in.
struct Arrival {
  const ReceivedMessage* message = nullptr;
  const Envelope* envelope = nullptr;  ///< null: the message could not be read
  EventId id;                          ///< of an unreadable message: made of its coordinates, the same every time
  PayloadHash hash{};                  ///< of the payload as it came; of an unreadable message: of its value
  Timestamp filed_at{};                ///< of the event itself, so that a redelivery is filed in the same place
  std::string_view unit;               ///< what keeps order with it and waits behind it
};

/// What the store knows about an arrival, as of its batch's transaction.
struct Standing {
  enum class Known : std::uint8_t {
    kNew,         ///< not seen; its receipt is written in this transaction
    kDone,        ///< seen: processed, ignored or skipped
    kParked,      ///< seen and set aside: it is there already
    kOtherBytes,  ///< seen with another payload hash, and these bytes are not set aside
    kTooOld,      ///< not remembered, and from a time whose receipts are forgotten: it may have been seen
  };
  Known known = Known::kNew;
  bool unit_waits = false;  ///< something of its unit is set aside (in front of it)
  /// And the first of that is kGap, of this event's own aggregate.
  bool unit_waits_for_gap = false;
  std::int64_t version_seen =
      0;  ///< of its aggregate, locked to the end of the transaction; only with guard_versions
};

/// A message that was done, by its offset and a fingerprint (16 bytes): as long as it is still there, it tells
/// whether a topic is the one that was read before.
struct Witness {
  std::int64_t offset = 0;
  std::string fingerprint;
  friend bool operator==(const Witness&, const Witness&) = default;
};

/// Why a partition is not read until an operator decides.
struct PartitionStop {
  std::string code;
  std::string message;
  friend bool operator==(const PartitionStop&, const PartitionStop&) = default;
};

/// Where an operator wants a partition to go on.
struct ResumePoint {
  enum class Kind : std::uint8_t { kBeginning, kGroup, kOffset, kTime };
  Kind kind = Kind::kBeginning;
  std::int64_t offset = 0;  ///< with kOffset
  Timestamp time{};         ///< with kTime
  friend bool operator==(const ResumePoint&, const ResumePoint&) = default;
};
/// `beginning`, `group`, a number, or a time as RFC 3339. The same text is kept in stores, until a member takes it
/// up: so "now" is a time, that of the decision.
std::string ToString(const ResumePoint& point);
std::optional<ResumePoint> ParseResumePoint(std::string_view text);

/// The step of a partition in kOffsets mode.
struct ProgressMove {
  Partition partition;
  std::int64_t epoch = 0;  ///< from Attach()
  std::int64_t from = 0;   ///< where we think it stands: the `to` of the last move, or what Attach() said
  std::int64_t to = 0;     ///< not in front of `from`: a partition never goes back (kMisuse `progress_backwards`)
  /// Ids remembered up to this offset may be forgotten.
  std::optional<std::int64_t> forget_through = {};
  std::optional<Witness> witness = {};  ///< empty: the one that is known stays
};

/// kMisuse (`progress_backwards`).
Status CheckMove(const ProgressMove& move);

struct BatchRequest {
  std::span<const Arrival> arrivals;          ///< ids are distinct; in the order they came
  bool guard_versions = false;                ///< look up and lock the versions of aggregates
  std::optional<ProgressMove> progress = {};  ///< exactly in kOffsets mode
  bool answer_at_once = false;                ///< Post() waits for its answer like Execute()
};

/// Why an event is set aside.
struct ParkNote {
  InboxState state = InboxState::kReceived;  ///< kReceived, kGap, kFailed, kDead, kSkipped
  std::int32_t attempts = 0;
  /// With kFailed and kGap: from now, by the store's clock. What was a gap before and is one again keeps its time
  /// when that ends earlier.
  std::optional<std::chrono::milliseconds> retry_after = {};
  std::string error_code = {};  ///< with a message: a failure now
  std::string error_message = {};
  /// Not empty, for an arrival: set aside in this unit instead of its own, which does not wait for it.
  std::string unit = {};
};

/// What became of an arrival; the default writes nothing and suits what was known already.
struct Outcome {
  enum class Kind : std::uint8_t { kNothing, kProcessed, kIgnored, kParked };
  Kind kind = Kind::kNothing;
  std::string code = {};                          ///< with kIgnored: why
  ParkNote park = {};                             ///< with kParked
  std::optional<std::int64_t> version_seen = {};  ///< the aggregate's version from now on
};

/// A transaction with some arrivals. Destroying it unfinished rolls everything back.
class InboxBatch : public HandlerTransaction {
 public:
  /// One per arrival, in their order.
  virtual const std::vector<Standing>& standings() const = 0;
  /// Waits for the answers to everything that was posted. The error of the first that failed, now and ever after: it
  /// is not known whose it was. Finish() does this too.
  virtual Status Settle() { return Ok(); }
  /// Writes what became of the arrivals (receipts, parked messages, versions, progress) and commits, all or nothing.
  /// Units of arrivals that got processed or ignored and that wait for a gap become due at once. kInDoubt when the
  /// connection broke during the commit; after any error nothing can be done with the batch but destroy it.
  virtual Status Finish(std::span<const Outcome> outcomes) = 0;
  /// Undoes what was written through this transaction since it was opened, failed statements included; the arrivals
  /// stay filed, and Finish() can follow. Only for the batch of a RetryBatch or a RetryGroup.
  virtual Status Rewind() = 0;
};

/// A parked message that is tried again.
struct RetryMessage {
  ReceivedMessage message;  ///< as it came
  EventId id;
  std::string unit;
  InboxState state = InboxState::kFailed;
  std::int32_t attempts = 0;  ///< this one included: it was counted before, so that a crash counts too
  Timestamp parked_at{};
  std::optional<Timestamp> first_failed_at = {};
  bool gap_overdue = false;       ///< state is kGap and its time is over
  std::int64_t version_seen = 0;  ///< only by version
};

/// A parked message, and its own transaction in which it is tried again.
struct RetryBatch : RetryMessage {
  /// Its one standing is kNew. Finish() takes one outcome: kParked keeps it parked, kNothing says that it was not
  /// tried: it stands as before, and the attempt does not count.
  std::unique_ptr<InboxBatch> batch;
};

/// Parked messages of different order keys, and one transaction in which they are tried again.
struct RetryGroup {
  std::vector<RetryMessage> messages;
  std::unique_ptr<InboxBatch> batch;  ///< as in RetryBatch, with one outcome for each; null without messages
};

/// Why the members of a consumer hold.
struct ConsumerHold {
  std::string code;  ///< kCircuitOpen or kParkedLimit
  std::string message;
  friend bool operator==(const ConsumerHold&, const ConsumerHold&) = default;
};
inline constexpr std::string_view kCircuitOpen = "circuit_open";
inline constexpr std::string_view kParkedLimit = "parked_limit";

/// What a member looks at about once a second.
struct InboxLook {
  /// Order keys whose first parked message may be tried now, longest waiting first.
  std::vector<std::string> due;
  /// When the next one may be, from now; empty: none has a time.
  std::optional<std::chrono::milliseconds> next_due = {};
  std::optional<std::string> pause = {};  ///< an operator paused the consumer, for this reason
  std::optional<ConsumerHold> hold = {};
};

/// How a partition stood when we took it.
struct AttachedPartition {
  Partition partition;
  std::int64_t epoch = 0;                        ///< grows with every Attach()
  std::optional<std::int64_t> next_offset = {};  ///< everything below is done in this store; empty: no position yet
  std::string topic_id = {};                     ///< of the topic that the position is about; empty: not known
  std::optional<Witness> witness = {};
  /// It was attached before positions were kept in stores: while it has none, that of the group counts.
  bool follows_group = false;
  std::optional<PartitionStop> stop = {};
  std::optional<ResumePoint> resume = {};  ///< decided by an operator: to be taken instead of next_offset
  /// kOffsets: every event that had an outcome, set aside or not; newest last, at most as many as asked for.
  std::vector<EventId> recent = {};
  std::vector<std::int64_t> recent_through = {};  ///< the offset that each of these is remembered up to
  std::int32_t deaths = 0;                        ///< how often in a row an owner ended without Detach() or Calm()
  /// The event that the last owner was at when it died, and how many died there in a row.
  std::optional<std::int64_t> suspect_offset = {};
  std::int32_t suspect_deaths = 0;
};

/// The step of a position without arrivals.
struct PositionSave {
  Partition partition;
  std::int64_t epoch = 0;
  std::optional<std::int64_t> from = {};  ///< where we think it stands
  std::int64_t to = 0;                    ///< the same as `from`: nothing is written, only compared
  std::optional<Witness> witness = {};    ///< empty: the one that is known stays
};

struct PruneReport {
  std::int64_t receipts = 0;
  bool more = false;  ///< the limit ended it; call again
};

/// By the store's clock.
struct InboxTimes {
  Timestamp now{};
  Timestamp added_at{};  ///< when this consumer was added to the store
};

struct InboxCounts {
  std::int64_t parked = 0;  ///< everything that waits
  std::int64_t dead = 0;
  std::int64_t gaps = 0;
  static constexpr std::int64_t kCountMax = 100'000;
};

/// Why the database cannot make a statement of a handler ready.
struct StatementFault {
  Error error;
  std::optional<std::size_t> offset = {};  ///< where in the text, in bytes, as far as the database tells
  bool is_syntax = false;                  ///< no SQL, whatever tables there are
};

/// Port: the inbox of one consumer in one store. One connection, not thread-safe: a worker owns one for life. Errors
/// of kind kUnavailable mean: the connection is gone, open a new one.
///
/// Every consumer has a namespace of its own: receipts, versions, positions and what is parked are per consumer.
class InboxStore {
 public:
  virtual ~InboxStore() = default;

  /// Which server or file answers, in which of its lives: another one after a failover, a restore, a restart. What
  /// was committed in an earlier life may be missing in this one. As of the opening; Open() and OpenRetry() fail with
  /// kUnavailable (`store_changed`) when it is another one by then.
  virtual std::string life() const = 0;

  // ---- applying ----

  /// Opens a transaction, files the arrivals and says what is known of each. Two transactions that file the same
  /// event wait for each other: the second sees what the first has committed, or is the first when that rolled back.
  /// kFenced (`partition_fenced`) when the progress is not what the request says: somebody else has the partition.
  virtual Result<std::unique_ptr<InboxBatch>> Open(const BatchRequest& request) = 0;

  /// Has the database read a handler's statement as it would run with these values, and does not run it. Empty when
  /// there is nothing to say against it, which is all that a store without SQL ever answers.
  virtual Result<std::optional<StatementFault>> Examine(const std::string& sql, std::span<const SqlValue> values) {
    static_cast<void>(sql);
    static_cast<void>(values);
    return std::optional<StatementFault>();
  }

  // ---- what was set aside ----

  /// What is due, at most `limit` order keys, and whether the consumer may work at all. The first message of an order
  /// key is the one that came first; with `by_version` the one with the lowest aggregate version. One whose first
  /// message is dead has none. Costs as much as it finds, however many are parked, and writes nothing.
  virtual Result<InboxLook> Look(bool by_version, std::size_t limit) = 0;
  Result<std::vector<std::string>> DueUnits(bool by_version, std::size_t limit) {
    SEALANE_ASSIGN_OR_RETURN(InboxLook look, Look(by_version, limit));
    return std::move(look.due);
  }
  /// Counts an attempt at the first message of the unit, commits that, and opens the transaction to try it again.
  /// Until Finish(), or `patience` after a crash, nobody else gets it. Empty when it is not due, or somebody else is
  /// at it.
  virtual Result<std::optional<RetryBatch>> OpenRetry(const std::string& unit, bool by_version,
                                                      std::chrono::milliseconds patience) = 0;

  /// The same for the first messages of several order keys at once. Only those that were never tried since they were
  /// parked or an operator asked for a retry: one that was may take the process with it, and goes alone. Those that
  /// are not due, or are being tried, are left out.
  virtual Result<RetryGroup> OpenRetries(std::span<const std::string> units, bool by_version,
                                         std::chrono::milliseconds patience) = 0;
  /// Says that the members hold, and why; without a reason they go on. When that changes, FAILED events are due at
  /// once: one of them can be a probe, and all of them are tried when the consumer goes on.
  virtual Status SetHold(const std::optional<ConsumerHold>& hold) = 0;

  // ---- partitions ----

  /// Takes partitions over: their former owner is fenced from here on.
  virtual Result<std::vector<AttachedPartition>> Attach(std::span<const Partition> partitions,
                                                        std::size_t recent_max) = 0;
  /// A clean end of our time with these. Those that somebody else has attached meanwhile are passed over.
  virtual Status Detach(std::span<const AttachedPartition> partitions) = 0;
  /// Moves positions, in mode kRecord where batches do not. Tells the places in `saves` of those that are not in that
  /// epoch or do not stand where we think: somebody else has them, an operator moved them, or the store lost what was
  /// written last. They stay as they are.
  virtual Result<std::vector<std::size_t>> SavePositions(std::span<const PositionSave> saves) = 0;
  /// Says where a partition begins and in which topic; takes stop, resume and witness away. kFenced.
  virtual Status Place(const AttachedPartition& partition, std::int64_t next_offset, const std::string& topic_id) = 0;
  /// Not to be read until an operator decides; the first stop counts. kFenced.
  virtual Status Stop(const AttachedPartition& partition, const PartitionStop& stop) = 0;
  /// Notes that the event at `offset` is about to be handled; Finish() of a batch with it takes the note away.
  virtual Status Suspect(const AttachedPartition& partition, std::int64_t offset) = 0;
  /// The partition goes well: deaths and suspicion are forgotten.
  virtual Status Calm(const AttachedPartition& partition) = 0;

  // ---- keeping ----

  /// Each number is at most `count_max`.
  virtual Result<InboxCounts> Count(std::int64_t count_max) = 0;
  Result<InboxCounts> Count() { return Count(InboxCounts::kCountMax); }
  /// Makes room for what comes (partitions by time). Cheap, to be called every few minutes.
  virtual Status Tend() = 0;
  virtual Result<InboxTimes> Times() = 0;
  /// Forgets receipts of processed and ignored events filed before `before`; from then on an event that old is
  /// kTooOld unless it is remembered. Receipts of what waits and of what was skipped stay. Messages that were set
  /// aside before `before` and skipped are cleared away, in both modes. At most `limit` rows; the report counts
  /// receipts.
  virtual Result<PruneReport> Prune(Timestamp before, std::size_t limit) = 0;
};

using OpenInboxStore = std::function<Result<std::unique_ptr<InboxStore>>()>;

}  // namespace sealane
