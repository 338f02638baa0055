#include "tasks/task_dispatcher.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
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
/// Counting a large store takes at most one part in so many of the time.
constexpr int kCountRest = 200;
/// Tasks of one claim, so that none waits long behind the others of its transaction.
constexpr std::size_t kClaimMax = 64;

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

/// One thread, the caller's of Run(), looks for tasks and claims them; workers carry them out. So an idle dispatcher
/// asks its store once at a time, however many workers it has. Workers are started when there is work for them.
class TaskDispatcher::Impl {
 public:
  Impl(TaskDispatcherOptions options, TaskTargets targets, OpenTaskStore open_store, const Outbox& outbox,
       Clock& clock, Random& random)
      : place_(std::move(options), std::move(targets), std::move(open_store), outbox, clock, random),
        worker_(place_) {}

  Result<TaskDispatchReport> RunOnce() {
    auto report = TryRunOnce();
    if (!report) place_.board.Problem(report.error());
    return report;
  }

  Status Run(std::stop_token stop, bool until_drained) {
    if (place_.scheduler.names().empty()) {
      return Error(ErrorKind::kMisconfigured, "no_targets", "there is no target to carry out tasks for")
          .WithHint("configure a target");
    }
    const std::stop_callback stopped(stop, [&] { nudge_.Give(); });
    std::vector<std::jthread> workers;
    Lineup lineup;
    while (true) {
      std::vector<HeldTask> held = AwaitTasks(stop, until_drained);
      if (held.empty()) break;
      for (HeldTask& one : held) {
        if (lineup.Add(std::move(one))) continue;
        workers.emplace_back([this, &lineup, stop] { Work(lineup, stop); });
      }
    }
    lineup.Close();
    workers.clear();
    worker_.TellNews();
    worker_.WithdrawNews();
    return Ok();
  }

  TaskDispatcherStats stats() const {
    TaskDispatcherStats stats = place_.board.stats();
    for (auto& [target, health] : place_.scheduler.health(place_.clock.SinceBoot())) {
      stats.under_way += health.in_flight;
      stats.targets[target].health = std::move(health);
    }
    return stats;
  }

 private:
  /// Tasks that wait for the next free worker, for a moment.
  class Lineup {
   public:
    /// False: no worker is free, and the caller starts one.
    bool Add(HeldTask held) {
      bool taken = true;
      {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(held));
        if (free_ < tasks_.size()) {
          taken = false;
          ++free_;
        }
      }
      added_.notify_one();
      return taken;
    }
    /// For a worker that is free. Empty: it is time to end.
    std::optional<HeldTask> Next() {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
      if (tasks_.empty()) return std::nullopt;
      --free_;
      HeldTask next = std::move(tasks_.front());
      tasks_.pop_front();
      return next;
    }
    /// A worker is free again.
    void Free() {
      const std::lock_guard lock(mutex_);
      ++free_;
    }
    void Close() {
      {
        const std::lock_guard lock(mutex_);
        closed_ = true;
      }
      added_.notify_all();
    }

