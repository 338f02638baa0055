#include "sqlite/inbox_memory.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace sealane::sqlite {

std::shared_ptr<InboxMemory> InboxMemory::Of(const FileId& file, const std::string& consumer) {
  static std::mutex mutex;
  // Only while a connection is open, so that its file's number belongs to no other file.
  static std::map<std::tuple<dev_t, ino_t, std::string>, std::weak_ptr<InboxMemory>> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<InboxMemory>& known = all[{file.device, file.number, consumer}];
  std::shared_ptr<InboxMemory> memory = known.lock();
  if (memory == nullptr) known = memory = std::make_shared<InboxMemory>();
  return memory;
}

std::int64_t InboxMemory::restores() const {
  const std::lock_guard lock(mutex_);
  return restores_;
}

bool InboxMemory::Saw(std::int64_t writes, std::int64_t restores_then) {
  const std::lock_guard lock(mutex_);
  if (writes < writes_) ++restores_;
  writes_ = writes;
  return restores_ == restores_then;
}

void InboxMemory::Wrote(std::int64_t writes) {
  const std::lock_guard lock(mutex_);
  writes_ = std::max(writes_, writes);
}

}  // namespace sealane::sqlite
