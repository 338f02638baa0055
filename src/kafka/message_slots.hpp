#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sealane::kafka {

struct Topic;

/// What is remembered of each message under way, without an allocation per message: librdkafka carries the number of
/// the slot.
class MessageSlots {
 public:
  struct Slot {
    std::uint64_t token = 0;
    Topic* topic = nullptr;  // null: the slot is free
    std::size_t bytes = 0;
    std::size_t partition = 0;  // as chosen when it was sent
    std::uint32_t next_free = kNone;
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t Take(std::uint64_t token, Topic& topic, std::size_t bytes) {
    std::uint32_t index = first_free_;
    if (index == kNone) {
      index = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      first_free_ = slots_[index].next_free;
    }
    slots_[index] = {.token = token, .topic = &topic, .bytes = bytes};
    ++count_;
    bytes_ += bytes;
    return index;
  }

  void Release(std::uint32_t index) {
    Slot& slot = slots_[index];
    --count_;
    bytes_ -= slot.bytes;
    slot.topic = nullptr;
    slot.next_free = first_free_;
    first_free_ = index;
  }

  Slot& operator[](std::uint32_t index) { return slots_[index]; }
  /// All there ever were at once; those without a topic are free.
  std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<Slot> slots_;
  std::uint32_t first_free_ = kNone;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace sealane::kafka
