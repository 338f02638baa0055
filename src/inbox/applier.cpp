#include "inbox/applier.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/crash_point.hpp"
#include "base/log.hpp"
#include "inbox/dead_letter.hpp"
#include "inbox/partition_start.hpp"

namespace sealane {
namespace {

/// A batch with more failing handlers than this is run event by event.
constexpr int kVerdictsPerBatch = 3;
constexpr int kConflictsMax = 5;

void LogEvent(LogLevel level, std::string_view what, const ConsumerOptions& options, const Incoming& event,
              std::string_view code, std::string_view message, std::int32_t attempts) {
  Logger::Instance().Log(level, what,
                         {{"consumer", options.consumer},
                          {"event_id", event.id.ToString()},
                          {"tenant", event.envelope ? std::string_view(event.envelope->tenant) : ""},
                          {"topic", event.message.partition.topic},
                          {"partition", event.message.partition.number},
                          {"offset", event.message.offset},
                          {"unit", event.unit},
                          {"attempt", attempts},
                          {"code", code},
                          {"error", message}});
}

Decision CommitRefused(std::string_view why) {
  return Decision::Reject("commit_refused", fmt::format("the store refused the effect of this event: {}", why));
}

/// What an event proves about the handler. One that was passed over, or parked without being handled: nothing.
ConsumerGate::ProbeResult Proof(Ruling::Kind kind) {
  switch (kind) {
    case Ruling::Kind::kEffect:
      return ConsumerGate::ProbeResult::kWorked;
    case Ruling::Kind::kFailed:
    case Ruling::Kind::kDead:
      return ConsumerGate::ProbeResult::kFailed;
    default:
      return ConsumerGate::ProbeResult::kProvedNothing;
  }
}

/// A statement that took too long says nothing about the connection, and may be one event's alone.
bool IsAboutTime(const Error& error) {
  return error.code() == "statement_timeout";
}

}  // namespace

/// The events of one Apply() call and what was decided about some of them in an earlier run.
struct Applier::Plan {
  std::span<const Incoming> events;
  PartitionRun* run;
  std::vector<std::optional<Ruling>> verdicts;
  std::optional<Error> last_error = {};  // of the last step
  bool by_handler = false;               // and whether a handler's statement made it
  bool answer_at_once = false;           // a posted statement failed: from now on handlers learn it themselves
  bool probe = false;
  Ruling::Kind last_kind = Ruling::Kind::kDuplicate;  // of the last event that was committed
};

Applier::Applier(const ConsumerOptions& options, const Handling& handling, OpenInboxStore open,
                 ConsumerCounters& counters, Clock& clock, Random& random, ConsumerGate* gate)
    : options_(options),
      open_(std::move(open)),
      counters_(counters),
      clock_(clock),
      random_(random),
      gate_(gate),
      judge_(options, handling, counters, clock, random),
      outbox_({.producer = options.consumer}, clock, EventIdGenerator::Instance()) {}

Result<InboxStore*> Applier::Store() {
  if (!store_) {
    auto opened = open_();
    if (!opened) {
      counters_.Update([&](ConsumerStats& stats) {
        if (!away_) ++stats.stores_away;
        stats.store_reachable = false;
        stats.problem = opened.error().ToString();
        stats.problem_code = opened.error().code();
      });
      away_ = true;
      return std::move(opened).error();
    }
    store_ = std::move(opened).value();
    Rest();
  }
  return store_.get();
}

Result<InboxStore*> Applier::StoreOf(const std::string& life) {
  SEALANE_ASSIGN_OR_RETURN(InboxStore * store, Store());
  if (store->life() == life) return store;
  Drop();
  return Store();
}

void Applier::Rest() {
  if (!std::exchange(away_, false)) return;
  counters_.Update([](ConsumerStats& stats) {
    if (--stats.stores_away > 0) return;
    stats.store_reachable = true;
    stats.problem.clear();
    stats.problem_code.clear();
  });
}

void Applier::LetGo() {
  Rest();
  if (!std::exchange(said_stuck_, false)) return;
  // One that is stuck as well says so again with its next attempt.
  counters_.Update([](ConsumerStats& stats) {
    stats.stuck.clear();
    stats.stuck_code.clear();
  });
}

void Applier::Drop() {
  store_.reset();
  counters_.Update([](ConsumerStats& stats) { ++stats.restarts; });
}

void Applier::SayStuck(const Error& error) {
  LogWarning("the inbox cannot be written",
             {{"consumer", options_.consumer}, {"code", error.code()}, {"error", error.ToString()}});
  said_stuck_ = true;
  counters_.Update([&](ConsumerStats& stats) {
    stats.stuck = error.ToString();
    stats.stuck_code = error.code();
  });
}

Applier::StepEnd Applier::AfterError(const Error& error, bool may_be_an_event) {
  counters_.Update([&](ConsumerStats& stats) {
    ++stats.rollbacks;
    CountFailure(stats, error.code());
  });
  switch (error.kind()) {
    case ErrorKind::kConflict:
      return StepEnd::kConflict;
    case ErrorKind::kFenced:
      return StepEnd::kFenced;
    case ErrorKind::kRejected:
    case ErrorKind::kCorrupt:
    case ErrorKind::kMisuse:
      if (may_be_an_event) return StepEnd::kRefused;
      break;
    default:
      break;
  }
  SayStuck(error);
  Drop();
  // Whether a commit in doubt has moved the position can only be asked.
  const bool ask = error.kind() == ErrorKind::kInDoubt && options_.mode == InboxMode::kOffsets;
  return ask ? StepEnd::kFenced : StepEnd::kTryLater;
}

ApplyEnd Applier::Apply(std::span<const Incoming> events, PartitionRun* run, std::size_t& done, bool probe) {
  Plan plan{events, run, std::vector<std::optional<Ruling>>(events.size())};
  done = 0;
  plan.probe = probe;
  const ApplyEnd end = Apply(plan, done);
  if (probe)
    gate_->EndProbe(end == ApplyEnd::kDone ? Proof(plan.last_kind) : ConsumerGate::ProbeResult::kProvedNothing);
  return end;
}

ApplyEnd Applier::Apply(Plan& plan, std::size_t& done) {
  const std::span<const Incoming> events = plan.events;
  PartitionRun* const run = plan.run;
  std::size_t width = events.size();
  int verdicts = 0;
  int conflicts = 0;
  while (done < events.size()) {
    if (run->cancelled()) return ApplyEnd::kCancelled;
    if (!plan.probe && !MayWork()) return ApplyEnd::kTryLater;
    const std::size_t count = std::min(width, events.size() - done);
    switch (Step(plan, done, count)) {
      case StepEnd::kCommitted:
        done += count;
        conflicts = 0;
        width = verdicts > kVerdictsPerBatch ? 1 : events.size();
        break;
      case StepEnd::kVerdict:
        if (++verdicts > kVerdictsPerBatch) width = 1;
        break;
      case StepEnd::kAgain:
        break;
      case StepEnd::kRefused:
        if (count > 1) {
          width = (count + 1) / 2;
          break;
        }
        if (plan.verdicts[done]) {
          // Not even setting it aside is taken. Nothing is lost while it waits here.
          said_stuck_ = true;
          counters_.Update([&](ConsumerStats& stats) {
            stats.stuck = "an event can neither be applied nor set aside: " + plan.last_error->ToString();
            stats.stuck_code = "commit_refused";
          });
          LogEvent(LogLevel::kError, "an event can neither be applied nor set aside", options_, events[done],
                   plan.last_error->code(), plan.last_error->ToString(), 1);
          Drop();
          return ApplyEnd::kTryLater;
        }
        plan.verdicts[done] = Weigh(events[done], judge_.Failure(CommitRefused(plan.last_error->ToString()), 1), 1);
        break;
      case StepEnd::kNoRoom:
        // What is applied needs no room: it goes first, alone.
        if (count == 1) return ApplyEnd::kTryLater;
        width = (count + 1) / 2;
        break;
      case StepEnd::kConflict:
        width = std::max<std::size_t>(1, count / 2);
        if (count > 1 || ++conflicts <= kConflictsMax) break;
        conflicts = 0;
        if (!plan.by_handler || plan.verdicts[done]) {
          SayStuck(*plan.last_error);
          return ApplyEnd::kTryLater;
        }
        // It collides again and again, alone: with itself, as it seems. Others need not wait for it.
        plan.verdicts[done] =
            judge_.Failure(Decision::RetryLater(plan.last_error->code(), plan.last_error->ToString()), 1);
        break;
      case StepEnd::kTryLater:
        return ApplyEnd::kTryLater;
      case StepEnd::kFenced:
        return ApplyEnd::kFenced;
    }
  }
  return ApplyEnd::kDone;
}

ApplyEnd Applier::Condemn(const Incoming& event, PartitionRun* run) {
  Plan plan{{&event, 1},
            run,
            {EventJudge::Dead("handler_crashed", "the process ended each time it handled this event",
                              options_.crash_budget)}};
  switch (Step(plan, 0, 1)) {
    case StepEnd::kCommitted:
      return ApplyEnd::kDone;
    case StepEnd::kFenced:
      return ApplyEnd::kFenced;
    default:
      return ApplyEnd::kTryLater;
  }
}

Applier::StepEnd Applier::Step(Plan& plan, std::size_t at, std::size_t count) {
  auto store = Store();
  if (!store) return StepEnd::kTryLater;
  const std::span<const Incoming> events = plan.events.subspan(at, count);
  const bool by_offsets = options_.mode == InboxMode::kOffsets;

  std::vector<Arrival> arrivals;
  std::vector<std::size_t> places;  // of the arrivals among the events
  std::vector<Ruling> rulings(count, Ruling{.kind = Ruling::Kind::kDuplicate});
  arrivals.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (by_offsets && plan.run->recent().Knows(events[i].id)) continue;
    arrivals.push_back(events[i].AsArrival());
    places.push_back(i);
  }
  BatchRequest request{.arrivals = arrivals, .guard_versions = options_.guard_versions};
  request.answer_at_once = plan.answer_at_once;
  if (by_offsets) {
    request.progress = ProgressMove{.partition = plan.run->partition(),
                                    .epoch = plan.run->attached().epoch,
                                    .from = plan.run->position(),
                                    .to = events.back().message.offset + 1,
                                    .forget_through = plan.run->recent().TakeForgettable(),
                                    .witness = WitnessOf(events.back().message)};
  }
  const auto failed = [&](const Error& error, bool by_handler) {
    plan.last_error = error;
    plan.by_handler = by_handler;
    if (by_handler && IsAboutTime(error)) return StepEnd::kConflict;
    return AfterError(error, !by_handler);
  };
  auto opened = (*store)->Open(request);
  if (!opened) return failed(opened.error(), false);
  InboxBatch& batch = **opened;
  CrashPoint("inbox.opened");

