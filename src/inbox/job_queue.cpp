#include "inbox/job_queue.hpp"

#include <utility>

namespace sealane {

void JobQueue::Push(Job job) {
  const PartitionRun* const line = LineOf(job.run.get());
  const auto [place, is_new] = lines_.try_emplace(line);
  if (is_new) turns_.push_back(line);
  place->second.push_back(std::move(job));
  ++size_;
}

void JobQueue::PushFront(Job job) {
  const PartitionRun* const line = LineOf(job.run.get());
  const auto [place, is_new] = lines_.try_emplace(line);
  if (is_new) turns_.push_front(line);
  place->second.push_front(std::move(job));
  ++size_;
}

Job JobQueue::Pop() {
  const auto place = lines_.find(turns_.front());
  Job job = std::move(place->second.front());
  place->second.pop_front();
  --size_;
  if (place->second.empty()) {
    lines_.erase(place);
    turns_.pop_front();
  }
  return job;
}

void JobQueue::EndTurn(const PartitionRun* partition) {
  if (turns_.size() < 2 || turns_.front() != LineOf(partition)) return;
  turns_.push_back(turns_.front());
  turns_.pop_front();
}

}  // namespace sealane
