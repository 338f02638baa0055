#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/histogram.hpp"
#include "inbox/consumer_stats.hpp"
#include "serve/receive_stats.hpp"
#include "tasks/task_dispatcher.hpp"

namespace sealane {

using MetricLabel = std::pair<std::string_view, std::string_view>;
using MetricLabels = std::vector<MetricLabel>;

/// A value as the format writes it.
std::string MetricNumber(double value);
std::string MetricNumber(std::uint64_t value);
std::string MetricNumber(std::int64_t value);

MetricLabels With(MetricLabels labels, std::string_view name, std::string_view value);

/// At most `max` values, the largest kept, what is left over and everything up to `total` under `other`.
std::map<std::string, std::uint64_t> BoundedSeries(const std::map<std::string, std::uint64_t>& counts,
                                                   std::size_t max, std::uint64_t total);

/// Writes families one after the other; a family's lines stand together, as the format asks.
class MetricWriter {
 public:
  void Family(std::string_view name, std::string_view type, std::string_view help);
  void Sample(const MetricLabels& labels, std::string_view value, std::string_view suffix = {});
  /// All lines of a histogram.
  void Distribution(const MetricLabels& labels, const Histogram& histogram);

  std::string Finish() && { return std::move(text_); }

 private:
  std::string_view name_;
  std::string text_;
};

/// The families of consumers, all with `sealane_inbox_` before them.
void WriteConsumerMetrics(std::span<const ConsumerStats> consumers, MetricWriter& out);
/// The families of a dispatcher of tasks, all with `sealane_task` before them. A process has at most one.
void WriteTaskMetrics(const TaskDispatcherStats& stats, MetricWriter& out);
/// Those of a server of webhooks, all with `sealane_receive_` before them.
void WriteReceiveMetrics(const ReceiveStats& stats, MetricWriter& out);

}  // namespace sealane
