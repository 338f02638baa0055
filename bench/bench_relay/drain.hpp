#pragma once

#include <cstddef>
#include <string>

#include "bench_relay/fresh_relay.hpp"

namespace sealane::bench {

/// Drains the whole outbox through a relay on a route that nobody used before, and returns events per second: from
/// nothing opened to everything settled and released.
double Drain(const std::string& url, const Destination& destination, std::size_t events);

}  // namespace sealane::bench
