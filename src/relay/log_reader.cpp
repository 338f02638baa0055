#include "relay/log_reader.hpp"

#include <algorithm>
#include <map>

#include "base/crash_point.hpp"
#include "base/log.hpp"

namespace sealane {
namespace {

// A tenant is set apart when much of the log lies ahead and it fills at least this share of a page.
constexpr std::size_t kCrowdShare = 10;  // 1 in 10
constexpr std::size_t kFlowsApartMax = 16;
constexpr int kVainReads = 16;   // in a turn
constexpr int kHurry = 4;        // so many times sooner is looked at a log whose writer rang the bell
constexpr int kQuietLooks = 40;  // looks in vain before the longest wait

bool Holds(const std::vector<std::string>& tenants, std::string_view tenant) {
  return std::find(tenants.begin(), tenants.end(), tenant) != tenants.end();
}

}  // namespace

LogReader::LogReader(const RouteOptions& options, LeaseBoard& board, WorkQueue& queue, MemoryBudget& budget,
                     Clock& clock)
    : options_(options), board_(board), queue_(queue), budget_(budget), clock_(clock) {}

Result<LogReader::Step> LogReader::RunOnce(OutboxLog& log) {
  Reconcile();
  Step step;
  const bool whole = !SpansLanes(options_.order) || open_.size() == static_cast<std::size_t>(decisions_.lanes);
  if (flows_.empty() || decisions_.paused || !whole) return step;

  // The newest flow is looked at again as soon as it stands at the horizon, also while others still have work.
  const bool main_caught_up = std::all_of(flows_.begin(), flows_.end(),
                                          [](const Flow& flow) { return flow.id != kMainFlow || flow.caught_up; });
  const BootTime now = clock_.SinceBoot();
  const BootTime next_look = looked_at_ + (hurried_ ? options_.poll_min / kHurry : options_.poll_min);
  if (main_caught_up && now < next_look) step.look_in = next_look - now;
  if (!horizon_ || (main_caught_up && now >= next_look)) {
    hurried_ = false;
    SEALANE_ASSIGN_OR_RETURN(Horizon horizon, log.Look());
    CrashPoint("relay.looked");
    looked_at_ = now;
    store_boot_ = horizon.at - std::chrono::duration_cast<std::chrono::microseconds>(clock_.SinceBoot());
    step.looked = true;
    const bool news = !horizon_ || horizon.cursor != horizon_->cursor;
    horizon_ = std::move(horizon);
    if (news) {
      for (Flow& flow : flows_) flow.caught_up = flow.at.cursor == horizon_->cursor && flow.at.window.empty();
      // Whoever had nothing to do comes before those who are busy anyway.
      const auto main = std::find_if(flows_.begin(), flows_.end(), [](const Flow& f) { return f.id == kMainFlow; });
      if (main != flows_.end()) turn_ = static_cast<std::size_t>(main - flows_.begin());
    }
  }
  step.horizon = horizon_;

  if (Flow* flow = NextFlow()) {
    // What runs apart leaves room for a page of the others.
    const bool apart = flow->id != kMainFlow && OthersWait();
    if (!budget_.HasRoomFor(BytesFor(*flow) + (apart ? options_.page_bytes : 0))) {
      step.full = true;
      if (apart) {
        step.look_in = options_.poll_min;  // the others have room, and may have something new
      } else {
        step.look_in.reset();
      }
      return step;
    }
    SEALANE_ASSIGN_OR_RETURN(step.read, ReadPage(log, *flow));
    step.moved = true;
  }
  MergeFlows();
  step.caught_up = std::all_of(flows_.begin(), flows_.end(), [](const Flow& f) { return f.caught_up || f.paused; });
  step.more = std::any_of(flows_.begin(), flows_.end(), [&](const Flow& flow) { return MayRead(flow); });
  return step;
}

std::chrono::microseconds LogReader::Pace(const Step& step) {
  using std::chrono::microseconds;
  if (step.full) {  // woken by a release
    return step.look_in ? std::chrono::ceil<microseconds>(*step.look_in) : microseconds{options_.poll_max};
  }
  if (step.read > 0) {
    idle_looks_ = 0;
    return microseconds{0};
  }
  if (step.moved && step.more) return microseconds{0};
  // Too early to look again is not the same as having looked in vain.
  if (step.look_in) return std::chrono::ceil<microseconds>(*step.look_in);
  // 1 ms while something happens, then longer and longer, up to the longest.
  idle_looks_ = std::min(idle_looks_ + 1, kQuietLooks);
  if (idle_looks_ >= kQuietLooks) return options_.poll_max;
  const auto grown = options_.poll_min * (1 << std::min(idle_looks_ / 4, 6));
  return std::min<microseconds>(grown, options_.poll_max);
}

// ---- lanes --------------------------------------------------------------------------------------

void LogReader::Reconcile() {
  const std::uint64_t generation = board_.generation();
  if (generation == seen_generation_) return;
  seen_generation_ = generation;
  decisions_ = board_.decisions();
  full_ = board_.full();
  const std::vector<LeaseBoard::Held> held = board_.held();
  const auto find = [&](LaneLease lease) {
    return std::find_if(held.begin(), held.end(), [&](const auto& one) { return one.lease == lease; });
  };
  for (const LaneLease lease : std::vector(open_)) {
    const auto found = find(lease);
    if (found == held.end() || found->leaving) CloseLane(lease, found != held.end());
  }
  for (const LeaseBoard::Held& one : held) {
    const bool known = std::find(open_.begin(), open_.end(), one.lease) != open_.end();
    if (!known && !one.leaving) OpenLane(one);
  }
  ApplyRules();
}

void LogReader::OpenLane(const LeaseBoard::Held& held) {
  open_.push_back(held.lease);
  // Its last owner may have seen more of the log than we have: reading it up to our old horizon would lead back.
  horizon_.reset();
  queue_.Push(LaneOpened{.lease = held.lease, .positions = held.granted});
  Flow main;
  main.at = held.granted.main;
  for (const ApartFlow& one : held.granted.apart) {
    Flow apart;
    apart.id = FlowIdOf(one.tenants);
    apart.tenants = one.tenants;
    apart.at = one.position;
    main.excluded.insert(main.excluded.end(), one.tenants.begin(), one.tenants.end());
    AddLane(std::move(apart), held.lease);
  }
  std::sort(main.excluded.begin(), main.excluded.end());
  AddLane(std::move(main), held.lease);
}

// Joins the lanes that stand at the same position and carry the same tenants, or begins a flow of its own.
void LogReader::AddLane(Flow flow, LaneLease lease) {
  auto place = std::find_if(flows_.begin(), flows_.end(), [&](const Flow& other) {
    return other.id == flow.id && other.at == flow.at && other.excluded == flow.excluded;
  });
  if (place == flows_.end()) place = flows_.insert(flows_.end(), std::move(flow));
  place->lanes.push_back(lease);
  place->numbers.push_back(lease.lane);
  place->caught_up = horizon_ && place->at.cursor == horizon_->cursor && place->at.window.empty();
}

void LogReader::CloseLane(LaneLease lease, bool announce) {
  std::erase(open_, lease);
  for (Flow& flow : flows_) {
    std::erase(flow.lanes, lease);
    std::erase(flow.numbers, lease.lane);
  }
  std::erase_if(flows_, [](const Flow& flow) { return flow.lanes.empty(); });
  if (announce) queue_.Push(LaneClosing{.lease = lease});
}

// ---- tenants ------------------------------------------------------------------------------------

void LogReader::ApplyRules() {
  if (SpansLanes(options_.order)) return;
  std::vector<std::string> alone;
  for (const TenantRule& rule : decisions_.tenants) {
    if (rule.paused || rule.rate_max > 0) alone.push_back(rule.tenant);
  }
  for (const LeaseBoard::FullTenant& full : full_) alone.push_back(full.tenant);
  for (const std::string& tenant : alone) {
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const Flow& flow = flows_[i];
      const bool is_main = flow.id == kMainFlow;
      const bool carries = is_main ? !Holds(flow.excluded, tenant) : Holds(flow.tenants, tenant);
      if (!carries || flow.tenants == std::vector{tenant}) continue;
      SplitOff(i, {tenant});
      if (!is_main) --i;  // its place is another's now
    }
  }
  for (Flow& flow : flows_) {
    flow.paused = false;
    flow.rate_max = 0;
    flow.weight = 1;
    const LeaseBoard::FullTenant* full = FullOf(flow);
    if (full == nullptr) flow.probes.reset();
    if (full != nullptr && !flow.probes) flow.probes = full->probes;  // the next one is when it grows
    if (flow.tenants.size() != 1) continue;
    for (const TenantRule& rule : decisions_.tenants) {
      if (rule.tenant != flow.tenants.front()) continue;
      flow.paused = rule.paused;
      flow.rate_max = rule.rate_max;
      flow.weight = rule.weight;
    }
  }
}