  BatchMemory memory;
  std::vector<Outcome> outcomes(arrivals.size());
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const Incoming& event = events[places[i]];
    const Standing& standing = batch.standings()[i];
    std::optional<Ruling>& verdict = plan.verdicts[at + places[i]];
    rulings[places[i]] = judge_.Judge(event, standing, verdict, memory, batch);
    Ruling& ruling = rulings[places[i]];
    if (ruling.trouble || ruling.undo) {
      // It may only have met what an earlier one left behind.
      if (const Status posted = batch.Settle(); !posted) return AfterPosted(plan, posted.error());
    }
    if (ruling.trouble) return failed(*ruling.trouble, true);
    if (!verdict) ruling = Weigh(event, std::move(ruling), 1);
    if (ruling.undo) {
      ruling.undo = false;
      verdict = std::move(ruling);
      counters_.Update([](ConsumerStats& stats) { ++stats.rollbacks; });
      return StepEnd::kVerdict;
    }
    outcomes[i] = ruling.outcome;
  }
  if (const Status posted = batch.Settle(); !posted) return AfterPosted(plan, posted.error());
  // One of these opened the circuit breaker: none of them is parked.
  if (!plan.probe && !MayWork()) {
    counters_.Update([](ConsumerStats& stats) { ++stats.rollbacks; });
    return StepEnd::kTryLater;
  }
  const auto parks = std::ranges::count_if(outcomes, [](const Outcome& outcome) {
    return outcome.kind == Outcome::Kind::kParked && outcome.park.state != InboxState::kSkipped;
  });
  if (gate_ != nullptr && parks > 0 && !gate_->HasRoom(parks)) {
    counters_.Update([](ConsumerStats& stats) { ++stats.rollbacks; });
    return StepEnd::kNoRoom;
  }
  CrashPoint("inbox.handled");
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const Incoming& event = events[places[i]];
    const Ruling& ruling = rulings[places[i]];
    if (ruling.kind != Ruling::Kind::kDead && ruling.kind != Ruling::Kind::kMismatch) continue;
    if (auto buried = Bury(batch, event, ruling.outcome.park, {}); !buried) return failed(buried.error(), false);
  }
  if (auto finished = batch.Finish(outcomes); !finished) return failed(finished.error(), false);
  CrashPoint("inbox.finished");

  if (by_offsets) {
    plan.run->Moved(request.progress->to, *request.progress->witness);
    for (const std::size_t place : places) plan.run->recent().Add(events[place].id, request.progress->to);
  }
  for (const Ruling& ruling : rulings) handled_ += ruling.kind == Ruling::Kind::kDuplicate ? 0 : 1;
  plan.last_kind = rulings.back().kind;
  if (gate_ != nullptr) {
    gate_->NoteParked(parks);
    // What waits for a gap may be due by now.
    const auto& standings = batch.standings();
    if (std::ranges::any_of(standings, [](const Standing& one) { return one.unit_waits; })) gate_->Nudge();
  }
  Count(events, rulings);
  return StepEnd::kCommitted;
}

