#pragma once

#include <cstddef>
#include <string>

#include "bench_relay/fresh_relay.hpp"

namespace sealane::bench {

/// Drains the whole outbox through a relay on a route that nobody used before, and returns events per second: from
/// nothing opened to everything settled and released.
double Drain(const std::string& url, const Destination& destination, std::size_t events);

/// Drain() in a process of its own. Returns the most memory it ever had, in MiB.
double PeakMemoryOfDrain(const std::string& url, const Destination& destination, std::size_t events);

/// What the process of PeakMemoryOfDrain() is started with: `--drain URL EVENTS PROFILE [BROKER TOPIC]`. Prints its
/// peak and returns the exit code.
int DrainAlone(int argc, char** argv);

}  // namespace sealane::bench