void LogReader::SplitOff(std::size_t index, const std::vector<std::string>& tenants) {
  FlowSplit split{.lanes = flows_[index].lanes, .from = flows_[index].id, .from_ends = false, .into = {}};
  const auto make = [&](std::vector<std::string> of) {
    Flow made = flows_[index];
    made.id = FlowIdOf(of);
    made.tenants = std::move(of);
    made.excluded.clear();
    made.deficit = 0;
    split.into.push_back(FlowSpec{.id = made.id, .tenants = made.tenants});
    return made;
  };
  std::vector<Flow> made = {make(tenants)};
  if (flows_[index].id != kMainFlow) {
    std::vector<std::string> rest = flows_[index].tenants;
    std::erase_if(rest, [&](const std::string& tenant) { return Holds(tenants, tenant); });
    if (!rest.empty()) made.push_back(make(std::move(rest)));
    split.from_ends = true;
    flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(index));
  } else {
    std::vector<std::string>& excluded = flows_[index].excluded;
    excluded.insert(excluded.end(), tenants.begin(), tenants.end());
    std::sort(excluded.begin(), excluded.end());
  }
  flows_.insert(flows_.end(), made.begin(), made.end());
  queue_.Push(std::move(split));
}

void LogReader::FindCrowd(const Flow& flow, const Page& page, std::vector<std::string>& crowd) const {
  if (!options_.fair || SpansLanes(options_.order) || flow.id != kMainFlow || page.entries.empty() || !horizon_)
    return;
  if (horizon_->seq_high - page.entries.back().seq < options_.crowd_backlog) return;
  if (static_cast<std::size_t>(std::count_if(flows_.begin(), flows_.end(),
                                             [](const Flow& f) { return f.id != kMainFlow; })) >= kFlowsApartMax) {
    return;
  }
  // One event in 16 tells well enough who fills the page.
  std::map<std::string_view, std::size_t> counts;
  std::size_t looked = 0;
  for (std::size_t i = 0; i < page.entries.size(); i += 16, ++looked) ++counts[page.entries[i].event.tenant];
  for (const auto& [tenant, count] : counts) {
    if (!tenant.empty() && count * kCrowdShare >= looked) crowd.emplace_back(tenant);
  }
}