Applier::StepEnd Applier::AfterPosted(Plan& plan, const Error& error) {
  plan.last_error = error;
  plan.by_handler = true;
  if (IsAboutTime(error)) return StepEnd::kConflict;
  if (IsTrouble(error) || plan.answer_at_once) return AfterError(error, false);
  plan.answer_at_once = true;
  counters_.Update([](ConsumerStats& stats) { ++stats.rollbacks; });
  return StepEnd::kAgain;
}

Status Applier::Bury(InboxBatch& batch, const Incoming& event, const ParkNote& note,
                     std::optional<Timestamp> first_failed) {
  if (options_.dead_letter_topic.empty()) return Ok();
  const Timestamp now = clock_.Now();
  const DeathNotice notice{.code = note.error_code,
                           .message = note.error_message,
                           .attempts = note.attempts,
                           .first_failed_at = first_failed.value_or(now),
                           .last_failed_at = now,
                           .replayable = event.envelope.has_value() && note.error_code != "payload_hash_mismatch"};
  auto entry = outbox_.Admit(MakeDeadLetter(event, notice, options_));
  if (!entry) {
    // The message stays set aside in the inbox, complete; only its copy cannot travel.
    LogEvent(LogLevel::kError, "a dead letter cannot be sent", options_, event, entry.error().code(),
             entry.error().ToString(), note.attempts);
    return Ok();
  }
  SEALANE_RETURN_IF_ERROR(batch.Append({&*entry, 1}));
  return Ok();
}

