#include "bench_relay/lap.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "bench_relay/drain.hpp"
#include "bench_relay/kafka_loops.hpp"
#include "bench_relay/session.hpp"
#include "bench_relay/stopwatch.hpp"
#include "bench_relay/table_loops.hpp"

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
  // By this name the program is found even when a build has replaced its file meanwhile.
  const std::string command = fmt::format("/proc/{}/exe --alone {} '{}' {} {} {} {}", ::getpid(), way, url, events,
                                          ToString(destination.profile), destination.broker_url, destination.topic);
  FILE* const answer = ::popen(command.c_str(), "r");
  Lap lap;
  const bool read =
      answer != nullptr && std::fscanf(answer, "%lf %lf %lf", &lap.rate, &lap.cpu_us, &lap.peak_mib) == 3;
  if (answer == nullptr || ::pclose(answer) != 0 || !read) Fail("a process failed: " + command);
  return lap;
}

int BeAlone(int argc, char** argv) {
  if (argc < 6) Fail("--alone takes WAY URL EVENTS PROFILE [BROKER TOPIC]");
  const auto profile = ParseWireProfile(argv[5]);
  const std::size_t events = std::strtoull(argv[4], nullptr, 10);
  if (!profile || events == 0) Fail("--alone: no such profile, or no events");
  const Destination destination{
      .broker_url = argc > 6 ? argv[6] : "", .topic = argc > 7 ? argv[7] : "", .profile = *profile};
  const double rate = RateOfWay(argv[2], argv[3], destination, events);
  fmt::print("{} {} {}\n", rate, CpuSeconds() * 1e6 / static_cast<double>(events), PeakMemoryMib());
  return 0;
}

}  // namespace sealane::bench
