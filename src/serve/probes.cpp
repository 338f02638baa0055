#include "serve/probes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/json_object.hpp"

namespace sealane {
namespace {

std::string RouteJson(const RelayStats& stats) {
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
  return std::move(json).Close();
}

ProbeAnswer Readiness(const ProbeFacts& facts) {
  const bool ready = std::any_of(facts.relays.begin(), facts.relays.end(), CanWork);
  std::string routes;
  for (const RelayStats& stats : facts.relays) routes += (routes.empty() ? "" : ",") + RouteJson(stats);
  return {.status = ready ? 200 : 503, .body = fmt::format("{{\"ready\":{},\"routes\":[{}]}}\n", ready, routes)};
}

ProbeAnswer Liveness(const ProbeFacts& facts) {
  const auto stuck = std::find_if(facts.relays.begin(), facts.relays.end(), [&](const RelayStats& stats) {
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

}  // namespace

bool CanWork(const RelayStats& stats) {
  if (!stats.store_reachable) return false;
  switch (stats.state) {
    case RelayState::kRunning:
    case RelayState::kHolding:
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

bool IsAlive(const RelayStats& stats, Timestamp now, std::chrono::milliseconds beat_max) {
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
          .body = RenderMetrics(facts.relays, *facts.build)};
}

}  // namespace sealane
