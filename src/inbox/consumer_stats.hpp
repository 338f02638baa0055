#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/clock.hpp"

#include "broker/subscription.hpp"
#include "core/histogram.hpp"

namespace sealane {

enum class ConsumerState : std::uint8_t {
  kStarting,  ///< no partition yet
  kRunning,
  kHolding,  ///< the store or the broker is away: messages wait
  kDraining,
  kStopped,
};
/// `starting`, `running`, `holding`, `draining`, `stopped`.
std::string_view ToString(ConsumerState state);

struct PartitionLag {
  Partition partition;
  std::int64_t low_water = 0;
  std::int64_t lag = 0;  ///< messages that are not done, as far as known
};

/// A partition of this member that is not read until an operator decides.
struct StoppedPartition {
  Partition partition;
  std::string code;
  std::string message;
  std::int64_t messages = 0;  ///< that the broker has of it: none of them is known to be done
};

/// What a consumer knows about itself, copied out at one moment.
struct ConsumerStats {
  std::string consumer = {};
  std::string mode = {};
  ConsumerState state = ConsumerState::kStarting;
  std::string problem = {};  ///< why it holds; empty when all is well
  std::string problem_code = {};
  bool store_reachable = true;
  std::uint64_t stores_away = 0;  ///< connections that somebody here waits for
  std::string stuck = {};         ///< the store can be reached, and does not take what a worker has in hand
  std::string stuck_code = {};
  bool broker_reachable = true;
  /// `circuit_open`, `parked_limit` or `consumer_paused`: nothing, or nothing that would be parked, is applied.
  std::string hold_code = {};
  std::vector<PartitionLag> partitions = {};
  std::vector<StoppedPartition> stopped = {};
  std::uint64_t inflight_messages = 0;
  std::uint64_t inflight_bytes = 0;
  std::int64_t parked = 0;
  std::int64_t dead = 0;
  std::int64_t gaps = 0;

  std::uint64_t received = 0;
  std::uint64_t effects = 0;
  std::uint64_t ignored = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t stale = 0;
  std::uint64_t too_old = 0;          ///< skipped, because their receipts may be forgotten
  std::uint64_t gaps_total = 0;       ///< events that had to wait for an earlier version
  std::uint64_t hash_mismatches = 0;  ///< the same id with other bytes
  std::uint64_t parked_total = 0;
  std::uint64_t dead_total = 0;
  std::uint64_t retries = 0;
  std::uint64_t batches = 0;
  std::uint64_t rollbacks = 0;  ///< transactions that were begun and not committed
  std::uint64_t fenced = 0;     ///< partitions lost while they were in use
  std::uint64_t reread = 0;     ///< partitions that were read again from the position in the store
  std::uint64_t restarts = 0;   ///< of a connection after an error
  std::uint64_t pauses = 0;     ///< of reading, because too much was under way
  std::map<std::string, std::uint64_t> failures = {};  ///< by error code; bounded, the rest under `other`
  Histogram handler = {};
  Histogram commit_to_effect = {};  ///< from occurred-at to our commit
};

/// The same while it is being counted, by several threads.
class ConsumerCounters {
 public:
  template <class Change>
  void Update(Change change) {
    const std::lock_guard lock(mutex_);
    change(stats_);
  }
  template <class Look>
  void Read(Look look) const {
    const std::lock_guard lock(mutex_);
    look(stats_);
  }
  ConsumerStats Copy() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  mutable std::mutex mutex_;
  ConsumerStats stats_;
};

/// Counts under `code`, or under `other` when there are too many codes already.
void CountFailure(ConsumerStats& stats, const std::string& code);

}  // namespace sealane
