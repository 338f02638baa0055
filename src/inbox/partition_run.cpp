#include "inbox/partition_run.hpp"

#include <algorithm>
#include <cstring>

namespace sealane {

std::size_t RecentEvents::Hash::operator()(const EventId::Bytes& bytes) const {
  // The last eight bytes of an id are random in every version that producers use.
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + 8, sizeof value);
  return static_cast<std::size_t>(value * 0x9e3779b97f4a7c15U);
}

void RecentEvents::Add(const EventId& id, std::int64_t through) {
  if (!known_.insert(id.bytes()).second) return;
  order_.emplace_back(id, through);
  while (order_.size() > max_) {
    // A row of the store holds all ids of one batch: it may go when the last of them is out.
    const std::int64_t out = order_.front().second;
    known_.erase(order_.front().first.bytes());
    order_.pop_front();
    if (order_.empty() || order_.front().second > out) forgettable_ = out;
  }
}

void RecentEvents::Clear() {
  order_.clear();
  known_.clear();
  forgettable_.reset();
}

PartitionRun::PartitionRun(AttachedPartition attached, std::size_t recent_max)
    : position(attached.next_offset),
      partition_(attached.partition),
      attached_(std::move(attached)),
      recent_(recent_max),
      serial_(attached_.deaths >= kDeathsUntilCare || attached_.suspect_deaths > 0),
      careful_(serial_) {
  LoadRecent();
}

void PartitionRun::LoadRecent() {
  for (std::size_t i = 0; i < attached_.recent.size(); ++i) {
    recent_.Add(attached_.recent[i], attached_.recent_through[i]);
  }
  attached_.recent.clear();
  attached_.recent_through.clear();
}

void PartitionRun::Reattach(AttachedPartition attached) {
  attached_ = std::move(attached);
  position = attached_.next_offset;
  recent_.Clear();
  LoadRecent();
}

void PartitionRun::Begin(std::int64_t offset) {
  const std::lock_guard lock(mutex_);
  open_.emplace(offset, false);
  next_ = std::max(next_.value_or(offset + 1), offset + 1);
}

void PartitionRun::Finish(std::int64_t offset) {
  const std::lock_guard lock(mutex_);
  const auto at = open_.find(offset);
  if (at == open_.end()) return;
  at->second = true;
  while (!open_.empty() && open_.begin()->second) open_.erase(open_.begin());
}

std::optional<std::int64_t> PartitionRun::low_water() const {
  const std::lock_guard lock(mutex_);
  return open_.empty() ? next_ : std::optional(open_.begin()->first);
}

std::size_t PartitionRun::in_flight() const {
  const std::lock_guard lock(mutex_);
  return open_.size();
}

}  // namespace sealane
