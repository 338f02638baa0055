#include "inbox/worker.hpp"

#include <algorithm>
#include <utility>

#include "base/crash_point.hpp"
#include "base/log.hpp"
#include "inbox/partition_start.hpp"

namespace sealane {
namespace {

constexpr std::chrono::milliseconds kWaitMin{100};
constexpr std::chrono::milliseconds kWaitMax{5'000};
/// Between looks whether the consumer may work again.
constexpr std::chrono::milliseconds kHoldWait{100};
/// So many events without a death end the care.
constexpr std::int32_t kWellUntilCalm = 100;

/// Marks the runs of a batch as busy while it is being applied.
class Busy {
 public:
  explicit Busy(std::vector<PartitionRun*> runs) : runs_(std::move(runs)) {
    for (PartitionRun* run : runs_) ++run->busy;
  }
  ~Busy() {
    for (PartitionRun* run : runs_) --run->busy;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::vector<PartitionRun*> runs_;
};

}  // namespace

Worker::Worker(const ConsumerOptions& options, const Handling& handling, const ReadEnvelope& read,
               OpenInboxStore open, ConsumerCounters& counters, InFlight& in_flight, ConsumerGate& gate, Clock& clock,
               Random& random)
    : options_(options),
      read_(read),
      counters_(counters),
      in_flight_(in_flight),
      gate_(gate),
      clock_(clock),
      applier_(options, handling, std::move(open), counters, clock, random, &gate),
      queue_(options.mode == InboxMode::kOffsets) {}

void Worker::Push(std::shared_ptr<PartitionRun> run, ReceivedMessage message) {
  const std::size_t bytes = message.bytes();
  in_flight_.bytes += bytes;
  ++in_flight_.messages;
  {
    const std::lock_guard lock(mutex_);
    queue_.Push({std::move(run), std::move(message), bytes});
  }
  pushed_.notify_one();
}

std::size_t Worker::queued() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

bool Worker::Fits(const Job& job) const {
  if (held_.empty()) return true;
  if (held_.size() >= options_.batch_max) return false;
  const PartitionRun& first = *held_.front().run;
  if (first.careful() || job.run->careful()) return false;
  return options_.mode == InboxMode::kRecord || job.run.get() == &first;
}

void Worker::Take() {
  while (true) {
    Job job;
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty() || !Fits(queue_.front())) {
        if (!held_.empty()) queue_.EndTurn(held_.front().run.get());
        return;
      }
      job = queue_.Pop();
    }
    held_.push_back({std::move(job.run), job.bytes});
    events_.push_back(ReadIncoming(std::move(job.message), read_));
    const EventId& id = events_.back().id;
    const auto same = [&id](const Incoming& event) { return event.id == id; };
    if (std::any_of(events_.begin(), events_.end() - 1, same)) {
      // The same event twice in one transaction: the second one waits for the first to be committed.
      const std::lock_guard lock(mutex_);
      queue_.PushFront({std::move(held_.back().run), std::move(events_.back().message), held_.back().bytes});
      held_.pop_back();
      events_.pop_back();
      return;
    }
  }
}

void Worker::DropFront(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    // The last of each partition is what it is recognised by. Without receipts the move has brought it already.
    const auto same = [&](const Held& later) { return later.run == held_[i].run; };
    const bool last =
        options_.mode == InboxMode::kRecord && std::none_of(held_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                                            held_.begin() + static_cast<std::ptrdiff_t>(count), same);
    held_[i].run->Finish(events_[i].message.offset,
                         last ? std::optional(WitnessOf(events_[i].message)) : std::nullopt);
    in_flight_.bytes -= held_[i].bytes;
    --in_flight_.messages;
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(count));
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
}

void Worker::DropCancelled() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].run->cancelled()) {
      in_flight_.bytes -= held_[i].bytes;
      --in_flight_.messages;
      continue;
    }
    if (kept != i) {
      held_[kept] = std::move(held_[i]);
      events_[kept] = std::move(events_[i]);
    }
    ++kept;
  }
  held_.resize(kept);
  events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(kept), events_.end());
}

bool Worker::SupersedeOthers() {
  auto store = applier_.StoreOf(held_.front().run->life());
  if (!store) return false;
  const std::string life = (*store)->life();
  for (const Held& held : held_) {
    if (held.run->life() != life) held.run->Supersede(in_flight_.polls);
  }
  DropCancelled();
  return true;
}

void Worker::WaitLonger() {
  wait_ = std::clamp(wait_ * 2, kWaitMin, kWaitMax);
  wait_until_ = clock_.SinceBoot() + wait_;
}

