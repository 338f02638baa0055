#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sealane::kafka {

/// Which partitions of a topic have persisted something of this producer.
///
/// A broker that knows nothing of a producer takes any sequence number for the first. When two batches are under way
/// and the first is turned away, because a leader has just changed, the second is taken, the first can never be, and
/// librdkafka reports both as persisted: one is lost. So the first message to a partition goes alone, and the others
/// for it wait until it is persisted.
class PartitionWarmth {
 public:
  /// All partitions are new to the producer. 0 when their number is not known: then nothing waits.
  void Reset(std::size_t partitions) {
    states_.assign(partitions, State::kCold);
    not_warm_ = partitions;
  }
  std::size_t partitions() const { return states_.size(); }
  bool AllWarm() const { return not_warm_ == 0; }

  bool IsWarming(std::size_t partition) const {
    return partition < states_.size() && states_[partition] == State::kWarming;
  }
  void OnSent(std::size_t partition) {
    if (partition < states_.size() && states_[partition] == State::kCold) states_[partition] = State::kWarming;
  }
  void OnPersisted(std::size_t partition) {
    if (partition >= states_.size() || states_[partition] == State::kWarm) return;
    states_[partition] = State::kWarm;
    --not_warm_;
  }
  void OnFailed(std::size_t partition) {
    if (IsWarming(partition)) states_[partition] = State::kCold;
  }

 private:
  enum class State : std::uint8_t { kCold, kWarming, kWarm };
  std::vector<State> states_;
  std::size_t not_warm_ = 0;
};

}  // namespace sealane::kafka
