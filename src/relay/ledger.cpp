#include "relay/ledger.hpp"

#include <algorithm>

#include "sealane/assert.hpp"

namespace sealane {

FlowId FlowIdOf(const std::vector<std::string>& tenants) {
  if (tenants.empty()) return kMainFlow;
  // FNV-1a over the names and their lengths; a collision of two tenant sets in one lane would have to hit 64 bits.
  FlowId hash = 14695981039346656037ULL;
  const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 1099511628211ULL; };
  for (const std::string& tenant : tenants) {
    for (const char c : tenant) add(static_cast<unsigned char>(c));
    add(0xff);  // not a byte of UTF-8
  }
  return hash == kMainFlow ? 1 : hash;
}

void Ledger::Open(const LaneOpened& opened) {
  std::erase_if(lanes_, [&](const LaneBook& lane) { return lane.lease.lane == opened.lease.lane; });
  LaneBook book{.lease = opened.lease, .flows = {}};
  book.flows.push_back(Flow{.id = kMainFlow, .tenants = {}, .settled = opened.positions.main, .items = {}});
  for (const ApartFlow& apart : opened.positions.apart) {
    book.flows.push_back(
        Flow{.id = FlowIdOf(apart.tenants), .tenants = apart.tenants, .settled = apart.position, .items = {}});
  }
  const auto place = std::lower_bound(lanes_.begin(), lanes_.end(), opened.lease.lane,
                                      [](const LaneBook& lane, Lane number) { return lane.lease.lane < number; });
  lanes_.insert(place, std::move(book));
}

Ledger::LaneBook* Ledger::Find(LaneLease lease) {
  return const_cast<LaneBook*>(std::as_const(*this).Find(lease));
}

const Ledger::LaneBook* Ledger::Find(LaneLease lease) const {
  const auto place = std::lower_bound(lanes_.begin(), lanes_.end(), lease.lane,
                                      [](const LaneBook& lane, Lane number) { return lane.lease.lane < number; });
  return place != lanes_.end() && place->lease == lease ? &*place : nullptr;
}

Ledger::Flow* Ledger::FlowOf(LaneBook& lane, FlowId id) {
  const auto found =
      std::find_if(lane.flows.begin(), lane.flows.end(), [&](const Flow& flow) { return flow.id == id; });
  return found == lane.flows.end() ? nullptr : &*found;
}

void Ledger::Forget(LaneLease lease) {
  std::erase_if(lanes_, [&](const LaneBook& lane) { return lane.lease == lease; });
}

void Ledger::BeginClosing(LaneLease lease) {
  if (LaneBook* lane = Find(lease)) lane->closing = true;
}

void Ledger::Begin(OpenPage& page) {
  page.mark = std::make_shared<PageMark>(PageMark{
      .next = page.page.next, .has_entries = !page.page.entries.empty(), .quiet = page.quiet, .done = false});
  for (const LaneLease& lease : page.lanes) {
    LaneBook* lane = Find(lease);
    if (lane == nullptr) continue;
    Flow* flow = FlowOf(*lane, page.flow);
    SEALANE_ASSERT(flow != nullptr, "a page belongs to a flow that was announced");
    flow->items.push_back(Item{.page = page.mark});
  }
  if (page.done()) Advance(page);
}

void Ledger::Split(const FlowSplit& split) {
  for (const LaneLease& lease : split.lanes) {
    LaneBook* lane = Find(lease);
    if (lane == nullptr) continue;
    auto marker = std::make_shared<Marker>();
    marker->from_ends = split.from_ends;
    for (const FlowSpec& spec : split.into) {
      std::shared_ptr<Marker> gate;
      if (Flow* ending = FlowOf(*lane, spec.id)) {
        gate = std::make_shared<Marker>();
        gate->is_gate = true;
        ending->items.push_back(Item{.page = {}, .marker = gate});
      } else {
        lane->flows.push_back(
            Flow{.id = spec.id, .tenants = spec.tenants, .settled = {}, .items = {}, .established = false});
      }
      marker->begins.emplace_back(spec.id, std::move(gate));
    }
    Flow* from = FlowOf(*lane, split.from);
    SEALANE_ASSERT(from != nullptr, "what is split is there");
    from->items.push_back(Item{.page = {}, .marker = std::move(marker)});
    AdvanceFlow(*lane, split.from);
  }
}

