#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "relay/work.hpp"

namespace sealane {

/// What remains of a page that is done while pages before it are not.
struct PageMark {
  Position next;
  bool has_entries = false;
  bool quiet = false;
  bool done = false;
};

/// A page on its way: how many of its entries have no verdict yet.
struct OpenPage {
  Page page;
  FlowId flow = kMainFlow;
  std::vector<LaneLease> lanes;
  std::vector<std::int64_t> epochs;     ///< by lane; -1: not one of this page
  std::size_t waiting = 0;              ///< entries that are neither published, filtered nor set aside
  std::size_t next_entry = 0;           ///< the first that was not looked at yet
  bool quiet = false;                   ///< as PageRead::quiet
  bool overtaken = false;               ///< pages of the main flow that come later may go out before
  std::shared_ptr<PageMark> mark = {};  ///< made by Ledger::Begin()
  Timestamp store_boot{};               ///< as PageRead::store_boot

  bool done() const { return waiting == 0; }
};

/// Which position each lane may be written down at. Pages finish in any order; a position moves over a page only when
/// it and every page before it in that flow of that lane are done, so nothing is ever skipped.
///
/// A flow that was set apart counts only from the moment when its parent's pages from before the split are done;
/// until then the parent's position, which includes its tenants, is the truth. A flow that merged is kept until both
/// sides have come to the meeting point. In between a crash repeats events, it never loses any.
///
/// Pure bookkeeping, no I/O; one thread.
class Ledger {
 public:
  void Open(const LaneOpened& opened);
  /// Forgets the lane, whatever is open.
  void Forget(LaneLease lease);
  void ForgetAll() { lanes_.clear(); }
  void BeginClosing(LaneLease lease);

  void Begin(OpenPage& page);
  void Split(const FlowSplit& split);
  void Merge(const FlowMerged& merged);
  /// `page` is done: moves what it held up.
  void Advance(OpenPage& page);

  bool Current(LaneLease lease) const;
  /// The lease of a lane that is open; empty for another.
  std::optional<LaneLease> LeaseOf(Lane lane) const;
  std::vector<LaneLease> leases() const;
  /// Of the lanes that nobody else waits for.
  std::vector<LaneLease> staying() const;
  /// Lanes that are closing and have nothing open, nor anything to write.
  std::vector<LaneLease> ReadyToRelease() const;
  /// Somebody waits for a lane of ours.
  bool closing() const;
  bool empty() const { return lanes_.empty(); }

  /// A position moved over events since the last MarkWritten(). Moves over nothing do not count: writing them down
  /// would itself be a commit that moves the next position, for ever.
  bool dirty() const { return dirty_; }
  /// Some position moved, over events or over what is not ours. Moves over nothing at all are not even kept for
  /// later: whoever starts before them has nothing to read there.
  bool moved() const { return moved_; }
  /// Everything that moved since the last MarkWritten().
  std::vector<SettleRequest::Progress> Progress() const;
  void MarkWritten();

 private:
  struct Marker;
  struct Item {  // a page or a marker
    std::shared_ptr<PageMark> page = {};
    std::shared_ptr<Marker> marker = {};
  };
  struct Flow {
    FlowId id = kMainFlow;
    std::vector<std::string> tenants;
    Position settled;
    std::deque<Item> items;
    bool established = true;
  };
  struct LaneBook {
    LaneLease lease;
    std::vector<Flow> flows;  // main first
    bool closing = false;
    bool moved = false;
  };
  struct Marker {
    // A split: these flows start where this one stands. One that is still there, because the merge before is not
    // over, waits at its gate.
    std::vector<std::pair<FlowId, std::shared_ptr<Marker>>> begins;
    bool from_ends = false;
    // A merge: this flow ends when both sides have come here.
    FlowId ends = kMainFlow;
    int reached = 0;
    // A gate.
    bool is_gate = false;
    bool is_open = false;
    Position start;
  };

  LaneBook* Find(LaneLease lease);
  const LaneBook* Find(LaneLease lease) const;
  static Flow* FlowOf(LaneBook& lane, FlowId id);
  void AdvanceFlow(LaneBook& lane, FlowId id);

  std::vector<LaneBook> lanes_;  // by lane number
  bool dirty_ = false;
  bool moved_ = false;
};

}  // namespace sealane
