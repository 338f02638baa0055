#pragma once

#include <chrono>

#include "bench_relay/fresh_relay.hpp"
#include "common/session.hpp"

namespace sealane::bench {

struct IdleCost {
  double cpu_share = 0;  ///< of one core
  double statements_per_second = 0;
};

/// Of a relay that has published everything and waits.
IdleCost MeasureIdle(const Database& database, const Destination& destination, std::chrono::seconds length);

}  // namespace sealane::bench
