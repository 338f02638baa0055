#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "inbox/inbox_store.hpp"

namespace sealane::memory {

/// Tenant, type and id; empty texts for an event that is about no aggregate.
using InboxAggregate = std::tuple<std::string, std::string, std::string>;

/// That an event was seen, and what became of it.
struct Receipt {
  Timestamp filed_at{};
  InboxState state = InboxState::kReceived;
  PayloadHash hash{};
  Timestamp received_at{};
  PartitionOffset source = {};
  std::string type = {};
  InboxAggregate aggregate = {};
  std::optional<std::int64_t> version = {};
  std::optional<Timestamp> finished_at = {};
  std::string code = {};
  std::string message = {};
};

/// A message that was set aside.
struct ParkedMessage {
  std::int64_t place = 0;
  ReceivedMessage message;
  EventId id;
  PayloadHash hash{};
  std::string unit;
  std::string type = {};
  InboxAggregate aggregate;
  std::optional<std::int64_t> version = {};
  InboxState state = InboxState::kReceived;
  std::int32_t attempts = 0;
  std::optional<Timestamp> next_attempt_at = {};
  std::optional<Timestamp> gap_until = {};  ///< with kGap: when its time is over
  std::optional<Timestamp> claimed_until = {};
  Timestamp parked_at{};
  std::optional<Timestamp> first_failed_at = {};
  std::optional<Timestamp> last_failed_at = {};
  std::string error_code = {};
  std::string error_message = {};

  /// Whether its followers wait for it.
  bool holds_back() const { return state != InboxState::kSkipped; }
  bool may_be_tried(Timestamp now) const;
  bool gap_overdue(Timestamp now) const {
    return state == InboxState::kGap && gap_until.has_value() && *gap_until <= now;
  }
  /// When it may be tried, when it is the first of its unit; empty: it has no time.
  std::optional<Timestamp> due_at() const;
  Timestamp waits_since() const { return next_attempt_at.value_or(parked_at); }
  /// Writes the note, as of now, and ends the attempt that was under way.
  void Note(const ParkNote& note, Timestamp now);
};

/// How far a partition is, and who has it.
struct PartitionRecord {
  std::int64_t epoch = 0;
  std::optional<std::int64_t> next_offset = {};
  bool clean = true;
  std::int32_t deaths = 0;
  std::optional<std::int64_t> suspect_offset = {};
  std::int64_t suspect_epoch = 0;  ///< of the owner that noted it
  std::int32_t suspect_deaths = 0;
  std::string topic_id = {};  ///< of the topic that the position is about
  std::optional<Witness> witness = {};
  bool follows_group = false;
  std::optional<PartitionStop> stop = {};
  std::optional<Timestamp> stopped_at = {};
  std::optional<ResumePoint> resume = {};
  void ClearSuspicion();
  struct Batch {
    std::int64_t through = 0;
    std::vector<EventId> ids;
  };
  std::deque<Batch> recent = {};  ///< newest last
};

/// Everything about one event that a batch needs when it is finished.
struct InboxItem {
  EventId id;
  PayloadHash hash{};
  Timestamp filed_at{};
  std::string unit;
  std::string type = {};
  InboxAggregate aggregate;
  std::optional<std::int64_t> version = {};
  Partition partition;
  std::int64_t offset = 0;
  const ReceivedMessage* message = nullptr;
  std::int64_t place = 0;  ///< not 0: it is set aside there already and tried again
  Standing standing = {};

  static InboxItem Of(const Arrival& arrival);
  static InboxItem Of(const ParkedMessage& parked);
};

/// Since when an operator has paused a consumer, and why.
struct InboxPause {
  Timestamp at{};
  std::string actor;
  std::string reason;
};

/// What one consumer has.
struct ConsumerRecord {
  InboxMode mode = InboxMode::kRecord;
  Timestamp added_at{};
  Timestamp forgotten_before{};
  std::optional<InboxPause> pause = {};
  std::optional<ConsumerHold> hold = {};
  std::optional<Timestamp> held_at = {};
  std::map<EventId, Receipt> receipts = {};
  std::map<std::int64_t, ParkedMessage> parked = {};    ///< in the order they came
  std::multimap<EventId, std::int64_t> places_of = {};  ///< several where an id came with other bytes
  /// Where the messages of a unit are parked; some may be gone.
  struct UnitPlaces {
    std::set<std::int64_t> all;
    std::set<std::tuple<InboxAggregate, std::int64_t, std::int64_t>> by_version;  ///< of those that have one
  };
  std::map<std::string, UnitPlaces, std::less<>> places_in = {};
  std::int64_t last_place = 0;
  std::map<InboxAggregate, std::int64_t> versions = {};
  std::map<Partition, PartitionRecord> partitions = {};

  std::int64_t VersionOf(const InboxAggregate& aggregate) const;
  /// Forgets receipts of what was processed or ignored, at most so many.
  void Forget(Timestamp before, std::size_t limit, PruneReport& report);
  /// Clears away messages that were set aside before then and given up; their receipts stay.
  void ClearSkipped(Timestamp before, std::size_t limit);
  /// The one of the unit that its followers wait for; null when nothing of it waits.
  ParkedMessage* FirstOf(std::string_view unit, bool by_version);
  Standing StandingOf(const InboxItem& item, bool guard_versions);
  /// kFenced (`partition_fenced`) unless the partition stands where the move says.
  Status CheckProgress(const ProgressMove& move) const;
  void Write(const InboxItem& item, const Outcome& outcome, Timestamp now);
  void Move(const ProgressMove& move, std::vector<EventId> finished);
  /// Whether the partition stood where the step says; only then it is made.
  bool Save(const PositionSave& save);
  /// What waits for a gap in the unit may be tried now.
  void WakeGaps(std::string_view unit, Timestamp now);
  /// Says that members hold, or go on; FAILED events are due when that is new.
  bool SetHold(const std::optional<ConsumerHold>& reason, Timestamp now);

 private:
  Standing::Known KnownOf(const InboxItem& item) const;
  void Finish(const InboxItem& item, InboxState state, const std::string& code, Timestamp now);
  /// Not of an event that came with other bytes: the receipt is about the first ones.
  void Record(const InboxItem& item, InboxState state, const std::string& code, const std::string& message,
              Timestamp now);
  bool IsParkedAlready(const InboxItem& item) const;
  void Unpark(std::int64_t place);
  void Park(const InboxItem& item, const ParkNote& note, Timestamp now);
};

/// What whoever lost a partition gets to hear.
Error PartitionFenced(const Partition& partition);

/// What stores and transactions from before a Restore() get to hear.
Error StoreChanged();

/// A statement that a handler ran. Nothing executes it: tests look at what was committed.
struct ExecutedStatement {
  std::string consumer;
  std::string sql;
  std::vector<SqlValue> values;
};

/// The inboxes of a database.
struct InboxTables {
  std::int64_t life = 1;  ///< counts every Restore()
  std::map<std::string, ConsumerRecord> consumers = {};
  std::vector<ExecutedStatement> executed = {};  ///< committed ones, in the order of the commits
};

}  // namespace sealane::memory
