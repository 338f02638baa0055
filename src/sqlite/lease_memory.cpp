#include "sqlite/lease_memory.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::sqlite {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;

struct Memories {
  std::mutex mutex;
  std::map<Key, std::shared_ptr<LeaseMemory>> all;  // guarded by mutex
};

Memories& AllMemories() {
  static Memories memories;
  return memories;
}

}  // namespace

std::shared_ptr<LeaseMemory> LeaseMemory::Of(const std::string& path, const std::string& route,
                                             const std::string& owner) {
  Memories& memories = AllMemories();
  const std::lock_guard lock(memories.mutex);
  std::shared_ptr<LeaseMemory>& memory = memories.all[Key(path, route, owner)];
  if (memory == nullptr) memory = std::make_shared<LeaseMemory>();
  return memory;
}

void LeaseMemory::Forget(const std::string& path, const std::string& route, const std::string& owner) {
  Memories& memories = AllMemories();
  const std::lock_guard lock(memories.mutex);
  memories.all.erase(Key(path, route, owner));
}

Status LeaseMemory::Recognise(const std::string& birth, const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (birth_.empty()) birth_ = birth;
  if (birth_ == birth) return Ok();
  return Error(ErrorKind::kMisconfigured, "another_outbox",
               fmt::format("{} is now another outbox (birth {}) than the one this relay works for (birth {})",
                           EscapeForTerminal(path), EscapeForTerminal(birth), EscapeForTerminal(birth_)))
      .WithHint("put the right file back, or restart the relay to work for this one");
}

std::int64_t LeaseMemory::highest_epoch() const {
  const std::lock_guard lock(mutex_);
  return highest_epoch_;
}

void LeaseMemory::Granted(std::int64_t epoch, std::int64_t writes, std::shared_ptr<const FilePin> file) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  highest_epoch_ = std::max(highest_epoch_, epoch);
  writes_ = writes;
  file_ = std::move(file);
  lost_ = false;
}

void LeaseMemory::Wrote(std::int64_t epoch, std::int64_t writes) {
  const std::lock_guard lock(mutex_);
  if (epoch == epoch_) writes_ = std::max(writes_, writes);
}

bool LeaseMemory::Trusts(std::int64_t epoch, std::int64_t writes, const FilePin& file) const {
  const std::lock_guard lock(mutex_);
  return file_ != nullptr && !lost_ && file_->id() == file.id() && epoch_ == epoch && writes >= writes_;
}

bool LeaseMemory::Covers(const FilePin& file) const {
  const std::lock_guard lock(mutex_);
  return file_ == nullptr || (!lost_ && file_->id() == file.id());
}

bool LeaseMemory::SawSeq(std::int64_t seq, const FilePin& file) {
  const std::lock_guard lock(mutex_);
  const bool went_back = seen_file_ == file.id() && seq < seen_seq_;
  seen_file_ = file.id();
  seen_seq_ = seq;
  return !went_back;
}

void LeaseMemory::Lose() {
  const std::lock_guard lock(mutex_);
  lost_ = true;
}

}  // namespace sealane::sqlite
