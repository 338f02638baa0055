#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
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
  /// `attached` has a position; `life` is that of the store in which it was attached.
  PartitionRun(AttachedPartition attached, std::string life, std::size_t recent_max);

  const Partition& partition() const { return partition_; }
  /// What was committed for this run is known in this life of the store, and maybe in no other.
  const std::string& life() const { return life_; }
  std::int64_t epoch() const { return epoch_; }

  // ---- any thread ----

  /// Work that was not begun is dropped from now on.
  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

  /// The store is not where we think, or another one: nothing of this run counts any more, and the partition is to be
  /// attached again and read from where the store says. `polls`: how often the broker was asked before.
  void Supersede(std::uint64_t polls);
  /// Empty: it still counts.
  std::optional<std::uint64_t> superseded_after() const;

  /// A message was handed to a worker. Offsets grow.
  void Begin(std::int64_t offset);
  /// It is done: applied, known already, or parked. The last of a batch brings a witness.
  void Finish(std::int64_t offset, std::optional<Witness> witness = {});
  /// Everything below is done; empty before the first message. This is what may be committed.
  std::optional<std::int64_t> low_water() const;
  std::size_t in_flight() const;

  /// With receipts: the step that the position in the store lags behind, or none but a comparison.
  PositionSave NextSave() const;
  void Saved(const PositionSave& save);
  /// With receipts: where the position in the store is, as far as it was answered.
  std::int64_t saved() const;
  /// The newest message that was done and is below the position in the store; empty before the first.
  std::optional<Witness> witness() const;

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
  /// Without receipts: the position in the store, where the next move starts.
  std::int64_t position() const { return position_; }
  void Moved(std::int64_t to, const Witness& witness);
  /// Events that went well in careful mode.
  std::int32_t went_well = 0;
  void EndCare() { careful_ = false; }

 private:
  void LoadRecent();
  void ForgetWitnessesBelow(std::int64_t offset);  // but for the newest of them

  const Partition partition_;
  const std::string life_;
  const std::int64_t epoch_;
  AttachedPartition attached_;
  std::atomic<std::int64_t> position_;
  RecentEvents recent_;
  std::atomic<bool> cancelled_ = false;
  const bool serial_;
  std::atomic<bool> careful_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<std::uint64_t> superseded_after_;
  std::map<std::int64_t, bool> open_;     // offset -> done
  std::optional<std::int64_t> next_;      // after the newest that began
  std::int64_t saved_;                    // with receipts: the position in the store
  std::map<std::int64_t, Witness> done_;  // witnesses that are not below the saved position, and the last that is
};

inline constexpr std::int32_t kDeathsUntilCare = 2;

}  // namespace sealane
