#include "inbox/position_saver.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/crash_point.hpp"

namespace sealane {
namespace {

/// Between comparisons of positions that do not move: until then an idle consumer says that all is well.
constexpr std::chrono::seconds kCompareEvery{2};

}  // namespace

PositionSaver::PositionSaver(const ConsumerOptions& options, const Handling& handling, OpenInboxStore open,
                             ConsumerCounters& counters, InFlight& in_flight, Clock& clock, Random& random)
    : options_(options),
      in_flight_(in_flight),
      clock_(clock),
      connection_(options, handling, std::move(open), counters, clock, random) {}

void PositionSaver::Watch(const std::map<Partition, std::shared_ptr<PartitionRun>>& runs) {
  const std::lock_guard lock(mutex_);
  runs_.clear();
  for (const auto& [partition, run] : runs) runs_.push_back(run);
}

void PositionSaver::RunOnce() {
  Runs runs;
  {
    const std::lock_guard lock(mutex_);
    runs = runs_;
  }
  std::erase_if(runs, [](const auto& run) { return run->cancelled(); });
  if (runs.empty()) return connection_.Rest();
  const BootTime now = clock_.SinceBoot();
  const bool compare = now >= compare_at_;
  if (Save(connection_, runs, compare) && compare) compare_at_ = now + kCompareEvery;
}

void PositionSaver::SaveThrough(Applier& connection, const Runs& runs) {
  Runs counting = runs;
  std::erase_if(counting, [](const auto& run) { return run->superseded_after().has_value(); });
  (void)Save(connection, counting, false);
}

PositionSave PositionSaver::StepOf(const PartitionRun& run) const {
  if (options_.mode == InboxMode::kRecord) return run.NextSave();
  // Without receipts every batch moves it.
  const std::int64_t position = run.position();
  return {.partition = run.partition(), .epoch = run.epoch(), .from = position, .to = position};
}

bool PositionSaver::Save(Applier& connection, const Runs& runs, bool compare) {
  std::vector<PositionSave> saves;
  Runs saving;
  for (const auto& run : runs) {
    PositionSave save = StepOf(*run);
    if (save.to == *save.from && !compare) continue;
    saves.push_back(std::move(save));
    saving.push_back(run);
  }
  if (saves.empty()) return true;
  auto store = connection.StoreOf(saving.front()->life());
  if (!store) return false;
  bool same_life = true;
  for (const auto& run : saving) {
    if (run->life() == (*store)->life()) continue;
    run->Supersede(in_flight_.polls);
    same_life = false;
  }
  if (!same_life) return true;
  CrashPoint("inbox.before_save");
  auto differing = (*store)->SavePositions(saves);
  if (!differing) {
    connection.Drop();
    return false;
  }
  CrashPoint("inbox.saved");
  for (std::size_t i = 0; i < saves.size(); ++i) {
    if (std::ranges::find(*differing, i) == differing->end()) {
      saving[i]->Saved(saves[i]);
    } else if (options_.mode == InboxMode::kRecord || saving[i]->position() == *saves[i].from) {
      // Without receipts a batch may have moved it while we compared; that one is fenced if it must be.
      saving[i]->Supersede(in_flight_.polls);
    }
  }
  return true;
}

}  // namespace sealane
