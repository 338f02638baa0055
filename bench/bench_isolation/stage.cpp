#include "bench_isolation/stage.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <unistd.h>

#include "common/stopwatch.hpp"

namespace sealane::bench {
namespace {

std::vector<double> Each(const std::vector<Latency>& laps, double Latency::*member) {
  std::vector<double> values;
  for (const Latency& lap : laps) values.push_back(lap.*member);
  return values;
}

double MedianRatio(const Comparison& comparison, double Latency::*member) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < comparison.with.size(); ++i) {
    ratios.push_back(comparison.with[i].*member / comparison.without[i].*member);
  }
  return Median(ratios);
}

}  // namespace

Stage::Stage(std::string cluster_url, std::string broker_url, Options options)
    : cluster_url_(std::move(cluster_url)),
      broker_url_(std::move(broker_url)),
      options_(std::move(options)),
      report_("isolation", {"p50 ms", "p99 ms", "per second", "CPU share", "server CPU", "peak MiB"}) {}

std::size_t Stage::Scaled(std::size_t full, std::size_t least) const {
  return std::max(least, static_cast<std::size_t>(std::llround(static_cast<double>(full) * options_.scale)));
}

double Stage::Seconds(double full, double least) const {
  return std::clamp(full * options_.scale * 10, least, full);
}

std::unique_ptr<Database> Stage::MakeStore() const {
  static int counter = 0;
  auto database =
      std::make_unique<Database>(cluster_url_, fmt::format("bench_isolation_{}_{}", ::getpid(), ++counter));
  RunSealane({"migrate", "up", "--store", database->url()});
  return database;
}

void Stage::Add(const std::string& label, const Figures& figures) {
  const auto text = [](const std::optional<double>& value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : std::string();
  };
  report_.Add(Row{label,
                  {text(figures.p50, 2), text(figures.p99, 2), text(figures.rate, 1), text(figures.cpu, 4),
                   text(figures.server, 4), text(figures.mib, 1)}});
}

void Stage::AddGoal(const std::string& name, double value, double limit, bool at_most) {
  report_.Add(Goal{name, value, limit, at_most});
}

void Stage::AddLaps(const std::string& label, const std::vector<Latency>& laps) {
  std::size_t missing = 0;
  for (const Latency& lap : laps) missing += lap.missing;
  std::string text = label;
  const std::vector<double> p99 = Each(laps, &Latency::p99_ms);
  if (laps.size() > 1) {
    text += fmt::format(" (p99 {:.1f} to {:.1f})", *std::ranges::min_element(p99), *std::ranges::max_element(p99));
  }
  if (missing > 0) text += fmt::format(", {} did not arrive", missing);
  Figures figures = {
      .p50 = Median(Each(laps, &Latency::p50_ms)), .p99 = Median(p99), .rate = Median(Each(laps, &Latency::rate))};
  if (const double cpu = Median(Each(laps, &Latency::cpu)); cpu > 0) {
    figures.cpu = cpu;
    figures.server = Median(Each(laps, &Latency::server));
  }
  Add(text, figures);
}

double Comparison::P50() const {
  return MedianRatio(*this, &Latency::p50_ms);
}
double Comparison::P99() const {
  return MedianRatio(*this, &Latency::p99_ms);
}
double Comparison::Rate() const {
  return MedianRatio(*this, &Latency::rate);
}

Comparison Compare(int rounds, const std::function<Latency()>& without, const std::function<Latency()>& with) {
  Comparison result;
  for (int round = 0; round < rounds; ++round) {
    const bool first = round % 2 == 0;
    if (first) result.without.push_back(without());
    result.with.push_back(with());
    if (!first) result.without.push_back(without());
  }
  return result;
}

void AddComparison(Stage& stage, const std::string& name, const Comparison& comparison, double tolerance) {
  stage.AddLaps(name + ": without", comparison.without);
  stage.AddLaps(name + ": with", comparison.with);
  const auto [least, most] = std::ranges::minmax(Each(comparison.without, &Latency::p99_ms));
  if (most / least > tolerance) {
    stage.Say(
        "{}: THE MACHINE IS UNEVEN: p99 without the disturbance is {:.1f} to {:.1f} ms, a factor of {:.2f}; the "
        "goal asks for {:.2f}",
        name, least, most, most / least, tolerance);
  }
}

