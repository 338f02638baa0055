#include "relay/lease_board.hpp"

#include <algorithm>

namespace sealane {

void LeaseBoard::Changed() {
  generation_.fetch_add(1, std::memory_order_release);
  if (changed_) changed_();
}

void LeaseBoard::Grant(std::vector<LaneGrant> grants) {
  if (grants.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (LaneGrant& grant : grants) {
      std::erase_if(held_, [&](const Held& held) { return held.lease.lane == grant.lease.lane; });
      held_.push_back(Held{.lease = grant.lease, .granted = std::move(grant.positions)});
    }
    std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) { return a.lease.lane < b.lease.lane; });
  }
  Changed();
}

void LeaseBoard::Renew(std::span<const LaneLease> held, BootTime deadline, Decisions decisions, bool changes) {
  if (changes) NoteChanges();
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    changed = std::erase_if(held_, [&](const Held& mine) {
                return std::find(held.begin(), held.end(), mine.lease) == held.end();
              }) > 0;
    changed = changed || decisions_.paused != decisions.paused || decisions_.tenants != decisions.tenants;
    decisions_ = std::move(decisions);
    deadline_.store(deadline.count(), std::memory_order_release);
  }
  if (changed) Changed();
}

void LeaseBoard::Shed(std::size_t count) {
  if (count == 0) return;
  {
    const std::lock_guard lock(mutex_);
    for (auto held = held_.rbegin(); held != held_.rend() && count > 0; ++held) {
      if (held->leaving) continue;
      held->leaving = true;
      --count;
    }
  }
  Changed();
}

std::size_t LeaseBoard::staying() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(held_.begin(), held_.end(), [](const Held& held) { return !held.leaving; }));
}

void LeaseBoard::Drop(LaneLease lease) {
  {
    const std::lock_guard lock(mutex_);
    if (std::erase_if(held_, [&](const Held& held) { return held.lease == lease; }) == 0) return;
  }
  Changed();
}

void LeaseBoard::DropAll() {
  {
    const std::lock_guard lock(mutex_);
    if (held_.empty()) return;
    held_.clear();
  }
  Changed();
}

std::vector<LeaseBoard::Held> LeaseBoard::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void LeaseBoard::SetFull(std::vector<FullTenant> full) {
  {
    const std::lock_guard lock(mutex_);
    if (full_ == full) return;
    full_ = std::move(full);
  }
  Changed();
}

std::vector<LeaseBoard::FullTenant> LeaseBoard::full() const {
  const std::lock_guard lock(mutex_);
  return full_;
}

LeaseBoard::Decisions LeaseBoard::decisions() const {
  const std::lock_guard lock(mutex_);
  return decisions_;
}

}  // namespace sealane
