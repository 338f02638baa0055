#include "relay/lease_keeper.hpp"

#include <algorithm>

#include "base/crash_point.hpp"
#include "base/log.hpp"

namespace sealane {

LeaseKeeper::LeaseKeeper(const RouteOptions& options, LeaseBoard& board, Clock& clock)
    : options_(options), board_(board), clock_(clock) {}

Status LeaseKeeper::RunOnce(OutboxLog& log) {
  // Counted from before the question: the store's answer may have taken long to come.
  const BootTime asked = clock_.SinceBoot();
  SEALANE_ASSIGN_OR_RETURN(Membership membership, log.Beat(options_.lease_ttl));
  CrashPoint("keeper.beat");
  const auto margin = options_.lease_ttl / 10;
  const std::vector<LeaseBoard::Held> known = board_.held();
  const std::size_t before = known.size();
  // Lanes that the store still counts as ours and nobody here works on: dropped after an error, or because a
  // heartbeat came too late. They are given back, to be taken anew under the next epoch.
  std::vector<LaneLease> strays;
  for (const LaneLease& lease : membership.held) {
    const bool mine = std::any_of(known.begin(), known.end(), [&](const auto& held) { return held.lease == lease; });
    if (!mine) strays.push_back(lease);
  }
  if (!strays.empty()) SEALANE_RETURN_IF_ERROR(log.Release(strays));
  board_.Renew(membership.held, asked + options_.lease_ttl - margin,
               {.paused = membership.paused,
                .tenants = membership.tenants,
                .lanes = membership.lanes,
                .live_relays = membership.live_relays,
                .last_beat_at = clock_.Now()},
               membership.changes);
  if (const std::size_t after = board_.held().size(); after < before) {
    LogWarning(
        "lanes lost",
        {{"store", options_.store}, {"route", options_.route}, {"owner", options_.owner}, {"lanes", before - after}});
  }
  SEALANE_RETURN_IF_ERROR(TakeShare(log, membership));
  if (tended_ < BootTime{0} || clock_.SinceBoot() - tended_ >= options_.tend_interval) {
    tended_ = clock_.SinceBoot();
    SEALANE_ASSIGN_OR_RETURN(const TendReport report, log.Tend());
    if (report.partitions_made > 0) {
      LogInfo("partitions made", {{"store", options_.store}, {"count", report.partitions_made}});
    }
  }
  return Ok();
}

std::size_t LeaseKeeper::Target(const Membership& membership) const {
  const auto lanes = static_cast<std::size_t>(std::max(membership.lanes, 1));
  const auto live = static_cast<std::size_t>(std::max(membership.live_relays, 1));
  if (!SpansLanes(options_.order)) return (lanes + live - 1) / live;
  const std::vector<LeaseBoard::Held> held = board_.held();
  const bool first = std::any_of(held.begin(), held.end(), [](const auto& one) { return one.lease.lane == 0; });
  // Whoever has others than the first gives them back: the one that has it needs all, and it may be free again.
  return first ? lanes : held.empty() ? 1 : 0;
}

Status LeaseKeeper::TakeShare(OutboxLog& log, const Membership& membership) {
  const std::size_t target = Target(membership);
  const std::size_t staying = board_.staying();
  if (staying > target) {
    board_.Shed(staying - target);
    return Ok();
  }
  if (staying == target) return Ok();
  SEALANE_ASSIGN_OR_RETURN(std::vector<LaneGrant> grants,
                           log.Claim(static_cast<std::int32_t>(target - staying), options_.lease_ttl));
  if (grants.empty()) return Ok();
  CrashPoint("keeper.claimed");
  if (SpansLanes(options_.order) && staying == 0 && grants.front().lease.lane != 0) {
    // Somebody else has lane 0 and will want this one.
    std::vector<LaneLease> leases;
    for (const LaneGrant& grant : grants) leases.push_back(grant.lease);
    return log.Release(leases);
  }
  LogInfo("lanes taken", {{"store", options_.store},
                          {"route", options_.route},
                          {"owner", options_.owner},
                          {"lanes", grants.size()},
                          {"live_relays", membership.live_relays}});
  board_.Grant(std::move(grants));
  return Ok();
}

}  // namespace sealane
