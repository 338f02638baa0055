#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sealane::bench {

/// Measures several ways to do the same, side by side. Every round runs each way once, the next round in the opposite
/// order, so that a slow spell of the machine hits all.
class Contest {
 public:
  /// `events` pass in every run.
  explicit Contest(std::size_t events) : events_(static_cast<double>(events)) {}

  /// `run` returns events per second.
  void Add(std::string label, std::function<double()> run) {
    ways_.push_back({std::move(label), std::move(run), {}, {}});
  }
  void Run(int rounds);

  /// The median over the rounds.
  double RateOf(const std::string& label) const;
  /// Microseconds of processor time that this process (not the servers) took per event; the median over the rounds.
  /// Other than a rate it hardly depends on what else the machine does.
  double CpuOf(const std::string& label) const;
  /// The median over the rounds of the ratio within a round.
  double Ratio(const std::string& label, const std::string& to) const;

 private:
  struct Way {
    std::string label;
    std::function<double()> run;
    std::vector<double> rates;
    std::vector<double> cpu;
  };
  const Way& Find(const std::string& label) const;

  double events_;
  std::vector<Way> ways_;
};

/// One line of a chart.
struct Bar {
  std::string label;
  double value = 0;
};
/// Bars of `#`, the longest 50 wide.
void PrintChart(const std::string& title, const std::vector<Bar>& bars);

}  // namespace sealane::bench
