#include "tasks/task_dispatcher.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "tasks/task_worker.hpp"

namespace sealane {
namespace {

using std::chrono::milliseconds;

/// What waits is counted this often, so that those who watch see it grow.
constexpr milliseconds kCountInterval{5'000};

/// Wakes a sleeper before its time, also when it has not fallen asleep yet.
class Nudge {
 public:
  /// To sleep on. What happens from now on ends that sleep.
  std::stop_token Arm() {
    const std::lock_guard lock(mutex_);
    source_ = std::stop_source();
    return source_.get_token();
  }
  void Give() {
    std::stop_source source(std::nostopstate);
    {
      const std::lock_guard lock(mutex_);
      source = source_;
    }
    source.request_stop();
  }

 private:
  std::mutex mutex_;
  std::stop_source source_;  // guarded by mutex_
};

}  // namespace

/// Workers take turns at looking for a task: one looks and waits, the others work or wait for their turn. So an idle
/// dispatcher asks its store once at a time, however many workers it has.
class TaskDispatcher::Impl {
 public:
  Impl(TaskDispatcherOptions options, TaskTargets targets, OpenTaskStore open_store, const Outbox& outbox,
       Clock& clock, Random& random)
      : place_{.options = std::move(options),
               .targets = std::move(targets),
               .open_store = std::move(open_store),
               .outbox = outbox,
               .clock = clock,
               .random = random},
        hand_(place_) {
    milliseconds longest{0};
    for (const auto& [name, target] : place_.targets) {
      SEALANE_ASSERT(target.executor != nullptr, "a target has an executor");
      place_.names.push_back(name);
      longest = std::max(longest, target.executor->time_limit());
    }
    place_.lease = longest + place_.options.lease_margin;
  }

  Result<TaskDispatchReport> RunOnce() {
    auto report = TryRunOnce();
    if (!report) place_.board.Problem(report.error());
    return report;
  }

  Status Run(std::stop_token stop, bool until_drained) {
    if (place_.names.empty()) {
      return Error(ErrorKind::kMisconfigured, "no_targets", "there is no target to carry out tasks for")
          .WithHint("configure a target");
    }
    std::stop_source end;
    const std::stop_callback stopped(stop, [&] { end.request_stop(); });
    const std::stop_callback ended(end.get_token(), [&] { nudge_.Give(); });
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < std::max<std::size_t>(place_.options.workers, 1); ++i) {
      workers.emplace_back([&] { Work(end, until_drained); });
    }
    workers.clear();
    return Ok();
  }

  TaskDispatcherStats stats() const { return place_.board.stats(); }

 private:
  Result<TaskDispatchReport> TryRunOnce() {
    TaskDispatchReport report;
    if (owed_) SEALANE_RETURN_IF_ERROR(PayOwed(report));
    SEALANE_RETURN_IF_ERROR(TendWhenDue(hand_));
    SEALANE_ASSIGN_OR_RETURN(auto held, hand_.Claim());
    if (!held) return report;
    ++report.claimed;
    place_.board.Began();
    owed_ = hand_.CarryOut(*std::move(held), std::stop_token());
    place_.board.Left();
    SEALANE_RETURN_IF_ERROR(PayOwed(report));
    return report;
  }

  /// Writes down what RunOnce() could not write the last time.
  Status PayOwed(TaskDispatchReport& report) {
    Status written = hand_.WriteDown(*owed_);
    if (!written && TaskWorker::MayPass(written.error())) return written;
    owed_.reset();
    if (written) ++report.finished;
    return written;
  }

  void Work(std::stop_source& end, bool until_drained) {
    TaskWorker worker(place_);
    while (auto held = Look(worker, end, until_drained)) {
      EndedAttempt attempt = worker.CarryOut(*std::move(held), end.get_token());
      Deliver(worker, attempt, end.get_token());
      place_.board.Left();
      // One with the same order key may be due now.
      nudge_.Give();
    }
  }

  /// Waits for a task; empty: it is time to end.
  std::optional<HeldTask> Look(TaskWorker& worker, std::stop_source& end, bool until_drained) {
    const std::lock_guard turn(turn_);
    milliseconds idle = place_.options.idle_min;
    while (true) {
      const std::stop_token nudge = nudge_.Arm();
      if (end.stop_requested()) return std::nullopt;
      // Asked before the claim: what ends after it may have made another one due.
      const bool alone = place_.board.under_way() == 0;
      const auto found = LookOnce(worker);
      if (!found) {
        HoldOn(found.error(), end.get_token());
        continue;
      }
      if (*found) return **found;
      if (until_drained && alone) {
        end.request_stop();
        return std::nullopt;
      }
      const auto wait = WaitFor(worker, idle);
      if (!wait) {
        HoldOn(wait.error(), end.get_token());
        continue;
      }
      const bool in_peace = place_.clock.SleepFor(*wait, nudge);
      idle = in_peace ? std::min(idle * 2, place_.options.idle_max) : place_.options.idle_min;
    }
  }