Worker::StepResult Worker::Step() {
  if (clock_.SinceBoot() < wait_until_ && !held_.empty()) {
    DropCancelled();
    if (!held_.empty()) return StepResult::kWaits;
  }
  if (held_.empty()) Take();
  // Busy before the last look: whoever cancels a run and then sees it idle can be sure that nothing of it begins.
  std::vector<PartitionRun*> runs;
  for (const Held& held : held_) {
    if (std::ranges::find(runs, held.run.get()) == runs.end()) runs.push_back(held.run.get());
  }
  std::vector<std::shared_ptr<PartitionRun>> alive;
  for (const Held& held : held_) alive.push_back(held.run);
  const Busy busy(runs);
  DropCancelled();
  if (runs.empty()) {
    applier_.LetGo();
    return StepResult::kNothing;
  }
  if (!held_.empty() && !SupersedeOthers()) {
    WaitLonger();
    return StepResult::kWaits;
  }
  if (held_.empty()) return StepResult::kWorked;
  const ConsumerGate::Permit permit = gate_.Ask();
  if (permit == ConsumerGate::Permit::kHold) {
    wait_until_ = clock_.SinceBoot() + kHoldWait;
    return StepResult::kWaits;
  }
  std::size_t done = 0;
  const bool probe = permit == ConsumerGate::Permit::kProbe;
  const ApplyEnd end = held_.front().run->careful() ? ApplyCarefully(done, probe) : ApplyHeld(done, probe);
  CrashPoint("inbox.applied");
  DropFront(done);
  switch (end) {
    case ApplyEnd::kDone:
      wait_ = std::chrono::milliseconds{0};
      wait_until_ = BootTime{0};
      return StepResult::kWorked;
    case ApplyEnd::kFenced:
      if (!held_.empty()) held_.front().run->Supersede(in_flight_.polls);
      counters_.Update([](ConsumerStats& stats) { ++stats.fenced; });
      return StepResult::kWorked;
    case ApplyEnd::kCancelled:
      return StepResult::kWorked;
    case ApplyEnd::kTryLater:
      break;
  }
  if (!gate_.may_work()) {
    wait_until_ = clock_.SinceBoot() + kHoldWait;
    return StepResult::kWaits;
  }
  WaitLonger();
  return StepResult::kWaits;
}

ApplyEnd Worker::ApplyHeld(std::size_t& done, bool probe) {
  const std::span<const Incoming> events = events_;
  return applier_.Apply(probe ? events.first(1) : events, held_.front().run.get(), done, probe);
}

ApplyEnd Worker::ApplyCarefully(std::size_t& done, bool probe) {
  // Whatever ends it early has proved nothing.
  struct ProbeEnd {
    ConsumerGate* gate;
    ~ProbeEnd() {
      if (gate != nullptr) gate->EndProbe(ConsumerGate::ProbeResult::kProvedNothing);
    }
  } probe_end{probe ? &gate_ : nullptr};
  const std::lock_guard one_at_a_time(in_flight_.care);
  PartitionRun& run = *held_.front().run;
  const Incoming& event = events_.front();
  AttachedPartition& attached = run.attached();
  if (attached.suspect_offset == event.message.offset && attached.suspect_deaths >= options_.crash_budget) {
    const ApplyEnd end = applier_.Condemn(event, &run);
    if (end == ApplyEnd::kDone) {
      attached.suspect_offset.reset();
      done = 1;
    }
    return end;
  }
  auto store = applier_.Store();
  if (!store) return ApplyEnd::kTryLater;
  // What comes again before the suspect went well in the lives before. A note of it would wipe out what is counted
  // against the suspect, in each life anew, for as long as the broker was not told.
  const bool before_the_suspect = attached.suspect_offset && event.message.offset < *attached.suspect_offset;
  if (!before_the_suspect) {
    if (auto noted = (*store)->Suspect(attached, event.message.offset); !noted) {
      if (noted.error().kind() == ErrorKind::kFenced) return ApplyEnd::kFenced;
      applier_.Drop();
      return ApplyEnd::kTryLater;
    }
  }
  const std::uint64_t handled_before = applier_.handled();
  probe_end.gate = nullptr;
  const ApplyEnd end = applier_.Apply(events_, &run, done, probe);
  // An event that was known already proves nothing: no handler saw it.
  if (end != ApplyEnd::kDone || applier_.handled() == handled_before || ++run.went_well < kWellUntilCalm) return end;
  store = applier_.Store();
  if (store && (*store)->Calm(attached)) run.EndCare();
  return end;
}

void Worker::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    switch (Step()) {
      case StepResult::kWorked:
        break;
      case StepResult::kNothing: {
        std::unique_lock lock(mutex_);
        pushed_.wait(lock, stop, [this] { return !queue_.empty(); });
        break;
      }
      case StepResult::kWaits:
        clock_.SleepFor(std::min<std::chrono::nanoseconds>(std::chrono::milliseconds{50},
                                                           std::max(wait_until_ - clock_.SinceBoot(), BootTime{0})),
                        stop);
        break;
    }
  }
}

}  // namespace sealane
