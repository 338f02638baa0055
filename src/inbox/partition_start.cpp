#include "inbox/partition_start.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/sha256.hpp"

namespace sealane {
namespace {

constexpr std::size_t kFingerprintSize = 16;

PartitionBeginning Stopped(std::string code, std::string message) {
  return {.offset = 0, .place = false, .stop = PartitionStop{std::move(code), std::move(message)}};
}

PartitionBeginning At(std::int64_t offset) {
  return {.offset = offset, .place = true, .stop = {}};
}

/// An operator has decided. What he named may be gone by now, or not be there yet.
PartitionBeginning Resumed(const ResumePoint& point, const PartitionFacts& facts,
                           std::optional<std::int64_t> at_time) {
  switch (point.kind) {
    case ResumePoint::Kind::kBeginning:
      return At(facts.oldest);
    case ResumePoint::Kind::kGroup:
      return At(std::clamp(facts.group.value_or(facts.oldest), facts.oldest, facts.end));
    case ResumePoint::Kind::kOffset:
      return At(std::clamp(point.offset, facts.oldest, facts.end));
    case ResumePoint::Kind::kTime:
      return At(std::clamp(at_time.value_or(facts.end), facts.oldest, facts.end));
  }
  return At(facts.oldest);
}

/// Why the position cannot be about this topic.
std::optional<std::string> SignOfAnotherTopic(const AttachedPartition& attached, const PartitionFacts& facts,
                                              const std::optional<ReceivedMessage>& at_witness) {
  if (!attached.topic_id.empty() && !facts.topic_id.empty() && attached.topic_id != facts.topic_id) {
    return fmt::format("the position belongs to topic id {}, and this topic has id {}", attached.topic_id,
                       facts.topic_id);
  }
  if (attached.witness && at_witness && WitnessOf(*at_witness) != *attached.witness) {
    return fmt::format("the message at offset {} is not the one that this consumer has applied",
                       attached.witness->offset);
  }
  return std::nullopt;
}

}  // namespace

Witness WitnessOf(const ReceivedMessage& message) {
  const Sha256Digest value = Sha256(message.value);
  std::string whole =
      fmt::format("{}:{}:{}", message.published_at.time_since_epoch().count(), message.key.size(), message.key);
  whole.append(reinterpret_cast<const char*>(value.data()), value.size());
  const Sha256Digest digest = Sha256(whole);
  return {.offset = message.offset,
          .fingerprint = std::string(reinterpret_cast<const char*>(digest.data()), kFingerprintSize)};
}

PartitionBeginning DecideBeginning(const AttachedPartition& attached, const PartitionFacts& facts,
                                   const std::optional<ReceivedMessage>& at_witness,
                                   std::optional<std::int64_t> at_time) {
  if (attached.resume) return Resumed(*attached.resume, facts, at_time);
  if (attached.stop) return {.offset = 0, .place = false, .stop = attached.stop};
  if (!attached.next_offset && !facts.group) return At(facts.oldest);
  if (!attached.next_offset && !attached.follows_group) {
    // Nothing that is there is passed over.
    if (*facts.group <= facts.oldest) return At(facts.oldest);
    return Stopped("position_unknown",
                   fmt::format("the group at the broker stands at {}, but this store has no position: it may be "
                               "another store than the one in which those events were applied",
                               *facts.group));
  }
  const std::int64_t position = attached.next_offset ? *attached.next_offset : *facts.group;
  if (auto sign = SignOfAnotherTopic(attached, facts, at_witness)) {
    return Stopped("topic_recreated", "the topic was deleted and made again, or its broker was replaced: " + *sign);
  }
  if (position > facts.end) {
    return Stopped(
        "position_beyond_end",
        fmt::format("this consumer has applied everything below {}, but the partition ends at {}: the topic "
                    "was made again, or has lost messages",
                    position, facts.end));
  }
  if (position < facts.oldest) {
    return Stopped("messages_gone", fmt::format("the next message to apply is {}, but the oldest that the broker "
                                                "still has is {}: retention was faster than this consumer",
                                                position, facts.oldest));
  }
  return {.offset = position, .place = !attached.next_offset, .stop = {}};
}

}  // namespace sealane
