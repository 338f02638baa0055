#include "tasks/target_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "sealane/assert.hpp"

#include "base/log.hpp"
#include "base/text.hpp"

namespace sealane {

using std::chrono::milliseconds;

TargetScheduler::TargetScheduler(const TaskTargets& targets, std::size_t workers)
    : workers_(std::max<std::size_t>(workers, 1)) {
  for (const auto& [name, target] : targets) {
    SEALANE_ASSERT(target.executor != nullptr, "a target has an executor");
    names_.push_back(name);
    Slot& slot = slots_[name];
    slot.concurrency = target.concurrency == 0 ? workers_ : target.concurrency;
    slot.attempts_max = target.retry.attempts_max;
    slot.breaker = CircuitBreaker(target.breaker);
  }
}

bool TargetScheduler::MayClaim(const Slot& slot, BootTime now) const {
  return !slot.paused && slot.due_at && *slot.due_at <= now && slot.breaker.MayBegin(now);
}

std::vector<TargetQuota> TargetScheduler::Quotas(BootTime now, std::size_t limit) const {
  struct Share {
    const std::string* name = nullptr;
    const Slot* slot = nullptr;
    std::size_t in_flight = 0;
    std::size_t quota = 0;
    std::size_t most = 0;
  };
  const std::lock_guard lock(mutex_);
  std::vector<Share> shares;
  std::size_t active = 0;
  std::size_t total = 0;
  for (const auto& [name, slot] : slots_) {
    const bool claimable = MayClaim(slot, now);
    if (claimable || slot.in_flight > 0) ++active;
    total += slot.in_flight;
    if (!claimable) continue;
    // Of a target that is half-open one attempt finds out.
    const bool probe = slot.breaker.state(now) != BreakerState::kClosed;
    const std::size_t most = probe ? slot.in_flight + 1 : slot.concurrency;
    shares.push_back({.name = &name, .slot = &slot, .in_flight = slot.in_flight, .most = most});
  }
  const std::size_t fair = std::max<std::size_t>(workers_ / std::max<std::size_t>(active, 1), 1);
  for (std::size_t given = 0; given < limit; ++given) {
    Share* next = nullptr;
    for (Share& share : shares) {
      if (share.in_flight >= share.most) continue;
      const bool first = share.in_flight == 0;
      const bool reserved = share.in_flight < fair && total < 2 * workers_;
      if (!first && !reserved && total >= workers_) continue;
      const auto order = [](const Share& one) { return std::pair(one.in_flight, one.slot->turn); };
      if (next == nullptr || order(share) < order(*next)) next = &share;
    }
    if (next == nullptr) break;
    ++next->in_flight;
    ++next->quota;
    ++total;
  }
  std::vector<TargetQuota> quotas;
  for (const Share& share : shares) {
    if (share.quota > 0) quotas.emplace_back(*share.name, share.quota);
  }
  return quotas;
}

void TargetScheduler::Learn(std::span<const TargetOutlook> outlooks, BootTime now) {
  SEALANE_ASSERT(outlooks.size() == names_.size(), "an outlook for every target");
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < outlooks.size(); ++i) {
    Slot& slot = slots_.at(names_[i]);
    slot.due_at.reset();
    if (outlooks[i].due_in) slot.due_at = now + *outlooks[i].due_in;
    if (slot.paused == outlooks[i].paused) continue;
    slot.paused = outlooks[i].paused;
    LogInfo(slot.paused ? "an operator has paused a target" : "an operator has resumed a target",
            {{"target", EscapeForTerminal(names_[i])}});
  }
}

std::vector<HeldTask> TargetScheduler::Claimed(std::span<const TargetQuota> asked, std::vector<ClaimedTask> claimed,
                                               BootTime lease_until, BootTime now) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::size_t> got;
  std::vector<HeldTask> held;
  for (ClaimedTask& task : claimed) {
    const auto slot = slots_.find(task.task.target);
    SEALANE_ASSERT(slot != slots_.end(), "a store hands out tasks for the named targets alone");
    ++got[slot->first];
    ++slot->second.in_flight;
    slot->second.turn = ++turns_;
    const bool probe = slot->second.breaker.Begin(now);
    held.push_back({.task = std::move(task), .lease_until = lease_until, .probe = probe});
  }
  for (const TargetQuota& quota : asked) {
    if (got[quota.target] < quota.limit) slots_.at(quota.target).due_at.reset();
  }
  return held;
}

