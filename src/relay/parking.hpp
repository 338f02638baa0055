#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sealane/clock.hpp"

#include "broker/delivery.hpp"
#include "outbox/outbox_log.hpp"

namespace sealane {

/// A unit whose parked events are tried again, one after another.
struct RetryRun {
  DueUnit unit;
  std::shared_ptr<const Page> page = {};  ///< several runs were read together
  ParkedUnit parked = {};
  std::size_t at = 0;
  std::optional<Delivery> dying = {};  ///< its last attempt; a copy is on its way to the dead-letter topic

  const ParkedEntry& parked_entry() const { return parked.entries[at]; }
  const LogEntry& entry() const { return page->entries[parked.entries[at].entry]; }
};

/// Which units are held back and when each is tried again, what has to be written about them, and which are being
/// tried.
///
/// The store is the truth; this is what the relay knows of it. It is read when lanes are taken, and kept current by
/// what this relay does and by the changes of operators. So nothing is looked for: a unit that is due is the first of
/// a queue, and one that is dead costs its memory alone. A unit is held back from the moment its first event fails,
/// before anything is written. One thread.
class Parking {
 public:
  static constexpr std::size_t kRunsMax = 256;

  // ---- which units are held back ----
  bool Blocks(std::string_view unit) const { return !blocked_.empty() && blocked_.find(unit) != blocked_.end(); }
  bool empty() const { return blocked_.empty(); }
  std::size_t units() const { return blocked_.size(); }
  /// Parked events: of all tenants, or of one.
  std::int64_t events() const { return events_; }
  std::int64_t events(const std::string& tenant) const;
  /// What the store says about these units, as of `now`; one that is being tried is left alone.
  void Load(std::span<const BlockedUnit> units, BootTime now);
  /// The store holds this unit back no more. It flows again unless the relay knows better: it is being tried, or
  /// something about it is not written yet.
  void Unblock(std::string_view unit);
  /// The store says what it holds back of these lanes. `keep`: units with an event that is on its way back.
  void Reconcile(std::span<const BlockedUnit> blocked, const std::set<std::string>& keep, BootTime now);
  /// Everything about lanes that are lost.
  void Forget(std::span<const LaneLease> leases);

  // ---- what happens to events ----
  /// Holds a unit back before the event that fails is parked.
  void Block(std::string_view unit, LaneLease lease, std::int64_t seq, std::string_view tenant);
  /// Parks an event, or changes one that is: as the first of its unit when it failed or comes before the first,
  /// otherwise behind it. `fresh`: it was not parked before.
  void Park(ParkChange change, bool fresh, BootTime now);
  void Unpark(LaneLease lease, std::int64_t seq, std::string_view unit);
  /// It waits for its topic from now on, and holds back nothing. `unit`: of one that was parked; empty: it was not.
  void Wait(ParkChange change, std::string_view unit);
  /// It waited for its topic, and was published.
  void Unwait(LaneLease lease, std::int64_t seq, std::string topic);
  void Delay(DelayChange change) { delay_.push_back(std::move(change)); }
  void Undelay(LaneLease lease, std::int64_t seq) { undelay_.push_back({.lease = lease, .seq = seq}); }

  bool has_changes() const { return changes() > 0; }
  std::size_t changes() const { return park_.size() + unpark_.size() + delay_.size() + undelay_.size(); }
  /// Adds what has to be written; kept until Written().
  void AddTo(SettleRequest& request) const;
  void Written();

  // ---- trying again ----
  /// Units that may be tried now, at most `max`, longest due first; they count as being tried until Begin() or
  /// Later(). Left out, and due again when the tenants change: those of `but_tenants`. Left where they are:
  /// `not_now`.
  std::vector<DueUnit> TakeDue(BootTime now, std::span<const std::string> but_tenants,
                               const std::set<std::string>& not_now, std::size_t max);
  /// When the next one is due; empty: none is.
  std::optional<BootTime> next_due() const;
  /// A unit that was taken is tried again at `due`; empty: when an operator has decided.
  void Later(std::string_view unit, std::optional<BootTime> due);

  RetryRun* run(std::uint32_t slot) { return slot < runs_.size() ? runs_[slot].get() : nullptr; }
  std::size_t runs() const { return running_; }
  /// Whether a unit of this lane is being tried again.
  bool IsRunning(LaneLease lease) const;
  std::uint32_t Begin(RetryRun run);
  /// Nothing of a unit that was taken is left to try now. It flows again, or is tried again when `read` says.
  void Resolve(std::string_view unit, const ParkedUnit& read, BootTime now);
  bool IsRunning(std::string_view unit) const;
  /// The run ends; what becomes of its unit was said, or is said by Later().
  void End(std::uint32_t slot);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Tenant {
    std::int64_t events = 0;
    std::size_t units = 0;
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;
  struct Blocked {
    LaneLease lease;
    std::int64_t seq = 0;  // of its first event
    std::int64_t events = 0;
    Tenants::iterator tenant = {};
    std::optional<BootTime> due = {};  // in queue_ under this time
    bool taken = false;
    bool grew = false;  // something of it was parked since it was taken
  };
  using Map = std::unordered_map<std::string, Blocked, TextHash, std::equal_to<>>;

  Map::iterator Insert(std::string_view unit, LaneLease lease, std::int64_t seq, std::string_view tenant);
  void Erase(Map::iterator place);
  void Schedule(Map::iterator place, std::optional<BootTime> due);
  void Count(Blocked& blocked, std::int64_t change);

  Map blocked_;
  // Names lie in blocked_, whose nodes stay where they are.
  std::set<std::pair<BootTime, std::string_view>> queue_;
  std::vector<std::string> passed_over_;  // due, but of tenants that are paused
  std::vector<std::string> paused_;
  Tenants tenants_;
  std::int64_t events_ = 0;

  std::vector<ParkChange> park_;
  std::vector<sealane::Unpark> unpark_;
  std::vector<DelayChange> delay_;
  std::vector<sealane::Undelay> undelay_;
  std::vector<std::unique_ptr<RetryRun>> runs_;
  std::size_t running_ = 0;
};

}  // namespace sealane
