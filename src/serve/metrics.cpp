#include "serve/metrics.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "serve/metric_writer.hpp"

namespace sealane {
namespace {

struct SimpleFamily {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  std::string (*value)(const RouteStats&);
};

double SecondsSinceEpoch(Timestamp time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// One value per store and route.
constexpr std::array<SimpleFamily, 25> kFamilies = {{
    {"pending_messages", "gauge", "Events that were committed and not yet read, estimated by sequence numbers.",
     [](const RouteStats& s) { return MetricNumber(s.pending); }},
    {"oldest_pending_age_seconds", "gauge", "Age of the oldest event that waits; 0 when none does.",
     [](const RouteStats& s) { return MetricNumber(s.oldest_pending_seconds); }},
    {"parked_messages", "gauge", "Events set aside because they, or one before them, failed.",
     [](const RouteStats& s) { return MetricNumber(s.parked); }},
    {"waiting_messages", "gauge", "Events that wait for a topic which the destination does not have.",
     [](const RouteStats& s) { return MetricNumber(s.waiting); }},
    {"missing_topics", "gauge", "Topics that events wait for and that the destination does not have.",
     [](const RouteStats& s) { return MetricNumber(s.missing_topics); }},
    {"inflight_messages", "gauge", "Messages that were handed to the broker and have no answer yet.",
     [](const RouteStats& s) { return MetricNumber(s.inflight_messages); }},
    {"inflight_bytes", "gauge", "Memory of events that were read and are not settled.",
     [](const RouteStats& s) { return MetricNumber(s.inflight_bytes); }},
    {"publish_attempts_total", "counter", "Messages handed to the broker, repetitions included.",
     [](const RouteStats& s) { return MetricNumber(s.attempts); }},
    {"published_bytes_total", "counter", "Bytes of acknowledged messages.",
     [](const RouteStats& s) { return MetricNumber(s.published_bytes); }},
    {"filtered_messages_total", "counter", "Events that the route's filter let drop.",
     [](const RouteStats& s) { return MetricNumber(s.filtered); }},
    {"repeated_messages_total", "counter", "Messages sent again after an unknown outcome: possible duplicates.",
     [](const RouteStats& s) { return MetricNumber(s.repeated); }},
    {"late_messages_total", "counter", "Messages acknowledged after the lease was over: possible duplicates.",
     [](const RouteStats& s) { return MetricNumber(s.late); }},
    {"parked_messages_total", "counter", "Events that were set aside.",
     [](const RouteStats& s) { return MetricNumber(s.parked_total); }},
    {"delayed_messages_total", "counter", "Events that were read before their available_at and kept until then.",
     [](const RouteStats& s) { return MetricNumber(s.delayed_total); }},
    {"dead_lettered_messages_total", "counter", "Events that were given up and wait for a person.",
     [](const RouteStats& s) { return MetricNumber(s.dead_total); }},
    {"relay_lanes", "gauge", "Lanes of the outbox.",
     [](const RouteStats& s) { return MetricNumber(static_cast<std::int64_t>(s.lanes)); }},
    {"relay_lease_held", "gauge", "Lanes that this relay holds.",
     [](const RouteStats& s) { return MetricNumber(static_cast<std::uint64_t>(s.held.size())); }},
    {"relay_live_relays", "gauge", "Relays that run this route, this one included.",
     [](const RouteStats& s) { return MetricNumber(static_cast<std::int64_t>(s.live_relays)); }},
    {"relay_heartbeat_timestamp_seconds", "gauge", "When the store last took a heartbeat.",
     [](const RouteStats& s) { return MetricNumber(SecondsSinceEpoch(s.last_beat_at)); }},
    {"relay_fenced_lanes_total", "counter", "Lanes that another relay took while they were in use.",
     [](const RouteStats& s) { return MetricNumber(s.fenced); }},
    {"relay_settles_total", "counter", "Times that progress was written.",
     [](const RouteStats& s) { return MetricNumber(s.settles); }},
    {"relay_polls_total", "counter", "Looks at the log.", [](const RouteStats& s) { return MetricNumber(s.polls); }},
    {"relay_restarts_total", "counter", "Restarts of a loop after an error.",
     [](const RouteStats& s) { return MetricNumber(s.restarts); }},
    {"paused", "gauge", "1 when an operator has paused the route.",
     [](const RouteStats& s) { return std::string(s.state == RelayState::kPaused ? "1" : "0"); }},
    {"degraded", "gauge", "1 when the relay has a problem; /readyz says which.",
     [](const RouteStats& s) { return std::string(s.problem.empty() ? "0" : "1"); }},
}};

MetricLabels Base(const RouteStats& stats) {
  return {{"store", stats.store}, {"route", stats.route}};
}

void WriteStates(std::span<const RouteStats> relays, MetricWriter& out) {
  out.Family("relay_state", "gauge", "1 for the state the relay is in.");
  for (const RouteStats& stats : relays) {
    using enum RelayState;
    for (const RelayState state : {kStarting, kRunning, kHolding, kPaused, kDraining, kStopped}) {
      out.Sample(With(Base(stats), "state", ToString(state)), stats.state == state ? "1" : "0");
    }
  }
}

void WriteLatency(std::span<const RouteStats> relays, MetricWriter& out) {
  out.Family("commit_to_publish_seconds", "histogram", "Time from the commit to the broker's acknowledgement.");
  for (const RouteStats& stats : relays) out.Distribution(Base(stats), stats.commit_to_publish);
}

}  // namespace

std::string RenderMetrics(std::span<const RouteStats> relays, const BuildInfo& build,
                          std::span<const ConsumerStats> consumers, std::span<const TaskDispatcherStats> dispatchers,
                          const ReceiveStats* receive) {
  MetricWriter out;
  out.Family("build_info", "gauge", "What is running.");
  MetricLabels labels;
  for (const auto& [name, version] : build) labels.emplace_back(name, version);
  out.Sample(labels, "1");

  for (const SimpleFamily& family : kFamilies) {
    out.Family(family.name, family.type, family.help);
    for (const RouteStats& stats : relays) out.Sample(Base(stats), family.value(stats));
  }
  out.Family("published_messages_total", "counter", "Acknowledged messages.");
  for (const RouteStats& stats : relays) {
    for (const auto& [topic, count] : BoundedSeries(stats.topics, kMetricTopicsMax, stats.published)) {
      out.Sample(With(Base(stats), "topic", topic), MetricNumber(count));
    }
  }
  out.Family("publish_failures_total", "counter", "Messages that were not acknowledged, by reason.");
  for (const RouteStats& stats : relays) {
    for (const auto& [reason, count] : BoundedSeries(stats.failures, kMetricReasonsMax, 0)) {
      out.Sample(With(Base(stats), "reason", reason), MetricNumber(count));
    }
  }
  WriteStates(relays, out);
  WriteLatency(relays, out);
  if (!consumers.empty()) WriteConsumerMetrics(consumers, out);
  for (const TaskDispatcherStats& stats : dispatchers) WriteTaskMetrics(stats, out);
  if (receive != nullptr) WriteReceiveMetrics(*receive, out);
  return std::move(out).Finish();
}

}  // namespace sealane
