#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postgres/inbox_session.hpp"

namespace sealane::postgres {

/// Who has which partition of the broker, where it stands and how its owners ended.
class InboxProgress {
 public:
  explicit InboxProgress(const InboxSession& session) : session_(session) {}

  Result<std::vector<AttachedPartition>> Attach(std::span<const Partition> partitions, std::size_t recent_max) const;
  Status Detach(std::span<const AttachedPartition> partitions) const;
  Result<std::vector<std::size_t>> Save(std::span<const PositionSave> saves) const;
  Status Place(const AttachedPartition& partition, std::int64_t next_offset, const std::string& topic_id) const;
  Status Stop(const AttachedPartition& partition, const PartitionStop& stop) const;
  Status Suspect(const AttachedPartition& partition, std::int64_t offset) const;
  Status Calm(const AttachedPartition& partition) const;

 private:
  Status ReadRecent(AttachedPartition& attached, std::size_t recent_max) const;
  /// Runs a call that tells whether the partition is still ours.
  Status RunOwned(const AttachedPartition& partition, Call call) const;
  /// A call about the partition in its epoch.
  Call Owned(std::string_view function, const AttachedPartition& partition) const;

  const InboxSession& session_;
};

}  // namespace sealane::postgres
