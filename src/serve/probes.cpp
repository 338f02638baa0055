#include "serve/probes.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/json_object.hpp"

namespace sealane {
namespace {

std::string RouteJson(const RouteStats& stats) {
  JsonObject json;
  json.Text("store", stats.store);
  json.Text("route", stats.route);
  json.Text("state", ToString(stats.state));
  json.Raw("ready", CanWork(stats) ? "true" : "false");
  json.TextIfAny("code", stats.problem_code);
  json.TextIfAny("problem", stats.problem);
  json.Integer("lanes", stats.lanes);
  json.Integer("held", static_cast<std::int64_t>(stats.held.size()));
  json.Integer("live_relays", stats.live_relays);
  json.Integer("pending", stats.pending);
  json.Integer("parked", stats.parked);
  json.Integer("waiting", stats.waiting);
  json.Integer("missing_topics", stats.missing_topics);
  return std::move(json).Close();
}

std::string ConsumerJson(const ConsumerStats& stats) {
  JsonObject json;
  json.Text("consumer", stats.consumer);
  json.Text("state", ToString(stats.state));
  json.Raw("ready", CanWork(stats) ? "true" : "false");
  json.TextIfAny("code", stats.problem_code);
  json.TextIfAny("problem", stats.problem);
  json.Integer("partitions", static_cast<std::int64_t>(stats.partitions.size()));
  json.Integer("effects", static_cast<std::int64_t>(stats.effects));
  json.Integer("parked", stats.parked);
  return std::move(json).Close();
}

ProbeAnswer ConsumerReadiness(const ProbeFacts& facts) {
  const auto ready = std::any_of(facts.consumers.begin(), facts.consumers.end(),
                                 [](const ConsumerStats& stats) { return CanWork(stats); });
  std::string consumers;
  for (const ConsumerStats& stats : facts.consumers)
    consumers += (consumers.empty() ? "" : ",") + ConsumerJson(stats);
  return {.status = ready ? 200 : 503,
          .body = fmt::format("{{\"ready\":{},\"consumers\":[{}]}}\n", ready, consumers)};
}

ProbeAnswer DispatcherReadiness(const TaskDispatcherStats& stats) {
  JsonObject json;
  json.Raw("ready", CanWork(stats) ? "true" : "false");
  json.TextIfAny("problem", stats.problem);
  json.Integer("targets", static_cast<std::int64_t>(stats.targets.size()));
  json.Integer("under_way", static_cast<std::int64_t>(stats.under_way));
  json.Integer("pending", stats.waiting.pending);
  json.Integer("failed", stats.waiting.failed);
  json.Integer("dead", stats.waiting.dead);
  return {.status = CanWork(stats) ? 200 : 503, .body = std::move(json).Close() + '\n'};
}

ProbeAnswer ReceiveReadiness(const ReceiveStats& stats) {
  JsonObject json;
  json.Raw("ready", CanWork(stats) ? "true" : "false");
  json.TextIfAny("code", stats.problem_code);
  json.TextIfAny("problem", stats.problem);
  return {.status = CanWork(stats) ? 200 : 503, .body = std::move(json).Close() + '\n'};
}

ProbeAnswer Readiness(const ProbeFacts& facts) {
  if (!facts.dispatchers.empty()) {
    // One that makes tasks of events needs both halves.
    if (!facts.consumers.empty() && !CanWork(facts.consumers.front())) return ConsumerReadiness(facts);
    return DispatcherReadiness(facts.dispatchers.front());
  }
  if (facts.receive != nullptr) return ReceiveReadiness(*facts.receive);
  if (facts.relays.empty() && !facts.consumers.empty()) return ConsumerReadiness(facts);
  const bool ready =
      std::any_of(facts.relays.begin(), facts.relays.end(), [](const RouteStats& stats) { return CanWork(stats); });
  std::string routes;
  for (const RouteStats& stats : facts.relays) routes += (routes.empty() ? "" : ",") + RouteJson(stats);
  return {.status = ready ? 200 : 503, .body = fmt::format("{{\"ready\":{},\"routes\":[{}]}}\n", ready, routes)};
}

ProbeAnswer Liveness(const ProbeFacts& facts) {
  const auto stuck = std::find_if(facts.relays.begin(), facts.relays.end(), [&](const RouteStats& stats) {
    return !IsAlive(stats, facts.now, facts.beat_max);
  });
  if (stuck == facts.relays.end()) return {.status = 200, .body = "{\"alive\":true}\n"};
  JsonObject json;
  json.Raw("alive", "false");
  json.Text("store", stuck->store);
  json.Text("route", stuck->route);
  json.Text("problem", "its heart has stopped");
  return {.status = 503, .body = std::move(json).Close() + '\n'};
}

ProbeAnswer Failure(int status, std::string_view code, std::string_view message, std::string_view hint) {
  JsonObject inner;
  inner.Text("code", code);
  inner.Text("message", message);
  inner.Text("hint", hint);
  JsonObject outer;
  outer.Raw("error", std::move(inner).Close());
  return {.status = status, .body = std::move(outer).Close() + '\n'};
}

/// Problems of a destination that do not pass: the journal is not the one that was published to.
bool NeedsPerson(std::string_view code) {
  constexpr std::array<std::string_view, 7> kCodes = {
      "another_journal", "foreign_wal",       "journal_corrupt", "journal_format_unsupported",
      "journal_missing", "journal_went_back", "not_a_journal"};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

}  // namespace

bool CanWork(const RouteStats& stats) {
  if (!stats.store_reachable) return false;
  switch (stats.state) {
    case RelayState::kHolding:
      return !NeedsPerson(stats.problem_code);
    case RelayState::kRunning:
    case RelayState::kPaused:
      return true;
    case RelayState::kStarting:
      // The store knows it and others hold all lanes: a standby.
      return stats.problem.empty() && stats.last_beat_at > Timestamp{};
    case RelayState::kDraining:
    case RelayState::kStopped:
      return false;
  }
  return false;
}

bool CanWork(const ConsumerStats& stats) {
  return stats.store_reachable && stats.broker_reachable && stats.stuck.empty() && stats.stopped.empty() &&
         stats.hold_code.empty() && stats.state != ConsumerState::kDraining && stats.state != ConsumerState::kStopped;
}

bool CanWork(const TaskDispatcherStats& stats) {
  return stats.store_reached;
}

bool CanWork(const ReceiveStats& stats) {
  return stats.store_reachable && !stats.draining;
}

bool IsAlive(const RouteStats& stats, Timestamp now, std::chrono::milliseconds beat_max) {
  const bool claims_to_work = stats.state == RelayState::kRunning && stats.problem.empty();
  return !claims_to_work || now - stats.last_beat_at <= beat_max;
}

ProbeAnswer AnswerProbe(std::string_view method, std::string_view target, const ProbeFacts& facts) {
  const std::string_view path = target.substr(0, target.find('?'));
  const bool known = path == "/livez" || path == "/readyz" || path == "/metrics";
  if (!known) {
    return Failure(404, "not_found", "there is nothing here", "there are /livez, /readyz and /metrics");
  }
  if (method != "GET" && method != "HEAD") {
    ProbeAnswer answer = Failure(405, "method_not_allowed", "this can only be read", "use GET or HEAD");
    answer.allow = true;
    return answer;
  }
  if (path == "/livez") return Liveness(facts);
  if (path == "/readyz") return Readiness(facts);
  return {.status = 200,
          .content_type = std::string(kMetricsContentType),
          .body = RenderMetrics(facts.relays, *facts.build, facts.consumers, facts.dispatchers, facts.receive)};
}

}  // namespace sealane
