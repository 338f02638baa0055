#pragma once

#include <cstddef>
#include <vector>

#include "bench_inbox/contestant.hpp"

namespace sealane::bench {

/// Our consumer as `sealane consume` would wire it, with a handler in C++ that does the upsert through
/// HandlerTransaction::Execute(). It must end with exactly as many effects as there are events.
Lap RunConsumer(const Contestant& contestant);

/// The memory of the process after so many events.
struct MemoryMark {
  std::size_t events = 0;
  double mib = 0;
};
/// The same from a feed that makes its messages one by one, which tells its memory at these numbers of events.
std::vector<MemoryMark> WatchConsumer(const Contestant& contestant, const std::vector<std::size_t>& at);

}  // namespace sealane::bench