  Result<std::optional<HeldTask>> LookOnce(TaskWorker& worker) {
    SEALANE_RETURN_IF_ERROR(TendWhenDue(worker));
    SEALANE_ASSIGN_OR_RETURN(auto held, worker.Claim());
    if (held) place_.board.Began();
    return held;
  }

  /// Not longer than until something is due. Something that is due and was not claimed is in somebody else's hands.
  Result<milliseconds> WaitFor(TaskWorker& worker, milliseconds idle) {
    SEALANE_ASSIGN_OR_RETURN(const auto next, worker.NextDue());
    if (!next) return idle;
    return *next <= milliseconds{0} ? place_.options.idle_min : std::min(idle, *next);
  }

  /// What fails is tried again at its next time; tasks do not wait for it.
  Status TendWhenDue(TaskWorker& worker) {
    const BootTime now = place_.clock.SinceBoot();
    if (!next_count_ || now >= *next_count_) {
      const Status counted = worker.Count();
      // From its end on: where counting takes long, tasks come first nevertheless.
      next_count_ = place_.clock.SinceBoot() + std::min(place_.options.tend_interval, kCountInterval);
      SEALANE_RETURN_IF_ERROR(counted);
    }
    if (next_prune_ && now < *next_prune_) return Ok();
    next_prune_ = now + place_.options.tend_interval;
    SEALANE_ASSIGN_OR_RETURN(const bool more, worker.Prune());
    if (more) next_prune_ = now;
    return Ok();
  }

  void HoldOn(const Error& error, std::stop_token stop) {
    place_.board.Problem(error);
    LogWarning("tasks cannot be looked for", {{"code", error.code()}, {"error", error.ToString()}});
    const bool collided = error.kind() == ErrorKind::kConflict;
    place_.clock.SleepFor(collided ? place_.options.idle_min : place_.options.outage_retry, std::move(stop));
  }

  /// Tries until the end of the attempt is written. While the dispatcher is to stop, not longer than the lease lasts:
  /// then others may have the task anyway.
  void Deliver(TaskWorker& worker, EndedAttempt& attempt, std::stop_token stop) {
    while (true) {
      const Status written = worker.WriteDown(attempt);
      if (written) return;
      const Error& error = written.error();
      place_.board.Problem(error);
      const bool over = stop.stop_requested() && place_.clock.SinceBoot() >= attempt.held.lease_until;
      const bool given_up = over || !TaskWorker::MayPass(error);
      LogWarning(given_up ? "the end of an attempt could not be written" : "the end of an attempt is not written yet",
                 {{"task", attempt.held.task.id.ToString()},
                  {"attempt", attempt.held.task.attempt},
                  {"code", error.code()},
                  {"error", error.ToString()}});
      if (given_up) return;
      const bool collided = error.kind() == ErrorKind::kConflict;
      // Not cut short by a stop, which would make this loop run hot.
      place_.clock.SleepFor(collided ? place_.options.idle_min : place_.options.outage_retry, std::stop_token());
    }
  }

  TaskWorkplace place_;
  TaskWorker hand_;                     // of RunOnce()
  std::optional<EndedAttempt> owed_;    // what RunOnce() could not write
  std::mutex turn_;                     // whoever has it looks for a task
  std::optional<BootTime> next_count_;  // guarded by turn_ in Run(), as is next_prune_
  std::optional<BootTime> next_prune_;
  Nudge nudge_;
};

TaskDispatcher::TaskDispatcher(TaskDispatcherOptions options, TaskTargets targets, OpenTaskStore open_store,
                               const Outbox& outbox, Clock& clock, Random& random)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(targets), std::move(open_store), outbox, clock,
                                   random)) {}

TaskDispatcher::~TaskDispatcher() = default;

Result<TaskDispatchReport> TaskDispatcher::RunOnce() {
  return impl_->RunOnce();
}

Status TaskDispatcher::Run(std::stop_token stop, bool until_drained) {
  return impl_->Run(std::move(stop), until_drained);
}

TaskDispatcherStats TaskDispatcher::stats() const {
  return impl_->stats();
}

}  // namespace sealane
