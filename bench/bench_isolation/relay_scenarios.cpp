// Delayed events, dead keys and one huge transaction beside healthy traffic through a relay to Kafka.

#include <algorithm>
#include <cmath>

#include "bench_isolation/stage.hpp"
#include "common/stopwatch.hpp"

namespace sealane::bench {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

Timestamp Microseconds(system_clock::time_point time) {
  return std::chrono::time_point_cast<std::chrono::microseconds>(time);
}

/// A limit that grows with the work, for steps that a slow version may never finish.
seconds LimitFor(std::size_t events, double per_second) {
  return seconds{60 + static_cast<long>(static_cast<double>(events) / per_second)};
}

/// How far the store's clock is ahead of ours.
std::chrono::duration<double> ClockDifference(const Session& session) {
  const auto before = system_clock::now();
  const double there = session.Number("select extract(epoch from clock_timestamp())");
  const auto here = before + (system_clock::now() - before) / 2;
  return std::chrono::duration<double>(there) - std::chrono::duration<double>(here.time_since_epoch());
}

/// Events with a time in the next twenty seconds: how much later than that each arrives.
void MeasureDueTimes(Stage& stage, RelaySide& side) {
  constexpr double kSpread = 20;
  const std::size_t count = stage.Scaled(10'000, 500);
  const FreshTopic topic(stage.broker_url());
  const Arrivals arrivals(stage.broker_url(), topic.name());
  stage.Say("delayed: {} events due in the next {:.0f} s ...", count, kSpread);
  const auto difference = ClockDifference(side.session());
  const auto base = system_clock::now() + seconds{4} + std::chrono::duration_cast<system_clock::duration>(difference);
  const auto due = [&](std::size_t i) {  // by the store's clock
    const std::chrono::duration<double> after(kSpread * static_cast<double>(i) / static_cast<double>(count));
    return base + std::chrono::duration_cast<system_clock::duration>(after);
  };
  AppendMany(side.url(), count, [&](std::size_t i) {
    Event event = MakeEvent(topic.name(), "due", i, "flood");
    event.available_at = Microseconds(due(i));
    return event;
  });
  WaitFor(seconds{4 + static_cast<long>(kSpread)} + kLateMax, [&] { return arrivals.count() == count; });
  const auto end = system_clock::now();
  const auto times = arrivals.times();
  std::vector<double> late;
  double early = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = times.find(i);
    const auto arrived = found == times.end() ? end : found->second;
    const std::chrono::duration<double, std::milli> after = arrived - due(i) + difference;
    late.push_back(after.count());
    early += after.count() < 0 ? 1 : 0;
  }
  const double latest = *std::ranges::max_element(late);
  const Latency summary = Summarise(std::move(late), count - times.size(), kSpread);
  stage.Add(fmt::format("delayed: lateness of {} due events, {} did not arrive", count, summary.missing),
            {.p50 = summary.p50_ms, .p99 = summary.p99_ms, .rate = summary.rate});
  stage.AddGoal("delayed.latest_ms", latest, 1'000);
  stage.AddGoal("delayed.early_events", early, 0);
}

}  // namespace

void RunDelayed(Stage& stage) {
  RelaySide calm(stage);
  RelaySide flooded(stage);
  const std::size_t count = stage.Scaled(10'000'000, 1'000);
  stage.Say("delayed: writing {} events that are due tomorrow ...", count);
  const Stopwatch filling;
  const auto tomorrow = Microseconds(system_clock::now() + std::chrono::hours{24});
  AppendMany(flooded.url(), count, [&](std::size_t i) {
    Event event = MakeEvent(flooded.probe().topic(), "f", i, "flood");
    event.payload = "{}";
    event.available_at = tomorrow;
    return event;
  });
  flooded.session().Exec("vacuum analyze");
  stage.Say("delayed: written in {:.0f} s, the database has {:.0f} MB; now the relay reads them ...",
            filling.seconds(), flooded.session().Number("select pg_database_size(current_database()) / 1000000"));
  const Stopwatch reading;
  flooded.Start(LimitFor(count, 20'000));
  stage.Say("delayed: the first event of another tenant came after {:.0f} s", reading.seconds());
  const double peak = flooded.relay().PeakMib();
  flooded.Stop();

  const double length = stage.Seconds(20, 4);
  const Comparison laps = Compare(
      stage.options().rounds, [&] { return calm.Lap(length); }, [&] { return flooded.Lap(length); });
  AddComparison(stage, "delayed", laps, 1.1);
  stage.AddGoal("delayed.p50", laps.P50(), 1.1);
  stage.AddGoal("delayed.p99", laps.P99(), 1.1);

  flooded.Start();
  const CostMeter::Cost idle = flooded.IdleCost(stage.Seconds(20, 5));
  AddIdle(stage, "delayed: relay with nothing due", idle, std::max(peak, flooded.relay().PeakMib()));
  stage.AddGoal("delayed.idle_cpu", idle.processes(), 0.01);
  MeasureDueTimes(stage, flooded);
  stage.AddGoal("delayed.peak_mib", std::max(peak, flooded.relay().PeakMib()), 64);
}

void RunDead(Stage& stage) {
  RelaySide none(stage);
  RelaySide parked(stage);
  const std::size_t count = stage.Scaled(100'000, 500);
  const std::size_t again = stage.Scaled(20'000, 100);
  // No message is small enough for this one.
  const FreshTopic blocked(stage.broker_url(), 100);
  const Arrivals arrivals(stage.broker_url(), blocked.name());
  stage.Say("dead: {} events of {} keys for a topic that refuses them ...", count, count);
  AppendMany(parked.url(), count,
             [&](std::size_t i) { return MakeEvent(blocked.name(), "d", i, i < again ? "redriven" : "dead"); });
  const Stopwatch dying;
  parked.Start(LimitFor(count, 500));
  const auto dead = [&] {
    return parked.session().Number("select count(*) from sealane.outbox_status where status = 'DEAD'");
  };
  const bool all = WaitFor(
      LimitFor(count, 500), [&] { return dead() >= static_cast<double>(count); }, seconds{1});
  stage.Say("dead: {:.0f} events are dead after {:.0f} s{}", dead(), dying.seconds(), all ? "" : ": NOT ALL");
  parked.Stop();
  parked.session().Exec("vacuum analyze");

  const double length = stage.Seconds(20, 4);
  const Comparison laps = Compare(
      stage.options().rounds, [&] { return none.Lap(length); }, [&] { return parked.Lap(length); });
  AddComparison(stage, "dead", laps, 1.5);
  stage.AddGoal("dead.p50", laps.P50(), 1.5);
  stage.AddGoal("dead.p99", laps.P99(), 1.5);

  const auto idle = [&](RelaySide& side, const char* label) {
    side.Start();
    const CostMeter::Cost cost = side.IdleCost(stage.Seconds(20, 5));
    AddIdle(stage, label, cost, side.relay().PeakMib());
    return cost;
  };
  const CostMeter::Cost before = idle(none, "dead: idle relay, none parked");
  none.Stop();
  const CostMeter::Cost after = idle(parked, "dead: idle relay, all parked");
  // "Unchanged" cannot be smaller than what can be measured.
  stage.AddGoal("dead.idle_cpu_more", after.processes() - before.processes(), 0.01);
  stage.AddGoal("dead.idle_server_cpu_more", after.server_share - before.server_share, 0.01);

  blocked.SetMessageMax(1 << 20);
  MeasureRedrive(stage,
                 {.name = "dead",
                  .command = {"dead", "retry", "--tenant", "redriven", "--reason", "bench", "--actor", "bench",
                              "--yes", "--store", parked.url()},
                  .count = again,
                  .arrived = [&] { return static_cast<double>(arrivals.count()); },
                  .healthy_lap = [&](const GoOn& go_on) { return parked.probe().Lap(go_on); }},
                 laps.without);
}

void RunHuge(Stage& stage) {
  RelaySide side(stage);
  const std::size_t count = stage.Scaled(1'000'000, 5'000);
  const FreshTopic topic(stage.broker_url());
  std::vector<double> p50;
  std::vector<double> p99;
  std::vector<Latency> without;
  std::vector<Latency> with;
  std::size_t expected = 0;
  side.Start();
  for (int round = 0; round < stage.options().rounds; ++round) {
    without.push_back(side.probe().Lap(For(stage.Seconds(15, 4))));
    stage.Say("huge: one transaction of {} events ...", count);
    AppendMany(
        side.url(), count, [&](std::size_t i) { return MakeEvent(topic.name(), "x", i % 5'000, "huge"); }, true);
    expected += count;
    const Stopwatch watch;
    double took = 0;
    with.push_back(side.probe().Lap([&] {
      if (took == 0 && topic.Count() >= expected) took = watch.seconds();
      return (took == 0 || watch.seconds() < 2) && watch.seconds() < 180;
    }));
    stage.Add("huge: the transaction itself", {.rate = static_cast<double>(count) / (took == 0 ? 180 : took)});
    p50.push_back(with.back().p50_ms / without.back().p50_ms);
    p99.push_back(with.back().p99_ms / without.back().p99_ms);
  }
  AddComparison(stage, "huge", {without, with}, 3);
  stage.Add("huge: relay", {.mib = side.relay().PeakMib()});
  stage.AddGoal("huge.p50", Median(p50), 3);
  stage.AddGoal("huge.p99", Median(p99), 3);
}

}  // namespace sealane::bench
