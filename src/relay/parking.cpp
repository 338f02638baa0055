#include "relay/parking.hpp"

#include <algorithm>

namespace sealane {

// ---- which units are held back --------------------------------------------------------------------

Parking::Map::iterator Parking::Insert(std::string_view unit, LaneLease lease, std::int64_t seq,
                                       std::string_view tenant) {
  auto place = blocked_.find(unit);
  if (place != blocked_.end()) return place;
  place = blocked_.try_emplace(std::string(unit)).first;
  auto counted = tenants_.find(tenant);
  if (counted == tenants_.end()) counted = tenants_.try_emplace(std::string(tenant)).first;
  ++counted->second.units;
  place->second.lease = lease;
  place->second.seq = seq;
  place->second.tenant = counted;
  return place;
}

void Parking::Erase(Map::iterator place) {
  Schedule(place, std::nullopt);
  Count(place->second, -place->second.events);
  const Tenants::iterator tenant = place->second.tenant;
  if (--tenant->second.units == 0) tenants_.erase(tenant);
  blocked_.erase(place);
}

void Parking::Schedule(Map::iterator place, std::optional<BootTime> due) {
  Blocked& blocked = place->second;
  if (blocked.due) queue_.erase({*blocked.due, place->first});
  blocked.due = due;
  if (due) queue_.emplace(*due, place->first);
}

void Parking::Count(Blocked& blocked, std::int64_t change) {
  change = std::max(change, -blocked.events);
  blocked.events += change;
  blocked.tenant->second.events += change;
  events_ += change;
}

std::int64_t Parking::events(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.events;
}

void Parking::Load(std::span<const BlockedUnit> units, BootTime now) {
  for (const BlockedUnit& unit : units) {
    const auto place = Insert(unit.unit, unit.lease, unit.seq, unit.tenant);
    Blocked& blocked = place->second;
    Count(blocked, unit.events - blocked.events);
    if (blocked.taken) {
      blocked.grew = true;  // looked at once more when the run is over
      continue;
    }
    blocked.lease = unit.lease;
    blocked.seq = unit.seq;
    Schedule(place, unit.dead ? std::nullopt : std::optional(now + unit.due_in));
  }
}

void Parking::Unblock(std::string_view unit) {
  const auto place = blocked_.find(unit);
  if (place == blocked_.end() || place->second.taken) return;
  const bool unwritten =
      std::any_of(park_.begin(), park_.end(), [&](const ParkChange& change) { return change.unit == unit; });
  if (!unwritten) Erase(place);
}

void Parking::Reconcile(std::span<const BlockedUnit> blocked, const std::set<std::string>& keep, BootTime now) {
  std::set<std::string_view> known(keep.begin(), keep.end());
  for (const BlockedUnit& unit : blocked) known.insert(unit.unit);
  for (const ParkChange& change : park_) known.insert(change.unit);
  for (auto place = blocked_.begin(); place != blocked_.end();) {
    const auto next = std::next(place);
    if (!place->second.taken && !known.contains(place->first)) Erase(place);
    place = next;
  }
  Load(blocked, now);
}

void Parking::Forget(std::span<const LaneLease> leases) {
  const auto lost = [&](const auto& item) {
    return std::find(leases.begin(), leases.end(), item.lease) != leases.end();
  };
  for (auto place = blocked_.begin(); place != blocked_.end();) {
    const auto next = std::next(place);
    if (lost(place->second)) Erase(place);
    place = next;
  }
  std::erase_if(park_, lost);
  std::erase_if(unpark_, lost);
  std::erase_if(delay_, lost);
  std::erase_if(undelay_, lost);
}

// ---- what happens to events -----------------------------------------------------------------------

void Parking::Block(std::string_view unit, LaneLease lease, std::int64_t seq, std::string_view tenant) {
  Insert(unit, lease, seq, tenant);
}

void Parking::Park(ParkChange change, bool fresh, BootTime now) {
  // Of one whose followers go on without it nothing is remembered: it holds back nothing and is not tried again.
  if (!change.holds_followers) {
    if (const auto place = blocked_.find(change.unit); place != blocked_.end() && !fresh) Count(place->second, -1);
    park_.push_back(std::move(change));
    return;
  }
  const auto place = Insert(change.unit, change.lease, change.seq, change.tenant);
  Blocked& blocked = place->second;
  if (fresh) Count(blocked, 1);
  blocked.grew = true;
  if (change.seq <= blocked.seq && !blocked.taken) {
    blocked.lease = change.lease;
    blocked.seq = change.seq;
    std::optional<BootTime> due;
    if (change.state != ParkedState::kDead) due = now + change.retry_after.value_or(std::chrono::milliseconds{0});
    Schedule(place, due);
  }
  park_.push_back(std::move(change));
}

void Parking::Unpark(LaneLease lease, std::int64_t seq, std::string_view unit) {
  if (const auto place = blocked_.find(unit); place != blocked_.end()) Count(place->second, -1);
  unpark_.push_back({.lease = lease, .seq = seq, .waits_for = {}});
}

void Parking::Wait(ParkChange change, std::string_view unit) {
  if (const auto place = blocked_.find(unit); !unit.empty() && place != blocked_.end()) Count(place->second, -1);
  park_.push_back(std::move(change));
}

void Parking::Unwait(LaneLease lease, std::int64_t seq, std::string topic) {
  unpark_.push_back({.lease = lease, .seq = seq, .waits_for = std::move(topic)});
}

void Parking::AddTo(SettleRequest& request) const {
  request.park = park_;
  request.unpark = unpark_;
  request.delay = delay_;
  request.undelay = undelay_;
}

void Parking::Written() {
  park_.clear();
  unpark_.clear();
  delay_.clear();
  undelay_.clear();
}

// ---- trying again -----------------------------------------------------------------------------------

std::vector<DueUnit> Parking::TakeDue(BootTime now, std::span<const std::string> but_tenants,
                                      const std::set<std::string>& not_now, std::size_t max) {
  if (!std::equal(but_tenants.begin(), but_tenants.end(), paused_.begin(), paused_.end())) {
    paused_.assign(but_tenants.begin(), but_tenants.end());
    for (const std::string& unit : std::exchange(passed_over_, {})) {
      const auto place = blocked_.find(unit);
      if (place != blocked_.end() && !place->second.taken && !place->second.due) Schedule(place, now);
    }
  }
  std::vector<DueUnit> due;
  for (auto next = queue_.begin(); next != queue_.end() && next->first <= now && due.size() < max;) {
    const auto place = blocked_.find(next->second);
    ++next;
    if (not_now.contains(place->first)) continue;
    Blocked& blocked = place->second;
    Schedule(place, std::nullopt);
    if (std::find(paused_.begin(), paused_.end(), blocked.tenant->first) != paused_.end()) {
      passed_over_.push_back(place->first);
      continue;
    }
    blocked.taken = true;
    blocked.grew = false;
    due.push_back({.lease = blocked.lease, .unit = place->first});
  }
  return due;
}

std::optional<BootTime> Parking::next_due() const {
  return queue_.empty() ? std::nullopt : std::optional(queue_.begin()->first);
}

void Parking::Later(std::string_view unit, std::optional<BootTime> due) {
  const auto place = blocked_.find(unit);
  if (place == blocked_.end()) return;
  place->second.taken = false;
  Schedule(place, due);
}

bool Parking::IsRunning(LaneLease lease) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     // A unit may span lanes: the message on its way may be of another than its first.
                     [&](const auto& run) {
                       return run != nullptr && (run->unit.lease == lease || run->entry().lane == lease.lane);
                     });
}

