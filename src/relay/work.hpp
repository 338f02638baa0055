#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "outbox/outbox_log.hpp"

namespace sealane {

/// A run through a lane on a position of its own: the main flow carries every tenant that has no flow apart.
using FlowId = std::uint64_t;
inline constexpr FlowId kMainFlow = 0;

// While the main flow has events, and for so long after the last one, tenants that run apart take little at a time:
// that is what the others wait for.
inline constexpr std::chrono::milliseconds kOthersMemory{500};
inline constexpr std::size_t kApartEntries = 2'000;      // in a page, and on their way
inline constexpr std::size_t kApartBytes = 1024 * 1024;  // in a page

/// The same tenants make the same flow, whoever set them apart and whenever.
FlowId FlowIdOf(const std::vector<std::string>& tenants);

struct FlowSpec {
  FlowId id = kMainFlow;
  std::vector<std::string> tenants;
};

/// A lane begins; everything before it in the queue belongs to others or to an earlier epoch.
struct LaneOpened {
  LaneLease lease;
  LanePositions positions;
};
/// No page of this lane follows: it is released once the pages before are done.
struct LaneClosing {
  LaneLease lease;
};
/// From here on `into` are flows of their own; with `from_ends` nothing is left of `from`.
struct FlowSplit {
  std::vector<LaneLease> lanes;
  FlowId from = kMainFlow;
  bool from_ends = false;
  std::vector<FlowSpec> into;
};
/// The flow has reached the main flow's position and continues as part of it.
struct FlowMerged {
  std::vector<LaneLease> lanes;
  FlowId flow = kMainFlow;
};
struct PageRead {
  Page page;
  FlowId flow = kMainFlow;
  std::vector<LaneLease> lanes;
  bool quiet = false;      ///< nothing was appended since the flow's page before, in no lane
  Timestamp store_boot{};  ///< what the store's clock said, less the time since boot then: the store's time is this
                           ///< and the time since boot
};

/// What the reader tells the publishing loop, in the order in which it happened.
using Work = std::variant<LaneOpened, LaneClosing, FlowSplit, FlowMerged, PageRead>;

/// Between the two loops. Its size is bounded by the MemoryBudget that the reader asks before it reads. Thread-safe.
class WorkQueue {
 public:
  explicit WorkQueue(std::function<void()> on_push) : on_push_(std::move(on_push)) {}

  void Push(Work work) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(work));
    }
    if (on_push_) on_push_();
  }
  std::optional<Work> TryPop() {
    const std::lock_guard lock(mutex_);
    if (items_.empty()) return std::nullopt;
    std::optional<Work> first(std::move(items_.front()));
    items_.pop_front();
    return first;
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return items_.empty();
  }

 private:
  const std::function<void()> on_push_;
  mutable std::mutex mutex_;
  std::deque<Work> items_;
};

/// Bytes of pages in memory. Thread-safe.
class MemoryBudget {
 public:
  MemoryBudget(std::size_t max, std::function<void()> on_release) : max_(max), on_release_(std::move(on_release)) {}

  /// Whoever is refused is told by `on_release` when something was given back.
  bool HasRoomFor(std::size_t bytes) {
    const auto fits = [&] { return used() == 0 || used() + bytes <= max_; };
    if (fits()) return true;
    refused_.store(true, std::memory_order_seq_cst);
    return fits();  // something may have been given back in between
  }
  void Take(std::size_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void Release(std::size_t bytes) {
    used_.fetch_sub(bytes, std::memory_order_seq_cst);
    if (refused_.exchange(false, std::memory_order_seq_cst) && on_release_) on_release_();
  }
  std::size_t used() const { return used_.load(std::memory_order_seq_cst); }

 private:
  const std::size_t max_;
  const std::function<void()> on_release_;
  std::atomic<std::size_t> used_{0};
  std::atomic<bool> refused_{false};
};

}  // namespace sealane
