#pragma once

#include <cstddef>
#include <string_view>

namespace sealane::kafka {

/// librdkafka's choice of a partition for a key that is present, as a function of the key and the number of
/// partitions.
using Partitioner = std::size_t (*)(std::string_view key, std::size_t partitions);

/// By the value of the property `partitioner`; null for one that does not keep a key in one partition.
Partitioner PartitionerOf(std::string_view name);

}  // namespace sealane::kafka
