#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/headers_json.hpp"
#include "memory/database.hpp"

namespace sealane::memory {
namespace {

/// What the other stores keep by age; here it is bounded by count as well, because tests run long in little time.
constexpr std::chrono::hours kSettlementMemory{24 * 7};  // and that of topics that operators chose
constexpr std::size_t kSettlementsMax = 10'000;
constexpr std::size_t kForgetMax = 1'000;
/// How many events one page looks at when few of them fit.
constexpr std::size_t kScanMax = 100'000;

std::chrono::milliseconds DueIn(const ParkedRow& row, Timestamp now) {
  if (!row.next_attempt_at) return std::chrono::milliseconds{0};
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(*row.next_attempt_at - now),
                  std::chrono::milliseconds{0});
}

DelayedPlace PlaceOf(const DelayChange& change) {
  return {change.due_at, change.seq};
}

/// Copies of the events of a page.
class Copies final : public Page::Storage {
 public:
  /// False when the page would grow beyond its limit; the first event is always taken.
  static bool Add(Page& page, const StoredMessage& message, std::size_t bytes_max) {
    if (page.storage == nullptr) page.storage = std::make_unique<Copies>();
    std::string headers = HeadersToJson(message.envelope.headers);
    const std::size_t bytes = sizeof(LogEntry) + sizeof(Event) + headers.size() + TextBytes(message.envelope);
    if (!page.entries.empty() && page.bytes + bytes > bytes_max) return false;
    auto& events = static_cast<Copies&>(*page.storage).events_;
    const Event& copy = events.emplace_back(Event{message.envelope, std::move(headers)});
    page.entries.push_back({message.seq, static_cast<std::uint64_t>(message.seq), message.lane, message.appended_at,
                            ViewOf(copy.envelope, copy.headers_json)});
    page.bytes += bytes;
    return true;
  }

 private:
  struct Event {
    Envelope envelope;
    std::string headers_json;
  };
  static std::size_t TextBytes(const Envelope& e) {
    return e.type.size() + e.tenant.size() + e.topic.size() + e.key.size() + e.aggregate.type.size() +
           e.aggregate.id.size() + e.correlation_id.size() + e.causation_id.size() + e.traceparent.size() +
           e.tracestate.size() + e.producer.size() + e.schema_id.size() + e.content_type.size() + e.payload.size();
  }

  std::deque<Event> events_;  // stays where it is while it grows
};

class MemoryOutboxLog final : public OutboxLog {
 public:
  MemoryOutboxLog(std::shared_ptr<Database> database, const std::string& route, std::string owner, Clock& clock)
      : database_(std::move(database)), route_(route), owner_(std::move(owner)), clock_(clock) {
    database_->WithLog([&](LogState& state) { state.AddRoute(route_); });
  }

  Result<Membership> Beat(std::chrono::milliseconds ttl) override;
  Result<std::vector<LaneGrant>> Claim(std::int32_t max, std::chrono::milliseconds ttl) override;
  Status Release(std::span<const LaneLease> leases) override;
  Status Leave() override;
  Result<Horizon> Look() override;
  Result<Page> Read(const ReadRequest& request) override;
  Result<bool> OthersDone(std::span<const LaneLease> mine, const Horizon& horizon) override;
  Result<SettleReport> Settle(const SettleRequest& request) override;
  Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const LaneLease> leases) override;
  Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const DueUnit> units) override;
  Result<std::vector<DueUnit>> TakeChanges(std::span<const LaneLease> leases, std::size_t limit) override;
  Result<ParkedBatch> ReadParked(std::span<const DueUnit> units, std::size_t limit, std::size_t bytes_max) override;
  Result<std::vector<WaitingTopic>> WaitingTopics(std::span<const LaneLease> leases, std::size_t limit) override;
  Result<Page> ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                           std::span<const std::string> but_tenants, std::size_t limit,
                           std::size_t bytes_max) override;
  Result<DelayedPage> ReadDelayed(const DelayedRequest& request) override;
  Status KeepOrder(std::string_view order) override;
  Result<TendReport> Tend() override;

 private:
  /// Runs `work` on the route while nobody else can.
  template <class Work>
  auto OnRoute(const Work& work) {
    return database_->WithLog([&](LogState& state) { return work(state.AddRoute(route_), clock_.Now()); });
  }
  bool Holds(const RouteState& route, const LaneLease& lease) const;
  static Status CheckPositions(const SettleRequest& request);
  static void WriteProgress(RouteState& route, const SettleRequest::Progress& progress, Timestamp now);
  static void WriteParked(RouteState& route, const ParkChange& change, Timestamp now);
  /// What `lease_of` finds a lease for, oldest first.
  template <class LeaseOf>
  static std::vector<BlockedUnit> UnitsOf(const RouteState& route, Timestamp now, const LeaseOf& lease_of);

  std::shared_ptr<Database> database_;
  std::string route_;
  std::string owner_;
  Clock& clock_;
};

