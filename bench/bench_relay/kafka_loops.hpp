#pragma once

#include <cstddef>
#include <string>

namespace sealane::bench {

// What librdkafka makes of the same messages without a relay. Each returns acknowledged events per second, from
// nothing opened to the last acknowledgement.

/// Messages that lie ready in memory: 20,000 of them, over and over.
double ProduceFromMemory(const std::string& url, const std::string& broker_url, const std::string& topic,
                         std::size_t events);

/// The bare loop, which nobody who keeps order, progress and failures in mind can beat: a thread reads ahead by
/// binary COPY, another one hands every row to librdkafka.
double ProduceFromTable(const std::string& url, const std::string& broker_url, const std::string& topic,
                        std::size_t events);

}  // namespace sealane::bench
