#include "dashboard/overview.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "inbox_view.hpp"
#include "output.hpp"
#include "tenant_view.hpp"

namespace sealane::cli {
namespace {

std::string Decimal(double value) {
  return fmt::format("{:.1f}", value);
}

std::string Seconds(std::chrono::microseconds duration) {
  return fmt::format("{:.3f}", static_cast<double>(duration.count()) / 1'000'000);
}

std::string Millis(std::chrono::microseconds duration) {
  return fmt::format("{:.1f}", static_cast<double>(duration.count()) / 1'000);
}

std::string RelayJson(const RelayMember& relay) {
  return JsonDocument()
      .Text("owner", relay.owner)
      .Text("route", relay.route)
      .Time("started_at", relay.started_at)
      .Time("expires_at", relay.expires_at)
      .Integer("lanes", relay.lanes)
      .Truth("live", relay.live)
      .Finish();
}

std::string TasksJson(const TaskTally& tasks) {
  return JsonDocument()
      .Integer("pending", static_cast<std::int64_t>(tasks.pending))
      .Integer("failed", static_cast<std::int64_t>(tasks.failed))
      .Integer("dead", static_cast<std::int64_t>(tasks.dead))
      .Truth("exact", tasks.exact)
      .Finish();
}

double SecondsBetween(BootTime from, BootTime to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string ErrorJson(const Error& error) {
  return JsonDocument()
      .Text("code", error.code())
      .Text("message", error.message())
      .TextIfAny("hint", error.hint())
      .Finish();
}

Overview::Mark Overview::MarkOf(const Sighting& seen) {
  Mark mark{.since = seen.since, .seq_high = seen.routes.seq_high};
  for (const RouteSummary& route : seen.routes.routes) {
    // What was set aside has left the queue too, and has not arrived.
    if (!route.pending_exact || !route.aside_exact) continue;
    mark.published[route.route] = mark.seq_high - route.pending - route.waiting - route.failed - route.dead;
  }
  return mark;
}

std::optional<double> Overview::AppendedBetween(const Mark& from, const Mark& to) {
  const double seconds = SecondsBetween(from.since, to.since);
  // A store that was replaced by another begins anew.
  if (seconds <= 0 || to.seq_high < from.seq_high) return std::nullopt;
  return static_cast<double>(to.seq_high - from.seq_high) / seconds;
}

std::optional<double> Overview::PublishedBetween(const Mark& from, const Mark& to, const std::string& route) {
  const double seconds = SecondsBetween(from.since, to.since);
  const auto before = from.published.find(route);
  const auto after = to.published.find(route);
  if (seconds <= 0 || before == from.published.end() || after == to.published.end()) return std::nullopt;
  // Numbers are drawn before they are committed, so the difference can dip below what it was.
  return std::max(0.0, static_cast<double>(after->second - before->second) / seconds);
}

void Overview::Note(Sighting seen) {
  const std::lock_guard lock(mutex_);
  const Mark mark = MarkOf(seen);
  Point point{.at = seen.at};
  if (!marks_.empty()) point.appended = AppendedBetween(marks_.back(), mark);
  bool all_known = !marks_.empty();
  double published = 0;
  for (const RouteSummary& route : seen.routes.routes) {
    const auto rate = marks_.empty() ? std::nullopt : PublishedBetween(marks_.back(), mark, route.route);
    all_known = all_known && rate.has_value();
    published += rate.value_or(0);
    point.pending += route.pending;
    if (route.oldest_pending)
      point.oldest = std::max(point.oldest.value_or(*route.oldest_pending), *route.oldest_pending);
    point.aside += route.waiting + route.failed + route.dead;
  }
  if (all_known) point.published = published;
  for (const auto& [route, latency] : seen.latencies)
    point.p99 = std::max(point.p99.value_or(latency.p99), latency.p99);
  for (const InboxSummary& consumer : seen.consumers) point.aside += consumer.waiting.parked;
  points_.push_back(point);
  if (points_.size() > kPointsMax) points_.pop_front();

  marks_.push_back(mark);
  while (marks_.size() > 2 && marks_.back().since - marks_.front().since > kRateWindow) marks_.pop_front();
  last_ = std::move(seen);
  problem_.reset();
}

void Overview::NoteFailure(Error error) {
  const std::lock_guard lock(mutex_);
  problem_ = std::move(error);
  // What happened meanwhile happened within an unknown time.
  marks_.clear();
}

std::optional<Sighting> Overview::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::string Overview::RouteJson(const RouteSummary& route) const {
  JsonDocument json;
  json.Text("route", route.route)
      .Truth("paused", route.paused)
      .Integer("lanes", route.lanes)
      .Integer("leased", route.leased)
      .Integer("live_relays", route.live_relays)
      .Integer("pending", route.pending)
      .Truth("pending_exact", route.pending_exact);
  if (route.oldest_pending) json.Raw("oldest_pending_seconds", Seconds(*route.oldest_pending));
  if (marks_.size() > 1) {
    const auto rate = PublishedBetween(marks_.front(), marks_.back(), route.route);
    if (rate) json.Raw("published_per_second", Decimal(*rate));
  }
  json.Integer("waiting", route.waiting)
      .Integer("failed", route.failed)
      .Integer("dead", route.dead)
      .Truth("aside_exact", route.aside_exact);
  if (const auto found = last_->latencies.find(route.route); found != last_->latencies.end()) {
    json.Raw("latency_ms", JsonDocument()
                               .Raw("p50", Millis(found->second.median))
                               .Raw("p99", Millis(found->second.p99))
                               .Integer("events", static_cast<std::int64_t>(found->second.events))
                               .Finish());
  }
  return json.Finish();
}

std::string Overview::HistoryJson() const {
  std::vector<std::string> points;
  for (const Point& point : points_) {
    JsonDocument json;
    json.Time("at", point.at);
    if (point.appended) json.Raw("appended_per_second", Decimal(*point.appended));
    if (point.published) json.Raw("published_per_second", Decimal(*point.published));
    json.Integer("pending", point.pending);
    if (point.oldest) json.Raw("oldest_pending_seconds", Seconds(*point.oldest));
    if (point.p99) json.Raw("p99_ms", Millis(*point.p99));
    points.push_back(json.Integer("aside", point.aside).Finish());
  }
  return JsonDocument().Integer("interval_seconds", interval_.count()).Raw("points", JsonArray(points)).Finish();
}

std::string Overview::Json(Timestamp now) const {
  const std::lock_guard lock(mutex_);
  const auto appended = marks_.size() > 1 ? AppendedBetween(marks_.front(), marks_.back()) : std::nullopt;
  const Health health = JudgeHealth(last_ ? &*last_ : nullptr, problem_ ? &*problem_ : nullptr, appended);
  JsonDocument json;
  json.Text("apiVersion", kApiVersion).Time("now", now);
  if (last_) json.Time("as_of", last_->at);
  json.Text("version", facts_.version)
      .Text("store", facts_.store)
      .Text("command_flags", facts_.command_flags)
      .Raw("health", JsonDocument().Text("level", ToString(health.level)).Text("sentence", health.sentence).Finish());
  if (problem_) json.Raw("problem", ErrorJson(*problem_));
  if (last_) {
    json.Integer("seq_high", last_->routes.seq_high);
    if (appended) json.Raw("appended_per_second", Decimal(*appended));
    std::vector<std::string> routes;
    std::vector<std::string> tenants;
    for (const RouteSummary& route : last_->routes.routes) {
      routes.push_back(RouteJson(route));
      for (const TenantRule& rule : route.tenants) tenants.push_back(TenantRuleJson(route.route, rule));
    }
    std::vector<std::string> relays;
    for (const RelayMember& relay : last_->routes.relays) relays.push_back(RelayJson(relay));
    std::vector<std::string> consumers;
    for (const InboxSummary& consumer : last_->consumers) consumers.push_back(InboxSummaryJson(consumer));
    json.Raw("routes", JsonArray(routes))
        .Raw("relays", JsonArray(relays))
        .Raw("tenants", JsonArray(tenants))
        .Raw("consumers", JsonArray(consumers));
    if (last_->consumers_problem) json.Raw("consumers_problem", ErrorJson(*last_->consumers_problem));
    if (last_->tasks) json.Raw("tasks", TasksJson(*last_->tasks));
  }
  return json.Raw("history", HistoryJson()).Finish() + '\n';
}

}  // namespace sealane::cli