   private:
    std::mutex mutex_;
    std::condition_variable added_;
    std::deque<HeldTask> tasks_;  // guarded by mutex_, as are the next two
    std::size_t free_ = 0;        // workers that wait or are being started
    bool closed_ = false;
  };

  Result<TaskDispatchReport> TryRunOnce() {
    TaskDispatchReport report;
    if (owed_) SEALANE_RETURN_IF_ERROR(PayOwed(report));
    SEALANE_RETURN_IF_ERROR(TendWhenDue());
    SEALANE_RETURN_IF_ERROR(LookAhead());
    SEALANE_ASSIGN_OR_RETURN(std::vector<HeldTask> held, worker_.Claim(1));
    if (held.empty()) return report;
    ++report.claimed;
    owed_ = worker_.CarryOut(std::move(held.front()), std::stop_token());
    place_.scheduler.Left(owed_->held.task.task.target);
    worker_.TellNews();
    SEALANE_RETURN_IF_ERROR(PayOwed(report));
    return report;
  }

  /// Writes down what RunOnce() could not write the last time.
  Status PayOwed(TaskDispatchReport& report) {
    Status written = worker_.WriteDown(*owed_);
    if (!written && TaskWorker::MayPass(written.error())) return written;
    owed_.reset();
    if (written) ++report.finished;
    return written;
  }

  void Work(Lineup& lineup, std::stop_token stop) {
    while (auto held = lineup.Next()) {
      EndedAttempt attempt = worker_.CarryOut(*std::move(held), stop);
      Deliver(attempt, stop);
      // Before there is room for another attempt, which would need another worker otherwise.
      lineup.Free();
      place_.scheduler.Left(attempt.held.task.task.target);
      // One with the same order key may be due now, and there is room for another attempt.
      nudge_.Give();
    }
  }

  /// Waits for tasks; empty: it is time to end.
  std::vector<HeldTask> AwaitTasks(const std::stop_token& stop, bool until_drained) {
    milliseconds idle = place_.options.idle_min;
    while (true) {
      const std::stop_token nudge = nudge_.Arm();
      if (stop.stop_requested()) return {};
      // Asked before the claim: what ends after it may have made another one due.
      const bool alone = place_.scheduler.in_flight() == 0;
      auto found = LookOnce();
      if (!found) {
        HoldOn(found.error(), stop);
        continue;
      }
      if (!found->empty()) return *std::move(found);
      if (until_drained && alone) return {};
      const auto change = place_.scheduler.NextChange(place_.clock.SinceBoot());
      const auto wait = std::min<std::chrono::nanoseconds>(idle, change.value_or(idle));
      const bool in_peace = place_.clock.SleepFor(wait, nudge);
      idle = in_peace ? std::min(idle * 2, place_.options.idle_max) : place_.options.idle_min;
    }
  }

  /// Claims what is known to be due, and asks what is when nothing is known to be.
  Result<std::vector<HeldTask>> LookOnce() {
    worker_.TellNews();
    SEALANE_RETURN_IF_ERROR(TendWhenDue());
    const bool stale = !looked_at_ || place_.clock.SinceBoot() - *looked_at_ >= place_.options.idle_max;
    if (!stale) {
      SEALANE_ASSIGN_OR_RETURN(std::vector<HeldTask> held, worker_.Claim(kClaimMax));
      if (!held.empty()) return held;
    }
    SEALANE_RETURN_IF_ERROR(LookAhead());
    return worker_.Claim(kClaimMax);
  }

  Status LookAhead() {
    SEALANE_RETURN_IF_ERROR(worker_.LookAhead());
    looked_at_ = place_.clock.SinceBoot();
    return Ok();
  }

  /// What fails is tried again at its next time; tasks do not wait for it.
  Status TendWhenDue() {
    const BootTime now = place_.clock.SinceBoot();
    if (!next_count_ || now >= *next_count_) {
      const Status counted = worker_.Count();
      // From its end on, and less often where it takes long: tasks come first.
      const BootTime end = place_.clock.SinceBoot();
      const auto interval = std::min(place_.options.tend_interval, kCountInterval);
      next_count_ = end + std::max<std::chrono::nanoseconds>(interval, kCountRest * (end - now));
      SEALANE_RETURN_IF_ERROR(counted);
    }
    if (next_prune_ && now < *next_prune_) return Ok();
    next_prune_ = now + place_.options.tend_interval;
    SEALANE_ASSIGN_OR_RETURN(const bool more, worker_.Prune());
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
  void Deliver(EndedAttempt& attempt, std::stop_token stop) {
    while (true) {
      const Status written = worker_.WriteDown(attempt);
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
  TaskWorker worker_;
  std::optional<EndedAttempt> owed_;   // what RunOnce() could not write
  std::optional<BootTime> looked_at_;  // this and the next two: of the thread that looks
  std::optional<BootTime> next_count_;
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
