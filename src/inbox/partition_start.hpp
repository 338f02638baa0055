#pragma once

#include <cstdint>
#include <optional>

#include "broker/subscription.hpp"
#include "inbox/inbox_store.hpp"

namespace sealane {

/// What is remembered of a message to recognise it. By the raw message, so that it does not depend on how its bytes
/// are read; the publishing time tells events that were published again into a topic that was made again.
Witness WitnessOf(const ReceivedMessage& message);

/// Where a partition that was attached is read from, or why it is not.
struct PartitionBeginning {
  std::int64_t offset = 0;
  bool place = false;  ///< the store does not know this position yet: InboxStore::Place() first
  std::optional<PartitionStop> stop = {};
};

/// The position in the store counts. The broker's group counts only where the store never had a position, and only
/// for partitions from before stores kept one: a group that is ahead of a store without a position may mean that the
/// store is another one. Codes of stops: `topic_recreated`, `position_beyond_end`, `messages_gone`,
/// `position_unknown`.
///
/// `at_witness` is the message at the witness's offset, if there is one. `at_time` is the offset for a ResumePoint
/// with a time.
PartitionBeginning DecideBeginning(const AttachedPartition& attached, const PartitionFacts& facts,
                                   const std::optional<ReceivedMessage>& at_witness,
                                   std::optional<std::int64_t> at_time);

}  // namespace sealane
