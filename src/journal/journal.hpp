#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "sealane/clock.hpp"
#include "sealane/event.hpp"

#include "broker/held_message.hpp"

namespace sealane {

/// The embedded broker: one SQLite file that any number of processes of one machine publish to and read from.
///
/// A topic has a fixed number of partitions; messages of one key go to one partition and get gapless offsets there.
/// Groups remember how far they have read each partition and share partitions between their members.
struct JournalOptions {
  std::string path;                                       ///< made when it is not there
  std::int32_t partitions = 16;                           ///< of topics that the first message makes
  std::size_t message_max_bytes = std::size_t{8} << 20U;  ///< key, value and headers; larger ones are rejected
  HoldLimits hold = {};                                   ///< of a publisher
  std::chrono::milliseconds busy_patience = std::chrono::seconds{5};  ///< a writer this long in our way is an outage
};

inline constexpr std::int32_t kJournalPartitionsMax = 1024;

/// One partition of a topic and the offsets it holds: [first_offset, next_offset).
struct JournalPartition {
  std::string topic = {};
  std::int32_t partition = 0;
  std::int64_t first_offset = 0;
  std::int64_t next_offset = 0;
  std::int64_t bytes = 0;  ///< of the messages in it
};

/// A message as it was published.
struct JournalMessage {
  std::string topic = {};
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  EventId event_id = {};
  Timestamp published_at{};
  std::string key = {};
  std::string value = {};
  Headers headers = {};
};

}  // namespace sealane