Ruling Applier::Weigh(const Incoming& event, Ruling ruling, std::int32_t attempts) {
  if (gate_ == nullptr || ruling.kind != Ruling::Kind::kDead) return ruling;
  const ParkNote& note = ruling.outcome.park;
  // These say nothing about the handler.
  if (note.error_code == "version_gap" || note.error_code == "handler_crashed") return ruling;
  if (!gate_->NoteFailed(event.unit, attempts, note.error_code)) return ruling;
  ruling.kind = Ruling::Kind::kFailed;
  ruling.outcome.park.state = InboxState::kFailed;
  ruling.outcome.park.attempts = std::max(1, attempts - 1);
  ruling.outcome.park.retry_after = gate_->deferral();
  return ruling;
}

void Applier::Count(std::span<const Incoming> events, std::span<const Ruling> rulings) {
  if (gate_ != nullptr) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (rulings[i].kind == Ruling::Kind::kEffect) gate_->NoteApplied(events[i].unit);
    }
  }
  const Timestamp now = clock_.Now();
  counters_.Update([&](ConsumerStats& stats) {
    ++stats.batches;
    stats.stuck.clear();
    stats.stuck_code.clear();
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Ruling& ruling = rulings[i];
      switch (ruling.kind) {
        case Ruling::Kind::kEffect:
          ++stats.effects;
          stats.commit_to_effect.Add(
              std::max(0.0, std::chrono::duration<double>(now - events[i].envelope->occurred_at).count()));
          break;
        case Ruling::Kind::kIgnored:
          ++stats.ignored;
          break;
        case Ruling::Kind::kDuplicate:
          ++stats.duplicates;
          break;
        case Ruling::Kind::kStale:
          ++stats.stale;
          break;
        case Ruling::Kind::kTooOld:
          ++stats.too_old;
          break;
        case Ruling::Kind::kMismatch:
          ++stats.hash_mismatches;
          ++stats.parked_total;
          ++stats.dead_total;
          CountFailure(stats, ruling.outcome.park.error_code);
          break;
        case Ruling::Kind::kWaits:
          ++stats.parked_total;
          break;
        case Ruling::Kind::kGap:
          ++stats.gaps_total;
          ++stats.parked_total;
          break;
        case Ruling::Kind::kFailed:
          ++stats.parked_total;
          CountFailure(stats, ruling.outcome.park.error_code);
          break;
        case Ruling::Kind::kDead:
          ++stats.parked_total;
          ++stats.dead_total;
          CountFailure(stats, ruling.outcome.park.error_code);
          break;
      }
    }
  });
  std::size_t too_old = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const ParkNote& note = rulings[i].outcome.park;
    switch (rulings[i].kind) {
      case Ruling::Kind::kTooOld:
        // There may be very many: one line for a batch.
        if (++too_old > 1) break;
        LogEvent(LogLevel::kWarning, "events are older than the receipts that are kept: skipped", options_, events[i],
                 note.error_code, note.error_message, note.attempts);
        break;
      case Ruling::Kind::kMismatch:
        LogEvent(LogLevel::kError, "an event came again with other bytes", options_, events[i], note.error_code,
                 "no effect; look at its producer", note.attempts);
        break;
      case Ruling::Kind::kDead:
        LogEvent(LogLevel::kError, "an event is dead", options_, events[i], note.error_code, note.error_message,
                 note.attempts);
        break;
      case Ruling::Kind::kFailed:
      case Ruling::Kind::kGap:
        LogEvent(LogLevel::kWarning, "an event waits", options_, events[i], note.error_code, note.error_message,
                 note.attempts);
        break;
      default:
        break;
    }
  }
}

