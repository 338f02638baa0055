#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>

#include "inbox/partition_run.hpp"

namespace sealane {

/// A message on its way to a transaction.
struct Job {
  std::shared_ptr<PartitionRun> run;
  ReceivedMessage message;
  std::size_t bytes = 0;
};

/// Messages that wait for a worker. By partition: each one has its own line and they take turns, so that a
/// transaction that may hold one partition only finds its messages together even when they came mixed. Otherwise
/// there is one line for all. Within a line the order stays.
class JobQueue {
 public:
  explicit JobQueue(bool by_partition) : by_partition_(by_partition) {}

  bool empty() const { return turns_.empty(); }
  std::size_t size() const { return size_; }

  void Push(Job job);
  /// Takes one back: it comes next.
  void PushFront(Job job);
  /// The next one; not when it is empty.
  const Job& front() const { return lines_.at(turns_.front()).front(); }
  Job Pop();
  /// The next one is of another line, if there is one and this partition's line is at its turn.
  void EndTurn(const PartitionRun* partition);

 private:
  const PartitionRun* LineOf(const PartitionRun* run) const { return by_partition_ ? run : nullptr; }

  const bool by_partition_;
  std::map<const PartitionRun*, std::deque<Job>> lines_;  // none is empty
  std::deque<const PartitionRun*> turns_;                 // each line once, the next one first
  std::size_t size_ = 0;
};

}  // namespace sealane