// ---- leases
// ---------------------------------------------------------------------------------------------------------

Result<Membership> MemoryOutboxLog::Beat(std::chrono::milliseconds ttl) {
  return OnRoute([&](RouteState& route, Timestamp now) -> Result<Membership> {
    std::erase_if(route.members, [&](const auto& member) { return member.second.expires_at <= now; });
    const Member& self = route.Renew(owner_, now, now + ttl);
    Membership membership;
    membership.lanes = static_cast<std::int32_t>(route.lanes.size());
    membership.live_relays = static_cast<std::int32_t>(route.members.size());
    membership.changes = !route.changes.empty();
    membership.paused = route.paused;
    for (const auto& [tenant, rule] : route.tenants) membership.tenants.push_back(rule);
    for (std::size_t i = 0; i < route.lanes.size(); ++i) {
      const LaneState& lane = route.lanes[i];
      if (lane.owner != owner_ || lane.lease != self.lease) continue;
      membership.held.push_back({static_cast<Lane>(i), lane.epoch});
    }
    return membership;
  });
}

Result<std::vector<LaneGrant>> MemoryOutboxLog::Claim(std::int32_t max, std::chrono::milliseconds ttl) {
  return OnRoute([&](RouteState& route, Timestamp now) -> Result<std::vector<LaneGrant>> {
    std::vector<LaneGrant> grants;
    for (std::size_t i = 0; i < route.lanes.size() && std::cmp_less(grants.size(), max); ++i) {
      LaneState& lane = route.lanes[i];
      if (route.IsHeld(lane, now)) continue;
      const auto self = route.members.find(owner_);
      const Timestamp until = self == route.members.end() ? now + ttl : std::max(self->second.expires_at, now + ttl);
      lane.lease = route.Renew(owner_, now, until).lease;
      lane.owner = owner_;
      lane.window_seq = 0;
      ++lane.epoch;
      grants.push_back({{static_cast<Lane>(i), lane.epoch}, lane.positions});
    }
    return grants;
  });
}

Status MemoryOutboxLog::Release(std::span<const LaneLease> leases) {
  return OnRoute([&](RouteState& route, Timestamp) {
    for (const LaneLease& lease : leases) {
      if (!Holds(route, lease)) continue;
      LaneState& lane = route.lanes[static_cast<std::size_t>(lease.lane)];
      lane.owner.clear();
      lane.window_seq = 0;
    }
    return Ok();
  });
}

Status MemoryOutboxLog::Leave() {
  return OnRoute([&](RouteState& route, Timestamp) {
    for (LaneState& lane : route.lanes) {
      if (lane.owner != owner_) continue;
      lane.owner.clear();
      lane.window_seq = 0;
    }
    route.members.erase(owner_);
    return Ok();
  });
}

// ---- the log
// --------------------------------------------------------------------------------------------------------

Result<Horizon> MemoryOutboxLog::Look() {
  return database_->WithLog([&](LogState& state) -> Result<Horizon> {
    return Horizon{PositionAt(state.seq_high).cursor, state.seq_high, clock_.Now()};
  });
}

