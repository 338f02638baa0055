// The part of the dispatcher that looks after what was set aside.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "relay/dispatcher.hpp"

namespace sealane {
namespace {

// Between looks at what was set aside: as short as the first wait of the policy, within these.
constexpr std::chrono::milliseconds kParkedLookMin{100};
constexpr std::chrono::milliseconds kParkedLookMax{1'000};
constexpr std::size_t kLostUnitsMax = 1'000;

}  // namespace

Result<std::vector<DueUnit>> Dispatcher::BlockedUnits(OutboxLog& log, const std::vector<LaneLease>& leases) const {
  SEALANE_ASSIGN_OR_RETURN(std::vector<DueUnit> blocked, log.BlockedUnits(leases));
  if (blocked.size() <= static_cast<std::size_t>(Membership::kBlockedUnitsMax)) return blocked;
  return Error(ErrorKind::kRejected, "parked_limit",
               fmt::format("more than {} keys have events that are set aside", Membership::kBlockedUnitsMax))
      .WithHint("see what is wrong with: sealane dead list");
}

std::set<std::string> Dispatcher::UnitsOnTheirWay() {
  std::set<std::string> units;
  const auto add = [&](std::uint64_t packed) {
    const Token token = Token::Unpack(packed);
    units.emplace(UnitOf(pages_[token.slot]->page.entries[token.entry]));
  };
  for (const std::uint64_t packed : resend_) add(packed);
  for (const auto& [packed, failed] : dead_lettering_) add(packed);
  return units;
}

std::vector<std::string> Dispatcher::PausedTenants() const {
  std::vector<std::string> paused;
  for (const TenantRule& rule : board_.decisions().tenants) {
    if (rule.paused && !SpansLanes(options_.order)) paused.push_back(rule.tenant);
  }
  return paused;
}

Status Dispatcher::RetryParked(OutboxLog& log, Publisher& publisher) {
  const BootTime now = clock_.SinceBoot();
  // At the limit the hold is renewed again and again, and only what succeeds here ends it.
  const bool held = now < hold_until_ && !blocked_by_parked_;
  if (draining_ || ledger_.empty() || now < parked_look_ || held) return Ok();
  parked_look_ = now + std::clamp(options_.failures.retry.first, kParkedLookMin, kParkedLookMax);
  if (parking_.empty() && board_.parked() == 0) return DrainWaiting(log, publisher);
  // What is known goes to the store first, so that the store's answer is about everything.
  if (parking_.has_changes()) SEALANE_RETURN_IF_ERROR(Settle(log));
  const std::set<std::string> on_their_way = UnitsOnTheirWay();
  SEALANE_ASSIGN_OR_RETURN(const std::vector<DueUnit> blocked, BlockedUnits(log, ledger_.leases()));
  parking_.Reconcile(blocked, on_their_way);
  SEALANE_RETURN_IF_ERROR(BeginRetries(log, ledger_.staying(), on_their_way, publisher));
  return DrainWaiting(log, publisher);
}

Status Dispatcher::BeginRetries(OutboxLog& log, const std::vector<LaneLease>& leases,
                                const std::set<std::string>& on_their_way, Publisher& publisher) {
  const LeaseBoard::Decisions decisions = board_.decisions();
  if (decisions.paused || leases.empty() || parking_.runs() >= Parking::kRunsMax) return Ok();
  const std::vector<std::string> paused = PausedTenants();
  // Those whose event is lost are found again each time, and must not crowd out the others.
  const std::size_t room = Parking::kRunsMax - parking_.runs() + lost_units_.size();
  SEALANE_ASSIGN_OR_RETURN(const std::vector<DueUnit> due, log.DueUnits(leases, paused, room));
  const std::set<std::string> known = std::exchange(lost_units_, {});
  for (const DueUnit& unit : due) {
    if (parking_.IsRunning(unit) || on_their_way.contains(unit.unit)) continue;
    if (parking_.runs() >= Parking::kRunsMax) break;
    RetryRun run{.unit = unit, .page = {}, .entries = {}};
    Result<Page> page = log.ReadParked(unit, Parking::kRunEntriesMax, run.entries);
    if (!page && page.error().kind() == ErrorKind::kCorrupt) {
      // It waits for a person. The others do not.
      if (!known.contains(unit.unit)) {
        LogError("an event that was set aside cannot be read",
                 {{"route", options_.route}, {"unit", unit.unit}, {"error", page.error().ToString()}});
      }
      if (lost_units_.size() < kLostUnitsMax) lost_units_.insert(unit.unit);
      continue;
    }
    SEALANE_ASSIGN_OR_RETURN(run.page, std::move(page));
    if (run.entries.empty()) continue;
    budget_.Take(run.page.bytes);
    const std::uint32_t slot = parking_.Begin(std::move(run));
    WatchLease(publisher);  // the store may have taken its time
    StartRetry(slot, publisher);
  }
  return Ok();
}

void Dispatcher::EndRetry(std::uint32_t slot) {
  budget_.Release(parking_.run(slot)->page.bytes);
  parking_.End(slot);
}

void Dispatcher::StartRetry(std::uint32_t slot, Publisher& publisher) {
  RetryRun& run = *parking_.run(slot);
  std::optional<LaneLease> lease = ledger_.LeaseOf(run.entry().lane);
  const auto topic = [&] {
    const std::string& chosen = run.entries[run.at].destination;
    return chosen.empty() ? topics_.Apply(run.entry().event) : std::string_view(chosen);
  };
  // Those whose topic is missing wait for that from now on, and their followers with them.
  while (lease && !waiting_.empty() && MustWait(topic())) {
    WaitForTopic(run.entry(), *lease, topic(), run.entries[run.at].attempts);
    parked_look_ = BootTime{0};
    if (++run.at == run.entries.size()) {
      --run.at;
      return EndRetry(slot);
    }
    lease = ledger_.LeaseOf(run.entry().lane);
  }
  if (lease && !IsReadable(run.entry().event)) {
    RejectUnreadable(run.entry(), *lease, run.entries[run.at].attempts + 1);
    return EndRetry(slot);
  }
  const Token token{.kind = TokenKind::kRetry, .slot = slot};
  // When there is no room the unit stays due, and is found again by the next look.
  if (!lease || Send(run.entry(), token, publisher, topic()) == Submitted::kFull) EndRetry(slot);
}

void Dispatcher::OnRetry(const Delivery& delivery, Token token, Publisher& publisher) {
  RetryRun& run = *parking_.run(token.slot);
  const LogEntry& entry = run.entry();
  const ParkedEntry& parked = run.entries[run.at];
  // A unit may span lanes, by the order mode. One that was lost and taken again is another relay's turn in between.
  const std::optional<LaneLease> lease = ledger_.LeaseOf(entry.lane);
  const bool ours = lease && ledger_.Current(run.unit.lease);
  if (run.dying) return OnRetriedToDeath(delivery, token.slot, ours ? lease : std::nullopt);
  if (delivery.status == DeliveryStatus::kPersisted) {
    holds_ = 0;
    CountPublished(entry);
    if (!ours) {
      ++counts_.late;
      return EndRetry(token.slot);
    }
    parking_.Unpark(*lease, entry.seq);
    if (++run.at < run.entries.size() && !draining_) return StartRetry(token.slot, publisher);
    parked_look_ = BootTime{0};  // there may be more of this unit, or none: then it flows again
    return EndRetry(token.slot);
  }
  if (!ours) return EndRetry(token.slot);
  const std::int32_t attempts = parked.attempts + 1;
  CountFailure(delivery, entry, attempts);
  const Verdict verdict = Judge(delivery, attempts, options_.failures, random_);
  if (verdict.kind == Verdict::Kind::kResend) {
    Hold();
    return EndRetry(token.slot);
  }
  if (verdict.kind == Verdict::Kind::kWait) {
    const std::string topic =
        parked.destination.empty() ? std::string(topics_.Apply(entry.event)) : parked.destination;
    BeginOutage(topic, delivery);
    return StartRetry(token.slot, publisher);
  }
  if (verdict.state == ParkedState::kDead && !options_.failures.dead_letter_topic.empty()) {
    run.dying = delivery;
    // When there is no room it is tried once more, and dies then.
    if (SendDeadLetter(entry, delivery, attempts, token, publisher) == Submitted::kFull) EndRetry(token.slot);
    return;
  }
  ParkFailed(entry, *lease, verdict, delivery, attempts, parked.destination);
  EndRetry(token.slot);
}

// The copy of a retried event for the dead-letter topic has its answer.
void Dispatcher::OnRetriedToDeath(const Delivery& delivery, std::uint32_t slot, std::optional<LaneLease> lease) {
  const RetryRun& run = *parking_.run(slot);
  if (lease && TryAgainLater(delivery)) {
    Hold();  // the event stays due, and dies after the outage
  } else if (lease) {
    NoteCopy(delivery, run.entry());
    ParkFailed(run.entry(), *lease, kDies, *run.dying, run.entries[run.at].attempts + 1,
               run.entries[run.at].destination);
  }
  EndRetry(slot);
}

}  // namespace sealane