void TargetScheduler::Left(const std::string& target) {
  const std::lock_guard lock(mutex_);
  --slots_.at(target).in_flight;
}

std::size_t TargetScheduler::in_flight() const {
  const std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const auto& [name, slot] : slots_) total += slot.in_flight;
  return total;
}

std::optional<milliseconds> TargetScheduler::Ended(const HeldTask& held, const AttemptReport& report, BootTime now) {
  const std::lock_guard lock(mutex_);
  const std::string& name = held.task.task.target;
  Slot& slot = slots_.at(name);
  const bool failed = report.verdict == AttemptVerdict::kRetry || report.verdict == AttemptVerdict::kUnknown;
  if (failed && report.target_down) return Fail(slot, held, report, now);
  if (slot.breaker.Succeeded()) {
    slot.has_news = true;
    slot.problem.clear();
    LogInfo("target is back", {{"target", EscapeForTerminal(name)}, {"task", held.task.id.ToString()}});
  }
  return std::nullopt;
}

std::optional<milliseconds> TargetScheduler::Fail(Slot& slot, const HeldTask& held, const AttemptReport& report,
                                                  BootTime now) {
  const CircuitBreaker::Effect effect =
      slot.breaker.Failed({.probe = held.probe,
                           .tries = held.task.tries,
                           .last_try = slot.attempts_max > 0 && held.task.tries >= slot.attempts_max,
                           .retry_after = report.retry_after},
                          now);
  if (effect.counts) return std::nullopt;
  slot.code = report.code;
  slot.problem = report.message;
  if (effect.opened || held.probe) slot.has_news = true;
  const milliseconds next_probe =
      std::max(std::chrono::ceil<milliseconds>(slot.breaker.next_probe() - now), milliseconds{1});
  if (!effect.opened) return next_probe;
  ++slot.opened;
  // Once per outage: what the probes find is in `tasks targets` and in the metrics.
  LogWarning("target is down, its tasks wait", {{"target", EscapeForTerminal(held.task.task.target)},
                                                {"failures", slot.breaker.failures()},
                                                {"code", report.code},
                                                {"error", report.message},
                                                {"next_probe_ms", next_probe.count()}});
  return next_probe;
}

void TargetScheduler::Withdrawn(const HeldTask& held) {
  const std::lock_guard lock(mutex_);
  if (held.probe) slots_.at(held.task.task.target).breaker.WithdrawProbe();
}

std::optional<std::chrono::nanoseconds> TargetScheduler::NextChange(BootTime now) const {
  const std::lock_guard lock(mutex_);
  std::optional<std::chrono::nanoseconds> next;
  for (const auto& [name, slot] : slots_) {
    if (slot.paused || !slot.due_at) continue;
    BootTime at = *slot.due_at;
    if (slot.breaker.state(now) == BreakerState::kOpen) at = std::max(at, slot.breaker.next_probe());
    // What is due now and not claimed waits for a worker, which wakes the dispatcher when it is free.
    if (at <= now) continue;
    next = std::min(next.value_or(at - now), at - now);
  }
  return next;
}

std::map<std::string, std::optional<TargetOutage>> TargetScheduler::TakeNews(BootTime now) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::optional<TargetOutage>> news;
  for (auto& [name, slot] : slots_) {
    if (!std::exchange(slot.has_news, false)) continue;
    auto& outage = news[name];
    slot.known_down = slot.breaker.state(now) != BreakerState::kClosed;
    if (!slot.known_down) continue;
    outage = TargetOutage{.next_probe_in = std::chrono::ceil<milliseconds>(slot.breaker.next_probe() - now),
                          .failures = slot.breaker.failures(),
                          .code = slot.code,
                          .message = slot.problem};
  }
  return news;
}

void TargetScheduler::NotTold(const std::string& target) {
  const std::lock_guard lock(mutex_);
  slots_.at(target).has_news = true;
}

std::vector<std::string> TargetScheduler::KnownDown() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, slot] : slots_) {
    if (slot.known_down) names.push_back(name);
  }
  return names;
}

std::map<std::string, TargetHealth> TargetScheduler::health(BootTime now) const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, TargetHealth> all;
  for (const auto& [name, slot] : slots_) {
    all[name] = {.state = slot.breaker.state(now),
                 .paused = slot.paused,
                 .in_flight = slot.in_flight,
                 .opened = slot.opened,
                 .problem = slot.problem};
  }
  return all;
}

}  // namespace sealane
