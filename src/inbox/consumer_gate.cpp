#include "inbox/consumer_gate.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"

namespace sealane {
namespace {

/// Before the breaker has seen this part of the keys that it needs, failed events are dead as without it.
constexpr std::size_t kUndecidedPart = 4;
/// A consumer that is to end waits so long for room.
constexpr std::chrono::seconds kFullLasts{3};

std::string UnpauseCommand(const std::string& consumer) {
  return "sealane inbox unpause --consumer " + consumer + " --reason TEXT";
}

}  // namespace

// ---- the window ---------------------------------------------------------------------------------------------------

void FailureWindow::Note(std::string_view unit, bool failed, BootTime now) {
  Forget(now);
  const std::size_t key = std::hash<std::string_view>{}(unit);
  Seen& seen = keys_[key];
  if (seen.failed) --failed_;
  seen = {now, failed};
  if (failed) ++failed_;
  order_.emplace_back(now, key);
  while (keys_.size() > keys_max_ || order_.size() > 4 * keys_max_) {
    const auto [at, oldest] = order_.front();
    order_.pop_front();
    const auto found = keys_.find(oldest);
    if (found == keys_.end() || found->second.at != at) continue;
    if (found->second.failed) --failed_;
    keys_.erase(found);
  }
}

void FailureWindow::Forget(BootTime now) {
  while (!order_.empty() && order_.front().first + window_ <= now) {
    const auto [at, key] = order_.front();
    order_.pop_front();
    const auto found = keys_.find(key);
    if (found == keys_.end() || found->second.at != at) continue;
    if (found->second.failed) --failed_;
    keys_.erase(found);
  }
}

void FailureWindow::Clear() {
  keys_.clear();
  order_.clear();
  failed_ = 0;
}

// ---- working ------------------------------------------------------------------------------------------------------

ConsumerGate::ConsumerGate(const ConsumerOptions& options, Clock& clock)
    : options_(options),
      clock_(clock),
      window_(options.breaker_window, ConsumerOptions::kBreakerKeysMax),
      probe_wait_(options.breaker_probe) {}

bool ConsumerGate::may_work() const {
  const std::lock_guard lock(mutex_);
  return heard_ && !pause_ && !open_;
}

bool ConsumerGate::has_heard() const {
  const std::lock_guard lock(mutex_);
  return heard_;
}

ConsumerGate::Permit ConsumerGate::Ask() {
  const std::lock_guard lock(mutex_);
  if (!heard_ || pause_) return Permit::kHold;
  if (!open_) return Permit::kWork;
  if (probing_ || clock_.SinceBoot() < probe_at_) return Permit::kHold;
  probing_ = true;
  return Permit::kProbe;
}

void ConsumerGate::EndProbe(ProbeResult result) {
  const std::lock_guard lock(mutex_);
  probing_ = false;
  if (!open_ || result == ProbeResult::kProvedNothing) return;
  if (result == ProbeResult::kWorked) return Close("a probe was applied");
  ++probes_failed_;
  probe_wait_ = std::min(probe_wait_ * 2, options_.breaker_probe_max);
  probe_at_ = clock_.SinceBoot() + probe_wait_;
}

void ConsumerGate::Open(const std::string& message) {
  open_ = true;
  open_message_ = message;
  probes_failed_ = 0;
  nudged_ = true;
  probe_wait_ = options_.breaker_probe;
  probe_at_ = clock_.SinceBoot() + probe_wait_;
  LogError("the circuit breaker is open: no event is applied but for probes",
           {{"consumer", options_.consumer},
            {"code", kCircuitOpen},
            {"error", message},
            {"command", UnpauseCommand(options_.consumer)}});
}

void ConsumerGate::Close(std::string_view why) {
  open_ = false;
  open_message_.clear();
  window_.Clear();
  probe_wait_ = options_.breaker_probe;
  wary_until_ = clock_.SinceBoot() + options_.breaker_window;
  untold_ = true;
  nudged_ = true;
  LogInfo("the circuit breaker is closed: events are applied again", {{"consumer", options_.consumer}, {"why", why}});
}

// ---- what became of events ----------------------------------------------------------------------------------------

void ConsumerGate::NoteApplied(std::string_view unit) {
  if (!options_.breaker) return;
  const std::lock_guard lock(mutex_);
  window_.Note(unit, false, clock_.SinceBoot());
}

bool ConsumerGate::NoteFailed(std::string_view unit, std::int32_t attempts, std::string_view code) {
  if (!options_.breaker) return false;
  const std::lock_guard lock(mutex_);
  const BootTime now = clock_.SinceBoot();
  window_.Note(unit, true, now);
  if (open_) return true;
  const std::size_t failed = window_.failed();
  const bool is_share = static_cast<double>(failed) >= options_.breaker_share * static_cast<double>(window_.keys());
  const bool too_many = options_.breaker_count > 0 && failed >= options_.breaker_count;
  if (too_many || (is_share && failed >= options_.breaker_keys)) {
    Open(fmt::format("{} of {} order keys failed permanently within {} s, the last one with {}", failed,
                     window_.keys(), std::chrono::duration<double>(options_.breaker_window).count(), code));
    untold_ = true;
    return true;
  }
  if (wary_until_ && now < *wary_until_) return true;
  // Once: one that fails again while the breaker stays closed is at fault itself.
  return attempts <= 1 && is_share && failed >= std::max<std::size_t>(2, options_.breaker_keys / kUndecidedPart);
}

std::chrono::milliseconds ConsumerGate::deferral() const {
  const std::lock_guard lock(mutex_);
  return open_ ? probe_wait_ : options_.breaker_window;
}

// ---- parked events ------------------------------------------------------------------------------------------------

bool ConsumerGate::HasRoom(std::int64_t more) {
  if (options_.parked_max == 0) return true;
  const std::lock_guard lock(mutex_);
  // One event that is larger than the room is not refused for ever.
  if (parked_ + more <= options_.parked_max) return true;
  if (!full_since_) {
    full_since_ = clock_.SinceBoot();
    untold_ = true;
    nudged_ = true;
    LogError("too many events are parked: events that would be parked wait, and later ones behind them",
             {{"consumer", options_.consumer}, {"code", kParkedLimit}, {"parked", parked_}});
  }
  return false;
}

void ConsumerGate::NoteParked(std::int64_t more) {
  if (more == 0) return;
  const std::lock_guard lock(mutex_);
  parked_ = std::max<std::int64_t>(0, parked_ + more);
  if (more > 0) nudged_ = true;
}

void ConsumerGate::NoteCounted(std::int64_t parked) {
  const std::lock_guard lock(mutex_);
  parked_ = parked;
  if (!full_since_ || (options_.parked_max > 0 && parked >= options_.parked_max)) return;
  full_since_.reset();
  untold_ = true;
  nudged_ = true;
  LogInfo("there is room for parked events again", {{"consumer", options_.consumer}, {"parked", parked}});
}

void ConsumerGate::Nudge() {
  const std::lock_guard lock(mutex_);
  nudged_ = true;
}

bool ConsumerGate::TakeNudge() {
  const std::lock_guard lock(mutex_);
  return std::exchange(nudged_, false);
}

// ---- the store ----------------------------------------------------------------------------------------------------

std::optional<ConsumerHold> ConsumerGate::Wanted() const {
  if (open_) return ConsumerHold{std::string(kCircuitOpen), open_message_};
  if (!full_since_) return std::nullopt;
  return ConsumerHold{std::string(kParkedLimit),
                      fmt::format("{} events are parked, the limit is {}", parked_, options_.parked_max)};
}

std::optional<std::optional<ConsumerHold>> ConsumerGate::Untold() const {
  const std::lock_guard lock(mutex_);
  if (!untold_) return std::nullopt;
  return Wanted();
}

void ConsumerGate::Told(const std::optional<ConsumerHold>& hold) {
  const std::lock_guard lock(mutex_);
  const auto wanted = Wanted();
  const auto code = [](const std::optional<ConsumerHold>& one) { return one ? one->code : std::string(); };
  if (code(wanted) == code(hold)) untold_ = false;
}

void ConsumerGate::Heard(const InboxLook& look) {
  const std::lock_guard lock(mutex_);
  heard_ = true;
  if (look.pause.has_value() != pause_.has_value()) {
    LogInfo(look.pause ? "an operator paused the consumer" : "an operator let the consumer go on",
            {{"consumer", options_.consumer}, {"reason", look.pause.value_or("")}});
  }
  pause_ = look.pause;
  if (untold_) return;
  const bool open_there = look.hold && look.hold->code == kCircuitOpen;
  if (open_there && !open_ && options_.breaker) {
    Open(look.hold->message);
    probe_at_ = clock_.SinceBoot();
  } else if (!open_there && open_) {
    Close("an operator, or another member");
    untold_ = false;
  }
  const bool full_there = look.hold && look.hold->code == kParkedLimit;
  if (!full_there) full_since_.reset();
  // Left by a member that ended, or one with another limit; that one says so again.
  if (full_there && !full_since_ && parked_ < options_.parked_max) untold_ = true;
  if (open_there && !options_.breaker) untold_ = true;
}

std::optional<Error> ConsumerGate::Problem() const {
  if (pause_) {
    return Error(ErrorKind::kMisconfigured, "consumer_paused",
                 fmt::format("an operator paused consumer {}: {}", options_.consumer, *pause_))
        .WithHint("to go on: " + UnpauseCommand(options_.consumer));
  }
  if (open_) {
    return Error(ErrorKind::kMisconfigured, std::string(kCircuitOpen),
                 "the circuit breaker is open, no event is applied: " + open_message_)
        .WithHint("mend the handler; it goes on by itself when a probe succeeds, or with: " +
                  UnpauseCommand(options_.consumer));
  }
  if (full_since_) {
    return Error(ErrorKind::kMisconfigured, std::string(kParkedLimit),
                 fmt::format("{} events are parked, the limit is {}: events that would be parked wait", parked_,
                             options_.parked_max))
        .WithHint("retry or skip parked events: sealane inbox parked --consumer " + options_.consumer);
  }
  return std::nullopt;
}

std::optional<Error> ConsumerGate::problem() const {
  const std::lock_guard lock(mutex_);
  return Problem();
}

std::optional<Error> ConsumerGate::lasting_problem() const {
  const std::lock_guard lock(mutex_);
  const bool lasts = pause_ || (open_ && probes_failed_ > 0) ||
                     (!open_ && full_since_ && clock_.SinceBoot() - *full_since_ >= kFullLasts);
  return lasts ? Problem() : std::nullopt;
}

}  // namespace sealane