Result<Page> MemoryOutboxLog::Read(const ReadRequest& request) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t from, SeqOf(request.from->cursor));
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t horizon, SeqOf(request.horizon->cursor));
  const auto fits = [&](const StoredMessage& message) {
    const bool named = std::ranges::find(request.tenants, message.envelope.tenant) != request.tenants.end();
    return std::ranges::find(request.lanes, message.lane) != request.lanes.end() && named != request.all_but;
  };
  return database_->WithLog([&](LogState& state) -> Result<Page> {
    Page page;
    std::int64_t next = std::max(from, horizon);
    std::size_t scanned = 0;
    for (auto entry = state.log.upper_bound(from); entry != state.log.end() && entry->first <= horizon; ++entry) {
      const std::int64_t before = entry->first - 1;
      const bool full = page.entries.size() >= std::max<std::size_t>(request.entries_max, 1) || scanned == kScanMax;
      ++scanned;
      if (full || (fits(entry->second) && !Copies::Add(page, entry->second, request.bytes_max))) {
        next = before;
        break;
      }
    }
    page.next = PositionAt(next);
    page.caught_up = next >= horizon;
    return page;
  });
}

Result<bool> MemoryOutboxLog::OthersDone(std::span<const LaneLease> mine, const Horizon& horizon) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t until, SeqOf(horizon.cursor));
  return database_->WithLog([&](LogState& state) -> Result<bool> {
    const RouteState& route = state.AddRoute(route_);
    return std::ranges::none_of(state.log, [&](const auto& entry) {
      const auto& [seq, message] = entry;
      const auto parked = route.parked.find(seq);
      if (seq > until || std::ranges::find(mine, message.lane, &LaneLease::lane) != mine.end()) return false;
      if (parked != route.parked.end()) return parked->second.waits_for_topic();
      const auto due_at = message.envelope.available_at;
      if (due_at && route.delayed.contains({*due_at, seq})) return *due_at <= clock_.Now();
      return StatusOf(message, route_, route, clock_.Now()).state != DeliveryState::kPublished;
    });
  });
}

// ---- progress
// -------------------------------------------------------------------------------------------------------

bool MemoryOutboxLog::Holds(const RouteState& route, const LaneLease& lease) const {
  if (lease.lane < 0 || std::cmp_greater_equal(lease.lane, route.lanes.size())) return false;
  const LaneState& lane = route.lanes[static_cast<std::size_t>(lease.lane)];
  return lane.owner == owner_ && lane.epoch == lease.epoch;
}

Status MemoryOutboxLog::CheckPositions(const SettleRequest& request) {
  for (const SettleRequest::Progress& progress : request.progress) {
    SEALANE_RETURN_IF_ERROR(SeqOf(progress.positions.main.cursor));
    for (const ApartFlow& flow : progress.positions.apart) SEALANE_RETURN_IF_ERROR(SeqOf(flow.position.cursor));
    if (!progress.window.empty()) SEALANE_RETURN_IF_ERROR(SeqOf(progress.window));
  }
  return Ok();
}

Result<SettleReport> MemoryOutboxLog::Settle(const SettleRequest& request) {
  SEALANE_RETURN_IF_ERROR(CheckPositions(request));
  return OnRoute([&](RouteState& route, Timestamp now) -> Result<SettleReport> {
    SettleReport report;
    const auto holds = [&](const LaneLease& lease) {
      if (Holds(route, lease)) return true;
      if (std::ranges::find(report.fenced, lease.lane) == report.fenced.end()) report.fenced.push_back(lease.lane);
      return false;
    };
    for (const ParkChange& change : request.park) {
      if (holds(change.lease)) WriteParked(route, change, now);
    }
    for (const Unpark& unpark : request.unpark) {
      if (!holds(unpark.lease)) continue;
      const auto row = route.parked.find(unpark.seq);
      if (row == route.parked.end()) continue;
      if (unpark.waits_for.empty() || row->second.event.waits_for == unpark.waits_for) route.parked.erase(row);
    }
    for (const DelayChange& change : request.delay) {
      const auto parked = route.parked.find(change.seq);
      const bool given_up = parked != route.parked.end() && parked->second.state == ParkedState::kDiscarded;
      if (holds(change.lease) && !given_up) route.delayed.emplace(PlaceOf(change), change.lease.lane);
    }
    for (const Undelay& gone : request.undelay) {
      if (!holds(gone.lease)) continue;
      std::erase_if(route.delayed, [&](const auto& row) { return row.first.seq == gone.seq; });
    }
    for (const SettleRequest::Progress& progress : request.progress) {
      if (holds(progress.lease)) WriteProgress(route, progress, now);
    }
    while (route.settlements.size() > kSettlementsMax) route.settlements.pop_front();
    return report;
  });
}

