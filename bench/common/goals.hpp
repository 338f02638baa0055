#pragma once

#include <string>
#include <vector>

namespace sealane::bench {

/// One measured figure against what it should reach.
struct Goal {
  std::string name;  ///< for example `append.batch.1`
  double value = 0;
  double limit = 0;
  bool at_most = true;  ///< the value should be at most (or at least) the limit
  bool ok() const { return at_most ? value <= limit : value >= limit; }
};

/// One line of the table: a label and its figures in the order of the columns.
struct Row {
  std::string label;
  std::vector<std::string> figures;
};

/// What a bench prints: a table for people, or one JSON document, and in both cases every goal. A goal that is not
/// reached is `short` and never an exit code: a noisy machine must not fail a build.
class Report {
 public:
  Report(std::string bench, std::vector<std::string> columns)
      : bench_(std::move(bench)), columns_(std::move(columns)) {}
  /// Also told on standard error at once, so that a run that fails midway has said what it found.
  void Add(Row row);
  void Add(Goal goal);
  void Print(bool json) const;

 private:
  std::string bench_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
  std::vector<Goal> goals_;
};

/// Ratios within a round bear a busy machine, rates and latencies do not: says so on standard error.
void WarnWhenBusy(const char* bench);

/// The median; 0 for nothing.
double Median(std::vector<double> values);

}  // namespace sealane::bench
