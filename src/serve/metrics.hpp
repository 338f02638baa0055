#pragma once

#include <map>
#include <span>
#include <string>

#include "inbox/consumer_stats.hpp"
#include "relay/route_stats.hpp"
#include "serve/receive_stats.hpp"
#include "tasks/task_dispatcher.hpp"

namespace sealane {

/// What runs: `version`, and the versions of the libraries it runs with, by name.
using BuildInfo = std::map<std::string, std::string>;

/// What the relays, consumers, dispatchers and receivers of this process know, in Prometheus' text format 0.0.4.
/// docs/relay.md, docs/inbox.md, docs/tasks.md and docs/receive.md explain the families.
///
/// Series are bounded: a route shows at most kMetricTopicsMax topics and kMetricReasonsMax reasons of failures, the
/// rest is added up under `other`; a label's value is cut at kMetricLabelMax bytes.
std::string RenderMetrics(std::span<const RouteStats> relays, const BuildInfo& build,
                          std::span<const ConsumerStats> consumers = {},
                          std::span<const TaskDispatcherStats> dispatchers = {},
                          const ReceiveStats* receive = nullptr);

inline constexpr std::size_t kMetricTopicsMax = 100;
inline constexpr std::size_t kMetricReasonsMax = 24;
inline constexpr std::size_t kMetricLabelMax = 200;
inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace sealane
