#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sealane/clock.hpp"

#include "relay/lease_board.hpp"
#include "relay/route_options.hpp"
#include "relay/work.hpp"

namespace sealane {

/// Reads the log of the lanes this relay holds, page by page, ahead of the publishing loop, and decides whose turn it
/// is.
///
/// Lanes that stand at the same position are read together. Tenants can be set apart on a position of their own:
/// because they were paused or limited, or because they have so much waiting that the others would wait behind them.
/// Flows take turns by deficit round robin, weighed by the tenants' weights and counted in bytes; a flow apart that
/// has caught up joins the main flow again. Whoever waits for something new comes first, and while the main flow has
/// events those apart read little at a time and leave it room, so that nobody waits for a long page of others. Order
/// is promised within a key, and a key has one tenant at a time, so letting one tenant overtake another breaks
/// nothing. (Orders that span tenants are read as one flow.)
///
/// One thread; bounded by the MemoryBudget.
class LogReader {
 public:
  LogReader(const RouteOptions& options, LeaseBoard& board, WorkQueue& queue, MemoryBudget& budget, Clock& clock);

  struct Step {
    std::size_t read = 0;  ///< events
    bool moved = false;    ///< some flow came forward, with or without events
    bool full = false;     ///< nothing could be read before memory is released
    bool caught_up = false;
    bool more = false;  ///< some flow may be read at once
    bool looked = false;
    std::optional<Horizon> horizon = {};
    std::optional<BootTime> look_in = {};  ///< it was too early to look again: until then
  };
  /// At most one look and one page.
  Result<Step> RunOnce(OutboxLog& log);

  /// Until the next RunOnce() makes sense, unless somebody wakes the reader.
  std::chrono::microseconds Pace(const Step& step);
  /// Something was committed, says somebody who knows.
  /// After an error: what the store said before may not be true any more.
  void ForgetHorizon() { horizon_.reset(); }
  void Hurry() {
    idle_looks_ = 0;
    hurried_ = true;
  }

 private:
  struct Flow {
    FlowId id = kMainFlow;
    std::vector<LaneLease> lanes;
    std::vector<Lane> numbers;          // of lanes
    std::vector<std::string> tenants;   // of a flow apart
    std::vector<std::string> excluded;  // of a main flow: the tenants that are apart in each of its lanes; sorted
    Position at;
    std::int64_t seq_high = -1;  // of the log when it was read last
    bool caught_up = false;
    bool paused = false;
    std::optional<std::uint64_t> probes;  // of a tenant with too many parked events: how often it was read since
    std::int64_t rate_max = 0;
    double tokens = 0;
    std::int32_t weight = 1;
    std::int64_t deficit = 0;  // bytes
  };

  void Reconcile();
  void OpenLane(const LeaseBoard::Held& held);
  void CloseLane(LaneLease lease, bool announce);
  void AddLane(Flow flow, LaneLease lease);
  void ApplyRules();
  void SplitOff(std::size_t flow, const std::vector<std::string>& tenants);
  void SetApart(std::size_t flow, const std::vector<std::string>& crowd);
  void MergeFlows();
  bool Rejoin(const Flow& flow);
  void FindCrowd(const Flow& flow, const Page& page, std::vector<std::string>& crowd) const;
  bool MayRead(const Flow& flow) const;
  /// What the tenant of this flow may read while it has too many parked events; null: it has not.
  const LeaseBoard::FullTenant* FullOf(const Flow& flow) const;
  /// Whether the main flow had events lately: then those apart read little at a time.
  bool OthersWait() const;
  std::size_t BytesFor(const Flow& flow) const;
  Flow* NextFlow();
  Result<std::size_t> ReadPage(OutboxLog& log, Flow& flow);

  const RouteOptions& options_;
  LeaseBoard& board_;
  WorkQueue& queue_;
  MemoryBudget& budget_;
  Clock& clock_;

  std::uint64_t seen_generation_ = ~std::uint64_t{0};
  LeaseBoard::Decisions decisions_;
  std::vector<LeaseBoard::FullTenant> full_;
  std::vector<LaneLease> open_;
  std::vector<Flow> flows_;
  std::size_t turn_ = 0;
  std::optional<Horizon> horizon_;
  BootTime looked_at_{-1};
  Timestamp store_boot_{};  // as PageRead::store_boot
  BootTime tokens_at_{0};
  std::optional<BootTime> others_at_;  // when the main flow had events
  bool hurried_ = false;
  int idle_looks_ = 0;
};

}  // namespace sealane