void Ledger::Merge(const FlowMerged& merged) {
  for (const LaneLease& lease : merged.lanes) {
    LaneBook* lane = Find(lease);
    if (lane == nullptr) continue;
    auto marker = std::make_shared<Marker>();
    marker->ends = merged.flow;
    for (const FlowId id : {merged.flow, kMainFlow}) {
      Flow* flow = FlowOf(*lane, id);
      SEALANE_ASSERT(flow != nullptr, "what is merged is there");
      flow->items.push_back(Item{.page = {}, .marker = marker});
    }
    AdvanceFlow(*lane, merged.flow);
    AdvanceFlow(*lane, kMainFlow);
  }
}

void Ledger::Advance(OpenPage& page) {
  page.mark->done = true;
  for (const LaneLease& lease : page.lanes) {
    if (LaneBook* lane = Find(lease)) AdvanceFlow(*lane, page.flow);
  }
}

void Ledger::AdvanceFlow(LaneBook& lane, FlowId id) {
  // Looked up again after every step, because markers add and remove flows.
  for (Flow* flow = FlowOf(lane, id); flow != nullptr && flow->established && !flow->items.empty();
       flow = FlowOf(lane, id)) {
    const Item item = flow->items.front();
    if (item.page != nullptr) {
      if (!item.page->done) return;
      flow->settled = item.page->next;
      flow->items.pop_front();
      if (!item.page->quiet) lane.moved = moved_ = true;
      dirty_ = dirty_ || item.page->has_entries;
      continue;
    }
    Marker& marker = *item.marker;
    if (marker.is_gate && !marker.is_open) return;
    flow->items.pop_front();
    lane.moved = moved_ = dirty_ = true;
    if (marker.is_gate) {
      flow->settled = marker.start;
    } else if (!marker.begins.empty()) {
      const Position start = flow->settled;
      if (marker.from_ends) std::erase_if(lane.flows, [&](const Flow& each) { return each.id == id; });
      for (const auto& [begun, gate] : marker.begins) {
        if (gate != nullptr) {
          gate->is_open = true;
          gate->start = start;
        } else {
          Flow* child = FlowOf(lane, begun);
          child->settled = start;
          child->established = true;
        }
        AdvanceFlow(lane, begun);
      }
    } else if (++marker.reached == 2) {
      std::erase_if(lane.flows, [&](const Flow& each) { return each.id == marker.ends && each.items.empty(); });
    }
  }
}

bool Ledger::Current(LaneLease lease) const {
  return Find(lease) != nullptr;
}

std::optional<LaneLease> Ledger::LeaseOf(Lane lane) const {
  for (const LaneBook& book : lanes_) {
    if (book.lease.lane == lane) return book.lease;
  }
  return std::nullopt;
}

std::vector<LaneLease> Ledger::leases() const {
  std::vector<LaneLease> all;
  all.reserve(lanes_.size());
  for (const LaneBook& lane : lanes_) all.push_back(lane.lease);
  return all;
}

std::vector<LaneLease> Ledger::staying() const {
  std::vector<LaneLease> leases;
  for (const LaneBook& lane : lanes_) {
    if (!lane.closing) leases.push_back(lane.lease);
  }
  return leases;
}

std::vector<LaneLease> Ledger::ReadyToRelease() const {
  std::vector<LaneLease> ready;
  for (const LaneBook& lane : lanes_) {
    const bool quiet =
        std::all_of(lane.flows.begin(), lane.flows.end(), [](const Flow& f) { return f.items.empty(); });
    if (lane.closing && quiet && !lane.moved) ready.push_back(lane.lease);
  }
  return ready;
}

bool Ledger::closing() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const LaneBook& lane) { return lane.closing; });
}

std::vector<SettleRequest::Progress> Ledger::Progress() const {
  std::vector<SettleRequest::Progress> progress;
  for (const LaneBook& lane : lanes_) {
    if (!lane.moved) continue;
    SettleRequest::Progress one{.lease = lane.lease, .positions = {.main = lane.flows.front().settled}};
    for (const Flow& flow : lane.flows) {
      if (flow.id != kMainFlow && flow.established) {
        one.positions.apart.push_back(ApartFlow{.tenants = flow.tenants, .position = flow.settled});
      }
    }
    // What is at the front is being published: the view calls it so.
    if (const auto& items = lane.flows.front().items; !items.empty() && items.front().page != nullptr) {
      const Position& next = items.front().page->next;
      one.window = next.window.empty() ? next.cursor : next.window;
    }
    progress.push_back(std::move(one));
  }
  return progress;
}

void Ledger::MarkWritten() {
  for (LaneBook& lane : lanes_) lane.moved = false;
  dirty_ = moved_ = false;
}

}  // namespace sealane
