// The part of the dispatcher that looks after what was set aside.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "relay/dispatcher.hpp"

namespace sealane {
namespace {

// Between looks at what waits for a topic: as short as the first wait of the policy, within these.
constexpr std::chrono::milliseconds kWaitingLookMin{100};
constexpr std::chrono::milliseconds kWaitingLookMax{1'000};
constexpr std::size_t kChangesMax = 1'000;
// Units that are read together, and how much of each.
constexpr std::size_t kBatchUnits = 128;
constexpr std::size_t kBatchEntries = 20;
constexpr std::size_t kBatchBytes = 1024 * 1024;
// Retries take a third of the loop's time at most, and reading everything again hardly any.
constexpr int kBatchRest = 2;
constexpr int kReconcileRest = 500;
constexpr std::chrono::milliseconds kNoRoomWait{5};
constexpr std::size_t kFullNamed = 3;

}  // namespace

Result<std::vector<BlockedUnit>> Dispatcher::BlockedUnits(OutboxLog& log, const std::vector<LaneLease>& leases) {
  SEALANE_ASSIGN_OR_RETURN(std::vector<BlockedUnit> blocked, log.BlockedUnits(leases));
  if (blocked.size() <= static_cast<std::size_t>(Membership::kBlockedUnitsMax)) return blocked;
  return Error(ErrorKind::kRejected, "parked_limit",
               fmt::format("more than {} keys have parked events", Membership::kBlockedUnitsMax))
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
  if (draining_ || ledger_.empty()) return Ok();
  SEALANE_RETURN_IF_ERROR(HearOperators(log));
  const BootTime now = clock_.SinceBoot();
  // At the limit the hold is renewed again and again, and only what succeeds here ends it.
  if (now < hold_until_ && !blocked_by_parked_) return Ok();
  SEALANE_RETURN_IF_ERROR(BeginRetries(log, publisher));
  if (now < parked_look_) return Ok();
  parked_look_ = now + std::clamp(options_.failures.retry.first, kWaitingLookMin, kWaitingLookMax);
  return DrainWaiting(log, publisher);
}

Status Dispatcher::HearOperators(OutboxLog& log) {
  const BootTime now = clock_.SinceBoot();
  const std::vector<LaneLease> leases = ledger_.leases();
  if (now >= reconcile_at_) {
    // What is known goes to the store first, so that the store's answer is about everything.
    if (parking_.has_changes()) SEALANE_RETURN_IF_ERROR(Settle(log));
    SEALANE_ASSIGN_OR_RETURN(const std::vector<BlockedUnit> blocked, BlockedUnits(log, leases));
    parking_.Reconcile(blocked, UnitsOnTheirWay(), now);
    const BootTime after = clock_.SinceBoot();
    reconcile_at_ = after + std::max<BootTime>(kReconcileInterval, (after - now) * kReconcileRest);
  }
  if (!board_.TakeChanges()) return Ok();
  if (parking_.has_changes()) SEALANE_RETURN_IF_ERROR(Settle(log));
  reconcile_at_ = BootTime{0};  // until it is certain that the changes are known here
  SEALANE_ASSIGN_OR_RETURN(const std::vector<DueUnit> changed, log.TakeChanges(leases, kChangesMax));
  if (changed.size() == kChangesMax) board_.NoteChanges();
  if (!changed.empty()) {
    SEALANE_ASSIGN_OR_RETURN(const std::vector<BlockedUnit> blocked, log.BlockedUnits(std::span(changed)));
    parking_.Load(blocked, clock_.SinceBoot());
    std::set<std::string> still = UnitsOnTheirWay();
    for (const BlockedUnit& unit : blocked) still.insert(unit.unit);
    for (const DueUnit& unit : changed) {
      if (!still.contains(unit.unit)) parking_.Unblock(unit.unit);
    }
  }
  reconcile_at_ = clock_.SinceBoot() + kReconcileInterval;
  return Ok();
}

Status Dispatcher::BeginRetries(OutboxLog& log, Publisher& publisher) {
  const BootTime now = clock_.SinceBoot();
  const std::optional<BootTime> next = parking_.next_due();
  if (!next || *next > now || now < next_batch_ || parking_.runs() >= Parking::kRunsMax) return Ok();
  if (board_.decisions().paused) return Ok();
  const std::vector<LaneLease> staying = ledger_.staying();
  std::vector<DueUnit> due = parking_.TakeDue(now, PausedTenants(), UnitsOnTheirWay(),
                                              std::min(kBatchUnits, Parking::kRunsMax - parking_.runs()));
  // Those of lanes that leave are their next owner's, and what is under way for a lane that came back ends first.
  std::erase_if(due, [&](const DueUnit& unit) {
    const bool stays = std::find(staying.begin(), staying.end(), unit.lease) != staying.end();
    if (stays && !parking_.IsRunning(unit.unit)) return false;
    parking_.Later(unit.unit, now + kWaitingLookMin);
    return true;
  });
  if (due.empty()) return Ok();
  const Status read = ReadDue(log, due, publisher);
  if (!read) {
    for (const DueUnit& unit : due) {
      if (!parking_.IsRunning(unit.unit)) parking_.Later(unit.unit, now);
    }
  }
  const BootTime after = clock_.SinceBoot();
  next_batch_ = after + (after - now) * kBatchRest;
  return read;
}

Status Dispatcher::ReadDue(OutboxLog& log, const std::vector<DueUnit>& due, Publisher& publisher) {
  // What is known goes to the store first, so that the store's answer is about everything, positions included.
  if (parking_.has_changes() || ledger_.dirty()) SEALANE_RETURN_IF_ERROR(Settle(log));
  SEALANE_ASSIGN_OR_RETURN(ParkedBatch batch, log.ReadParked(due, kBatchEntries, kBatchBytes));
  WatchLease(publisher);  // the store may have taken its time
  const BootTime now = clock_.SinceBoot();
  budget_.Take(batch.page.bytes);
  const std::shared_ptr<const Page> page(new Page(std::move(batch.page)), [this](const Page* read) {
    budget_.Release(read->bytes);
    delete read;
  });
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (i >= batch.units.size()) {
      parking_.Later(due[i].unit, now);
      continue;
    }
    ParkedUnit& parked = batch.units[i];
    if (parked.rest == ParkedUnit::Rest::kGone && parked.entries.empty()) {
      // It waits for a person. The others do not.
      LogError("a parked event is gone from the log: its key waits",
               {{"route", options_.route},
                {"unit", due[i].unit},
                {"event_id", parked.gone.ToString()},
                {"hint", "give it up with: sealane dead discard ID --reason ..."}});
    }
    if (parked.entries.empty()) {
      parking_.Resolve(due[i].unit, parked, now);
    } else if (parking_.Blocks(due[i].unit)) {  // its lane may have been lost meanwhile
      StartRetry(parking_.Begin({.unit = due[i], .page = page, .parked = std::move(parked)}), publisher);
    }
  }
  return Ok();
}

void Dispatcher::EndRetry(std::uint32_t slot, std::optional<BootTime> due) {
  parking_.Later(parking_.run(slot)->unit.unit, due);
  parking_.End(slot);
}

std::optional<BootTime> Dispatcher::DueAfter(const Verdict& verdict) const {
  const BootTime now = clock_.SinceBoot();
  if (verdict.state != ParkedState::kDead) return now + verdict.retry_after.value_or(std::chrono::milliseconds{0});
  if (!options_.failures.dead_holds_followers) return now;
  return std::nullopt;
}

void Dispatcher::StartRetry(std::uint32_t slot, Publisher& publisher) {
  RetryRun& run = *parking_.run(slot);
  std::optional<LaneLease> lease = ledger_.LeaseOf(run.entry().lane);
  const auto topic = [&] {
    const std::string& chosen = run.parked_entry().destination;
    return chosen.empty() ? topics_.Apply(run.entry().event) : std::string_view(chosen);
  };
  // Those whose topic is missing wait for that from now on, and their followers with them. A topic that is there
  // again takes them at once, before what still waits for it.
  while (lease && !waiting_.empty() && IsMissing(topic())) {
    WaitForTopic(run.entry(), *lease, topic(), run.parked_entry().attempts, run.unit.unit);
    if (++run.at == run.parked.entries.size()) {
      parking_.Resolve(run.unit.unit, run.parked, clock_.SinceBoot());
      return parking_.End(slot);
    }
    lease = ledger_.LeaseOf(run.entry().lane);
  }
  if (lease && !IsReadable(run.entry().event)) {
    RejectUnreadable(run.entry(), *lease, run.parked_entry().attempts + 1, false);
    return EndRetry(slot, DueAfter(kDies));
  }
  const Token token{.kind = TokenKind::kRetry, .slot = slot};
  if (!lease || Send(run.entry(), token, publisher, topic()) == Submitted::kFull) {
    EndRetry(slot, clock_.SinceBoot() + kNoRoomWait);
  }
}

void Dispatcher::OnRetry(const Delivery& delivery, Token token, Publisher& publisher) {
  RetryRun& run = *parking_.run(token.slot);
  const LogEntry& entry = run.entry();
  const ParkedEntry& parked = run.parked_entry();
  const BootTime now = clock_.SinceBoot();
  // A unit may span lanes, by the order mode. One that was lost and taken again is another relay's turn in between.
  const std::optional<LaneLease> lease = ledger_.LeaseOf(entry.lane);
  const bool ours = lease && ledger_.Current(run.unit.lease);
  if (run.dying) return OnRetriedToDeath(delivery, token.slot, ours ? lease : std::nullopt);
  if (delivery.status == DeliveryStatus::kPersisted) {
    holds_ = 0;
    CountPublished(entry);
    if (!ours) {
      ++counts_.late;
      return parking_.End(token.slot);
    }
    parking_.Unpark(*lease, entry.seq, run.unit.unit);
    if (++run.at < run.parked.entries.size()) {
      return draining_ ? EndRetry(token.slot, now) : StartRetry(token.slot, publisher);
    }
    parking_.Resolve(run.unit.unit, run.parked, now);
    return parking_.End(token.slot);
  }
  if (!ours) return parking_.End(token.slot);
  const std::int32_t attempts = parked.attempts + 1;
  CountFailure(delivery, entry, attempts);
  const Verdict verdict = Judge(delivery, attempts, options_.failures, random_);
  if (verdict.kind == Verdict::Kind::kResend) {
    Hold();
    return EndRetry(token.slot, now);
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
    if (SendDeadLetter(entry, delivery, attempts, token, publisher) == Submitted::kFull) {
      EndRetry(token.slot, now + kNoRoomWait);
    }
    return;
  }
  ParkFailed(entry, *lease, verdict, delivery, attempts, parked.destination, false);
  EndRetry(token.slot, DueAfter(verdict));
}

// The copy of a retried event for the dead-letter topic has its answer.
void Dispatcher::OnRetriedToDeath(const Delivery& delivery, std::uint32_t slot, std::optional<LaneLease> lease) {
  const RetryRun& run = *parking_.run(slot);
  if (!lease) return parking_.End(slot);
  if (TryAgainLater(delivery)) {
    Hold();  // the event stays due, and dies after the outage
    return EndRetry(slot, clock_.SinceBoot());
  }
  NoteCopy(delivery, run.entry());
  ParkFailed(run.entry(), *lease, kDies, *run.dying, run.parked_entry().attempts + 1, run.parked_entry().destination,
             false);
  EndRetry(slot, DueAfter(kDies));
}

// ---- tenants with too many parked events ----------------------------------------------------------

void Dispatcher::NoteParked(std::string_view tenant) {
  if (SpansLanes(options_.order)) return;
  auto found = full_.find(tenant);
  if (found == full_.end()) {
    if (parking_.events(std::string(tenant)) < options_.parked_max) return;
    found = full_.try_emplace(std::string(tenant)).first;
    LogError("a tenant has as many parked events as it may: its other events wait",
             {{"store", options_.store},
              {"route", options_.route},
              {"tenant", tenant},
              {"parked", parking_.events(std::string(tenant))},
              {"hint", "repair the cause, then: sealane dead retry, or discard"}});
  }
  FullTenant& full = found->second;
  full.size = 1;
  full.passed = 0;
  full.next =
      clock_.SinceBoot() +
      options_.failures.outage.DelayAfter(++full.failures, random_).value_or(std::chrono::milliseconds{1'000});
  full_changed_ = true;
}

void Dispatcher::NotePassed(std::string_view tenant) {
  const auto found = full_.find(tenant);
  if (found == full_.end() || ++found->second.passed < found->second.size) return;
  FullTenant& full = found->second;
  full.failures = 0;
  full.size = std::min(2 * full.size, options_.page_entries);
  full.next = BootTime{0};
}

void Dispatcher::ProbeFullTenants() {
  if (full_.empty() && !full_changed_) return;
  const BootTime now = clock_.SinceBoot();
  for (auto one = full_.begin(); one != full_.end();) {
    FullTenant& full = one->second;
    if (parking_.events(one->first) < options_.parked_max - options_.parked_max / 10) {
      one = full_.erase(one);
      full_changed_ = true;
      continue;
    }
    if (now >= full.next) {
      ++full.probes;
      full.passed = 0;
      full.next = now + options_.failures.outage.first;
      full_changed_ = true;
    }
    ++one;
  }
  if (!std::exchange(full_changed_, false)) return;
  std::vector<LeaseBoard::FullTenant> shown;
  for (const auto& [tenant, full] : full_)
    shown.push_back({.tenant = tenant, .probes = full.probes, .size = full.size});
  board_.SetFull(std::move(shown));
}

void Dispatcher::ShowFullTenants(RouteStats& stats) const {
  if (full_.empty() || !stats.problem.empty()) return;
  std::string names;
  std::size_t named = 0;
  for (const auto& [tenant, full] : full_) {
    if (++named > kFullNamed) break;
    names += fmt::format("{}'{}' ({})", names.empty() ? "" : ", ", tenant, parking_.events(tenant));
  }
  if (full_.size() > kFullNamed) names += fmt::format(" and {} more", full_.size() - kFullNamed);
  stats.problem =
      fmt::format("tenants with as many parked events as they may have; their other events wait: {}", names);
  stats.problem_code = "parked_limit";
}

}  // namespace sealane