// ---- what was set aside -------------------------------------------------------------------------------------------

Result<Applier::RetryReport> Applier::Retry(const ReadEnvelope& read, std::size_t units_max, std::stop_token stop) {
  SEALANE_ASSIGN_OR_RETURN(InboxStore * store, Store());
  const BootTime begun = clock_.SinceBoot();
  auto look = store->Look(options_.guard_versions, units_max);
  look_took_ = clock_.SinceBoot() - begun;
  if (!look) {
    Drop();
    return std::move(look).error();
  }
  RetryReport report;
  report.next_due = look->next_due;
  if (gate_ != nullptr) gate_->Heard(*look);
  if (look->due.empty()) return report;
  const auto permit = gate_ == nullptr ? ConsumerGate::Permit::kWork : gate_->Ask();
  report.more = true;
  if (permit == ConsumerGate::Permit::kHold) return report;
  const auto failed = [&](const Status& done) {
    // A collision with a worker: the message is due again after its patience.
    if (done || done.error().kind() == ErrorKind::kConflict) return false;
    Drop();
    return true;
  };
  if (permit == ConsumerGate::Permit::kProbe) {
    probe_.reset();
    const Status done = RetryUnit(look->due.front(), read, stop, 1, report.tried);
    gate_->EndProbe(done && probe_ ? Proof(*probe_) : ConsumerGate::ProbeResult::kProvedNothing);
    if (failed(done)) return done.error();
    return report;
  }
  std::vector<std::string> alone;
  if (look->due.size() < kGroupMin) {
    alone = std::move(look->due);
  } else {
    const std::span<const std::string> due = look->due;
    for (std::size_t at = 0; at < due.size() && MayWork() && !stop.stop_requested(); at += kGroupMax) {
      const Status done =
          RetryTogether(due.subspan(at, std::min(kGroupMax, due.size() - at)), read, report.tried, alone);
      if (failed(done)) return done.error();
    }
  }
  for (const std::string& unit : alone) {
    if (!MayWork() || stop.stop_requested()) break;
    const Status done = RetryUnit(unit, read, stop, kRetriesPerUnit, report.tried);
    if (failed(done)) return done.error();
  }
  return report;
}

