// The part of the dispatcher that looks after events whose time had not come when they were read.
//
// Such an event is written to the store's table of delayed events, and the position moves past it. It holds back
// nothing: its turn is when its time has come, and events of its key that were appended later do not wait for it. The
// store is asked when the first of them is due, and reads by time from the place where the last reading ended; so
// those that are due later cost nothing, however many there are.

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "relay/dispatcher.hpp"

namespace sealane {
namespace {

constexpr std::size_t kRowsMax = 1'000;
constexpr std::size_t kBytesMax = 1024 * 1024;
// The time of an event may lie thousands of years ahead, which no BootTime can tell.
constexpr std::chrono::hours kLookMax{24};

DelayedPlace PlaceOf(const LogEntry& entry) {
  return {entry.event.available_at.value_or(Timestamp{}), entry.seq};
}
// A place from which reading on comes to `place`.
DelayedPlace Before(DelayedPlace place) {
  --place.seq;
  return place;
}

}  // namespace

void Dispatcher::Delay(const LogEntry& entry, LaneLease lease, std::chrono::microseconds due) {
  const DelayedPlace place = PlaceOf(entry);
  parking_.Delay({.lease = lease,
                  .seq = entry.seq,
                  .place = entry.place,
                  .id = entry.event.id,
                  .tenant = std::string(entry.event.tenant),
                  .appended_at = entry.appended_at,
                  .due_at = place.due_at,
                  .payload_bytes = static_cast<std::int64_t>(entry.event.payload.size())});
  ++counts_.delayed_total;
  const BootTime latest = clock_.SinceBoot() + kLookMax;
  delayed_look_ = std::min(delayed_look_, due < latest ? std::chrono::ceil<BootTime>(due) : latest);
  // The store's clock may have been set back since the last reading.
  delayed_from_ = std::min(delayed_from_, Before(place));
}

void Dispatcher::RestartDelayed() {
  delayed_from_ = {};
  delayed_behind_.reset();
  delayed_look_ = BootTime{0};
  delayed_due_ = true;
}

Status Dispatcher::DrainDelayed(OutboxLog& log, Publisher& publisher) {
  if (const std::uint64_t rules = board_.generation(); rules != delayed_rules_) {
    delayed_rules_ = rules;
    if (std::vector<std::string> paused = PausedTenants(); paused != delayed_but_) {
      delayed_but_ = std::move(paused);
      RestartDelayed();
    }
  }
  const BootTime now = clock_.SinceBoot();
  if (delayed_ || draining_ || ledger_.empty() || now < delayed_look_ || now < hold_until_) return Ok();
  if (board_.decisions().paused) return Ok();
  // What came back goes before everything that was behind it.
  if (!resend_.empty() || !dead_lettering_.empty()) return Ok();
  // First, so that none is missing among those that are read: reading never comes back to its time, and only what the
  // stored positions have passed is read.
  if (parking_.has_changes() || ledger_.dirty()) SEALANE_RETURN_IF_ERROR(Settle(log));
  if (delayed_behind_) delayed_from_ = std::min(delayed_from_, Before(*std::exchange(delayed_behind_, std::nullopt)));
  DelayedRun run;
  run.leases = ledger_.staying();
  if (run.leases.empty()) return Ok();
  SEALANE_ASSIGN_OR_RETURN(DelayedPage read, log.ReadDelayed({.leases = run.leases,
                                                              .but_tenants = delayed_but_,
                                                              .from = delayed_from_,
                                                              .rows_max = kRowsMax,
                                                              .bytes_max = kBytesMax}));
  WatchLease(publisher);  // the store may have taken its time
  for (const Undelay& gone : read.gone) {
    LogError("a delayed event is gone from the log", {{"route", options_.route}, {"seq", gone.seq}});
    parking_.Undelay(gone.lease, gone.seq);
  }
  delayed_from_ = read.next;
  delayed_due_ = !read.caught_up;
  if (!read.caught_up) {
    delayed_look_ = BootTime{0};
  } else {
    delayed_look_ = BootTime::max();
    if (read.next_due_in) {
      delayed_look_ = clock_.SinceBoot() + std::min<std::chrono::milliseconds>(*read.next_due_in, kLookMax);
    }
  }
  if (read.behind) {
    delayed_behind_ = read.behind;
    delayed_look_ = std::min(delayed_look_, clock_.SinceBoot() + kBehindPosition);
    delayed_due_ = true;
  }
  if (read.page.entries.empty()) return Ok();
  run.page = std::move(read.page);
  budget_.Take(run.page.bytes);
  delayed_ = std::move(run);
  SubmitDelayed(publisher);
  return Ok();
}

std::size_t Dispatcher::SubmitDelayed(Publisher& publisher) {
  std::size_t submitted = 0;
  const bool may_send = resend_.empty() && clock_.SinceBoot() >= hold_until_;
  if (!delayed_ || (!may_send && !draining_)) return submitted;
  DelayedRun& run = *delayed_;
  if (draining_ && !run.again && run.next < run.page.entries.size()) run.again = PlaceOf(run.page.entries[run.next]);
  while (run.next < run.page.entries.size() && !run.again) {
    const LogEntry& entry = run.page.entries[run.next];
    const std::optional<LaneLease> lease = LeaseIn(run.leases, entry.lane);
    if (!lease) {  // the next owner finds it in the store
      ++run.next;
      continue;
    }
    if (options_.order != OrderMode::kNone && parking_.Blocks(UnitOf(entry))) {
      ParkFollower(entry, *lease);
    } else if (!IsReadable(entry.event)) {
      RejectUnreadable(entry, *lease, kFirstAttempt);
    } else if (const std::string_view topic = topics_.Apply(entry.event); MustWait(topic)) {
      WaitForTopic(entry, *lease, topic, 0);
    } else {
      const Token token{.kind = TokenKind::kDelayed, .slot = 0, .entry = static_cast<std::uint32_t>(run.next)};
      if (Send(entry, token, publisher) == Submitted::kFull) return submitted;
      ++run.next;
      ++run.open;
      ++submitted;
      continue;
    }
    parking_.Undelay(*lease, entry.seq);
    ++run.next;
  }
  EndDelayedIfDone();
  return submitted;
}

void Dispatcher::OnDelayed(const Delivery& delivery, Token token) {
  DelayedRun& run = *delayed_;
  const LogEntry& entry = run.page.entries[token.entry];
  const std::optional<LaneLease> lease = LeaseIn(run.leases, entry.lane);
  --run.open;
  if (delivery.status == DeliveryStatus::kPersisted) {
    holds_ = 0;
    CountPublished(entry);
    if (lease) {
      parking_.Undelay(*lease, entry.seq);
    } else {
      ++counts_.late;
    }
    return EndDelayedIfDone();
  }
  if (lease) {
    CountFailure(delivery, entry, kFirstAttempt);
    const Verdict verdict = Judge(delivery, kFirstAttempt, options_.failures, random_);
    switch (verdict.kind) {
      case Verdict::Kind::kWait: {
        const std::string topic(topics_.Apply(entry.event));
        BeginOutage(topic, delivery);
        WaitForTopic(entry, *lease, topic, kFirstAttempt);
        parking_.Undelay(*lease, entry.seq);
        break;
      }
      case Verdict::Kind::kPark:
        // One that dies where there is a dead-letter topic is parked to be tried once more at once, and its copy is
        // made when that fails.
        if (verdict.state == ParkedState::kDead && !options_.failures.dead_letter_topic.empty()) {
          ParkFailed(entry, *lease,
                     {.kind = Verdict::Kind::kPark,
                      .state = ParkedState::kFailed,
                      .retry_after = std::chrono::milliseconds{0}},
                     delivery, 0);
        } else {
          ParkFailed(entry, *lease, verdict, delivery, kFirstAttempt);
        }
        parking_.Undelay(*lease, entry.seq);
        break;
      case Verdict::Kind::kResend:
      case Verdict::Kind::kDone:
        // It stays where it is; whatever stands behind it comes later.
        if (delivery.status == DeliveryStatus::kPossiblyPersisted) ++counts_.repeated;
        if (delivery.code != "held_back") Hold();
        run.again = run.again ? std::min(*run.again, PlaceOf(entry)) : PlaceOf(entry);
        break;
    }
  }
  EndDelayedIfDone();
}

void Dispatcher::EndDelayedIfDone() {
  DelayedRun& run = *delayed_;
  if (run.open > 0 || (!run.again && run.next < run.page.entries.size())) return;
  if (run.again) {
    delayed_from_ = std::min(delayed_from_, Before(*run.again));
    delayed_look_ = BootTime{0};
    delayed_due_ = true;
  }
  budget_.Release(run.page.bytes);
  delayed_.reset();
}

}  // namespace sealane
