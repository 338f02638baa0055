#include <array>
#include <string>

#include "serve/metric_writer.hpp"
#include "serve/metrics.hpp"

namespace sealane {
namespace {

struct ProviderFamily {
  std::string_view name;
  std::string_view help;
  std::uint64_t ProviderStats::*value;
};

constexpr std::array<ProviderFamily, 4> kFamilies = {{
    {"receive_accepted_total", "Deliveries whose event was committed.", &ProviderStats::accepted},
    {"receive_duplicates_total", "Deliveries whose event was known already.", &ProviderStats::duplicates},
    {"receive_conflicts_total", "Deliveries with a known event id and another body.", &ProviderStats::conflicts},
    {"receive_deferred_total", "Deliveries that the provider was asked to send again.", &ProviderStats::deferred},
}};

MetricLabels Base(const ProviderStats& stats) {
  return {{"provider", stats.provider}};
}

void Single(std::string_view name, std::string_view type, std::string_view help, std::uint64_t value,
            MetricWriter& out) {
  out.Family(name, type, help);
  out.Sample({}, MetricNumber(value));
}

}  // namespace

void WriteReceiveMetrics(const ReceiveStats& stats, MetricWriter& out) {
  for (const ProviderFamily& family : kFamilies) {
    out.Family(family.name, "counter", family.help);
    for (const ProviderStats& provider : stats.providers) {
      out.Sample(Base(provider), MetricNumber(provider.*family.value));
    }
  }
  out.Family("receive_refused_total", "counter", "Deliveries that were refused, by code.");
  for (const ProviderStats& provider : stats.providers) {
    for (const auto& [code, count] : BoundedSeries(provider.refused, kMetricReasonsMax, 0)) {
      out.Sample(With(Base(provider), "reason", code), MetricNumber(count));
    }
  }
  out.Family("receive_strays_total", "counter", "Requests for no provider, by code.");
  for (const auto& [code, count] : BoundedSeries(stats.strays, kMetricReasonsMax, 0)) {
    out.Sample({{"reason", code}}, MetricNumber(count));
  }
  out.Family("receive_seconds", "histogram", "Time from the whole request to its answer, of deliveries taken.");
  for (const ProviderStats& provider : stats.providers) out.Distribution(Base(provider), provider.seconds);
  Single("receive_connections", "gauge", "Open connections.", stats.connections, out);
  Single("receive_inflight_requests", "gauge", "Requests that are read or written.", stats.under_way, out);
  Single("receive_turned_away_total", "counter", "Connections over the limit.", stats.turned_away, out);
  Single("receive_timeouts_total", "counter", "Requests that did not come in time.", stats.timed_out, out);
  Single("receive_degraded", "gauge", "1 when deliveries cannot be stored; /readyz says why.",
         stats.problem.empty() ? 0U : 1U, out);
}

}  // namespace sealane