Status Applier::RetryUnit(const std::string& unit, const ReadEnvelope& read, const std::stop_token& stop,
                          std::size_t messages_max, std::size_t& tried) {
  bool goes_on = true;
  for (std::size_t i = 0; goes_on && i < messages_max && !stop.stop_requested(); ++i) {
    if (i > 0 && !MayWork()) return Ok();
    SEALANE_ASSIGN_OR_RETURN(InboxStore * store, Store());
    SEALANE_ASSIGN_OR_RETURN(auto retry, store->OpenRetry(unit, options_.guard_versions, options_.retry_patience));
    if (!retry) return Ok();
    CrashPoint("inbox.retry_opened");
    ++tried;
    counters_.Update([](ConsumerStats& stats) { ++stats.retries; });
    SEALANE_RETURN_IF_ERROR(TryAgain(*retry, read, goes_on));
  }
  return Ok();
}

Status Applier::RetryTogether(std::span<const std::string> units, const ReadEnvelope& read, std::size_t& tried,
                              std::vector<std::string>& left) {
  SEALANE_ASSIGN_OR_RETURN(InboxStore * store, Store());
  SEALANE_ASSIGN_OR_RETURN(RetryGroup group,
                           store->OpenRetries(units, options_.guard_versions, options_.retry_patience));
  for (const std::string& unit : units) {
    const auto same = [&](const RetryMessage& one) { return one.unit == unit; };
    if (std::ranges::none_of(group.messages, same)) left.push_back(unit);
  }
  if (group.messages.empty()) return Ok();
  CrashPoint("inbox.retry_opened");
  const std::size_t count = group.messages.size();
  std::vector<Incoming> events;
  for (RetryMessage& one : group.messages) events.push_back(ReadIncoming(std::move(one.message), read));

  std::vector<std::optional<Ruling>> verdicts(count);  // of those whose handler failed
  std::vector<Ruling> rulings(count);
  int failures = 0;
  bool all = false;
  while (!all && failures < kFailuresPerGroup && MayWork()) {
    all = true;
    for (std::size_t i = 0; i < count; ++i) {
      if (verdicts[i]) {
        rulings[i] = *verdicts[i];
        continue;
      }
      rulings[i] = judge_.JudgeAgain(events[i], group.messages[i], *group.batch);
      const bool trouble = rulings[i].trouble.has_value();
      if (!trouble) rulings[i] = Weigh(events[i], std::move(rulings[i]), group.messages[i].attempts);
      if (!trouble && !rulings[i].undo) continue;
      // Everything is undone with it; the others are run again without this one.
      SEALANE_RETURN_IF_ERROR(group.batch->Rewind());
      all = false;
      failures = trouble ? kFailuresPerGroup : failures + 1;
      rulings[i].undo = false;
      if (!trouble) verdicts[i] = rulings[i];
      break;
    }
  }
  std::vector<Outcome> outcomes(count);
  std::vector<Incoming> counted;
  std::vector<Ruling> counts;
  for (std::size_t i = 0; i < count; ++i) {
    // Those that were not tried to the end go alone, and as they stood before.
    if (!all && !verdicts[i]) {
      left.push_back(group.messages[i].unit);
      continue;
    }
    if (rulings[i].kind == Ruling::Kind::kDead) {
      SEALANE_RETURN_IF_ERROR(
          Bury(*group.batch, events[i], rulings[i].outcome.park, group.messages[i].first_failed_at));
    }
    outcomes[i] = rulings[i].outcome;
  }
  CrashPoint("inbox.retry_handled");
  if (Status finished = group.batch->Finish(outcomes); !finished) {
    for (const RetryMessage& one : group.messages) {
      if (forgiven_.size() < kForgivenMax) ++forgiven_[one.id.bytes()];
    }
    return finished;
  }
  CrashPoint("inbox.retry_finished");
  for (std::size_t i = 0; i < count; ++i) {
    if (!all && !verdicts[i]) continue;
    counted.push_back(std::move(events[i]));
    counts.push_back(std::move(rulings[i]));
  }
  tried += counted.size();
  counters_.Update([&](ConsumerStats& stats) { stats.retries += counted.size(); });
  if (gate_ != nullptr) {
    gate_->NoteParked(
        -std::ranges::count_if(counts, [](const Ruling& one) { return one.outcome.kind != Outcome::Kind::kParked; }));
  }
  Count(counted, counts);
  return Ok();
}