// Tenants with a weight of their own get a flow of their own; the rest of the crowd shares one.
void LogReader::SetApart(std::size_t index, const std::vector<std::string>& crowd) {
  LogInfo(
      "tenants with a long backlog run apart",
      {{"store", options_.store}, {"route", options_.route}, {"tenants", crowd.size()}, {"first", crowd.front()}});
  std::vector<std::string> rest;
  for (const std::string& tenant : crowd) {
    const bool weighed =
        std::any_of(decisions_.tenants.begin(), decisions_.tenants.end(),
                    [&](const TenantRule& rule) { return rule.tenant == tenant && rule.weight != 1; });
    if (weighed) {
      SplitOff(index, {tenant});
    } else {
      rest.push_back(tenant);
    }
  }
  if (!rest.empty()) SplitOff(index, rest);
  ApplyRules();
}

void LogReader::MergeFlows() {
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    for (std::size_t j = flows_.size(); j-- > i + 1;) {
      Flow& one = flows_[i];
      const Flow& other = flows_[j];
      if (one.id != other.id || !(one.at == other.at) || one.excluded != other.excluded) continue;
      one.lanes.insert(one.lanes.end(), other.lanes.begin(), other.lanes.end());
      one.numbers.insert(one.numbers.end(), other.numbers.begin(), other.numbers.end());
      one.caught_up = one.caught_up && other.caught_up;
      flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
  // A flow apart that has caught up is part of the main flow again, unless a rule keeps it apart.
  for (std::size_t i = flows_.size(); i-- > 0;) {
    const Flow flow = flows_[i];
    if (flow.id == kMainFlow || flow.paused || flow.probes || flow.rate_max > 0 || !flow.caught_up) continue;
    if (!Rejoin(flow)) continue;
    queue_.Push(FlowMerged{.lanes = flow.lanes, .flow = flow.id});
    std::erase_if(flows_, [&](const Flow& each) { return each.id == flow.id && each.at == flow.at; });
    i = std::min(i, flows_.size());
  }
}

// Gives the tenants of `flow` back to the main flow of its lanes, if that stands at the same position. Lanes of that
// main flow in which they are still apart become a main flow of their own.
bool LogReader::Rejoin(const Flow& flow) {
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    Flow& main = flows_[i];
    const auto in_flow = [&](Lane lane) {
      return std::find(flow.numbers.begin(), flow.numbers.end(), lane) != flow.numbers.end();
    };
    const auto shared = static_cast<std::size_t>(std::count_if(main.numbers.begin(), main.numbers.end(), in_flow));
    if (main.id != kMainFlow || !(main.at == flow.at) || shared != flow.numbers.size()) continue;
    if (shared < main.numbers.size()) {
      Flow rest = main;
      std::erase_if(rest.lanes, [&](const LaneLease& lease) { return in_flow(lease.lane); });
      std::erase_if(rest.numbers, in_flow);
      main.lanes = flow.lanes;
      main.numbers = flow.numbers;
      std::erase_if(main.excluded, [&](const std::string& tenant) { return Holds(flow.tenants, tenant); });
      flows_.push_back(std::move(rest));  // `main` is not valid after this
      return true;
    }
    std::erase_if(main.excluded, [&](const std::string& tenant) { return Holds(flow.tenants, tenant); });
    return true;
  }
  return false;
}