std::uint32_t Parking::Begin(RetryRun run) {
  auto place = std::find(runs_.begin(), runs_.end(), nullptr);
  if (place == runs_.end()) place = runs_.insert(runs_.end(), nullptr);
  *place = std::make_unique<RetryRun>(std::move(run));
  ++running_;
  return static_cast<std::uint32_t>(place - runs_.begin());
}

void Parking::Resolve(std::string_view unit, const ParkedUnit& read, BootTime now) {
  const auto place = blocked_.find(unit);
  if (place == blocked_.end()) return;
  place->second.taken = false;
  // What was parked since it was read may come before what is left.
  if (place->second.grew) return Schedule(place, now);
  switch (read.rest) {
    case ParkedUnit::Rest::kNothing:
      return Erase(place);
    case ParkedUnit::Rest::kMore:
      return Schedule(place, now);
    case ParkedUnit::Rest::kLater:
      return Schedule(place, now + read.due_in);
    case ParkedUnit::Rest::kDead:
    case ParkedUnit::Rest::kGone:
      return Schedule(place, std::nullopt);
  }
}

bool Parking::IsRunning(std::string_view unit) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [&](const auto& run) { return run != nullptr && run->unit.unit == unit; });
}

void Parking::End(std::uint32_t slot) {
  runs_.at(slot).reset();
  --running_;
}

}  // namespace sealane
