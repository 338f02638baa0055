#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "postgres/inbox_session.hpp"

namespace sealane::postgres {

/// Who has which partition of the broker, where it stands and how its owners ended.
class InboxProgress {
 public:
  explicit InboxProgress(const InboxSession& session) : session_(session) {}

  Result<std::vector<AttachedPartition>> Attach(std::span<const Partition> partitions, std::size_t recent_max) const;
  Status Detach(std::span<const AttachedPartition> partitions) const;
  Status Suspect(const AttachedPartition& partition, std::int64_t offset) const;
  Status Calm(const AttachedPartition& partition) const;

 private:
  Status ReadRecent(AttachedPartition& attached, std::size_t recent_max) const;
  /// Runs a call that tells whether the partition is still ours.
  Status RunOwned(const AttachedPartition& partition, const Call& call) const;

  const InboxSession& session_;
};

}  // namespace sealane::postgres