Status Applier::TryAgain(RetryBatch& retry, const ReadEnvelope& read, bool& goes_on) {
  const Incoming event = ReadIncoming(std::move(retry.message), read);
  const auto forgiven = forgiven_.find(event.id.bytes());
  if (forgiven != forgiven_.end()) retry.attempts = std::max(1, retry.attempts - forgiven->second);
  const auto refused = refusals_.find(event.id.bytes());
  Ruling ruling = refused == refusals_.end() ? judge_.JudgeAgain(event, retry, *retry.batch)
                                             : judge_.Failure(CommitRefused(refused->second), retry.attempts);
  if (refused != refusals_.end()) refusals_.erase(refused);
  if (!ruling.trouble) ruling = Weigh(event, std::move(ruling), retry.attempts);
  if (ruling.trouble) {
    const Error trouble = *ruling.trouble;
    const bool counts = trouble.kind() == ErrorKind::kConflict || IsAboutTime(trouble);
    ruling = counts ? judge_.Failure(Decision::RetryLater(trouble.code(), trouble.ToString()), retry.attempts)
                    : judge_.Postponed(trouble, retry.attempts - 1);
    ruling.undo = true;
  }
  Status ended = EndRetry(retry, event, ruling);
  if (ended) {
    forgiven_.erase(event.id.bytes());
    CrashPoint("inbox.retry_finished");
    probe_ = ruling.kind;
    if (gate_ != nullptr && ruling.outcome.kind != Outcome::Kind::kParked) gate_->NoteParked(-1);
    Count({&event, 1}, {&ruling, 1});
    goes_on = ruling.outcome.kind != Outcome::Kind::kParked;
    return Ok();
  }
  switch (ended.error().kind()) {
    case ErrorKind::kRejected:
    case ErrorKind::kMisuse:
    case ErrorKind::kCorrupt:
      // Refused at the commit: it is due again after its patience, and then set aside for good.
      if (refusals_.size() < kRefusalsMax) refusals_.emplace(event.id.bytes(), ended.error().ToString());
      LogEvent(LogLevel::kError, "an event cannot be committed", options_, event, ended.error().code(),
               ended.error().ToString(), retry.attempts);
      goes_on = false;
      return Ok();
    case ErrorKind::kInDoubt:
      return ended;
    default:
      if (forgiven_.size() < kForgivenMax) ++forgiven_[event.id.bytes()];
      return ended;
  }
}

Status Applier::EndRetry(RetryBatch& retry, const Incoming& event, const Ruling& ruling) {
  if (ruling.undo) SEALANE_RETURN_IF_ERROR(retry.batch->Rewind());
  if (ruling.kind == Ruling::Kind::kDead) {
    SEALANE_RETURN_IF_ERROR(Bury(*retry.batch, event, ruling.outcome.park, retry.first_failed_at));
  }
  CrashPoint("inbox.retry_handled");
  return retry.batch->Finish({&ruling.outcome, 1});
}

}  // namespace sealane
