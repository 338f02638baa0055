#include "relay/parking.hpp"

#include <algorithm>
#include <set>

namespace sealane {

void Parking::Block(std::string_view unit, LaneLease lease) {
  blocked_.insert_or_assign(std::string(unit), lease);
}

void Parking::Load(std::span<const DueUnit> units) {
  for (const DueUnit& unit : units) Block(unit.unit, unit.lease);
}

void Parking::Reconcile(std::span<const DueUnit> blocked_in_store, const std::set<std::string>& on_their_way) {
  std::set<std::string_view> keep(on_their_way.begin(), on_their_way.end());
  for (const DueUnit& unit : blocked_in_store) keep.insert(unit.unit);
  for (const ParkChange& change : park_) {
    if (change.waits_for.empty()) keep.insert(change.unit);
  }
  for (const auto& run : runs_) {
    if (run != nullptr) keep.insert(run->unit.unit);
  }
  std::erase_if(blocked_, [&](const auto& entry) { return keep.find(entry.first) == keep.end(); });
  Load(blocked_in_store);
}

void Parking::Forget(LaneLease lease) {
  std::erase_if(blocked_, [&](const auto& entry) { return entry.second == lease; });
  std::erase_if(park_, [&](const ParkChange& change) { return change.lease == lease; });
  std::erase_if(unpark_, [&](const sealane::Unpark& unpark) { return unpark.lease == lease; });
}

void Parking::ForgetAll() {
  blocked_.clear();
  park_.clear();
  unpark_.clear();
}

void Parking::Park(ParkChange change) {
  park_.push_back(std::move(change));
}

void Parking::Unpark(LaneLease lease, std::int64_t seq, std::string waits_for) {
  unpark_.push_back({.lease = lease, .seq = seq, .waits_for = std::move(waits_for)});
}

void Parking::AddTo(SettleRequest& request) const {
  request.park = park_;
  request.unpark = unpark_;
}

void Parking::Written() {
  park_.clear();
  unpark_.clear();
}

bool Parking::IsRunning(const DueUnit& unit) const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [&](const auto& run) { return run != nullptr && run->unit.unit == unit.unit; });
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

void Parking::End(std::uint32_t slot) {
  runs_.at(slot).reset();
  --running_;
}

}  // namespace sealane
