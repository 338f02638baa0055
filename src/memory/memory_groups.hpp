#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sealane/clock.hpp"

#include "broker/subscription.hpp"

namespace sealane::memory {

/// The messages of one partition.
struct PartitionLog {
  std::deque<ReceivedMessage> messages;
  std::int64_t first_offset = 0;
  std::int64_t next_offset = 0;

  /// The first message at this offset or behind it.
  std::deque<ReceivedMessage>::const_iterator From(std::int64_t offset) const {
    return std::ranges::lower_bound(messages, offset, {}, &ReceivedMessage::offset);
  }
  /// The message at exactly this offset.
  std::optional<ReceivedMessage> At(std::int64_t offset) const;
  /// Where the first message of this time or a later one is; the end when there is none.
  std::int64_t OffsetAt(Timestamp time) const;
};
using Logs = std::map<Partition, PartitionLog>;

/// What a member knows of a partition that is its own.
struct Hold {
  bool told = false;  // the member was told that it gained it
  bool started = false;
  bool paused = false;
  bool leaving = false;
  bool leaving_told = false;
  std::int64_t position = 0;  // of the next message that it gets
};

struct GroupMember {
  std::set<std::string> topics;
  std::map<Partition, Hold> held;
  std::vector<Partition> lost;                    // not told yet
  std::map<Partition, std::int64_t> uncommitted;  // held commits
  std::optional<BootTime> expires_at;             // it was destroyed without leaving
};

/// A group: who reads, who has what, and how far it is. Not synchronised.
class Group {
 public:
  using MemberId = std::uint64_t;

  /// Moves as little as possible so that all who read the same topics have the same number of partitions: what is
  /// free is handed out, what is too much is marked as leaving.
  void Deal(const Logs& logs);
  /// Everything leaves, and nothing is handed out before all of it was released.
  void LeaveAll();
  /// Gives a partition up, if the member has it.
  void Free(MemberId id, const Partition& partition) { members.at(id).held.erase(partition); }
  /// The same without asking, so that the member has to be told.
  void Take(MemberId id, const Partition& partition);
  /// True when a member was forgotten.
  bool BuryExpired(BootTime now);
  GroupMember* OwnerOf(const Partition& partition);
  std::optional<std::int64_t> Committed(const Partition& partition) const;

  std::map<MemberId, GroupMember> members;
  std::map<Partition, std::int64_t> committed;

 private:
  void DealAmong(const std::vector<MemberId>& readers, const std::vector<Partition>& partitions);

  bool all_must_leave_ = false;
};

}  // namespace sealane::memory