// ---- turns --------------------------------------------------------------------------------------

const LeaseBoard::FullTenant* LogReader::FullOf(const Flow& flow) const {
  if (flow.tenants.size() != 1) return nullptr;
  const auto full =
      std::find_if(full_.begin(), full_.end(), [&](const auto& one) { return one.tenant == flow.tenants.front(); });
  return full == full_.end() ? nullptr : &*full;
}

bool LogReader::MayRead(const Flow& flow) const {
  if (flow.caught_up || flow.paused) return false;
  if (const LeaseBoard::FullTenant* full = FullOf(flow); full != nullptr && flow.probes >= full->probes) return false;
  return flow.rate_max == 0 || flow.tokens >= 1;
}

bool LogReader::OthersWait() const {
  return others_at_ && clock_.SinceBoot() - *others_at_ < kOthersMemory;
}

std::size_t LogReader::BytesFor(const Flow& flow) const {
  const bool small = flow.id != kMainFlow && OthersWait();
  return small ? std::min(kApartBytes, options_.page_bytes) : options_.page_bytes;
}

LogReader::Flow* LogReader::NextFlow() {
  const BootTime now = clock_.SinceBoot();
  const double elapsed = std::chrono::duration<double>(now - tokens_at_).count();
  tokens_at_ = now;
  for (Flow& flow : flows_) {
    if (flow.rate_max == 0) continue;
    // The limit is for all relays together; this one has as much of it as it has of the lanes.
    const double share = static_cast<double>(flow.lanes.size()) / std::max(decisions_.lanes, 1);
    const double rate = static_cast<double>(flow.rate_max) * share;
    flow.tokens = std::min(flow.tokens + elapsed * rate, std::max(rate, 1.0));
  }
  // Deficit round robin: whoever has its turn gets a quantum by weight, and reads until it is used up.
  const auto quantum =
      static_cast<std::int64_t>(OthersWait() ? std::min(kApartBytes, options_.page_bytes) : options_.page_bytes);
  for (std::size_t tried = 0; tried < 2 * flows_.size(); ++tried) {
    turn_ %= flows_.size();
    Flow& flow = flows_[turn_];
    flow.deficit = std::min(flow.deficit, quantum * flow.weight);
    if (MayRead(flow) && flow.deficit > 0) return &flow;
    if (MayRead(flow)) {
      flow.deficit += quantum * flow.weight;
    } else {
      flow.deficit = 0;
    }
    ++turn_;
  }
  return nullptr;
}

