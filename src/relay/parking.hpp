#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sealane/clock.hpp"

#include "broker/delivery.hpp"
#include "outbox/outbox_log.hpp"

namespace sealane {

/// A unit whose parked events are tried again, one after another.
struct RetryRun {
  DueUnit unit;
  Page page;
  std::vector<ParkedEntry> entries;
  std::size_t at = 0;
  std::optional<Delivery> dying = {};  ///< its last attempt; a copy is on its way to the dead-letter topic

  const LogEntry& entry() const { return page.entries[entries[at].entry]; }
};

/// Which units are held back, what has to be written about them, and which are being tried again.
///
/// The store is the truth; this is what the relay has to know between two looks at it. A unit is held back from the
/// moment its first event fails, before anything is written, until the store has no row of it left that holds back.
/// One thread.
class Parking {
 public:
  static constexpr std::size_t kRunsMax = 32;
  static constexpr std::size_t kRunEntriesMax = 100;

  bool Blocks(std::string_view unit) const { return !blocked_.empty() && blocked_.find(unit) != blocked_.end(); }
  bool empty() const { return blocked_.empty(); }
  void Block(std::string_view unit, LaneLease lease);
  /// What the store says about lanes that were just taken.
  void Load(std::span<const DueUnit> units);
  /// A unit that the store does not hold back any more, of which no event is on its way back, and about which nothing
  /// is still to be written, flows again.
  void Reconcile(std::span<const DueUnit> blocked_in_store, const std::set<std::string>& on_their_way);
  /// Everything about a lane that is lost.
  void Forget(LaneLease lease);
  void ForgetAll();

  void Park(ParkChange change);
  void Unpark(LaneLease lease, std::int64_t seq, std::string waits_for = {});
  bool has_changes() const { return !park_.empty() || !unpark_.empty(); }
  std::size_t changes() const { return park_.size() + unpark_.size(); }
  /// Adds what has to be written; kept until Written().
  void AddTo(SettleRequest& request) const;
  void Written();

  RetryRun* run(std::uint32_t slot) { return slot < runs_.size() ? runs_[slot].get() : nullptr; }
  std::size_t runs() const { return running_; }
  bool IsRunning(const DueUnit& unit) const;
  /// Whether a unit of this lane is being tried again.
  bool IsRunning(LaneLease lease) const;
  std::uint32_t Begin(RetryRun run);
  void End(std::uint32_t slot);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, LaneLease, TextHash, std::equal_to<>> blocked_;
  std::vector<ParkChange> park_;
  std::vector<sealane::Unpark> unpark_;
  std::vector<std::unique_ptr<RetryRun>> runs_;
  std::size_t running_ = 0;
};

}  // namespace sealane
