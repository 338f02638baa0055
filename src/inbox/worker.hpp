#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "inbox/applier.hpp"
#include "inbox/job_queue.hpp"
#include "inbox/partition_run.hpp"

namespace sealane {

/// What was read and is not done, over all workers.
struct InFlight {
  std::atomic<std::size_t> messages = 0;
  std::atomic<std::size_t> bytes = 0;
  /// How often the broker was asked, and what it said about partitions was heeded.
  std::atomic<std::uint64_t> polls = 0;
  /// Held while an event is handled carefully. With two at once an innocent one would be noted as what the process
  /// died at.
  std::mutex care;
};

/// Applies the messages of its keys (or partitions) in the order they were pushed, a batch at a time. What the store
/// does not take now stays and is tried again, so that nothing overtakes.
///
/// Push() may be called from any thread; one thread steps.
class Worker {
 public:
  Worker(const ConsumerOptions& options, const Handling& handling, const ReadEnvelope& read, OpenInboxStore open,
         ConsumerCounters& counters, InFlight& in_flight, ConsumerGate& gate, Clock& clock, Random& random);

  void Push(std::shared_ptr<PartitionRun> run, ReceivedMessage message);

  enum class StepResult : std::uint8_t {
    kWorked,
    kNothing,  ///< the queue is empty
    kWaits,    ///< the store did not take it: not before wait_until()
  };
  StepResult Step();
  BootTime wait_until() const { return wait_until_; }

  /// Steps until a stop is requested.
  void Run(std::stop_token stop);
  std::size_t queued() const;

 private:
  struct Held {
    std::shared_ptr<PartitionRun> run;
    std::size_t bytes = 0;
  };

  void Take();
  bool Fits(const Job& job) const;
  void DropCancelled();
  void DropFront(std::size_t count);
  /// Gives up what was read in another life of the store: effects before it may be missing there. False while the
  /// store cannot be reached.
  bool SupersedeOthers();
  ApplyEnd ApplyHeld(std::size_t& done, bool probe);
  ApplyEnd ApplyCarefully(std::size_t& done, bool probe);
  void WaitLonger();

  const ConsumerOptions& options_;
  const ReadEnvelope& read_;
  ConsumerCounters& counters_;
  InFlight& in_flight_;
  ConsumerGate& gate_;
  Clock& clock_;
  Applier applier_;
  // The batch in hand: `events_[i]` came through `held_[i]`.
  std::vector<Incoming> events_;
  std::vector<Held> held_;
  BootTime wait_until_{0};
  std::chrono::milliseconds wait_{0};

  mutable std::mutex mutex_;
  std::condition_variable_any pushed_;
  JobQueue queue_;  // guarded by mutex_
};

}  // namespace sealane
