#include "bench_relay/drain.hpp"

#include <memory>

#include <fmt/format.h>

#include "common/session.hpp"
#include "common/stopwatch.hpp"

namespace sealane::bench {
double Drain(const std::string& url, const Destination& destination, std::size_t events) {
  const Stopwatch watch;
  const std::unique_ptr<RouteRelay> relay = MakeRelay(url, FreshRoute(destination), PublisherTo(destination));
  const RelayEnd end = relay->Run({}, true);
  const double rate = watch.RateOf(events);
  const RouteStats stats = relay->stats();
  if (end != RelayEnd::kDrained || stats.published != events) {
    Fail(fmt::format("the relay published {} of {} events: {}", stats.published, events, stats.problem));
  }
  return rate;
}

}  // namespace sealane::bench
