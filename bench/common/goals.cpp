#include "common/goals.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace sealane::bench {

void Report::Add(Row row) {
  std::string figures;
  for (std::size_t i = 0; i < row.figures.size(); ++i) {
    if (!row.figures[i].empty()) figures += fmt::format("  {} {}", row.figures[i], columns_.at(i));
  }
  std::fprintf(stderr, "%s: %s%s\n", bench_.c_str(), row.label.c_str(), figures.c_str());
  rows_.push_back(std::move(row));
}

void Report::Add(Goal goal) {
  goals_.push_back(std::move(goal));
}

void Report::Print(bool json) const {
  if (json) {
    nlohmann::ordered_json document = {{"bench", bench_}, {"columns", columns_}};
    for (const Row& row : rows_) document["rows"].push_back({{"label", row.label}, {"figures", row.figures}});
    for (const Goal& goal : goals_) {
      document["goals"].push_back({{"name", bench_ + "." + goal.name},
                                   {"value", goal.value},
                                   {"limit", goal.limit},
                                   {"at_most", goal.at_most},
                                   {"ok", goal.ok()}});
    }
    fmt::print("{}\n", document.dump(2));
    return;
  }
  std::size_t wide = 0;
  for (const Row& row : rows_) wide = std::max(wide, row.label.size());
  fmt::print("{:<{}}", "", wide);
  for (const std::string& column : columns_) fmt::print("  {:>14}", column);
  fmt::print("\n");
  for (const Row& row : rows_) {
    fmt::print("{:<{}}", row.label, wide);
    for (const std::string& figure : row.figures) fmt::print("  {:>14}", figure);
    fmt::print("\n");
  }
  fmt::print("\n");
  for (const Goal& goal : goals_) {
    fmt::print("goal {}.{} {:.3g} {:.3g} {}\n", bench_, goal.name, goal.value, goal.limit,
               goal.ok() ? "ok" : "short");
  }
  std::fflush(stdout);
}

void WarnWhenBusy(const char* bench) {
  double load = 0;
  const auto cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (::getloadavg(&load, 1) != 1 || load < cores / 2) return;
  std::fprintf(stderr, "%s: THIS MACHINE IS BUSY (load %.1f on %.0f cores): figures will be low and uneven\n", bench,
               load, cores);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace sealane::bench
