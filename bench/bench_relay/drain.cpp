#include "bench_relay/drain.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "bench_relay/session.hpp"
#include "bench_relay/stopwatch.hpp"

namespace sealane::bench {
namespace {

/// VmHWM of this process.
double PeakMemoryMib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    double kib = 0;
    status >> kib;
    return kib / 1024;
  }
  Fail("/proc/self/status does not say how much memory was used");
}

}  // namespace

double Drain(const std::string& url, const Destination& destination, std::size_t events) {
  const Stopwatch watch;
  const std::unique_ptr<Relay> relay = MakeRelay(url, FreshRoute(destination), PublisherTo(destination));
  const RelayEnd end = relay->Run({}, true);
  const double rate = watch.RateOf(events);
  const RelayStats stats = relay->stats();
  if (end != RelayEnd::kDrained || stats.published != events) {
    Fail(fmt::format("the relay published {} of {} events: {}", stats.published, events, stats.problem));
  }
  return rate;
}

double PeakMemoryOfDrain(const std::string& url, const Destination& destination, std::size_t events) {
  // By this name the program is found even when a build has replaced its file meanwhile.
  const std::string command = fmt::format("/proc/{}/exe --drain '{}' {} {} {} {}", ::getpid(), url, events,
                                          ToString(destination.profile), destination.broker_url, destination.topic);
  FILE* const answer = ::popen(command.c_str(), "r");
  double mib = 0;
  const bool read = answer != nullptr && std::fscanf(answer, "%lf", &mib) == 1;
  if (answer == nullptr || ::pclose(answer) != 0 || !read) Fail("the process that drains failed: " + command);
  return mib;
}

int DrainAlone(int argc, char** argv) {
  if (argc < 5) Fail("--drain takes URL EVENTS PROFILE [BROKER TOPIC]");
  const auto profile = ParseWireProfile(argv[4]);
  if (!profile) Fail("--drain: no such profile");
  const Destination destination{
      .broker_url = argc > 5 ? argv[5] : "", .topic = argc > 6 ? argv[6] : "", .profile = *profile};
  (void)Drain(argv[2], destination, std::strtoull(argv[3], nullptr, 10));
  fmt::print("{:.1f}\n", PeakMemoryMib());
  return 0;
}

}  // namespace sealane::bench
