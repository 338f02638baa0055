#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/lap.hpp"

namespace sealane::bench {

/// Measures several ways to do the same, side by side. Every round runs each way once, the next round in the opposite
/// order, so that a slow spell of the machine hits all.
class Contest {
 public:
  explicit Contest(std::string bench) : bench_(std::move(bench)) {}

  void Add(std::string label, std::function<Lap()> run) { ways_.push_back({std::move(label), std::move(run), {}}); }
  void Run(int rounds);

  /// The median over the rounds.
  double RateOf(const std::string& label) const;
  double CpuOf(const std::string& label) const;
  /// The most of all rounds.
  double PeakMibOf(const std::string& label) const;
  /// The median over the rounds of the ratio within a round.
  double Ratio(const std::string& label, const std::string& to) const;
  /// The median over the rounds of how much longer an event takes within a round.
  double MoreMicroseconds(const std::string& label, const std::string& than) const;

 private:
  struct Way {
    std::string label;
    std::function<Lap()> run;
    std::vector<Lap> laps;
  };
  const Way& Find(const std::string& label) const;

  std::string bench_;
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