Result<std::size_t> LogReader::ReadPage(OutboxLog& log, Flow& flow) {
  ReadRequest request{.lanes = flow.numbers,
                      .tenants = flow.id == kMainFlow ? flow.excluded : flow.tenants,
                      .all_but = flow.id == kMainFlow,
                      .from = &flow.at,
                      .horizon = &*horizon_,
                      .entries_max = options_.page_entries,
                      .bytes_max = BytesFor(flow)};
  if (flow.id != kMainFlow && OthersWait()) request.entries_max = std::min(kApartEntries, request.entries_max);
  if (flow.rate_max > 0) {
    request.entries_max = std::clamp<std::size_t>(static_cast<std::size_t>(flow.tokens), 1, request.entries_max);
  }
  const LeaseBoard::FullTenant* full = FullOf(flow);
  if (full != nullptr) request.entries_max = std::min(request.entries_max, full->size);
  SEALANE_ASSIGN_OR_RETURN(Page page, log.Read(request));
  if (full != nullptr && !page.entries.empty()) flow.probes = full->probes;
  CrashPoint("relay.read");
  flow.at = page.next;
  flow.caught_up = page.caught_up;
  const bool quiet = page.entries.empty() && flow.seq_high == horizon_->seq_high;
  flow.seq_high = horizon_->seq_high;
  if (flow.id == kMainFlow && !page.entries.empty()) others_at_ = clock_.SinceBoot();
  flow.deficit -= static_cast<std::int64_t>(page.bytes) + 1;
  // Reading in vain costs something too, or a turn would last for thousands of reads; but stretches grow fourfold,
  // and a few of them must lead a flow over what lies there of others.
  if (page.entries.empty()) flow.deficit -= static_cast<std::int64_t>(options_.page_bytes) / kVainReads;
  flow.tokens -= static_cast<double>(page.entries.size());
  std::vector<std::string> crowd;
  if (!page.caught_up) FindCrowd(flow, page, crowd);
  const std::size_t count = page.entries.size();
  budget_.Take(page.bytes);
  const auto index = static_cast<std::size_t>(&flow - flows_.data());
  queue_.Push(PageRead{
      .page = std::move(page), .flow = flow.id, .lanes = flow.lanes, .quiet = quiet, .store_boot = store_boot_});
  if (!crowd.empty()) SetApart(index, crowd);
  return count;
}

}  // namespace sealane