void MemoryOutboxLog::WriteProgress(RouteState& route, const SettleRequest::Progress& progress, Timestamp now) {
  LaneState& lane = route.lanes[static_cast<std::size_t>(progress.lease.lane)];
  const LanePositions before = std::exchange(lane.positions, progress.positions);
  // Checked before anything was written.
  lane.window_seq = progress.window.empty() ? 0 : SeqOf(progress.window).value_or(0);
  std::vector<std::string> except;
  for (const ApartFlow& flow : lane.positions.apart) {
    except.insert(except.end(), flow.tenants.begin(), flow.tenants.end());
    if (std::ranges::find(before.apart, flow) != before.apart.end()) continue;
    route.settlements.push_back(
        {now, progress.lease.lane, SeqOf(flow.position.cursor).value_or(0), flow.tenants, false});
  }
  // A tenant that leaves its flow apart is done as far as the main one, so that is news as well.
  if (before == lane.positions) return;
  route.settlements.push_back(
      {now, progress.lease.lane, SeqOf(lane.positions.main.cursor).value_or(0), std::move(except), true});
}

void MemoryOutboxLog::WriteParked(RouteState& route, const ParkChange& change, Timestamp now) {
  ParkedRow& row = route.parked[change.seq];
  // A person who gave the event up while it was being tried has the last word.
  if (row.state == ParkedState::kDiscarded) return;
  row.event = change;
  if (!row.destination.empty() && !change.waits_for.empty()) row.event.waits_for = row.destination;
  row.state = change.state;
  row.attempts = change.attempts;
  row.skipped = change.state == ParkedState::kDead && !change.holds_followers;
  row.next_attempt_at.reset();
  if (change.retry_after) row.next_attempt_at = now + *change.retry_after;
  if (change.error_code.empty()) return;
  row.error_code = change.error_code;
  row.error_message = change.error_message;
  if (!change.waits_for.empty()) return;  // waiting is not failing
  if (!row.first_failed_at) row.first_failed_at = now;
  row.last_failed_at = now;
}

// ---- what was set aside
// ---------------------------------------------------------------------------------------------

template <class LeaseOf>
std::vector<BlockedUnit> MemoryOutboxLog::UnitsOf(const RouteState& route, Timestamp now, const LeaseOf& lease_of) {
  std::vector<BlockedUnit> units;
  std::map<std::string_view, std::size_t> places;  // a unit is one, also where it spans lanes
  for (const auto& [seq, row] : route.parked) {
    const std::optional<LaneLease> lease = lease_of(row);
    if (!lease || !row.holds_back()) continue;
    const auto [place, first] = places.try_emplace(row.event.unit, units.size());
    if (!first) {
      ++units[place->second].events;
      continue;
    }
    BlockedUnit& unit = units.emplace_back();
    unit.lease = *lease;
    unit.unit = row.event.unit;
    unit.tenant = row.event.tenant;
    unit.seq = seq;
    unit.dead = row.state == ParkedState::kDead;
    unit.due_in = DueIn(row, now);
  }
  return units;
}

Result<std::vector<BlockedUnit>> MemoryOutboxLog::BlockedUnits(std::span<const LaneLease> leases) {
  return OnRoute([&](RouteState& route, Timestamp now) -> Result<std::vector<BlockedUnit>> {
    return UnitsOf(route, now, [&](const ParkedRow& row) -> std::optional<LaneLease> {
      const auto lease = std::ranges::find(leases, row.lane(), &LaneLease::lane);
      return lease == leases.end() ? std::nullopt : std::optional(*lease);
    });
  });
}

