#include "relay/dispatcher.hpp"

#include <algorithm>

#include "base/crash_point.hpp"
#include "base/log.hpp"
#include "core/headers_json.hpp"

namespace sealane {
namespace {

using std::chrono::milliseconds;

// Parked and delayed events before they are written down: many are cheaper, few keep the others waiting for less
// time.
constexpr std::size_t kUnwrittenMax = 2'000;
constexpr std::size_t kNamesMax = 100;  // error codes or topics counted by name; the rest is `other`
// Positions that moved over nothing are written now and then, so that a successor does not start in the far past.
constexpr std::chrono::seconds kMoveInterval{30};

std::uint64_t& CountOf(std::map<std::string, std::uint64_t>& counts, std::string_view name) {
  const auto found = counts.find(std::string(name));
  if (found != counts.end()) return found->second;
  return counts[counts.size() < kNamesMax ? std::string(name) : "other"];
}

}  // namespace

std::uint64_t Dispatcher::Token::Pack() const {
  return static_cast<std::uint64_t>(kind) << 61 | static_cast<std::uint64_t>(slot) << 32 | entry;
}

Dispatcher::Token Dispatcher::Token::Unpack(std::uint64_t packed) {
  return {.kind = static_cast<TokenKind>(packed >> 61),
          .slot = static_cast<std::uint32_t>(packed >> 32 & 0x1fffffff),
          .entry = static_cast<std::uint32_t>(packed)};
}

Dispatcher::Dispatcher(const RouteOptions& options, TopicTemplate topics, LeaseBoard& board, WorkQueue& queue,
                       MemoryBudget& budget, Clock& clock, Random& random)
    : options_(options),
      board_(board),
      queue_(queue),
      budget_(budget),
      clock_(clock),
      random_(random),
      topics_(std::move(topics)),
      encoder_(options.profile, options.wire) {}

Result<Dispatcher::Step> Dispatcher::RunOnce(OutboxLog& log, Publisher& publisher, milliseconds wait) {
  now_ = clock_.Now();
  WatchLease(publisher);
  SEALANE_RETURN_IF_ERROR(TakeWork(log));
  WatchLease(publisher);  // the store may have taken its time
  Step step;
  step.submitted = SubmitAgain(publisher);
  step.submitted += SubmitWaited(publisher);
  step.submitted += SubmitDelayed(publisher);
  step.submitted += SubmitPages(publisher);
  CrashPoint("relay.submitted");

  const bool more = !to_submit_.empty() && step.submitted > 0;
  deliveries_.clear();
  publisher.Collect(deliveries_, more ? milliseconds{0} : wait);
  step.delivered = deliveries_.size();
  if (!deliveries_.empty()) now_ = clock_.Now();
  for (const Delivery& delivery : deliveries_) OnDelivery(delivery, publisher);
  if (step.delivered > 0) CrashPoint("relay.delivered");

  SEALANE_RETURN_IF_ERROR(RetryParked(log, publisher));
  SEALANE_RETURN_IF_ERROR(DrainDelayed(log, publisher));
  ProbeFullTenants();
  if (SettleIsDue()) {
    SEALANE_ASSIGN_OR_RETURN(step.settled, Settle(log));
  }
  SEALANE_RETURN_IF_ERROR(ReleaseQuietLanes(log));
  return step;
}

// ---- leases -------------------------------------------------------------------------------------

void Dispatcher::WatchLease(Publisher& publisher) {
  if (!ledger_.empty() && clock_.SinceBoot() >= board_.deadline()) board_.DropAll();
  DropLostLanes();
  // Without a lane nothing that is still inside may go out. (Messages of a retry wait for their lane's next owner
  // too.)
  if (ledger_.empty() && inflight_ > 0) publisher.Abandon();
}

void Dispatcher::DropLostLanes() {
  if (board_.generation() == seen_generation_) return;
  seen_generation_ = board_.generation();
  const std::vector<LeaseBoard::Held> held = board_.held();
  std::vector<LaneLease> lost;
  for (const LaneLease lease : ledger_.leases()) {
    const bool ours = std::any_of(held.begin(), held.end(), [&](const auto& one) { return one.lease == lease; });
    if (!ours) lost.push_back(lease);
  }
  if (lost.empty()) return;
  LoseLanes(lost);
  // Somebody else may own them by now: this relay, or its heartbeat, was asleep for too long. What is on its way
  // cannot be called back, but nothing more is sent.
  counts_.fenced += lost.size();
  LogWarning("lease ran out", {{"store", options_.store},
                               {"route", options_.route},
                               {"owner", options_.owner},
                               {"lanes", lost.size()},
                               {"in_flight", inflight_}});
}

void Dispatcher::LoseLanes(std::span<const LaneLease> leases) {
  for (const LaneLease lease : leases) ledger_.Forget(lease);
  parking_.Forget(leases);
}

// ---- work ---------------------------------------------------------------------------------------

Status Dispatcher::TakeWork(OutboxLog& log) {
  std::vector<LaneOpened> opened;
  while (std::optional<Work> work = queue_.TryPop()) {
    if (auto* lane = std::get_if<LaneOpened>(&*work)) {
      opened.push_back(std::move(*lane));
      continue;
    }
    // What is set aside in a lane is known before its first page comes. When that fails, those lanes are gone; the
    // item at hand may be about others and counts all the same.
    const Status ready = Open(log, opened);
    if (auto* read = std::get_if<PageRead>(&*work)) {
      AddPage(std::move(*read));
    } else if (const auto* split = std::get_if<FlowSplit>(&*work)) {
      ledger_.Split(*split);
    } else if (const auto* merged = std::get_if<FlowMerged>(&*work)) {
      ledger_.Merge(*merged);
      // From here on the main flow carries its tenants.
      for (const std::uint32_t slot : to_submit_) {
        if (pages_[slot]->flow == merged->flow) pages_[slot]->overtaken = false;
      }
    } else if (const auto* closing = std::get_if<LaneClosing>(&*work)) {
      ledger_.BeginClosing(closing->lease);
    }
    SEALANE_RETURN_IF_ERROR(ready);
  }
  return Open(log, opened);
}

Status Dispatcher::Open(OutboxLog& log, std::vector<LaneOpened>& opened) {
  if (opened.empty()) return Ok();
  std::vector<LaneLease> leases;
  for (const LaneOpened& lane : opened) {
    ledger_.Open(lane);
    leases.push_back(lane.lease);
  }
  opened.clear();
  Result<std::vector<BlockedUnit>> blocked = BlockedUnits(log, leases);
  const Status loaded = blocked ? LoadWaiting(log, leases) : Status(blocked.error());
  if (!loaded) {
    // Without it followers could overtake. The lanes are dropped and come again with a new epoch.
    LoseLanes(leases);
    for (const LaneLease lease : leases) board_.Drop(lease);
    return loaded;
  }
  parking_.Load(*blocked, clock_.SinceBoot());
  reconcile_at_ = std::max(reconcile_at_, clock_.SinceBoot() + kReconcileInterval);
  RestartDelayed();
  CrashPoint("relay.opened");
  return Ok();
}

void Dispatcher::AddPage(PageRead read) {
  auto page = std::make_unique<OpenPage>();
  page->page = std::move(read.page);
  page->flow = read.flow;
  page->lanes = std::move(read.lanes);
  page->store_boot = read.store_boot;
  page->quiet = read.quiet;
  page->overtaken = read.flow != kMainFlow;
  page->waiting = page->page.entries.size();
  Lane highest = 0;
  for (const LaneLease& lease : page->lanes) highest = std::max(highest, lease.lane);
  page->epochs.assign(static_cast<std::size_t>(highest) + 1, -1);
  for (const LaneLease& lease : page->lanes) page->epochs[static_cast<std::size_t>(lease.lane)] = lease.epoch;

  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(pages_.size());
    pages_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  pages_[slot] = std::move(page);
  ++open_pages_;
  ledger_.Begin(*pages_[slot]);
  if (pages_[slot]->done()) {
    FreeIfDone(slot);
  } else {
    Enqueue(slot);
  }
}

// Events of the main flow go before those of tenants that run apart: what they wait for is a part of a small page and
// not a backlog. A page that was begun is finished first.
void Dispatcher::Enqueue(std::uint32_t slot) {
  auto place = to_submit_.end();
  if (!pages_[slot]->overtaken) {
    others_at_ = clock_.SinceBoot();
    while (place != to_submit_.begin() && pages_[*std::prev(place)]->overtaken &&
           pages_[*std::prev(place)]->next_entry == 0) {
      --place;
    }
  }
  to_submit_.insert(place, slot);
}

void Dispatcher::FinishEntry(std::uint32_t slot) {
  OpenPage& page = *pages_[slot];
  if (--page.waiting == 0) ledger_.Advance(page);
}

void Dispatcher::FreeIfDone(std::uint32_t slot) {
  OpenPage& page = *pages_[slot];
  if (!page.done()) return;
  budget_.Release(page.page.bytes);
  pages_[slot].reset();
  free_slots_.push_back(slot);
  --open_pages_;
}

// ---- submitting ---------------------------------------------------------------------------------

LaneLease Dispatcher::LeaseOf(const OpenPage& page, const LogEntry& entry) const {
  return {.lane = entry.lane, .epoch = page.epochs[static_cast<std::size_t>(entry.lane)]};
}

std::string_view Dispatcher::UnitOf(const LogEntry& entry, std::string_view chosen) {
  switch (options_.order) {
    case OrderMode::kKey: {
      const std::string_view topic = chosen.empty() ? topics_.Apply(entry.event) : chosen;
      unit_.assign(topic).append("/").append(entry.event.key);
      // Rows from before the order key had a topic were given the event's own.
      if (chosen.empty() && topic != entry.event.topic && !parking_.empty()) {
        own_unit_.assign(entry.event.topic).append("/").append(entry.event.key);
        if (!parking_.Blocks(unit_) && parking_.Blocks(own_unit_)) return own_unit_;
      }
      return unit_;
    }
    case OrderMode::kTenant:
      return entry.event.tenant;
    case OrderMode::kGlobal:
      return "*";
    case OrderMode::kNone:
      break;
  }
  unit_ = entry.event.id.ToString();
  return unit_;
}

// The broker keeps the order of messages with the same key.
std::string_view Dispatcher::KeyOf(const EnvelopeView& event, std::string_view wire_key) const {
  if (options_.order == OrderMode::kTenant) return event.tenant;
  if (options_.order == OrderMode::kGlobal) return options_.route;
  return wire_key;
}

Submitted Dispatcher::Send(const LogEntry& entry, Token token, Publisher& publisher, std::string_view topic) {
  const WireView wire = encoder_.Encode(entry.event);
  const Submitted submitted = publisher.Submit({.token = token.Pack(),
                                                .event_id = entry.event.id,
                                                .topic = topic.empty() ? topics_.Apply(entry.event) : topic,
                                                .key = KeyOf(entry.event, wire.key),
                                                .value = wire.value,
                                                .headers = wire.headers});
  if (submitted == Submitted::kTaken) {
    ++inflight_;
    ++counts_.attempts;
  }
  return submitted;
}

Dispatcher::Outcome Dispatcher::Handle(std::uint32_t slot, std::uint32_t index, bool again, Publisher& publisher) {
  OpenPage& page = *pages_[slot];
  const LogEntry& entry = page.page.entries[index];
  const LaneLease lease = LeaseOf(page, entry);
  if (!ledger_.Current(lease)) return Outcome::kFinished;  // somebody else's by now
  if (!options_.filter.empty() && !options_.filter.Passes(entry.event)) {
    ++counts_.filtered;
    return Outcome::kFinished;
  }
  if (parking_.changes() >= kUnwrittenMax && !again) return Outcome::kStop;  // until they are written
  if (entry.event.available_at) {
    // By the store's clock: ours may be hours off.
    const std::chrono::microseconds due = *entry.event.available_at - page.store_boot;
    if (due > clock_.SinceBoot()) {
      Delay(entry, lease, due);
      return Outcome::kFinished;
    }
    // A relay before this one may have kept it until its time, and died before its position came here.
    if (!again) parking_.Undelay(lease, entry.seq);
  }
  if (!parking_.empty() && parking_.Blocks(UnitOf(entry))) {
    // What came back is few, and those it waits behind are not tried again before it has left the way.
    if (!again && ParkingIsFull()) return Outcome::kStop;
    ParkFollower(entry, lease);
    return Outcome::kFinished;
  }
  if (!IsReadable(entry.event)) {
    if (!again && ParkingIsFull()) return Outcome::kStop;
    RejectUnreadable(entry, lease, kFirstAttempt);
    return Outcome::kFinished;
  }
  if (!waiting_.empty()) {
    if (const std::string_view topic = topics_.Apply(entry.event); MustWait(topic)) {
      WaitForTopic(entry, lease, topic, 0);
      return Outcome::kFinished;
    }
  }
  const Token token{.kind = TokenKind::kEntry, .slot = slot, .entry = index};
  return Send(entry, token, publisher) == Submitted::kTaken ? Outcome::kSubmitted : Outcome::kStop;
}

std::size_t Dispatcher::SubmitPages(Publisher& publisher) {
  std::size_t submitted = 0;
  if (!resend_.empty() || clock_.SinceBoot() < hold_until_) return submitted;
  blocked_by_parked_ = false;
  const bool others = others_at_ && clock_.SinceBoot() - *others_at_ < kOthersMemory;
  while (!to_submit_.empty()) {
    const std::uint32_t slot = to_submit_.front();
    OpenPage& page = *pages_[slot];
    // A page that was not begun is left alone at the end; one that was is finished, or its events would come twice.
    if (draining_ && page.next_entry == 0) return submitted;
    while (page.next_entry < page.page.entries.size()) {
      // What is on its way cannot be overtaken any more.
      if (others && page.overtaken && inflight_ >= kApartEntries) return submitted;
      const Outcome outcome = Handle(slot, static_cast<std::uint32_t>(page.next_entry), false, publisher);
      if (outcome == Outcome::kStop) return submitted;
      ++page.next_entry;
      if (outcome == Outcome::kSubmitted) {
        ++submitted;
      } else {
        FinishEntry(slot);
      }
    }
    to_submit_.pop_front();
    FreeIfDone(slot);
  }
  return submitted;
}

// What came back goes out again before anything else, in its old order, and only when nothing is on its way any more:
// a message that is still unresolved may be an earlier one of the same key.
std::size_t Dispatcher::SubmitAgain(Publisher& publisher) {
  if (resend_.empty() || inflight_ > 0 || clock_.SinceBoot() < hold_until_) return 0;
  const auto seq_of = [&](std::uint64_t packed) {
    const Token token = Token::Unpack(packed);
    return pages_[token.slot]->page.entries[token.entry].seq;
  };
  std::sort(resend_.begin(), resend_.end(), [&](std::uint64_t a, std::uint64_t b) { return seq_of(a) < seq_of(b); });
  std::size_t submitted = 0;
  std::size_t taken = 0;
  for (; taken < resend_.size(); ++taken) {
    const Token token = Token::Unpack(resend_[taken]);
    if (token.kind == TokenKind::kDeadLetter) {
      const Failed& failed = dead_lettering_.at(resend_[taken]);
      const LogEntry& entry = pages_[token.slot]->page.entries[token.entry];
      if (!ledger_.Current(LeaseOf(*pages_[token.slot], entry))) {  // its copy is the next owner's
        dead_lettering_.erase(resend_[taken]);
        FinishEntry(token.slot);
        FreeIfDone(token.slot);
        continue;
      }
      if (SendDeadLetter(entry, failed.why, failed.attempts, token, publisher) == Submitted::kFull) break;
      ++submitted;
      continue;
    }
    const Outcome outcome = Handle(token.slot, token.entry, true, publisher);
    if (outcome == Outcome::kStop) break;
    if (outcome == Outcome::kSubmitted) {
      ++submitted;
    } else {
      FinishEntry(token.slot);
      FreeIfDone(token.slot);
    }
  }
  resend_.erase(resend_.begin(), resend_.begin() + static_cast<std::ptrdiff_t>(taken));
  if (resend_.empty()) resend_may_repeat_ = false;
  return submitted;
}

Submitted Dispatcher::SendDeadLetter(const LogEntry& entry, const Delivery& why, std::int32_t attempts, Token token,
                                     Publisher& publisher) {
  const WireView wire = encoder_.Encode(entry.event);
  const std::string tries = std::to_string(attempts);
  std::vector<HeaderView> headers(wire.headers.begin(), wire.headers.end());
  headers.push_back({"sealane-dead-topic", topics_.Apply(entry.event)});
  headers.push_back({"sealane-dead-code", why.code});
  headers.push_back({"sealane-dead-message", why.message});
  headers.push_back({"sealane-dead-attempts", tries});
  const Submitted submitted = publisher.Submit({.token = token.Pack(),
                                                .event_id = entry.event.id,
                                                .topic = options_.failures.dead_letter_topic,
                                                .key = KeyOf(entry.event, wire.key),
                                                .value = wire.value,
                                                .headers = headers});
  if (submitted == Submitted::kTaken) ++inflight_;
  return submitted;
}

// ---- deliveries ---------------------------------------------------------------------------------

void Dispatcher::OnDelivery(const Delivery& delivery, Publisher& publisher) {
  --inflight_;
  const Token token = Token::Unpack(delivery.token);
  switch (token.kind) {
    case TokenKind::kEntry:
      return OnEntry(delivery, token, publisher);
    case TokenKind::kDeadLetter:
      return OnDeadLetter(delivery, token);
    case TokenKind::kRetry:
      return OnRetry(delivery, token, publisher);
    case TokenKind::kWaited:
      return OnWaited(delivery, token);
    case TokenKind::kDelayed:
      return OnDelayed(delivery, token);
  }
}

void Dispatcher::OnEntry(const Delivery& delivery, Token token, Publisher& publisher) {
  OpenPage& page = *pages_[token.slot];
  const LogEntry& entry = page.page.entries[token.entry];
  const LaneLease lease = LeaseOf(page, entry);
  const bool ours = ledger_.Current(lease);
  if (delivery.status == DeliveryStatus::kPersisted) {
    holds_ = 0;
    CountPublished(entry);
    if (!ours) ++counts_.late;
    FinishEntry(token.slot);
    return FreeIfDone(token.slot);
  }
  if (!ours) {
    FinishEntry(token.slot);
    return FreeIfDone(token.slot);
  }
  CountFailure(delivery, entry, kFirstAttempt);
  const Verdict verdict = Judge(delivery, kFirstAttempt, options_.failures, random_);
  if (verdict.kind == Verdict::Kind::kResend) {
    if (delivery.status == DeliveryStatus::kPossiblyPersisted) {
      ++counts_.repeated;
      resend_may_repeat_ = true;
    }
    resend_.push_back(delivery.token);
    // Held back behind a failed one of its unit is not an outage; it is set aside as soon as it comes up again.
    if (delivery.code != "held_back") Hold();
    return;
  }
  if (verdict.kind == Verdict::Kind::kWait) {
    const std::string topic(topics_.Apply(entry.event));
    BeginOutage(topic, delivery);
    WaitForTopic(entry, lease, topic, 0);
    FinishEntry(token.slot);
    return FreeIfDone(token.slot);
  }
  if (ParkingIsFull()) {
    resend_.push_back(delivery.token);
    return Hold();
  }
  if (verdict.state == ParkedState::kDead && !options_.failures.dead_letter_topic.empty()) {
    BlockFollowers(entry, lease, verdict);
    const Token copy{.kind = TokenKind::kDeadLetter, .slot = token.slot, .entry = token.entry};
    dead_lettering_.insert_or_assign(copy.Pack(), Failed{.why = delivery, .attempts = kFirstAttempt});
    if (SendDeadLetter(entry, delivery, kFirstAttempt, copy, publisher) == Submitted::kFull) {
      resend_.push_back(copy.Pack());
    }
    return;
  }
  ParkFailed(entry, lease, verdict, delivery, kFirstAttempt);
  FinishEntry(token.slot);
  FreeIfDone(token.slot);
}

void Dispatcher::OnDeadLetter(const Delivery& delivery, Token token) {
  OpenPage& page = *pages_[token.slot];
  const LogEntry& entry = page.page.entries[token.entry];
  const LaneLease lease = LeaseOf(page, entry);
  if (ledger_.Current(lease) && TryAgainLater(delivery)) {
    resend_.push_back(delivery.token);
    return Hold();
  }
  const Failed failed = std::move(dead_lettering_.extract(delivery.token).mapped());
  if (ledger_.Current(lease)) {
    NoteCopy(delivery, entry);
    ParkFailed(entry, lease, kDies, failed.why, failed.attempts);
  }
  FinishEntry(token.slot);
  FreeIfDone(token.slot);
}

// The route waits until what makes them fail is repaired. Where tenants can be told apart, only theirs wait.
bool Dispatcher::ParkingIsFull() {
  const bool full = parking_.units() >= static_cast<std::size_t>(Membership::kBlockedUnitsMax) ||
                    (SpansLanes(options_.order) && parking_.events() >= options_.parked_max);
  blocked_by_parked_ = blocked_by_parked_ || full;
  return full;
}

// What the encoder relies on. Events without headers of their own are the rule, and cost nothing here.
bool Dispatcher::IsReadable(const EnvelopeView& event) {
  return event.headers_json == "{}" || HeadersFromJson(event.headers_json).has_value();
}

// Whether the copy of a dead event failed through no fault of its own.
bool Dispatcher::TryAgainLater(const Delivery& copy) {
  return copy.status != DeliveryStatus::kPersisted &&
         Judge(copy, kFirstAttempt, options_.failures, random_).kind == Verdict::Kind::kResend;
}

// An event that cannot be copied is dead all the same; the store has it.
void Dispatcher::NoteCopy(const Delivery& delivery, const LogEntry& entry) const {
  if (delivery.status == DeliveryStatus::kPersisted) return;
  LogError("a dead event could not be copied to the dead-letter topic",
           {{"route", options_.route}, {"event_id", entry.event.id.ToString()}, {"error", delivery.code}});
}

// Only somebody who wrote past the functions can have made such an event. It must not stop the others.
void Dispatcher::RejectUnreadable(const LogEntry& entry, LaneLease lease, std::int32_t attempts, bool fresh) {
  const Delivery why{.status = DeliveryStatus::kNotPersisted,
                     .failure = FailureClass::kRejected,
                     .code = "bad_headers",
                     .message = "the stored headers are not a JSON object of texts"};
  CountFailure(why, entry, attempts);
  ParkFailed(entry, lease, kDies, why, attempts, {}, fresh);
}

void Dispatcher::ParkFollower(const LogEntry& entry, LaneLease lease, std::string_view topic) {
  parking_.Park(ChangeOf(entry, lease, topic), true, clock_.SinceBoot());
  ++counts_.parked_total;
  NoteParked(entry.event.tenant);
}

void Dispatcher::BlockFollowers(const LogEntry& entry, LaneLease lease, const Verdict& verdict,
                                std::string_view topic) {
  const bool holds = verdict.state != ParkedState::kDead || options_.failures.dead_holds_followers;
  if (holds) parking_.Block(UnitOf(entry, topic), lease, entry.seq, entry.event.tenant);
}

void Dispatcher::ParkFailed(const LogEntry& entry, LaneLease lease, const Verdict& verdict, const Delivery& why,
                            std::int32_t attempts, std::string_view topic, bool fresh) {
  const bool dead = verdict.state == ParkedState::kDead;
  ParkChange change = ChangeOf(entry, lease, topic);
  change.state = verdict.state;
  change.attempts = attempts;
  change.retry_after = verdict.retry_after;
  change.error_code = why.code;
  change.error_message = why.message;
  change.holds_followers = !dead || options_.failures.dead_holds_followers;
  parking_.Park(std::move(change), fresh, clock_.SinceBoot());
  ++counts_.parked_total;
  if (dead) ++counts_.dead_total;
  NoteParked(entry.event.tenant);
}

ParkChange Dispatcher::ChangeOf(const LogEntry& entry, LaneLease lease, std::string_view topic) {
  return {.lease = lease,
          .seq = entry.seq,
          .place = entry.place,
          .id = entry.event.id,
          .unit = std::string(UnitOf(entry, topic)),
          .tenant = std::string(entry.event.tenant),
          .topic = std::string(entry.event.topic),
          .key = std::string(entry.event.key),
          .appended_at = entry.appended_at,
          .payload_bytes = static_cast<std::int64_t>(entry.event.payload.size())};
}

void Dispatcher::CountPublished(const LogEntry& entry) {
  ++counts_.published;
  if (!full_.empty()) NotePassed(entry.event.tenant);
  counts_.published_bytes += entry.event.payload.size();
  if (last_topic_count_ == nullptr || last_topic_ != entry.event.topic) {
    last_topic_ = entry.event.topic;
    last_topic_count_ = &CountOf(counts_.topics, last_topic_);
  }
  ++*last_topic_count_;
  counts_.commit_to_publish.Add(std::max(0.0, std::chrono::duration<double>(now_ - entry.appended_at).count()));
}

void Dispatcher::CountFailure(const Delivery& delivery, const LogEntry& entry, std::int32_t attempts) {
  ++CountOf(counts_.failures, delivery.code);
  // During an outage thousands come back at once; the hold is logged, not each of them.
  if (delivery.failure == FailureClass::kOutage || delivery.failure == FailureClass::kMisconfigured ||
      delivery.failure == FailureClass::kTopicMissing) {
    return;
  }
  LogWarning("event failed", {{"store", options_.store},
                              {"route", options_.route},
                              {"event_id", entry.event.id.ToString()},
                              {"tenant", entry.event.tenant},
                              {"topic", entry.event.topic},
                              {"lane", entry.lane},
                              {"seq", entry.seq},
                              {"attempt", attempts},
                              {"class", ToString(delivery.failure)},
                              {"error", delivery.code},
                              {"detail", delivery.message}});
}

void Dispatcher::Hold() {
  const BootTime now = clock_.SinceBoot();
  if (hold_until_ > now) return;
  ++holds_;
  hold_until_ = now + options_.failures.outage.DelayAfter(holds_, random_).value_or(milliseconds{1'000});
}

// ---- settling -----------------------------------------------------------------------------------

bool Dispatcher::SettleIsDue() const {
  const BootTime since = clock_.SinceBoot() - settled_at_;
  if (parking_.changes() >= kUnwrittenMax) return true;
  if (ledger_.dirty() || parking_.has_changes() || (ledger_.moved() && ledger_.closing())) {
    return since >= options_.settle_interval;
  }
  return ledger_.moved() && since >= kMoveInterval;
}

Result<bool> Dispatcher::Settle(OutboxLog& log) {
  SettleRequest request;
  request.progress = ledger_.Progress();
  parking_.AddTo(request);
  if (request.empty()) return false;
  CrashPoint("relay.before_settle");
  SEALANE_ASSIGN_OR_RETURN(const SettleReport report, log.Settle(request));
  CrashPoint("relay.after_settle");
  settled_at_ = clock_.SinceBoot();
  ++counts_.settles;
  ledger_.MarkWritten();
  parking_.Written();
  for (const Lane lane : report.fenced) {
    for (const LaneLease lease : ledger_.leases()) {
      if (lease.lane != lane) continue;
      LogWarning("lane taken by another relay", {{"store", options_.store},
                                                 {"route", options_.route},
                                                 {"owner", options_.owner},
                                                 {"lane", lane},
                                                 {"epoch", lease.epoch}});
      ++counts_.fenced;
      LoseLanes(std::span(&lease, 1));
      board_.Drop(lease);
    }
  }
  return true;
}

Status Dispatcher::ReleaseQuietLanes(OutboxLog& log) {
  std::vector<LaneLease> ready = ledger_.ReadyToRelease();
  // A message of a lane that another relay has by then could overtake, or be overtaken.
  std::erase_if(ready, [&](const LaneLease lease) {
    return parking_.IsRunning(lease) ||
           std::any_of(waited_.begin(), waited_.end(),
                       [&](const auto& run) {
                         return run != nullptr && run->open > 0 && LeaseIn(run->leases, lease.lane) == lease;
                       }) ||
           (delayed_ && delayed_->open > 0 && LeaseIn(delayed_->leases, lease.lane) == lease);
  });
  if (ready.empty() || parking_.has_changes()) return Ok();
  CrashPoint("relay.before_release");
  SEALANE_RETURN_IF_ERROR(log.Release(ready));
  LoseLanes(ready);
  for (const LaneLease lease : ready) board_.Drop(lease);
  return Ok();
}

// ---- the end ------------------------------------------------------------------------------------

bool Dispatcher::quiet() const {
  const bool begun = !to_submit_.empty() && pages_[to_submit_.front()]->next_entry > 0;
  return inflight_ == 0 && resend_.empty() && !begun && parking_.runs() == 0 && waited_runs_ == 0 && !delayed_ &&
         !parking_.has_changes();
}

std::size_t Dispatcher::GiveUp(Publisher& publisher) {
  publisher.Abandon();
  // Answers that came in time still count: fewer events are sent again.
  deliveries_.clear();
  publisher.Collect(deliveries_, milliseconds{0});
  for (const Delivery& delivery : deliveries_) {
    if (delivery.status == DeliveryStatus::kPersisted) OnDelivery(delivery, publisher);
    // What is certainly not there is as if it had never been sent.
    if (delivery.status == DeliveryStatus::kNotPersisted) --inflight_;
  }
  return inflight_ + (resend_may_repeat_ ? resend_.size() : 0);
}

void Dispatcher::FillGauges(RouteStats& stats) const {
  stats.inflight_messages = inflight_;
  stats.inflight_bytes = budget_.used();
  stats.parked = parking_.events();
  std::optional<Timestamp> oldest;
  std::int64_t first_seq = 0;
  for (const auto& page : pages_) {
    if (page == nullptr || page->done() || page->page.entries.empty()) continue;
    const LogEntry& first = page->page.entries.front();
    if (!oldest || first.appended_at < *oldest) oldest = first.appended_at;
    if (first_seq == 0 || first.seq < first_seq) first_seq = first.seq;
  }
  stats.oldest_pending_seconds =
      oldest ? std::max(0.0, std::chrono::duration<double>(clock_.Now() - *oldest).count()) : 0.0;
  stats.pending = first_seq == 0 ? 0 : std::max<std::int64_t>(0, stats.seq_high - first_seq + 1);
  if (blocked_by_parked_) {
    stats.problem = "too many events are set aside: nothing more can be, so the route waits";
    stats.problem_code = "parked_limit";
  }
}

}  // namespace sealane
