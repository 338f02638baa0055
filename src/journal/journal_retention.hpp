#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "journal/journal.hpp"

namespace sealane {

/// What a journal keeps. Of each partition the oldest messages go first, while they are too old or the partition
/// holds too much.
struct JournalRetention {
  std::chrono::seconds age_max = std::chrono::hours{24 * 7};
  std::int64_t partition_bytes_max = std::numeric_limits<std::int64_t>::max();
  /// Messages that some group has not acknowledged yet stay, however old they are.
  bool spare_unread = true;
};

struct JournalSweep {
  std::int64_t messages = 0;  ///< removed
  std::int64_t bytes = 0;     ///< of them
};

/// Removes what retention does not keep, in small transactions that let publishers in between, and gives the space
/// back to the disk.
Result<JournalSweep> SweepJournal(const JournalOptions& options, const JournalRetention& retention, Clock& clock);

}  // namespace sealane