Result<std::vector<BlockedUnit>> MemoryOutboxLog::BlockedUnits(std::span<const DueUnit> units) {
  return OnRoute([&](RouteState& route, Timestamp now) -> Result<std::vector<BlockedUnit>> {
    return UnitsOf(route, now, [&](const ParkedRow& row) -> std::optional<LaneLease> {
      const auto unit = std::ranges::find(units, row.event.unit, &DueUnit::unit);
      return unit == units.end() ? std::nullopt : std::optional(unit->lease);
    });
  });
}

Result<std::vector<DueUnit>> MemoryOutboxLog::TakeChanges(std::span<const LaneLease> leases, std::size_t limit) {
  return OnRoute([&](RouteState& route, Timestamp) -> Result<std::vector<DueUnit>> {
    std::vector<DueUnit> units;
    std::erase_if(route.changes, [&](const auto& change) {
      const auto lease = std::ranges::find(leases, change.first, &LaneLease::lane);
      if (lease == leases.end() || units.size() == limit) return false;
      const bool known = std::ranges::find(units, change.second, &DueUnit::unit) != units.end();
      if (!known) units.push_back({*lease, change.second});
      return true;
    });
    return units;
  });
}

Result<ParkedBatch> MemoryOutboxLog::ReadParked(std::span<const DueUnit> units, std::size_t limit,
                                                std::size_t bytes_max) {
  using Rest = ParkedUnit::Rest;
  return database_->WithLog([&](LogState& state) -> Result<ParkedBatch> {
    const Timestamp now = clock_.Now();
    ParkedBatch batch;
    for (const DueUnit& wanted : units) {
      ParkedUnit unit;
      for (const auto& [seq, row] : state.AddRoute(route_).parked) {
        if (row.event.unit != wanted.unit || !row.holds_back()) continue;
        const auto message = state.log.find(seq);
        const bool passed = Passed(state.AddRoute(route_), row.lane(), row.event.tenant, seq);
        if (row.state == ParkedState::kDead) {
          unit.rest = Rest::kDead;
        } else if (!row.may_be_tried(now) || !passed) {
          unit.rest = Rest::kLater;
          unit.due_in = row.may_be_tried(now) ? kBehindPosition : DueIn(row, now);
        } else if (message == state.log.end()) {
          unit.rest = Rest::kGone;
          unit.gone = row.event.id;
        } else if (unit.entries.size() == limit || !Copies::Add(batch.page, message->second, bytes_max)) {
          unit.rest = Rest::kMore;
        } else {
          unit.entries.push_back({batch.page.entries.size() - 1, row.state, row.attempts, row.destination});
          continue;
        }
        break;
      }
      if (unit.rest == Rest::kMore && unit.entries.empty()) break;  // the page is full
      batch.units.push_back(std::move(unit));
    }
    return batch;
  });
}

// ---- what waits for a topic
// -----------------------------------------------------------------------------------------

Result<std::vector<WaitingTopic>> MemoryOutboxLog::WaitingTopics(std::span<const LaneLease> leases,
                                                                 std::size_t limit) {
  return OnRoute([&](RouteState& route, Timestamp) -> Result<std::vector<WaitingTopic>> {
    std::map<std::string, std::int64_t> counts;
    for (const auto& [seq, row] : route.parked) {
      const bool ours = std::ranges::find(leases, row.lane(), &LaneLease::lane) != leases.end();
      if (ours && row.waits_for_topic()) ++counts[row.event.waits_for];
    }
    std::vector<WaitingTopic> topics;
    for (const auto& [topic, count] : counts) {
      if (topics.size() < limit) topics.push_back({topic, std::min(count, std::int64_t{WaitingTopic::kCountMax})});
    }
    return topics;
  });
}

