#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kafka/producer.hpp"

namespace sealane {

/// How far a group of consumers is behind.
struct GroupLag {
  std::string group;
  std::int64_t messages = 0;   ///< published and not yet acknowledged by the group
  std::size_t partitions = 0;  ///< that the group has acknowledged something of, at most kafka::kLagPartitionsMax
};

namespace kafka {

inline constexpr std::size_t kLagPartitionsMax = 256;

/// Compares what the group has acknowledged with the ends of the partitions. Empty when the cluster does not know the
/// group, or this user may not ask for it. Each question waits for at most `timeout_ms`.
std::optional<GroupLag> LagOf(Producer& producer, const std::string& group, int timeout_ms);

}  // namespace kafka
}  // namespace sealane
