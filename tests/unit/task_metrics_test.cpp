// Protects what a dispatcher of tasks tells over HTTP.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/probes.hpp"

namespace sealane {
namespace {

using ::testing::HasSubstr;

TaskDispatcherStats Busy() {
  TaskDispatcherStats stats;
  stats.targets["billing"] = {.succeeded = 5, .failed = 3, .unknown = 2, .dead = 1, .seconds = {}};
  stats.targets["billing"].health = {.state = BreakerState::kOpen, .in_flight = 2, .opened = 3};
  stats.targets["mail"] = {};
  stats.targets["mail"].health.paused = true;
  stats.waiting = {.pending = 7, .sending = 1, .failed = 4, .dead = 2};
  stats.under_way = 1;
  stats.store_reached = true;
  return stats;
}

ProbeAnswer Ask(const std::string& target, const TaskDispatcherStats& stats) {
  const BuildInfo build = {{"version", "1"}};
  ProbeFacts facts;
  facts.build = &build;
  facts.dispatchers = {&stats, 1};
  return AnswerProbe("GET", target, facts);
}

TEST(TaskMetrics, ShowEveryTargetsShareAndWhatWaits) {
  const std::string text = Ask("/metrics", Busy()).body;
  for (const std::string line :
       {"sealane_tasks_succeeded_total{target=\"billing\"} 5", "sealane_task_failures_total{target=\"billing\"} 3",
        "sealane_task_unknown_total{target=\"billing\"} 2", "sealane_tasks_dead_total{target=\"billing\"} 1",
        "sealane_tasks_succeeded_total{target=\"mail\"} 0", "sealane_task_attempt_seconds_count{target=\"mail\"} 0",
        "sealane_tasks_pending 7", "sealane_tasks_failed 4", "sealane_tasks_dead 2", "sealane_tasks_degraded 0",
        "sealane_task_target_state{target=\"billing\",state=\"open\"} 1",
        "sealane_task_target_state{target=\"billing\",state=\"closed\"} 0",
        "sealane_task_target_state{target=\"mail\",state=\"paused\"} 1",
        "sealane_task_target_outages_total{target=\"billing\"} 3",
        "sealane_task_target_inflight_attempts{target=\"billing\"} 2", "sealane_task_attempts_under_way 1",
        "sealane_task_fenced_total 0"}) {
    EXPECT_THAT(text, HasSubstr("\n" + line + "\n"));
  }
}

TEST(TaskMetrics, AreReadyWhileTheStoreIsReached) {
  EXPECT_EQ(Ask("/readyz", Busy()).status, 200);
  EXPECT_THAT(Ask("/readyz", Busy()).body, HasSubstr("\"dead\":2"));
  TaskDispatcherStats away = Busy();
  away.store_reached = false;
  away.problem = "the store is away";
  EXPECT_EQ(Ask("/readyz", away).status, 503);
  EXPECT_THAT(Ask("/readyz", away).body, HasSubstr("the store is away"));
  EXPECT_EQ(Ask("/livez", away).status, 200) << "a restart would not heal it";
}

}  // namespace
}  // namespace sealane
