#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/event_id.hpp"
#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

#include "broker/subscription.hpp"
#include "inbox/inbox_store.hpp"
#include "ops/operator_action.hpp"

namespace sealane {

/// A partition that a consumer has or had.
struct InboxPosition {
  Partition partition;
  std::int64_t epoch = 0;
  std::optional<std::int64_t> next_offset = {};  ///< everything below is done
  std::string topic_id = {};                     ///< empty: not known
  bool attached = false;                         ///< a member has it, or ended without giving it back
  std::optional<PartitionStop> stop = {};
  std::optional<Timestamp> stopped_at = {};
  std::optional<ResumePoint> resume = {};  ///< decided, and not yet taken up by a member
};

/// What one call of InboxDesk::Remove() took away.
struct RemoveReport {
  std::int64_t rows = 0;
  bool more = false;  ///< call again
};

/// An operator's pause of a consumer.
struct ConsumerPause {
  Timestamp at{};
  std::string actor;
  std::string reason;
};

/// Which event is to be applied although earlier versions are missing: this one, or the lowest parked version of an
/// aggregate.
struct GapChoice {
  std::optional<EventId> event_id = {};
  AggregateName aggregate = {};  ///< without an event
};

/// The event that InboxDesk::AcceptGap() lets through.
struct AcceptedGap {
  EventId id;
  std::int64_t version = 0;
  std::int64_t seen = 0;  ///< the last version that was applied before
};

/// How a consumer stands.
struct InboxSummary {
  std::string consumer;
  InboxMode mode = InboxMode::kRecord;
  std::optional<ConsumerPause> pause = {};
  std::optional<ConsumerHold> hold = {};  ///< its members hold by themselves
  std::optional<Timestamp> held_at = {};
  /// How many receipts there are in each state, those without any left out, of at most InboxCounts::kCountMax.
  std::map<InboxState, std::int64_t> receipts = {};
  bool more_receipts = false;  ///< there are more than were counted
  InboxCounts waiting = {};
  std::optional<Timestamp> oldest_parked_at = {};  ///< of what waits
  std::vector<InboxPosition> partitions = {};      ///< in the order of their names
};

/// A receipt, as an operator sees it.
struct InboxReceipt {
  std::string consumer;
  EventId id;
  InboxState state = InboxState::kProcessed;
  PartitionOffset source = {};  ///< where the broker had it first
  std::string type = {};        ///< this and what follows it: empty when the message could not be read
  std::string tenant = {};
  std::string aggregate_type = {};
  std::string aggregate_id = {};
  std::optional<std::int64_t> aggregate_version = {};
  Timestamp filed_at{};
  Timestamp received_at{};
  std::optional<Timestamp> finished_at = {};
  std::string code = {};
  std::string message = {};
};

/// An event that a consumer has set aside, as an operator sees it.
struct ParkedEvent {
  std::string consumer;
  EventId id;
  std::string unit;  ///< bytes
  InboxState state = InboxState::kReceived;
  std::int32_t attempts = 0;
  bool is_claimed = false;  ///< somebody tries it right now, or ended while he did
  Timestamp parked_at{};
  std::optional<Timestamp> next_attempt_at = {};
  std::optional<Timestamp> gap_until = {};  ///< with kGap: how long it waits for the earlier version
  std::optional<Timestamp> first_failed_at = {};
  std::optional<Timestamp> last_failed_at = {};
  std::string error_code = {};
  std::string error_message = {};
  PartitionOffset source = {};
  std::string type = {};
  std::string tenant = {};
  std::string aggregate_type = {};
  std::string aggregate_id = {};
  std::optional<std::int64_t> aggregate_version = {};
  /// Events of its unit that came after it and wait, at most kFollowersMax; none behind what was skipped.
  std::int64_t followers = 0;
};

struct ReceiptFilter {
  std::optional<std::string> consumer = {};
  std::optional<InboxState> state = {};
  std::optional<EventId> event_id = {};
  std::optional<std::string> topic = {};
  std::optional<std::string> aggregate_type = {};
  std::optional<std::string> aggregate_id = {};
  std::size_t limit = 50;
};

struct ParkedFilter {
  std::optional<std::string> consumer = {};
  std::optional<std::string> unit = {};
  std::optional<InboxState> state = {};  ///< empty: GAP, FAILED and DEAD, which the others wait for
  std::optional<std::string> error_code = {};
  std::optional<std::string> topic = {};
  std::size_t limit = 50;
};

/// Everything that is known about one event.
struct InboxFindings {
  std::vector<InboxReceipt> receipts = {};
  std::vector<ParkedEvent> parked = {};  ///< more than one per consumer where an id came with other bytes
  bool empty() const { return receipts.empty() && parked.empty(); }
};

/// Port: what operators see of inboxes, and do about events that consumers have set aside. Nothing here shows a
/// message. One connection, not thread-safe.
///
/// Every change and its audit record commit together. A consumer that is named and does not exist is kRejected
/// (`unknown_consumer`). Limits are at least 1 and at most kDeadLettersMax.
class InboxDesk {
 public:
  static constexpr std::int64_t kFollowersMax = 10'000;

  virtual ~InboxDesk() = default;

