// Ten targets of tasks, one of which never answers.

#include <numeric>

#include "bench_isolation/http_targets.hpp"
#include "bench_isolation/stage.hpp"

namespace sealane::bench {
namespace {

constexpr std::size_t kTargets = 10;
constexpr std::size_t kLast = kTargets - 1;  // the one that may hang
constexpr double kTasksPerSecond = 100;      // over all targets

void Enqueue(const Session& session, std::size_t target, const std::string& key) {
  session.Exec(
      fmt::format("select sealane.enqueue_task(target => 't{}', operation => '/call', idempotency_key => '{}', "
                  "request => '{{}}'::text)",
                  target, key));
}

/// The share of the tasks for the other nine targets that arrives while more are written, 90 a second.
double ShareOfOthers(Stage& stage, bool hangs) {
  const auto store = stage.MakeStore();
  const Session session(store->url());
  HttpTargets targets(kTargets);
  if (hangs) targets.Hang(kLast);
  const std::size_t backlog = stage.Scaled(500, 50);
  for (std::size_t i = 0; i < backlog; ++i) Enqueue(session, kLast, fmt::format("backlog-{}", i));
  std::vector<std::string> command = {"tasks", "run", "--store", store->url(), "--log-level", "error"};
  for (std::size_t i = 0; i < kTargets; ++i) {
    command.insert(command.end(), {"--target", fmt::format("t{}={}", i, targets.url(i))});
  }
  Sealane dispatcher(command);
  const auto others = [&] {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < kLast; ++i) sum += targets.requests(i);
    return sum;
  };
  if (!WaitFor(std::chrono::seconds{30}, [&] { return targets.requests(kLast) > 0; })) {
    Fail("the dispatcher makes no call: " + dispatcher.LogEnd());
  }
  PauseFor(1);
  const double length = stage.Seconds(20, 6);
  const CostMeter meter(*store, {&dispatcher});
  const GoOn go_on = For(length);
  const auto began = std::chrono::steady_clock::now();
  std::size_t written = 0;
  for (std::size_t i = 0; go_on(); ++i) {
    std::this_thread::sleep_until(
        began + std::chrono::microseconds(static_cast<long>(1e6 / kTasksPerSecond) * static_cast<long>(i)));
    Enqueue(session, i % kTargets, fmt::format("n-{}", i));
    written += i % kTargets == kLast ? 0 : 1;
  }
  PauseFor(0.5);
  const double rate = static_cast<double>(others()) / length;
  const CostMeter::Cost cost = meter.Read();
  stage.Add(hangs ? "targets: nine beside one that hangs" : "targets: nine beside a healthy one",
            {.rate = rate, .cpu = cost.processes(), .server = cost.server_share, .mib = dispatcher.PeakMib()});
  // A busy machine writes fewer, which is not the dispatcher's doing.
  return static_cast<double>(others()) / static_cast<double>(written);
}

}  // namespace

void RunTargets(Stage& stage) {
  stage.Say("targets: {:.0f} tasks a second for {} targets ...", kTasksPerSecond, kTargets);
  std::vector<double> ratios;
  for (int round = 0; round < stage.options().rounds; ++round) {
    const double healthy = ShareOfOthers(stage, false);
    ratios.push_back(ShareOfOthers(stage, true) / healthy);
  }
  stage.AddGoal("targets.rate_of_others", Median(ratios), 0.9, false);
}

}  // namespace sealane::bench
