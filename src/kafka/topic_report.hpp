#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kafka/producer.hpp"

namespace sealane {

/// What a look at one topic shows. Facts only: whoever asked judges them.
struct TopicReport {
  std::string name;
  bool is_there = false;  ///< false also for a topic that this user may not see
  std::size_t partitions = 0;
  std::size_t replicas = 0;                            ///< of the partition with the fewest
  std::size_t without_leader = 0;                      ///< partitions that nobody can write to now
  std::size_t under_replicated = 0;                    ///< partitions some of whose replicas are behind
  std::optional<std::int64_t> message_bytes_max = {};  ///< empty: this user may not know
  std::optional<std::int64_t> insync_min = {};         ///< likewise
};

namespace kafka {

/// What there is of these topics, in their order. Creates none of them: all topics are asked for, not these.
/// Settings that do not come within `timeout` are left out; empty when no broker answers at all.
std::optional<std::vector<TopicReport>> DescribeTopics(Producer& producer, const std::vector<std::string>& names,
                                                       int timeout_ms);

/// Whether this broker makes topics when they are first asked for; empty when this user may not know.
std::optional<bool> MakesTopics(Producer& producer, std::int32_t broker_id, int timeout_ms);

}  // namespace kafka
}  // namespace sealane
