#include "bench_relay/lap.hpp"

#include <cstdlib>

#include <fmt/format.h>

#include "bench_relay/drain.hpp"
#include "bench_relay/kafka_loops.hpp"
#include "bench_relay/table_loops.hpp"
#include "common/session.hpp"
#include "common/stopwatch.hpp"

namespace sealane::bench {
namespace {

double RateOfWay(const std::string& way, const std::string& url, const Destination& to, std::size_t events) {
  if (way == "select") return ReadBySelect(url, events);
  if (way == "copy") return ReadByCopy(url, events);
  if (way == "skip-locked") return PublishBySkipLocked(url, events);
  if (way == "memory") return ProduceFromMemory(url, to.broker_url, to.topic, events);
  if (way == "bare") return ProduceFromTable(url, to.broker_url, to.topic, events);
  if (way == "drain") return Drain(url, to, events);
  Fail("--alone: there is no way " + way);
}

}  // namespace

Lap RunAlone(const std::string& way, const std::string& url, const Destination& destination, std::size_t events) {
  return RunAgain(fmt::format("--alone {} '{}' {} {} {} {}", way, url, events, ToString(destination.profile),
                              destination.broker_url, destination.topic));
}

int BeAlone(int argc, char** argv) {
  if (argc < 6) Fail("--alone takes WAY URL EVENTS PROFILE [BROKER TOPIC]");
  const auto profile = ParseWireProfile(argv[5]);
  const std::size_t events = std::strtoull(argv[4], nullptr, 10);
  if (!profile || events == 0) Fail("--alone: no such profile, or no events");
  const Destination destination{
      .broker_url = argc > 6 ? argv[6] : "", .topic = argc > 7 ? argv[7] : "", .profile = *profile};
  const double rate = RateOfWay(argv[2], argv[3], destination, events);
  Tell({rate, CpuSeconds() * 1e6 / static_cast<double>(events), PeakMemoryMib()});
  return 0;
}

}  // namespace sealane::bench
