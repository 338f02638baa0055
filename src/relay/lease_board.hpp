#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "sealane/clock.hpp"

#include "outbox/outbox_log.hpp"

namespace sealane {

/// What the loops of a relay know about its leases. The keeper writes it; the reader and the publishing loop look.
///
/// The deadline is by the clock that never steps, and earlier than the expiry in the store: counted from before the
/// heartbeat was sent, less a margin. A relay that stalled finds it passed and knows that its lanes may have a new
/// owner. Thread-safe.
class LeaseBoard {
 public:
  struct Held {
    LaneLease lease;
    LanePositions granted;  ///< where the lane stood when it was taken
    bool leaving = false;   ///< to be given back as soon as it is quiet
  };
  struct Decisions {
    bool paused = false;
    std::vector<TenantRule> tenants;
    std::int32_t lanes = 0;
    std::int32_t live_relays = 0;
    Timestamp last_beat_at{};
  };
  /// A tenant with as many parked events as it may have: of its others a few are read whenever `probes` grows.
  struct FullTenant {
    std::string tenant;
    std::uint64_t probes = 0;
    std::size_t size = 1;  ///< of a probe
    friend bool operator==(const FullTenant&, const FullTenant&) = default;
  };

  /// Called, without the lock, whenever something changed.
  explicit LeaseBoard(std::function<void()> changed) : changed_(std::move(changed)) {}

  // ---- the keeper ----
  void Grant(std::vector<LaneGrant> grants);
  /// After a heartbeat: lanes that are not in `held` are lost. `changes`: operators changed parked events.
  void Renew(std::span<const LaneLease> held, BootTime deadline, Decisions decisions, bool changes);
  /// Marks up to `count` lanes as leaving, highest first.
  void Shed(std::size_t count);
  std::size_t staying() const;

  // ---- everybody ----
  /// Forgets a lane that was released or fenced; another epoch of it stays.
  void Drop(LaneLease lease);
  void DropAll();
  /// Changes with every change of the lanes.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  std::vector<Held> held() const;
  Decisions decisions() const;
  /// Whether operators changed parked events since this was last asked.
  bool TakeChanges() { return changes_.exchange(false, std::memory_order_acq_rel); }
  void NoteChanges() { changes_.store(true, std::memory_order_release); }
  /// Tenants whose events have to wait until some of those that are parked are gone.
  void SetFull(std::vector<FullTenant> full);
  std::vector<FullTenant> full() const;
  BootTime deadline() const { return BootTime{deadline_.load(std::memory_order_acquire)}; }

 private:
  void Changed();

  const std::function<void()> changed_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<std::int64_t> deadline_{0};
  std::atomic<bool> changes_{false};
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<Held> held_;
  Decisions decisions_;
  std::vector<FullTenant> full_;
};

}  // namespace sealane
