#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>

#include "inbox/inbox_store.hpp"

namespace sealane {

/// Which events a partition has applied lately, for consumers without receipts: a producer that repeats itself after
/// a crash does so with the same ids at new offsets. Owned by the one worker that has the partition.
class RecentEvents {
 public:
  explicit RecentEvents(std::size_t max) : max_(max) {}

  bool Knows(const EventId& id) const { return known_.contains(id.bytes()); }
  void Add(const EventId& id, std::int64_t through);
  void Clear();
  /// What is remembered in the store up to this offset is more than is wanted.
  std::optional<std::int64_t> TakeForgettable() { return std::exchange(forgettable_, std::nullopt); }

 private:
  struct Hash {
    std::size_t operator()(const EventId::Bytes& bytes) const;
  };
  const std::size_t max_;
  std::deque<std::pair<EventId, std::int64_t>> order_;
  std::unordered_set<EventId::Bytes, Hash> known_;
  std::optional<std::int64_t> forgettable_;
};

/// Our time with one partition, from gaining it to losing it. Shared between the thread that polls and the workers.
class PartitionRun {
 public:
  PartitionRun(AttachedPartition attached, std::size_t recent_max);

  const Partition& partition() const { return partition_; }

  // ---- any thread ----

  /// Work that was not begun is dropped from now on.
  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  /// A message was handed to a worker. Offsets grow.
  void Begin(std::int64_t offset);
  /// It is done: applied, known already, or set aside.
  void Finish(std::int64_t offset);
  /// Everything below is done; empty before the first message. This is what may be committed.
  std::optional<std::int64_t> low_water() const;
  std::size_t in_flight() const;
  /// Messages that a worker is at right now; they end soon, unlike those that merely wait in a queue.
  std::atomic<int> busy = 0;

  /// Owners died here lately: events are handled one by one, each noted beforehand, until enough went well.
  bool careful() const { return careful_; }
  /// It began like that: all of its events go to one worker, also afterwards, because what is queued there comes
  /// first.
  bool serial() const { return serial_; }

  // ---- the worker that has the partition (careful, or without receipts), and the poller before the first message
  // ----

  AttachedPartition& attached() { return attached_; }
  RecentEvents& recent() { return recent_; }
  /// Takes what a second Attach() said.
  void Reattach(AttachedPartition attached);
  /// The position in the store: what the next move starts from; empty: wherever the first message is.
  std::optional<std::int64_t> position;
  /// Events that went well in careful mode.
  std::int32_t went_well = 0;
  void EndCare() { careful_ = false; }

 private:
  void LoadRecent();

  const Partition partition_;  // for any thread, while attached_ is replaced
  AttachedPartition attached_;
  RecentEvents recent_;
  std::atomic<bool> cancelled_ = false;
  const bool serial_;
  std::atomic<bool> careful_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, bool> open_;  // guarded by mutex_, as is the next: offset -> done
  std::optional<std::int64_t> next_;   // after the newest that began
};

inline constexpr std::int32_t kDeathsUntilCare = 2;

}  // namespace sealane