  /// In the order of the names.
  virtual Result<std::vector<InboxSummary>> Summaries() = 0;
  /// Newest first, by the time of the events themselves.
  virtual Result<std::vector<InboxReceipt>> List(const ReceiptFilter& filter) = 0;
  /// Longest waiting first.
  virtual Result<std::vector<ParkedEvent>> Parked(const ParkedFilter& filter) = 0;
  /// At one consumer, or at all of them.
  virtual Result<InboxFindings> Find(const std::optional<std::string>& consumer, const EventId& id) = 0;

  /// Makes FAILED, DEAD and GAP events due now, attempts counted from zero again, `inbox.retry` in the audit trail.
  /// Returns how many. Those behind them follow in order. A GAP whose earlier version is still missing goes on
  /// waiting: only its consumer decides to do without. Waits for an attempt that is under way.
  virtual Result<std::int64_t> Retry(const ParkedFilter& which, const OperatorAction& why) = 0;
  /// One that was skipped as `too_old` may have been applied before, so it is refused (kRejected, `too_old`) unless
  /// `may_apply_twice`; the other Retry() passes it over.
  virtual Result<std::int64_t> Retry(const std::string& consumer, const EventId& id, const OperatorAction& why,
                                     bool may_apply_twice = false) = 0;
  /// Gives one up, `inbox.skip` in the audit trail: it is never applied, counts as seen when it comes again, and
  /// those behind it go on. So that they can where versions are guarded, the version of its aggregate counts as seen
  /// when it is the next one, or when the event is DEAD. Returns how many rows there were.
  virtual Result<std::int64_t> Skip(const std::string& consumer, const EventId& id, const OperatorAction& why) = 0;

  /// Applies an event although versions of its aggregate before it are missing, `inbox.accept_gap` in the audit
  /// trail. The missing versions count as seen: they are stale if they come later. Works for a GAP and for an event
  /// that is DEAD because of one. kRejected: `not_found`, `no_gap`, or `not_first_gap` when a lower version waits as
  /// well.
  virtual Result<AcceptedGap> AcceptGap(const std::string& consumer, const GapChoice& which,
                                        const OperatorAction& why) = 0;

  /// No member applies events until Unpause(), `inbox.pause` in the audit trail. False: it was paused already.
  virtual Result<bool> Pause(const std::string& consumer, const OperatorAction& why) = 0;
  /// The members go on, also those that hold by themselves, `inbox.unpause` in the audit trail; FAILED events are due
  /// at once. False: it was neither paused nor held.
  virtual Result<bool> Unpause(const std::string& consumer, const OperatorAction& why) = 0;

  /// Where a partition of a topic, or all that are known, go on: `inbox.resume` in the audit trail. Whoever has it is
  /// fenced, and takes it up within seconds. Returns how many; kRejected (`unknown_partition`) when there is none.
  virtual Result<std::int64_t> Resume(const std::string& consumer, const std::string& topic,
                                      std::optional<std::int32_t> partition, const ResumePoint& from,
                                      const OperatorAction& why) = 0;
  /// Takes a consumer away with its receipts, positions, versions and parked events, at most `limit` rows per call;
  /// the last call takes its name and leaves `inbox.remove` in the audit trail. Where one call is not enough, the
  /// first one leaves `inbox.remove_begin`. kRejected (`consumer_attached`) while
  /// a member has a partition, or ended without giving it back, unless `although_attached`.
  virtual Result<RemoveReport> Remove(const std::string& consumer, bool although_attached, std::size_t limit,
                                      const OperatorAction& why) = 0;
};

/// kRejected (`unknown_consumer`).
Error UnknownConsumer(std::string_view consumer);
/// kRejected (`unknown_partition`), with what the consumer does know in the hint. `topic` and `partition` as asked
/// for.
Error UnknownPartition(std::string_view consumer, std::string_view topic, std::optional<std::int32_t> partition,
                       const std::vector<InboxPosition>& known);
/// kRejected (`consumer_attached`). `partition`: one of those that are.
Error ConsumerAttached(std::string_view consumer, const Partition& partition);
/// kRejected (`too_old`).
Error TooOldToRetry(std::string_view consumer, const EventId& id);
/// kRejected: `not_found`.
Error NoParkedVersion(std::string_view consumer, const GapChoice& which);
/// kRejected: `no_gap`.
Error NoGap(std::string_view consumer, const EventId& id, std::optional<std::int64_t> version, std::int64_t seen);
/// kRejected: `not_first_gap`.
Error NotFirstGap(std::string_view consumer, const EventId& first, std::int64_t version);
/// AuditRecord::target of `inbox.accept_gap`.
std::string AcceptGapTarget(std::string_view consumer, const AcceptedGap& gap);
/// Whether this event, the lowest parked version of its aggregate above `seen`, waits for versions before it.
bool WaitsForGap(const ParkedEvent& event, std::int64_t seen);
/// The error_code of events that wait for an earlier version.
inline constexpr std::string_view kVersionGapCode = "version_gap";
/// The error_code of events that were skipped because they are older than what the consumer remembers.
inline constexpr std::string_view kTooOldCode = "too_old";
/// AuditRecord::target of `inbox.resume`, for example `orders/3 of billing from beginning`.
std::string ResumeTarget(std::string_view consumer, const Partition& partition, const ResumePoint& from);
/// Whether the version of an aggregate counts as seen once its event is skipped, after `seen` was the last one: see
/// InboxDesk::Skip().
bool PassesVersion(const ParkedEvent& skipped, std::int64_t seen);
/// A limit as an InboxDesk takes it.
std::size_t DeskLimit(std::size_t asked);

}  // namespace sealane
