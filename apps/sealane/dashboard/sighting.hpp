#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/error.hpp"

#include "dashboard/desks.hpp"

namespace sealane::cli {

/// How long the newest published events of a route took from their commit.
struct RouteLatency {
  std::chrono::microseconds median{0};
  std::chrono::microseconds p99{0};
  std::size_t events = 0;
};
/// By route. Events whose time of publication is no longer known are left out; a clock that went back counts as 0.
std::map<std::string, RouteLatency> LatenciesOf(const std::vector<StoredMessage>& messages);

/// Tasks that are not over, each state counted up to kTasksSeenMax.
struct TaskTally {
  std::size_t pending = 0;
  std::size_t failed = 0;
  std::size_t dead = 0;
  bool exact = true;
};
inline constexpr std::size_t kTasksSeenMax = 100;

/// What one look at a store has shown.
struct Sighting {
  Timestamp at{};    ///< by the clock of this machine
  BootTime since{};  ///< the same moment, for rates
  RouteReport routes = {};
  // What costs more is looked at less often.
  std::map<std::string, RouteLatency> latencies = {};
  std::vector<InboxSummary> consumers = {};
  std::optional<Error> consumers_problem = {};  ///< why they could not be seen, or not any more
  std::optional<TaskTally> tasks = {};          ///< empty: they could not be seen
};

/// Looks at the routes; the rest is as it was `before`, when that is given.
Result<Sighting> LookAtRoutes(Desks& desks, Clock& clock, const Sighting* before);
/// Looks at the rest. What cannot be seen of it, because this user may not or because it takes too long, leaves the
/// routes as they are.
void LookAtTheRest(Desks& desks, Sighting& seen);

enum class HealthLevel : std::uint8_t {
  kGood,
  kNotice,   ///< somebody should look, by day
  kWrong,    ///< events do not arrive
  kUnknown,  ///< nothing was seen yet
};
std::string_view ToString(HealthLevel level);

/// One sentence or two for whoever has just been woken.
struct Health {
  HealthLevel level = HealthLevel::kUnknown;
  std::string sentence = {};
};
/// `problem`: why the last look failed. `appended_per_second`, when known, tells an idle outbox from a busy one.
Health JudgeHealth(const Sighting* last, const Error* problem, std::optional<double> appended_per_second);

/// `0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`.
std::string ShortDuration(std::chrono::microseconds duration);

}  // namespace sealane::cli