void AddIdle(Stage& stage, const std::string& label, const CostMeter::Cost& cost, double mib) {
  stage.Add(
      label,
      {.rate = cost.transactions / cost.seconds, .cpu = cost.processes(), .server = cost.server_share, .mib = mib});
}

void MeasureRedrive(Stage& stage, const Redrive& redrive, const std::vector<Latency>& calm) {
  constexpr double kLimit = 120;
  stage.Say("{}: the cause is mended; {} events are tried again ...", redrive.name, redrive.count);
  const Stopwatch watch;
  double took = 0;
  double arrived = 0;
  Sealane command(redrive.command);
  const Latency beside = redrive.healthy_lap([&] {
    if (took == 0) {
      arrived = redrive.arrived();
      if (arrived >= static_cast<double>(redrive.count)) took = watch.seconds();
    }
    return (took == 0 || watch.seconds() < 3) && watch.seconds() < kLimit;
  });
  if (const int code = command.Wait(std::chrono::seconds{60}); code != 0) {
    stage.Say("{}: the command ended with {}: {}", redrive.name, code, command.LogEnd());
  }
  const double rate = arrived / (took == 0 ? kLimit : took);
  stage.AddLaps(fmt::format("{}: healthy beside retries", redrive.name), {beside});
  stage.Add(fmt::format("{}: {:.0f} of {} retried", redrive.name, arrived, redrive.count), {.rate = rate});
  stage.AddGoal(redrive.name + ".redrive_per_second", rate, 2'000, false);
  stage.AddGoal(redrive.name + ".redrive_p99", beside.p99_ms / Median(Each(calm, &Latency::p99_ms)), 3);
}

void AppendMany(const std::string& url, std::size_t count, const std::function<Event(std::size_t)>& make,
                bool one_transaction) {
  constexpr std::size_t kChunk = 5'000;
  const Session session(url);
  const Outbox outbox{{.producer = "bench"}};
  std::vector<Event> events;
  if (one_transaction) session.Exec("begin");
  for (std::size_t done = 0; done < count; done += events.size()) {
    events.clear();
    for (std::size_t i = done; i < std::min(done + kChunk, count); ++i) events.push_back(make(i));
    if (!one_transaction) session.Exec("begin");
    if (const auto appended = outbox.AppendAll(session.get(), events); !appended) Fail(appended.error().ToString());
    if (!one_transaction) session.Exec("commit");
  }
  if (one_transaction) session.Exec("commit");
}

RelaySide::RelaySide(Stage& stage)
    : stage_(stage), database_(stage.MakeStore()), session_(url()), probe_(url(), stage.broker_url()) {}

bool RelaySide::Start(std::chrono::seconds limit) {
  Stop();
  relay_ = std::make_unique<Sealane>(std::vector<std::string>{
      "relay", "--store", url(), "--broker", stage_.broker_url(), "--listen", "off", "--log-level", "warning"});
  const bool flows = probe_.AwaitFlow(limit);
  if (!relay_->Runs()) Fail("the relay ended: " + relay_->LogEnd());
  if (!flows) stage_.Say("no event comes through the relay within {} s: {}", limit.count(), relay_->LogEnd());
  return flows;
}

Latency RelaySide::Lap(double seconds) {
  Start();
  PauseFor(2);  // until the relay is as it will be
  const Latency latency = LapWithCost(*database_, *relay_, probe_, seconds);
  Stop();
  return latency;
}

CostMeter::Cost RelaySide::IdleCost(double seconds) {
  PauseFor(3);  // the relay looks ever more rarely
  const CostMeter meter(*database_, {relay_.get()});
  PauseFor(seconds);
  return meter.Read();
}

void PauseFor(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace sealane::bench
