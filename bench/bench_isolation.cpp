// What one tenant, key, target or operator may cost everybody else: runs the built `sealane` beside a disturbance and
// without it, and compares, in one run. docs/benchmarks.md explains the scenarios and the figures.

#include <array>
#include <cstdlib>
#include <sstream>
#include <string>

#include "base/log.hpp"
#include "bench_isolation/processes.hpp"
#include "bench_isolation/stage.hpp"
#include "common/goals.hpp"

namespace {

using namespace sealane::bench;

struct Scenario {
  const char* name;
  void (*run)(Stage&);
  bool needs_kafka;
};

constexpr std::array kScenarios = {Scenario{"delayed", RunDelayed, true},
                                   Scenario{"dead", RunDead, true},
                                   Scenario{"dead-consumer", RunDeadConsumer, true},
                                   Scenario{"expired", RunExpired, true},
                                   Scenario{"targets", RunTargets, false},
                                   Scenario{"bad-deploy", RunBadDeploy, true},
                                   Scenario{"partitions", RunPartitions, false},
                                   Scenario{"idle", RunIdle, true},
                                   Scenario{"huge", RunHuge, true}};

[[noreturn]] void ShowUsage() {
  std::string names;
  for (const Scenario& scenario : kScenarios) names += fmt::format("{}{}", names.empty() ? "" : "|", scenario.name);
  Fail("usage: bench_isolation [-o json] [--scale FACTOR] [--rounds N] [--consume-args 'FLAGS'] [--only " + names +
       "]");
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (i + 1 == argc) ShowUsage();
    const std::string value = argv[++i];
    if (argument == "-o") {
      options.json = value == "json";
    } else if (argument == "--scale") {
      options.scale = std::strtod(value.c_str(), nullptr);
    } else if (argument == "--rounds") {
      options.rounds = std::atoi(value.c_str());
    } else if (argument == "--only") {
      options.only = value;
    } else if (argument == "--consume-args") {
      std::istringstream words(value);
      for (std::string word; words >> word;) options.consume_arguments.push_back(word);
    } else {
      ShowUsage();
    }
  }
  bool known = options.only.empty();
  for (const Scenario& scenario : kScenarios) known = known || options.only == scenario.name;
  if (!known || options.rounds < 1 || !(options.scale > 0)) ShowUsage();
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  sealane::Logger::Instance().SetLevel(sealane::LogLevel::kWarning);
  const Options options = Parse(argc, argv);
  const char* const cluster = std::getenv("SEALANE_BENCH_POSTGRES");
  if (cluster == nullptr) Fail("run it with ./dev bench isolation (SEALANE_BENCH_POSTGRES names no server)");
  const char* const broker = std::getenv("SEALANE_BENCH_KAFKA");
  CleanUpAtTheEnd();
  WarnWhenBusy("isolation");
  Stage stage(cluster, broker == nullptr ? "" : broker, options);
  for (const Scenario& scenario : kScenarios) {
    if (!options.only.empty() && options.only != scenario.name) continue;
    if (scenario.needs_kafka && broker == nullptr) {
      stage.Say("NO KAFKA: {} is left out; ./dev setup gets it", scenario.name);
      continue;
    }
    scenario.run(stage);
  }
  stage.Print();
  return 0;
}
