#include "dashboard/sighting.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "inbox_view.hpp"

namespace sealane::cli {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kLatencyEvents = 50;
// From here on waiting is worth a look, and then a worry.
constexpr microseconds kLate = std::chrono::seconds{10};
constexpr microseconds kVeryLate = std::chrono::seconds{60};

Result<TaskTally> CountTasks(TaskDesk& desk) {
  TaskTally tally;
  const std::pair<TaskState, std::size_t*> counted[] = {
      {TaskState::kPending, &tally.pending}, {TaskState::kFailed, &tally.failed}, {TaskState::kDead, &tally.dead}};
  for (const auto& [state, count] : counted) {
    SEALANE_ASSIGN_OR_RETURN(const auto tasks, desk.List({.state = state, .limit = kTasksSeenMax}));
    *count = tasks.size();
    tally.exact = tally.exact && tasks.size() < kTasksSeenMax;
  }
  return tally;
}

std::string Counted(std::int64_t count, bool exact, std::string_view one, std::string_view many) {
  if (!exact) return fmt::format("{} {} or more", count, many);
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// Collects what is to be said, and how bad it is.
class Verdict {
 public:
  void Say(HealthLevel level, std::string text) {
    level_ = std::max(level_, level);
    text_ += (text_.empty() ? "" : " ") + std::move(text);
  }
  Health Take() && { return {level_, std::move(text_)}; }

 private:
  HealthLevel level_ = HealthLevel::kGood;
  std::string text_;
};

struct Totals {
  std::int64_t pending = 0;
  bool pending_exact = true;
  std::optional<microseconds> oldest = {};
  // The same on routes that somebody works on: what is paused is late on purpose.
  std::int64_t under_way = 0;
  microseconds lag{0};
  std::int64_t dead = 0;
  std::int64_t failed = 0;
  bool aside_exact = true;
};

bool IsWorkedOn(const RouteSummary& route) {
  return route.live_relays > 0 && !route.paused;
}

Totals Sum(const std::vector<RouteSummary>& routes) {
  Totals totals;
  for (const RouteSummary& route : routes) {
    totals.pending += route.pending;
    totals.pending_exact = totals.pending_exact && route.pending_exact;
    if (IsWorkedOn(route)) totals.under_way += route.pending;
    if (route.oldest_pending) {
      totals.oldest = std::max(totals.oldest.value_or(microseconds{0}), *route.oldest_pending);
      if (IsWorkedOn(route)) totals.lag = std::max(totals.lag, *route.oldest_pending);
    }
    totals.dead += route.dead;
    totals.failed += route.failed;
    totals.aside_exact = totals.aside_exact && route.aside_exact;
  }
  return totals;
}

void JudgeRoutes(const std::vector<RouteSummary>& routes, Verdict& verdict) {
  for (const RouteSummary& route : routes) {
    if (route.paused) {
      verdict.Say(HealthLevel::kNotice, fmt::format("Route {} is paused.", route.route));
    } else if (route.live_relays == 0) {
      verdict.Say(route.pending > 0 ? HealthLevel::kWrong : HealthLevel::kNotice,
                  fmt::format("No relay runs on route {}.", route.route));
    } else if (route.leased < route.lanes) {
      verdict.Say(HealthLevel::kNotice, fmt::format("{} of {} lanes of route {} are nobody's.",
                                                    route.lanes - route.leased, route.lanes, route.route));
    }
    const auto paused = std::ranges::count_if(route.tenants, &TenantRule::paused);
    if (paused == 0) continue;
    // One is named; more would make a list of what is to be a sentence.
    const auto first = std::ranges::find_if(route.tenants, &TenantRule::paused);
    verdict.Say(HealthLevel::kNotice,
                paused == 1 ? fmt::format("Tenant {} is paused on route {}.", first->tenant, route.route)
                            : fmt::format("{} tenants are paused on route {}.", paused, route.route));
  }
}

void JudgePending(const Totals& totals, Verdict& verdict) {
  if (totals.pending == 0) {
    verdict.Say(totals.pending_exact ? HealthLevel::kGood : HealthLevel::kNotice,
                totals.pending_exact ? "Nothing is pending." : "How much is pending is not known.");
    return;
  }
  std::string text = Counted(totals.pending, totals.pending_exact, "event is pending", "events are pending");
  if (totals.oldest) text += fmt::format(", the oldest for {}", ShortDuration(*totals.oldest));
  verdict.Say(HealthLevel::kGood, text + ".");
}

void JudgeConsumers(const std::vector<InboxSummary>& consumers, Verdict& verdict) {
  std::int64_t dead = 0;
  std::int64_t gaps = 0;
  std::int64_t stopped = 0;
  for (const InboxSummary& consumer : consumers) {
    dead += consumer.waiting.dead;
    gaps += consumer.waiting.gaps;
    stopped += StoppedPartitions(consumer);
  }
  if (stopped > 0) {
    verdict.Say(HealthLevel::kWrong, fmt::format("{} stopped at a consumer until an operator decides.",
                                                 Counted(stopped, true, "partition is", "partitions are")));
  }
  if (dead > 0) {
    verdict.Say(HealthLevel::kNotice,
                fmt::format("{} dead at a consumer.",
                            Counted(dead, dead < InboxCounts::kCountMax, "event is", "events are")));
  }
  if (gaps > 0) {
    verdict.Say(HealthLevel::kNotice,
                fmt::format("{} for an earlier version.",
                            Counted(gaps, gaps < InboxCounts::kCountMax, "event waits", "events wait")));
  }
}

}  // namespace

std::map<std::string, RouteLatency> LatenciesOf(const std::vector<StoredMessage>& messages) {
  std::map<std::string, std::vector<microseconds>> waits;
  for (const StoredMessage& message : messages) {
    for (const RouteStatus& route : message.routes) {
      if (!route.published_at) continue;
      waits[route.route].push_back(std::max(*route.published_at - message.appended_at, microseconds{0}));
    }
  }
  std::map<std::string, RouteLatency> latencies;
  for (auto& [route, times] : waits) {
    std::ranges::sort(times);
    latencies[route] = {times[(times.size() - 1) / 2], times[(times.size() - 1) * 99 / 100], times.size()};
  }
  return latencies;
}

Result<Sighting> LookAtRoutes(Desks& desks, Clock& clock, const Sighting* before) {
  Sighting seen = before != nullptr ? *before : Sighting();
  SEALANE_ASSIGN_OR_RETURN(seen.routes, desks.Routes([](RouteDesk& desk) { return desk.Look(); }));
  seen.at = clock.Now();
  seen.since = clock.SinceBoot();
  return seen;
}

void LookAtTheRest(Desks& desks, Sighting& seen) {
  const auto newest = desks.Messages([](OutboxStore& desk) { return desk.ListMessages({.limit = kLatencyEvents}); });
  seen.latencies = newest ? LatenciesOf(*newest) : std::map<std::string, RouteLatency>();
  auto consumers = desks.Inbox([](InboxDesk& desk) { return desk.Summaries(); });
  seen.consumers_problem.reset();
  if (consumers) {
    seen.consumers = *std::move(consumers);
  } else {
    seen.consumers_problem = consumers.error();
  }
  const auto tasks = desks.Tasks(CountTasks);
  seen.tasks = tasks ? std::optional(*tasks) : std::nullopt;
}

std::string_view ToString(HealthLevel level) {
  switch (level) {
    case HealthLevel::kGood:
      return "good";
    case HealthLevel::kNotice:
      return "notice";
    case HealthLevel::kWrong:
      return "wrong";
    case HealthLevel::kUnknown:
      break;
  }
  return "unknown";
}

Health JudgeHealth(const Sighting* last, const Error* problem, std::optional<double> appended_per_second) {
  if (problem != nullptr)
    return {HealthLevel::kWrong, fmt::format("The store could not be read: {}.", problem->message())};
  if (last == nullptr) return {HealthLevel::kUnknown, "The store has not been looked at yet."};
  Verdict verdict;
  const Totals totals = Sum(last->routes.routes);
  const bool idle = totals.under_way == 0 && appended_per_second.value_or(0) == 0;
  JudgeRoutes(last->routes.routes, verdict);
  const bool works = std::ranges::any_of(last->routes.routes, IsWorkedOn);
  if (works && totals.lag > kVeryLate) {
    verdict.Say(HealthLevel::kWrong, "Far behind.");
  } else if (works && totals.lag > kLate) {
    verdict.Say(HealthLevel::kNotice, "Behind.");
  } else if (works) {
    verdict.Say(HealthLevel::kGood, idle ? "Idle." : "Delivering.");
  }
  JudgePending(totals, verdict);
  if (totals.dead > 0) {
    verdict.Say(HealthLevel::kNotice,
                fmt::format("{} dead and for a person to decide.",
                            Counted(totals.dead, totals.aside_exact, "event is", "events are")));
  }
  if (totals.failed > 0) {
    verdict.Say(HealthLevel::kNotice,
                fmt::format("{} failed and will be tried again.",
                            Counted(totals.failed, totals.aside_exact, "event has", "events have")));
  }
  JudgeConsumers(last->consumers, verdict);
  if (last->tasks && last->tasks->dead > 0) {
    verdict.Say(HealthLevel::kNotice,
                fmt::format("{} dead.", Counted(static_cast<std::int64_t>(last->tasks->dead),
                                                last->tasks->dead < kTasksSeenMax, "task is", "tasks are")));
  }
  return std::move(verdict).Take();
}

std::string ShortDuration(microseconds duration) {
  const double seconds = static_cast<double>(duration.count()) / 1'000'000;
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * 3'600) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 2 * 86'400) return fmt::format("{:.0f} h", seconds / 3'600);
  return fmt::format("{:.0f} d", seconds / 86'400);
}

}  // namespace sealane::cli
