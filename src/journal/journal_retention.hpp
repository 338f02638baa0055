#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <stop_token>

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
  /// Between the small transactions of a sweep. Publishers try again within 20 ms, so that with a longer pause they
  /// are never kept out.
  std::chrono::milliseconds step_pause{0};
};

struct JournalSweep {
  std::int64_t messages = 0;  ///< removed
  std::int64_t bytes = 0;     ///< of them
};

/// Removes what retention does not keep, in small transactions that let publishers in between, and gives the space
/// back to the disk. A stop ends it early; the next sweep goes on.
Result<JournalSweep> SweepJournal(const JournalOptions& options, const JournalRetention& retention, Clock& clock,
                                  std::stop_token stop = {});

}  // namespace sealane
