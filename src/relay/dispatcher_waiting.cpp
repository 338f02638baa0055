// The part of the dispatcher that looks after topics which the destination does not have.
//
// A missing topic is an outage of that topic alone. Its events are written down as waiting, so that the position
// moves on and memory stays bounded, and the topic is tried with one event now and then. When it takes that, the
// others follow in the order of their seq. Until all of them have left, new events for the topic join the end of the
// queue.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "relay/dispatcher.hpp"

namespace sealane {
namespace {

constexpr std::chrono::milliseconds kProbeInterval{1'000};
constexpr std::chrono::milliseconds kWaitingLook{1'000};
constexpr std::size_t kRunsMax = 4;
constexpr std::size_t kRunEntriesMax = 1'000;
constexpr std::size_t kRunBytesMax = 1024 * 1024;
constexpr std::size_t kTopicsMax = 10'000;
constexpr std::size_t kTopicsNamed = 3;

}  // namespace

void Dispatcher::BeginOutage(std::string_view topic, const Delivery& delivery) {
  auto found = waiting_.find(topic);
  if (found == waiting_.end()) found = waiting_.emplace(topic, TopicOutage{}).first;
  TopicOutage& outage = found->second;
  outage.look = clock_.SinceBoot() + kProbeInterval;
  outage.proven = false;
  outage.problem = delivery.message;
  // Once for a topic, however many events come for it.
  if (std::exchange(outage.missing, true)) return;
  LogError("topic is missing: its events wait until it is there",
           {{"store", options_.store},
            {"route", options_.route},
            {"topic", topic},
            {"error", delivery.code},
            {"detail", delivery.message},
            {"hint", "create the topic, or send the events elsewhere: sealane messages reroute"}});
}

void Dispatcher::WaitForTopic(const LogEntry& entry, LaneLease lease, std::string_view topic, std::int32_t attempts,
                              std::string_view was_parked_in) {
  std::string waits_for(topic);  // `topic` may lie in the template, which ChangeOf() uses
  ParkChange change = ChangeOf(entry, lease, waits_for);
  change.attempts = attempts;
  change.error_code = "unknown_topic";
  change.error_message = fmt::format("there is no topic '{}': the event waits for it", waits_for);
  change.waits_for = std::move(waits_for);
  parking_.Wait(std::move(change), was_parked_in);
}

Status Dispatcher::LoadWaiting(OutboxLog& log, const std::vector<LaneLease>& leases) {
  SEALANE_ASSIGN_OR_RETURN(const std::vector<WaitingTopic> topics, log.WaitingTopics(leases, kTopicsMax));
  for (const WaitingTopic& topic : topics) waiting_.try_emplace(topic.topic);
  return Ok();
}

// Counts them for people, and finds those that an operator has sent to another topic.
Status Dispatcher::CountWaiting(OutboxLog& log, const std::vector<LaneLease>& leases) {
  waiting_look_ = clock_.SinceBoot() + kWaitingLook;
  if (parking_.has_changes()) SEALANE_RETURN_IF_ERROR(Settle(log));
  SEALANE_ASSIGN_OR_RETURN(const std::vector<WaitingTopic> topics, log.WaitingTopics(leases, kTopicsMax));
  for (auto& [topic, outage] : waiting_) outage.events = 0;
  for (const WaitingTopic& topic : topics) {
    // What is on its way is still in the store.
    const bool leaves = std::any_of(waited_.begin(), waited_.end(),
                                    [&](const auto& run) { return run != nullptr && run->topic == topic.topic; });
    const auto found = waiting_.find(topic.topic);
    if (found != waiting_.end()) {
      found->second.events = topic.events;
    } else if (!leaves) {
      waiting_[topic.topic].events = topic.events;
    }
  }
  return Ok();
}

Status Dispatcher::DrainWaiting(OutboxLog& log, Publisher& publisher) {
  if (waiting_.empty() || board_.decisions().paused) return Ok();
  // What came back goes before everything that was behind it.
  if (!resend_.empty() || !dead_lettering_.empty()) return Ok();
  const BootTime now = clock_.SinceBoot();
  const std::vector<LaneLease> leases = ledger_.staying();
  if (leases.empty()) return Ok();
  if (now >= waiting_look_) SEALANE_RETURN_IF_ERROR(CountWaiting(log, leases));
  const std::vector<std::string> paused = PausedTenants();
  // Those that were tried longest ago first, so that many missing topics do not keep one that is back from its turn.
  std::vector<std::pair<BootTime, std::string>> due;
  for (const auto& [topic, outage] : waiting_) {
    if (!outage.runs && now >= outage.look) due.emplace_back(outage.look, topic);
  }
  std::sort(due.begin(), due.end());
  for (const auto& [look, topic] : due) {
    if (waited_runs_ >= kRunsMax) break;
    // Nothing is handled between writing and reading: what is read last is the last that waits. Only what the stored
    // positions have passed is read.
    if (parking_.has_changes() || ledger_.dirty()) SEALANE_RETURN_IF_ERROR(Settle(log));
    const auto found = waiting_.find(topic);
    if (found == waiting_.end()) continue;
    TopicOutage& outage = found->second;
    auto run = std::make_unique<WaitedRun>();
    run->topic = topic;
    run->leases = ledger_.staying();
    SEALANE_ASSIGN_OR_RETURN(
        run->page, log.ReadWaiting(topic, run->leases, paused, outage.proven ? kRunEntriesMax : 1, kRunBytesMax));
    WatchLease(publisher);  // the store may have taken its time
    if (run->page.entries.empty() && !paused.empty() && outage.events > 0) {
      outage.look = now + kProbeInterval;  // the rest is of tenants that are paused
      continue;
    }
    if (run->page.entries.empty() && !run->page.caught_up) {
      outage.look = now + kBehindPosition;
      continue;
    }
    if (run->page.entries.empty()) {
      // All of them have left, or an operator has sent them elsewhere: then they wait for that topic.
      if (ledger_.closing()) {
        outage.look = now + kProbeInterval;  // a lane that leaves may have some
        continue;
      }
      waiting_.erase(found);
      SEALANE_RETURN_IF_ERROR(CountWaiting(log, leases));
      continue;
    }
    const bool last = outage.proven && run->page.caught_up && paused.empty() && !ledger_.closing();
    budget_.Take(run->page.bytes);
    outage.runs = true;
    auto place = std::find(waited_.begin(), waited_.end(), nullptr);
    if (place == waited_.end()) place = waited_.insert(waited_.end(), nullptr);
    *place = std::move(run);
    ++waited_runs_;
    const auto slot = static_cast<std::uint32_t>(place - waited_.begin());
    std::size_t submitted = 0;
    // With the last of them handed over, new ones may follow directly: the publisher keeps the order from here.
    if (SubmitWaited(slot, publisher, submitted) && last) waiting_.erase(topic);
    EndIfDone(slot);
  }
  return Ok();
}

std::size_t Dispatcher::SubmitWaited(Publisher& publisher) {
  std::size_t submitted = 0;
  const bool may_send = resend_.empty() && clock_.SinceBoot() >= hold_until_;
  if (waited_runs_ == 0 || (!may_send && !draining_)) return submitted;
  for (std::uint32_t slot = 0; slot < waited_.size(); ++slot) {
    if (waited_[slot] == nullptr) continue;
    SubmitWaited(slot, publisher, submitted);
    EndIfDone(slot);
  }
  return submitted;
}

// False when some could not be submitted now, or are not to be.
bool Dispatcher::SubmitWaited(std::uint32_t slot, Publisher& publisher, std::size_t& submitted) {
  WaitedRun& run = *waited_[slot];
  if (draining_) run.stopped = true;
  while (!run.stopped && run.next < run.page.entries.size()) {
    const LogEntry& entry = run.page.entries[run.next];
    const std::optional<LaneLease> lease = LeaseIn(run.leases, entry.lane);
    if (!lease) {  // the next owner's
      ++run.next;
      continue;
    }
    // An earlier event of its order key failed: it waits behind that one now.
    if (options_.order != OrderMode::kNone && parking_.Blocks(UnitOf(entry, run.topic))) {
      if (ParkingIsFull()) {
        run.stopped = true;
        return false;
      }
      ParkFollower(entry, *lease, run.topic);
      ++run.next;
      continue;
    }
    if (!IsReadable(entry.event)) {
      RejectUnreadable(entry, *lease, kFirstAttempt);
      ++run.next;
      continue;
    }
    const Token token{.kind = TokenKind::kWaited, .slot = slot, .entry = static_cast<std::uint32_t>(run.next)};
    if (Send(entry, token, publisher, run.topic) == Submitted::kFull) return false;
    ++run.next;
    ++run.open;
    ++submitted;
  }
  return !run.stopped;
}

std::optional<LaneLease> Dispatcher::LeaseIn(const std::vector<LaneLease>& leases, Lane lane) const {
  const auto lease =
      std::find_if(leases.begin(), leases.end(), [&](const LaneLease& one) { return one.lane == lane; });
  if (lease == leases.end() || !ledger_.Current(*lease)) return std::nullopt;
  return *lease;
}

void Dispatcher::OnWaited(const Delivery& delivery, Token token) {
  WaitedRun& run = *waited_[token.slot];
  const LogEntry& entry = run.page.entries[token.entry];
  const std::optional<LaneLease> lease = LeaseIn(run.leases, entry.lane);
  --run.open;
  const auto found = waiting_.find(run.topic);
  if (delivery.status == DeliveryStatus::kPersisted) {
    holds_ = 0;
    CountPublished(entry);
    if (lease) {
      parking_.Unwait(*lease, entry.seq, run.topic);
    } else {
      ++counts_.late;
    }
    if (found != waiting_.end()) {
      found->second.proven = true;
      if (std::exchange(found->second.missing, false)) {
        LogInfo("topic is there again: the events that waited for it are sent",
                {{"store", options_.store}, {"route", options_.route}, {"topic", run.topic}});
      }
    }
    return EndIfDone(token.slot);
  }
  // The event stays where it is, and whatever stands behind it comes later.
  run.stopped = true;
  if (found == waiting_.end()) waiting_[run.topic].runs = true;
  if (lease) {
    CountFailure(delivery, entry, kFirstAttempt);
    const Verdict verdict = Judge(delivery, kFirstAttempt, options_.failures, random_);
    switch (verdict.kind) {
      case Verdict::Kind::kWait:
        BeginOutage(run.topic, delivery);
        break;
      case Verdict::Kind::kPark:
        // A broker that refuses a message has its topic: the others need not wait for this one to succeed.
        waiting_[run.topic].proven = true;
        waiting_[run.topic].missing = false;
        if (verdict.state == ParkedState::kDead && !options_.failures.dead_letter_topic.empty()) {
          // It is parked to be tried once more at once, and its copy is made when that fails.
          ParkFailed(entry, *lease,
                     {.kind = Verdict::Kind::kPark,
                      .state = ParkedState::kFailed,
                      .retry_after = std::chrono::milliseconds{0}},
                     delivery, 0, run.topic);
        } else {
          ParkFailed(entry, *lease, verdict, delivery, kFirstAttempt, run.topic);
        }
        break;
      case Verdict::Kind::kResend:
      case Verdict::Kind::kDone:
        if (delivery.status == DeliveryStatus::kPossiblyPersisted) ++counts_.repeated;
        if (delivery.code != "held_back") Hold();
        break;
    }
  }
  EndIfDone(token.slot);
}

void Dispatcher::EndIfDone(std::uint32_t slot) {
  const WaitedRun& run = *waited_[slot];
  if (run.open > 0 || (!run.stopped && run.next < run.page.entries.size())) return;
  if (const auto found = waiting_.find(run.topic); found != waiting_.end()) {
    found->second.runs = false;
    // More of them at once, when the topic takes them.
    if (found->second.proven) parked_look_ = BootTime{0};
  }
  budget_.Release(run.page.bytes);
  waited_[slot].reset();
  --waited_runs_;
}

void Dispatcher::ShowMissingTopics(RouteStats& stats) const {
  stats.waiting = 0;
  stats.missing_topics = 0;
  std::string names;
  std::string problem;
  for (const auto& [topic, outage] : waiting_) {
    stats.waiting += outage.events;
    if (!outage.missing) continue;
    if (++stats.missing_topics > static_cast<std::int64_t>(kTopicsNamed)) continue;
    names += fmt::format("{}{} ({}{} events)", names.empty() ? "" : ", ", topic, outage.events,
                         outage.events >= WaitingTopic::kCountMax ? " or more" : "");
    if (problem.empty()) problem = outage.problem;
  }
  if (stats.missing_topics == 0 || !stats.problem.empty()) return;
  if (stats.missing_topics > static_cast<std::int64_t>(kTopicsNamed)) {
    names += fmt::format(" and {} more", stats.missing_topics - static_cast<std::int64_t>(kTopicsNamed));
  }
  stats.problem = fmt::format("events wait for topics that are missing: {}; {}", names, problem);
  stats.problem_code = "unknown_topic";
}

}  // namespace sealane
