#pragma once

#include "bench_inbox/contestant.hpp"

namespace sealane::bench {

/// The same from a topic: every worker has a librdkafka consumer of its own with its share of the partitions, no
/// group, and commits nothing to the broker. The client's properties are those of our subscription.
Lap RunBareFromKafka(const Contestant& contestant);

/// Writes the messages of a Feed to a topic of kPartitions partitions, each to the partition that the feed names.
void FillTopic(const std::string& broker_url, const std::string& topic, std::size_t events);

}  // namespace sealane::bench
