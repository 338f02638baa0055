#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "journal/journal.hpp"

namespace sealane {

struct JournalGroupOptions {
  std::string group;                                           ///< who reads: offsets are remembered under this name
  std::string member;                                          ///< this reader among the group's, unique
  std::vector<std::string> topics;                             ///< what it reads
  std::chrono::milliseconds lease = std::chrono::seconds{10};  ///< Keep() more often than this, or lose everything
};

/// The right to read one partition for the group.
struct JournalClaim {
  std::string topic = {};
  std::int32_t partition = 0;
  std::int64_t next_offset = 0;  ///< what the group has not acknowledged yet, even if retention has removed it
  std::int64_t epoch = 0;        ///< grows whenever the partition changes hands
  bool leaving = false;          ///< above the fair share: others wait until it is given back
  friend bool operator==(const JournalClaim&, const JournalClaim&) = default;
};

/// One member of a group that reads a journal together: every partition belongs to one living member at a time.
///
/// Members keep themselves alive by calling Keep(). Each takes its fair share of the partitions, counted among those
/// members that read the same topics, and is told what is above it, which stays its own until it is given back; a
/// member that has not been heard of for its lease loses its partitions to the others, and what it acknowledges later
/// under its old epoch is refused (kFenced). Leases are measured on the calendar of the machine.
///
/// One owner, one thread. Destroying a member without Leave() is what a crash looks like: the others wait for the
/// lease.
class JournalGroupMember {
 public:
  /// Joins the group, which is made when it is new: it then starts at the oldest message there is. A former holder of
  /// the same name is fenced off.
  static Result<std::unique_ptr<JournalGroupMember>> Join(const JournalOptions& journal, JournalGroupOptions options,
                                                          Clock& clock);
  ~JournalGroupMember();

  /// Renews the lease, takes free partitions up to the fair share, marks what is above it as leaving, and returns
  /// what this member holds from now on, by topic and partition. Partitions that are no longer in it are not to be
  /// read. kFenced (`member_fenced`) when another member has joined under the same name.
  Result<std::vector<JournalClaim>> Keep();
  /// Lets the others have it. One that is not ours any more is passed over.
  Status GiveBack(const JournalClaim& claim);
  /// Remembers that the group has taken everything before `next_offset`. Never goes back: a lower offset than the one
  /// remembered changes nothing. kFenced (`claim_lost`) when the partition belongs to somebody else by now.
  Status Acknowledge(const JournalClaim& claim, std::int64_t next_offset);
  /// The same for several in one transaction. Those that belong to somebody else by now are passed over.
  Status AcknowledgeAll(std::span<const std::pair<JournalClaim, std::int64_t>> positions);
  /// Gives everything back at once.
  Status Leave();

 private:
  class Impl;
  explicit JournalGroupMember(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

/// Removes a group and what it has acknowledged, so that retention waits for it no longer. kConflict (`group_in_use`)
/// while it has a living member.
Status ForgetJournalGroup(const JournalOptions& journal, const std::string& group, Clock& clock);

}  // namespace sealane
