#include "common/contest.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "common/goals.hpp"
#include "common/session.hpp"

namespace sealane::bench {
namespace {

double MedianOf(const std::vector<Lap>& laps, double Lap::*figure) {
  std::vector<double> values;
  for (const Lap& lap : laps) values.push_back(lap.*figure);
  return Median(std::move(values));
}

}  // namespace

void Contest::Run(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      Way& way = ways_[round % 2 == 0 ? i : ways_.size() - 1 - i];
      const Lap& lap = way.laps.emplace_back(way.run());
      std::fprintf(stderr, "%s: round %d of %d: %s: %.0f events/s, %.2f us of CPU per event\n", bench_.c_str(),
                   round + 1, rounds, way.label.c_str(), lap.rate, lap.cpu_us);
    }
  }
}

double Contest::RateOf(const std::string& label) const {
  return MedianOf(Find(label).laps, &Lap::rate);
}

double Contest::CpuOf(const std::string& label) const {
  return MedianOf(Find(label).laps, &Lap::cpu_us);
}

double Contest::PeakMibOf(const std::string& label) const {
  double peak = 0;
  for (const Lap& lap : Find(label).laps) peak = std::max(peak, lap.peak_mib);
  return peak;
}

double Contest::Ratio(const std::string& label, const std::string& to) const {
  const Way& way = Find(label);
  const Way& other = Find(to);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < way.laps.size(); ++i) ratios.push_back(way.laps[i].rate / other.laps[i].rate);
  return Median(std::move(ratios));
}

double Contest::MoreMicroseconds(const std::string& label, const std::string& than) const {
  const Way& way = Find(label);
  const Way& other = Find(than);
  std::vector<double> more;
  for (std::size_t i = 0; i < way.laps.size(); ++i) more.push_back(1e6 / way.laps[i].rate - 1e6 / other.laps[i].rate);
  return Median(std::move(more));
}

const Contest::Way& Contest::Find(const std::string& label) const {
  const auto found = std::ranges::find(ways_, label, &Way::label);
  if (found == ways_.end()) Fail("nothing was measured under the name " + label);
  return *found;
}

void PrintChart(const std::string& title, const std::vector<Bar>& bars) {
  constexpr double kWidth = 50;
  std::size_t wide = 0;
  double longest = 1;
  for (const Bar& bar : bars) {
    wide = std::max(wide, bar.label.size());
    longest = std::max(longest, bar.value);
  }
  fmt::print("{}\n", title);
  for (const Bar& bar : bars) {
    const auto length = static_cast<std::size_t>(bar.value / longest * kWidth + 0.5);
    fmt::print("{:<{}}  {:<50}  {:.0f}\n", bar.label, wide, std::string(length, '#'), bar.value);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace sealane::bench
