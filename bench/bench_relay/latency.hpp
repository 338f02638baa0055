#pragma once

#include <cstddef>
#include <string>

namespace sealane::bench {

struct Latency {
  double p50_ms = 0;
  double p99_ms = 0;
  double rate = 0;  ///< events per second that the writer really made
};

/// Which events go out how often, and where to.
struct Pace {
  std::string url;  ///< of a database with an empty outbox
  std::string broker_url;
  std::size_t events = 10'000;
  double per_second = 1'000;
};

/// From the return of COMMIT to the acknowledgement by the broker, with our relay between the two: one writer, one
/// event per transaction. `bell`: the writer rings after each commit; otherwise the relay polls.
Latency CommitToAck(const Pace& pace, bool bell);

/// The broker's own share: from produce to the acknowledgement, with the same messages, pace and properties.
Latency ProduceToAck(const Pace& pace);

}  // namespace sealane::bench
