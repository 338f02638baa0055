#include <algorithm>
#include <deque>
#include <set>
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
constexpr std::size_t kParkedPageBytes = 4 * 1024 * 1024;
/// How many events one page looks at when few of them fit.
constexpr std::size_t kScanMax = 100'000;

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
  Result<std::vector<DueUnit>> BlockedUnits(std::span<const LaneLease> leases) override;
  Result<std::vector<DueUnit>> DueUnits(std::span<const LaneLease> leases, std::span<const std::string> but_tenants,
                                        std::size_t limit) override;
  Result<Page> ReadParked(const DueUnit& unit, std::size_t limit, std::vector<ParkedEntry>& entries) override;
  Result<std::vector<WaitingTopic>> WaitingTopics(std::span<const LaneLease> leases, std::size_t limit) override;
  Result<Page> ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                           std::span<const std::string> but_tenants, std::size_t limit,
                           std::size_t bytes_max) override;
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
  /// The first event of every unit of these lanes that holds back its followers, oldest first.
  static std::vector<std::pair<DueUnit, const ParkedRow*>> FirstOfUnits(const RouteState& route,
                                                                        std::span<const LaneLease> leases);

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
    route.members.try_emplace(owner_, Member{.started_at = now}).first->second.expires_at = now + ttl;
    Membership membership;
    membership.lanes = static_cast<std::int32_t>(route.lanes.size());
    membership.live_relays = static_cast<std::int32_t>(route.members.size());
    const std::int64_t parked = std::ranges::count_if(route.parked, [](const auto& row) {
      return row.second.state != ParkedState::kDiscarded && !row.second.waits_for_topic();
    });
    membership.parked = std::min(parked, std::int64_t{Membership::kParkedCountMax});
    membership.paused = route.paused;
    for (const auto& [tenant, rule] : route.tenants) membership.tenants.push_back(rule);
    for (std::size_t i = 0; i < route.lanes.size(); ++i) {
      LaneState& lane = route.lanes[i];
      if (lane.owner != owner_ || lane.expires_at <= now) continue;
      lane.expires_at = now + ttl;
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
      if (lane.expires_at > now) continue;
      lane.owner = owner_;
      lane.expires_at = now + ttl;
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
      lane.expires_at = {};
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
      lane.expires_at = {};
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
  row.next_attempt_at = change.not_before;
  if (!change.not_before && change.retry_after) row.next_attempt_at = now + *change.retry_after;
  if (change.error_code.empty()) return;
  row.error_code = change.error_code;
  row.error_message = change.error_message;
  if (!change.waits_for.empty()) return;  // waiting is not failing
  if (!row.first_failed_at) row.first_failed_at = now;
  row.last_failed_at = now;
}

// ---- what was set aside
// ---------------------------------------------------------------------------------------------

std::vector<std::pair<DueUnit, const ParkedRow*>> MemoryOutboxLog::FirstOfUnits(const RouteState& route,
                                                                                std::span<const LaneLease> leases) {
  std::vector<std::pair<DueUnit, const ParkedRow*>> firsts;
  std::set<std::string> seen;  // a unit is one, also where it spans lanes
  for (const auto& [seq, row] : route.parked) {
    const auto lease = std::ranges::find(leases, row.lane(), &LaneLease::lane);
    if (lease == leases.end() || !row.holds_back() || !seen.emplace(row.event.unit).second) continue;
    firsts.push_back({{*lease, row.event.unit}, &row});
  }
  return firsts;
}

Result<std::vector<DueUnit>> MemoryOutboxLog::BlockedUnits(std::span<const LaneLease> leases) {
  return OnRoute([&](RouteState& route, Timestamp) -> Result<std::vector<DueUnit>> {
    std::vector<DueUnit> units;
    for (auto& [unit, row] : FirstOfUnits(route, leases)) units.push_back(std::move(unit));
    return units;
  });
}

Result<std::vector<DueUnit>> MemoryOutboxLog::DueUnits(std::span<const LaneLease> leases,
                                                       std::span<const std::string> but_tenants, std::size_t limit) {
  return OnRoute([&](RouteState& route, Timestamp now) -> Result<std::vector<DueUnit>> {
    std::vector<DueUnit> units;
    for (auto& [unit, row] : FirstOfUnits(route, leases)) {
      const bool wanted = std::find(but_tenants.begin(), but_tenants.end(), row->event.tenant) == but_tenants.end();
      if (units.size() < limit && wanted && row->may_be_tried(now)) units.push_back(std::move(unit));
    }
    return units;
  });
}

Result<Page> MemoryOutboxLog::ReadParked(const DueUnit& unit, std::size_t limit, std::vector<ParkedEntry>& entries) {
  entries.clear();
  return database_->WithLog([&](LogState& state) -> Result<Page> {
    const Timestamp now = clock_.Now();
    Page page;
    for (const auto& [seq, row] : state.AddRoute(route_).parked) {
      if (row.event.unit != unit.unit || !row.holds_back()) continue;
      if (entries.size() == limit || !row.may_be_tried(now)) break;
      const auto message = state.log.find(seq);
      if (message == state.log.end()) {
        if (!entries.empty()) break;  // what stands before it can still go
        return Error(ErrorKind::kCorrupt, "parked_row_missing",
                     fmt::format("event {} (seq {}) was set aside, and its row is gone from the log",
                                 row.event.id.ToString(), seq))
            .WithHint("give it up with: sealane dead discard ID --reason ...");
      }
      if (!Copies::Add(page, message->second, kParkedPageBytes)) break;
      entries.push_back({page.entries.size() - 1, row.state, row.attempts, row.destination});
    }
    return page;
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
      if (page.entries.size() == limit || !Copies::Add(page, message->second, bytes_max)) {
        page.caught_up = false;
        break;
      }
    }
    return page;
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
