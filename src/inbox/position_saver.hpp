#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "inbox/applier.hpp"
#include "inbox/partition_run.hpp"
#include "inbox/worker.hpp"

namespace sealane {

/// Keeps the positions in the store and those of a consumer together. With receipts it writes down how far the
/// consumer is. In both modes it notices that the store went back or that an operator moved a position, also while
/// nothing comes: such a run is superseded.
///
/// RunOnce() is for one thread, which has a connection of its own here; the rest for the thread that polls.
class PositionSaver {
 public:
  PositionSaver(const ConsumerOptions& options, const Handling& handling, OpenInboxStore open,
                ConsumerCounters& counters, InFlight& in_flight, Clock& clock, Random& random);

  /// What RunOnce() looks after from now on.
  void Watch(const std::map<Partition, std::shared_ptr<PartitionRun>>& runs);
  void RunOnce();

  /// Saves runs that end, through a connection of the caller.
  void SaveThrough(Applier& connection, const std::vector<std::shared_ptr<PartitionRun>>& runs);

 private:
  using Runs = std::vector<std::shared_ptr<PartitionRun>>;

  PositionSave StepOf(const PartitionRun& run) const;
  /// False when nothing could be compared.
  bool Save(Applier& connection, const Runs& runs, bool compare);

  const ConsumerOptions& options_;
  InFlight& in_flight_;
  Clock& clock_;
  Applier connection_;
  BootTime compare_at_{0};
  std::mutex mutex_;
  Runs runs_;  // guarded by mutex_
};

}  // namespace sealane
