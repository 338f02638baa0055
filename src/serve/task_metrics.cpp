#include <array>
#include <string>

#include "serve/metric_writer.hpp"

namespace sealane {
namespace {

struct TargetFamily {
  std::string_view name;
  std::string_view help;
  std::uint64_t (*value)(const TaskTargetStats&);
};
constexpr std::array<TargetFamily, 4> kTargetFamilies = {{
    {"tasks_succeeded_total", "Tasks that were done.", [](const TaskTargetStats& s) { return s.succeeded; }},
    {"task_failures_total", "Attempts that will be repeated.", [](const TaskTargetStats& s) { return s.failed; }},
    {"task_unknown_total", "Attempts that may have taken effect.",
     [](const TaskTargetStats& s) { return s.unknown; }},
    {"tasks_dead_total", "Tasks that were given up and wait for a person.",
     [](const TaskTargetStats& s) { return s.dead; }},
}};

struct StoreFamily {
  std::string_view name;
  std::string_view help;
  std::int64_t (*value)(const TaskDispatcherStats&);
};
constexpr std::array<StoreFamily, 6> kStoreFamilies = {{
    {"tasks_pending", "Tasks that wait for their first attempt.",
     [](const TaskDispatcherStats& s) { return s.waiting.pending; }},
    {"tasks_sending", "Tasks with an attempt under way, at any dispatcher.",
     [](const TaskDispatcherStats& s) { return s.waiting.sending; }},
    {"tasks_failed", "Tasks that will be tried again.",
     [](const TaskDispatcherStats& s) { return s.waiting.failed; }},
    {"tasks_dead", "Tasks that wait for a person.", [](const TaskDispatcherStats& s) { return s.waiting.dead; }},
    {"task_attempts_under_way", "Attempts of this dispatcher under way.",
     [](const TaskDispatcherStats& s) { return static_cast<std::int64_t>(s.under_way); }},
    {"tasks_degraded", "1 when the dispatcher has a problem; /readyz says which.",
     [](const TaskDispatcherStats& s) { return std::int64_t{s.problem.empty() ? 0 : 1}; }},
}};

/// What keeps a target's tasks from being sent, if anything: a pause goes before an outage.
std::string_view StateOf(const TargetHealth& health) {
  return health.paused ? "paused" : ToString(health.state);
}

void WriteTargetHealth(const TaskDispatcherStats& stats, MetricWriter& out) {
  out.Family("task_target_state", "gauge", "1 for the state the target is in, as this dispatcher sees it.");
  for (const auto& [target, share] : stats.targets) {
    for (const std::string_view state : {"closed", "half-open", "open", "paused"}) {
      out.Sample({{"target", target}, {"state", state}}, StateOf(share.health) == state ? "1" : "0");
    }
  }
  out.Family("task_target_outages_total", "counter", "Times that the target was found down.");
  for (const auto& [target, share] : stats.targets) {
    out.Sample({{"target", target}}, MetricNumber(share.health.opened));
  }
  out.Family("task_target_inflight_attempts", "gauge", "Attempts of this dispatcher under way at the target.");
  for (const auto& [target, share] : stats.targets) {
    out.Sample({{"target", target}}, MetricNumber(static_cast<std::uint64_t>(share.health.in_flight)));
  }
}

}  // namespace

void WriteTaskMetrics(const TaskDispatcherStats& stats, MetricWriter& out) {
  for (const TargetFamily& family : kTargetFamilies) {
    out.Family(family.name, "counter", family.help);
    for (const auto& [target, share] : stats.targets) {
      out.Sample({{"target", target}}, MetricNumber(family.value(share)));
    }
  }
  out.Family("task_attempt_seconds", "histogram", "Time of an attempt.");
  for (const auto& [target, share] : stats.targets) out.Distribution({{"target", target}}, share.seconds);
  WriteTargetHealth(stats, out);
  out.Family("task_fenced_total", "counter", "Attempts whose end came too late.");
  out.Sample({}, MetricNumber(stats.fenced));
  for (const StoreFamily& family : kStoreFamilies) {
    out.Family(family.name, "gauge", family.help);
    out.Sample({}, MetricNumber(family.value(stats)));
  }
}

}  // namespace sealane