Result<Page> MemoryOutboxLog::ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                                          std::span<const std::string> but_tenants, std::size_t limit,
                                          std::size_t bytes_max) {
  return database_->WithLog([&](LogState& state) -> Result<Page> {
    Page page;
    page.caught_up = true;
    for (const auto& [seq, row] : state.AddRoute(route_).parked) {
      const bool ours = std::ranges::find(leases, row.lane(), &LaneLease::lane) != leases.end();
      const bool wanted = std::ranges::find(but_tenants, row.event.tenant) == but_tenants.end();
      if (!ours || !wanted || !row.waits_for_topic() || row.event.waits_for != topic) continue;
      const auto message = state.log.find(seq);
      if (message == state.log.end()) continue;
      if (page.entries.size() == limit || !Passed(state.AddRoute(route_), row.lane(), row.event.tenant, seq) ||
          !Copies::Add(page, message->second, bytes_max)) {
        page.caught_up = false;
        break;
      }
    }
    return page;
  });
}

Result<DelayedPage> MemoryOutboxLog::ReadDelayed(const DelayedRequest& request) {
  return database_->WithLog([&](LogState& state) -> Result<DelayedPage> {
    const RouteState& route = state.AddRoute(route_);
    const std::map<DelayedPlace, Lane>& delayed = route.delayed;
    const Timestamp now = clock_.Now();
    DelayedPage read{.page = {}, .next = request.from, .caught_up = true, .gone = {}};
    std::size_t looked = 0;
    auto row = delayed.upper_bound(request.from);
    for (; row != delayed.end() && row->first.due_at <= now; ++row) {
      const auto& [place, lane] = *row;
      if (looked++ == request.rows_max) {
        read.caught_up = false;
        return read;
      }
      const auto message = state.log.find(place.seq);
      const auto lease = std::ranges::find(request.leases, lane, &LaneLease::lane);
      const bool ours = lease != request.leases.end();
      if (ours && message == state.log.end()) {
        read.gone.push_back({*lease, place.seq});
      } else if (ours && std::ranges::find(request.but_tenants, message->second.envelope.tenant) ==
                             request.but_tenants.end()) {
        const bool passed = Passed(route, lane, message->second.envelope.tenant, place.seq);
        if (!passed && !read.behind) read.behind = place;
        if (passed && !Copies::Add(read.page, message->second, request.bytes_max)) {
          read.caught_up = false;
          return read;
        }
      }
      read.next = place;
    }
    if (row != delayed.end()) {
      read.next_due_in = std::chrono::ceil<std::chrono::milliseconds>(row->first.due_at - now);
    }
    return read;
  });
}

Status MemoryOutboxLog::KeepOrder(std::string_view order) {
  return OnRoute([&](RouteState& route, Timestamp now) -> Status {
    if (route.order_mode == order) return Ok();
    const auto parked = std::ranges::count_if(route.parked, [](const auto& row) {
      return row.second.state != ParkedState::kDiscarded && !row.second.waits_for_topic();
    });
    const auto relays = std::ranges::count_if(
        route.members, [&](const auto& member) { return member.first != owner_ && member.second.expires_at > now; });
    if (!route.order_mode.empty() && (parked > 0 || relays > 0)) {
      return OrderChanged(route_, route.order_mode, order, parked, relays);
    }
    route.order_mode = order;
    return Ok();
  });
}

Result<TendReport> MemoryOutboxLog::Tend() {
  const SweepReport swept = database_->ForgetExpired(kForgetMax);
  TendReport report;
  report.forgotten = swept.unique_forgotten + swept.idempotency_forgotten;
  OnRoute([&](RouteState& route, Timestamp now) {
    while (!route.settlements.empty() && route.settlements.front().at < now - kSettlementMemory) {
      route.settlements.pop_front();
      ++report.forgotten;
    }
    report.forgotten += static_cast<std::int64_t>(std::erase_if(route.rerouted, [&](const auto& entry) {
      return entry.second.at < now - kSettlementMemory && !route.parked.contains(entry.first);
    }));
    return Ok();
  }).value();
  return report;
}

}  // namespace

std::unique_ptr<OutboxLog> MakeOutboxLog(std::shared_ptr<Database> database, const std::string& route,
                                         std::string owner, Clock& clock, std::shared_ptr<LogFaults> faults) {
  auto log = std::make_unique<MemoryOutboxLog>(std::move(database), route, std::move(owner), clock);
  if (faults == nullptr) return log;
  return WithFaults(std::move(log), std::move(faults));
}

}  // namespace sealane::memory
