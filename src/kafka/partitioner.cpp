#include "kafka/partitioner.hpp"

#include <librdkafka/rdkafka.h>

namespace sealane::kafka {
namespace {

template <auto Choose>
std::size_t Apply(std::string_view key, std::size_t partitions) {
  // These look at the key and the number alone.
  const char* const bytes = key.data() != nullptr ? key.data() : "";
  return static_cast<std::size_t>(
      Choose(nullptr, bytes, key.size(), static_cast<std::int32_t>(partitions), nullptr, nullptr));
}

}  // namespace

Partitioner PartitionerOf(std::string_view name) {
  // The forms ending in _random differ for messages without a key only, and ours have one.
  if (name == "murmur2" || name == "murmur2_random") return &Apply<rd_kafka_msg_partitioner_murmur2>;
  if (name == "fnv1a" || name == "fnv1a_random") return &Apply<rd_kafka_msg_partitioner_fnv1a>;
  if (name == "consistent") return &Apply<rd_kafka_msg_partitioner_consistent>;
  return nullptr;
}

}  // namespace sealane::kafka
