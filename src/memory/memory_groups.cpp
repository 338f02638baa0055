#include "memory/memory_groups.hpp"

#include <algorithm>

namespace sealane::memory {

std::optional<ReceivedMessage> PartitionLog::At(std::int64_t offset) const {
  const auto found = From(offset);
  return found == messages.end() || found->offset != offset ? std::nullopt : std::optional(*found);
}

std::int64_t PartitionLog::OffsetAt(Timestamp time) const {
  const auto found =
      std::ranges::find_if(messages, [&](const ReceivedMessage& message) { return message.published_at >= time; });
  return found == messages.end() ? next_offset : found->offset;
}

void Group::Deal(const Logs& logs) {
  if (all_must_leave_) {
    const bool waiting = std::ranges::any_of(members, [](const auto& entry) { return !entry.second.held.empty(); });
    if (waiting) return;
    all_must_leave_ = false;
  }
  // Topics with the same readers are shared as one.
  std::map<std::vector<MemberId>, std::vector<Partition>> by_readers;
  for (const auto& [partition, log] : logs) {
    std::vector<MemberId> readers;
    for (const auto& [id, member] : members) {
      if (member.topics.contains(partition.topic)) readers.push_back(id);
    }
    if (!readers.empty()) by_readers[std::move(readers)].push_back(partition);
  }
  for (const auto& [readers, partitions] : by_readers) DealAmong(readers, partitions);
}

void Group::DealAmong(const std::vector<MemberId>& readers, const std::vector<Partition>& partitions) {
  std::map<MemberId, std::vector<Partition>> having;
  std::vector<Partition> free;
  for (const Partition& partition : partitions) {
    const auto owner =
        std::ranges::find_if(readers, [&](MemberId id) { return members.at(id).held.contains(partition); });
    if (owner == readers.end()) {
      free.push_back(partition);
    } else if (!members.at(*owner).held.at(partition).leaving) {
      having[*owner].push_back(partition);
    }
  }
  // Those who have most keep the partitions that do not divide evenly.
  std::vector<MemberId> order = readers;
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](MemberId id) { return having[id].size(); });
  std::size_t extra = partitions.size() % readers.size();
  auto next_free = free.begin();
  for (const MemberId id : order) {
    const std::size_t share = partitions.size() / readers.size() + (extra > 0 ? 1 : 0);
    if (extra > 0) --extra;
    std::vector<Partition>& own = having[id];
    for (; own.size() > share; own.pop_back()) members.at(id).held.at(own.back()).leaving = true;
    for (; own.size() < share && next_free != free.end(); ++next_free) {
      own.push_back(*next_free);
      members.at(id).held.emplace(*next_free, Hold{});
    }
  }
}

void Group::LeaveAll() {
  all_must_leave_ = true;
  for (auto& [id, member] : members) {
    for (auto& [partition, hold] : member.held) hold.leaving = true;
  }
}

void Group::Take(MemberId id, const Partition& partition) {
  GroupMember& member = members.at(id);
  const auto found = member.held.find(partition);
  if (found == member.held.end()) return;
  if (found->second.told) member.lost.push_back(partition);
  member.uncommitted.erase(partition);
  member.held.erase(found);
}

bool Group::BuryExpired(BootTime now) {
  return std::erase_if(members, [&](const auto& entry) {
           return entry.second.expires_at && *entry.second.expires_at <= now;
         }) > 0;
}

GroupMember* Group::OwnerOf(const Partition& partition) {
  for (auto& [id, member] : members) {
    if (member.held.contains(partition)) return &member;
  }
  return nullptr;
}

std::optional<std::int64_t> Group::Committed(const Partition& partition) const {
  const auto found = committed.find(partition);
  return found == committed.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace sealane::memory
