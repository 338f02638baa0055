#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/transaction.hpp"

#include "sqlite/inbox_session.hpp"

namespace sealane::sqlite {

/// Everything about one event that a batch needs until it is finished.
struct InboxItem {
  EventId id;
  PayloadHash hash{};
  Timestamp filed_at{};
  std::string unit;
  AggregateName aggregate;
  std::optional<std::int64_t> version = {};
  Partition partition;
  std::int64_t offset = 0;
  const ReceivedMessage* message = nullptr;
  const Envelope* envelope = nullptr;
  std::int64_t place = 0;  ///< not 0: it is set aside there already and tried again
  Standing standing = {};

  static InboxItem Of(const Arrival& arrival);
};

/// SQL for the place of the first of a unit of consumer ?1: the one that came first, or by version the lowest version
/// of the aggregate that that one is about. A few steps into indexes, however many wait behind it.
std::string HeadPlaceSql(std::string_view unit, bool by_version);

/// SQL that makes FAILED events of consumer ?1 due.
const std::string& DueNowSql();

/// The first of a unit, as a parked row has it.
struct ParkedHead {
  InboxItem item;
  InboxState state = InboxState::kReceived;
  std::int32_t attempts = 0;
  Timestamp parked_at{};
  std::optional<Timestamp> first_failed_at = {};
  bool is_due = false;
  bool gap_overdue = false;
};

/// Somebody's claim to try a parked message.
struct Attempt {
  std::int64_t place = 0;
  Timestamp until{};
};

/// The rows of one consumer. Every method works inside the transaction that is open on the session's connection.
class InboxRows {
 public:
  explicit InboxRows(InboxSession& session) : session_(session) {}

  // ---- looking ----
  Result<bool> AnythingParked();
  Result<Timestamp> ForgottenBefore();
  /// One more batch is about to be committed; tells how many there are then.
  Result<std::int64_t> CountWrite();
  /// kNew also for what is too old: see ForgottenBefore().
  Result<Standing::Known> KnownOf(const InboxItem& item, bool anything_parked);
  /// Says whether the item's unit waits, and whether it waits for a version of the item's aggregate.
  Status LookAtUnit(const InboxItem& item, bool by_version, Standing& standing);
  Result<std::int64_t> VersionOf(const AggregateName& aggregate);
  Result<std::optional<ParkedHead>> HeadOf(std::string_view unit, bool by_version);
  Result<ReceivedMessage> MessageAt(std::int64_t place);

  // ---- what became of an event ----
  Status WriteReceipt(const InboxItem& item, InboxState state, std::string_view code, std::string_view message,
                      Timestamp now);
  /// Of an event that has one. Not when it came with other bytes: the receipt is about the first ones.
  Status UpdateReceipt(const InboxItem& item, InboxState state, std::string_view code, std::string_view message,
                       Timestamp now);
  /// What is there already, from the same place of the broker, stays as it is.
  Status Park(const InboxItem& item, const ParkNote& note, Timestamp now);
  Status ParkAgain(std::int64_t place, const ParkNote& note, Timestamp now);
  /// Counts an attempt and keeps others away until its end.
  Status Claim(const Attempt& attempt);
  /// Takes an attempt back that was not made, unless somebody has changed the message since.
  Status GiveBack(const Attempt& attempt);
  /// It was not tried: it stands as before, and the attempt does not count.
  Status Unclaim(std::int64_t place);
  Status Unpark(std::int64_t place);
  /// What waits for a gap in the unit may be tried now.
  Status WakeGaps(std::string_view unit, Timestamp now);
  /// Says that members hold, or go on; FAILED events are due when that is new.
  Status SetHold(const std::optional<ConsumerHold>& hold);
  Status SetVersion(const AggregateName& aggregate, std::int64_t version);

  // ---- partitions ----
  Status CheckProgress(const ProgressMove& move);
  Status MoveProgress(const ProgressMove& move);
  /// False, and nothing is written, when the partition is not in that epoch or stands elsewhere.
  Result<bool> SavePosition(const PositionSave& save);
  Status Remember(const Partition& partition, std::int64_t through, std::span<const EventId> ids);
  Status ForgetThrough(const Partition& partition, std::int64_t offset);
  Result<std::optional<std::int64_t>> SuspectOf(const Partition& partition);
  Status ClearSuspect(const Partition& partition);

 private:
  InboxSession& session_;
};

}  // namespace sealane::sqlite
