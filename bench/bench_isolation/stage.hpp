#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench_isolation/probe.hpp"
#include "bench_isolation/processes.hpp"
#include "common/goals.hpp"
#include "common/session.hpp"

namespace sealane::bench {

struct Options {
  bool json = false;
  double scale = 1;  ///< of the numbers of events, rows and seconds
  int rounds = 3;
  std::string only = {};                            ///< one scenario; empty: all
  std::vector<std::string> consume_arguments = {};  ///< more for the consumer that must hold many dead keys
};

/// One line of the table.
struct Figures {
  std::optional<double> p50 = {};
  std::optional<double> p99 = {};
  std::optional<double> rate = {};
  std::optional<double> cpu = {};     ///< of the sealane processes, share of a core
  std::optional<double> server = {};  ///< of their backends
  std::optional<double> mib = {};
};

/// What all scenarios have: the servers, the size of the run, and the report.
class Stage {
 public:
  Stage(std::string cluster_url, std::string broker_url, Options options);

  const std::string& broker_url() const { return broker_url_; }
  const Options& options() const { return options_; }
  /// `full` events at scale 1, never fewer than `least`.
  std::size_t Scaled(std::size_t full, std::size_t least) const;
  /// `full` seconds from scale 0.1 on, `least` at the smallest scales.
  double Seconds(double full, double least) const;

  /// A database with the tables of this version.
  std::unique_ptr<Database> MakeStore() const;

  template <class... Arguments>
  void Say(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    std::fprintf(stderr, "isolation: %s\n", fmt::format(text, std::forward<Arguments>(arguments)...).c_str());
  }
  void Add(const std::string& label, const Figures& figures);
  void AddGoal(const std::string& name, double value, double limit, bool at_most = true);
  /// The medians of the laps, and how far apart their p99 are.
  void AddLaps(const std::string& label, const std::vector<Latency>& laps);
  void Print() const { report_.Print(options_.json); }

 private:
  const std::string cluster_url_;
  const std::string broker_url_;
  const Options options_;
  Report report_;
};

/// A lap of healthy traffic with what it costs.
template <class Probe>
Latency LapWithCost(const Database& database, const Sealane& process, Probe& probe, double seconds) {
  const CostMeter meter(database, {&process});
  Latency latency = probe.Lap(For(seconds));
  const CostMeter::Cost cost = meter.Read();
  latency.cpu = cost.processes();
  latency.server = cost.server_share;
  return latency;
}

/// The same measurement without and with the disturbance, round by round, every second round in the opposite order.
struct Comparison {
  std::vector<Latency> without;
  std::vector<Latency> with;
  /// The median over the rounds of the ratio within a round.
  double P50() const;
  double P99() const;
  double Rate() const;
};
Comparison Compare(int rounds, const std::function<Latency()>& without, const std::function<Latency()>& with);
/// Adds both lines, and says when the laps without the disturbance differ more than the goal allows.
void AddComparison(Stage& stage, const std::string& name, const Comparison& comparison, double tolerance);

/// Adds what an idle process costs; `rate` is transactions of the database.
void AddIdle(Stage& stage, const std::string& label, const CostMeter::Cost& cost, double mib);

/// Events that are tried again after their cause was mended.
struct Redrive {
  std::string name;                                 ///< of the scenario
  std::vector<std::string> command;                 ///< of the operator
  std::size_t count = 0;                            ///< of events
  std::function<double()> arrived;                  ///< how many have
  std::function<Latency(const GoOn&)> healthy_lap;  ///< traffic meanwhile
};
/// From the start of the command to the last arrival, two minutes at most. `calm` are laps without any dead key.
void MeasureRedrive(Stage& stage, const Redrive& redrive, const std::vector<Latency>& calm);

/// Appends `count` events through the library, 5,000 per call; all in one transaction, or one per call.
void AppendMany(const std::string& url, std::size_t count, const std::function<Event(std::size_t)>& make,
                bool one_transaction = false);

/// An outbox with a relay to Kafka and healthy traffic.
class RelaySide {
 public:
  explicit RelaySide(Stage& stage);

  const Database& database() const { return *database_; }
  const std::string& url() const { return database_->url(); }
  const Session& session() const { return session_; }
  RelayProbe& probe() { return probe_; }
  /// Of the relay that runs.
  Sealane& relay() { return *relay_; }

  /// Starts the relay and waits until an event arrives through it; false when none does.
  bool Start(std::chrono::seconds limit = std::chrono::seconds{30});
  void Stop() { relay_.reset(); }
  /// Starts a relay, runs healthy traffic for a while, stops it.
  Latency Lap(double seconds);
  /// Of a relay that was started and has nothing to do.
  CostMeter::Cost IdleCost(double seconds);

 private:
  Stage& stage_;
  std::unique_ptr<Database> database_;
  Session session_;
  RelayProbe probe_;
  std::unique_ptr<Sealane> relay_;
};

void PauseFor(double seconds);

// The scenarios; docs/benchmarks.md says what each shows.
void RunDelayed(Stage& stage);
void RunDead(Stage& stage);
void RunHuge(Stage& stage);
void RunDeadConsumer(Stage& stage);
void RunBadDeploy(Stage& stage);
void RunTargets(Stage& stage);
void RunExpired(Stage& stage);
void RunPartitions(Stage& stage);
void RunIdle(Stage& stage);

}  // namespace sealane::bench
