#include "inbox/partition_run.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

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

PartitionRun::PartitionRun(AttachedPartition attached, std::string life, std::size_t recent_max)
    : partition_(attached.partition),
      life_(std::move(life)),
      epoch_(attached.epoch),
      attached_(std::move(attached)),
      position_(attached_.next_offset.value_or(0)),
      recent_(recent_max),
      serial_(attached_.deaths >= kDeathsUntilCare || attached_.suspect_deaths > 0),
      careful_(serial_),
      saved_(position_) {
  if (attached_.witness) done_.emplace(attached_.witness->offset, *attached_.witness);
  LoadRecent();
}

void PartitionRun::LoadRecent() {
  for (std::size_t i = 0; i < attached_.recent.size(); ++i) {
    recent_.Add(attached_.recent[i], attached_.recent_through[i]);
  }
  attached_.recent.clear();
  attached_.recent_through.clear();
}

void PartitionRun::Supersede(std::uint64_t polls) {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (!superseded_after_) superseded_after_ = polls;
}

std::optional<std::uint64_t> PartitionRun::superseded_after() const {
  const std::lock_guard lock(mutex_);
  return superseded_after_;
}

void PartitionRun::Begin(std::int64_t offset) {
  const std::lock_guard lock(mutex_);
  open_.emplace(offset, false);
  next_ = std::max(next_.value_or(offset + 1), offset + 1);
}

void PartitionRun::Finish(std::int64_t offset, std::optional<Witness> witness) {
  const std::lock_guard lock(mutex_);
  const auto at = open_.find(offset);
  if (at == open_.end()) return;
  at->second = true;
  while (!open_.empty() && open_.begin()->second) open_.erase(open_.begin());
  if (!witness) return;
  done_.emplace(witness->offset, *std::move(witness));
  // Of those below everything that is open, the newest is enough.
  const std::int64_t low = open_.empty() ? *next_ : open_.begin()->first;
  ForgetWitnessesBelow(low);
}

void PartitionRun::ForgetWitnessesBelow(std::int64_t offset) {
  auto newest = done_.lower_bound(offset);
  if (newest == done_.begin()) return;
  done_.erase(done_.begin(), std::prev(newest));
}

PositionSave PartitionRun::NextSave() const {
  const std::lock_guard lock(mutex_);
  const std::int64_t low = open_.empty() ? next_.value_or(saved_) : open_.begin()->first;
  PositionSave save{.partition = partition_, .epoch = epoch_, .from = saved_, .to = std::max(saved_, low)};
  if (save.to == saved_) return save;
  const auto above = done_.lower_bound(save.to);
  if (above != done_.begin()) {
    save.witness = std::prev(above)->second;
  } else {
    // A position without a witness could be taken for one in another topic. The end of the batch brings one.
    save.to = saved_;
  }
  return save;
}

void PartitionRun::Saved(const PositionSave& save) {
  const std::lock_guard lock(mutex_);
  saved_ = std::max(saved_, save.to);
}

std::int64_t PartitionRun::saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

std::optional<Witness> PartitionRun::witness() const {
  const std::lock_guard lock(mutex_);
  if (done_.empty()) return std::nullopt;
  return done_.begin()->second;
}

void PartitionRun::Moved(std::int64_t to, const Witness& witness) {
  position_ = to;
  const std::lock_guard lock(mutex_);
  done_.clear();
  done_.emplace(witness.offset, witness);
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
