#pragma once

#include <cstddef>
#include <string>

#include "bench_relay/fresh_relay.hpp"
#include "common/lap.hpp"

namespace sealane::bench {

/// Runs a way in a process of its own, so that none finds the heap as another has left it:
///   select, copy        reads all rows
///   skip-locked         the textbook relay on the reference table
///   memory, bare        librdkafka alone, and fed from the table
///   drain               our relay
Lap RunAlone(const std::string& way, const std::string& url, const Destination& destination, std::size_t events);

/// What such a process is started with: `--alone WAY URL EVENTS PROFILE [BROKER TOPIC]`. Returns the exit code.
int BeAlone(int argc, char** argv);

}  // namespace sealane::bench
