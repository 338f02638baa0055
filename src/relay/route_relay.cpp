#include "relay/route_relay.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include <pthread.h>

#include "sealane/assert.hpp"

#include "base/crash_point.hpp"
#include "base/log.hpp"
#include "relay/dispatcher.hpp"
#include "relay/lease_board.hpp"
#include "relay/lease_keeper.hpp"
#include "relay/log_reader.hpp"
#include "relay/work.hpp"

namespace sealane {
namespace {

using std::chrono::milliseconds;

// How long the publishing loop waits for deliveries when nothing else is due; work that comes in ends the wait.
constexpr milliseconds kCollectWait{100};
// How often lanes of other relays are asked about when only they keep a route from being drained.
constexpr milliseconds kSurveyInterval{100};
constexpr std::uint64_t kNotCaughtUp = ~std::uint64_t{0};
constexpr milliseconds kShowInterval{20};
constexpr milliseconds kDrainWait{20};
constexpr milliseconds kDrainRetry{100};

// A wait that ends early when somebody rings. A ring before the wait is not lost.
class Doorbell {
 public:
  void Ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    rung_changed_.notify_one();
  }
  void Wait(std::chrono::microseconds at_most, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    rung_changed_.wait_for(lock, stop, at_most, [&] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any rung_changed_;
  bool rung_ = false;
};

// The state of one loop: its connection, and how long to wait after an error.
struct Loop {
  explicit Loop(const char* loop_name) : name(loop_name) {}
  const char* name;
  std::unique_ptr<OutboxLog> log = {};
  std::int32_t failures = 0;          // in a row
  std::optional<Error> problem = {};  // why it failed last, until it works again; guarded by stats_mutex_
};

}  // namespace

class RouteRelay::Impl {
 public:
  Impl(RouteOptions options, OpenLog open_log, OpenPublisher open_publisher, Clock& clock, Random& random)
      : options_(std::move(options)),
        open_log_(std::move(open_log)),
        open_publisher_(std::move(open_publisher)),
        clock_(clock),
        random_(random),
        board_([this] { reader_bell_.Ring(); }),
        queue_([this] { InterruptPublisher(); }),
        budget_(options_.memory_max, [this] { reader_bell_.Ring(); }),
        keeper_(options_, board_, clock_),
        reader_(options_, board_, queue_, budget_, clock_),
        dispatcher_(options_, TopicTemplate::Parse(options_.topic_template).value(), board_, queue_, budget_, clock_,
                    random_) {
    SEALANE_ASSERT(CheckOptions(options_).has_value(), "the options of a relay are checked before it is made");
    stats_.store = options_.store;
    stats_.route = options_.route;
    stats_.owner = options_.owner;
  }

  Result<RelayReport> RunOnce() {
    WatchLease();
    RelayReport report;
    const BootTime now = clock_.SinceBoot();
    if (now >= next_beat_) {
      SEALANE_RETURN_IF_ERROR(Beat());
      next_beat_ = clock_.SinceBoot() + keeper_.interval();
    }
    SEALANE_ASSIGN_OR_RETURN(const LogReader::Step read, Read());
    SEALANE_ASSIGN_OR_RETURN(const Dispatcher::Step step, Dispatch(milliseconds{0}));
    report.read = read.read;
    report.submitted = step.submitted;
    report.delivered = step.delivered;
    report.settled = step.settled;
    report.caught_up = read.caught_up && queue_.empty() && dispatcher_.empty();
    return report;
  }

  RelayEnd Run(std::stop_token stop, bool until_drained) {
    until_drained_ = until_drained;
    std::jthread keeper([this](std::stop_token own) { KeeperLoop(own); });
    std::jthread reader([this](std::stop_token own) { ReaderLoop(own); });
    while (!stop.stop_requested() && !Drained()) DispatchStep(stop);

    SetState(RelayState::kDraining);
    reader.request_stop();
    reader_bell_.Ring();
    dispatcher_.BeginDrain();
    const BootTime deadline = clock_.SinceBoot() + options_.drain_timeout;
    while (publisher_ != nullptr && !dispatcher_.quiet() && clock_.SinceBoot() < deadline) {
      if (!DrainStep(kDrainWait)) clock_.SleepFor(kDrainRetry, {});
    }
    // Only now: the leases have to live as long as messages are on their way.
    keeper.request_stop();
    keeper_bell_.Ring();
    keeper.join();
    const RelayEnd end = Finish();
    reader.join();  // last: it may be in a long statement, and nobody has to wait for what it reads
    return end;
  }

  // Without threads time stands still, so the end is when nothing moves any more.
  RelayEnd Drain() {
    dispatcher_.BeginDrain();
    for (bool moving = true; moving && publisher_ != nullptr && !dispatcher_.quiet();) {
      const std::optional<Dispatcher::Step> step = DrainStep(milliseconds{0});
      moving = step && (step->submitted > 0 || step->delivered > 0 || step->settled);
    }
    return Finish();
  }

  RouteStats stats() const {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
  }

  void Wake() {
    hurry_.store(true, std::memory_order_release);
    reader_bell_.Ring();
  }

 private:
  // ---- one step of each loop ----

  Result<OutboxLog*> LogOf(Loop& loop) {
    if (loop.log == nullptr) {
      SEALANE_ASSIGN_OR_RETURN(loop.log, open_log_());
    }
    return loop.log.get();
  }

  Status Beat() {
    if (keeper_reopens_.exchange(false, std::memory_order_acq_rel)) keeper_loop_.log.reset();
    // Another relay may have changed it while the store was away.
    if (keeper_loop_.log == nullptr) order_kept_ = false;
    SEALANE_ASSIGN_OR_RETURN(OutboxLog * log, LogOf(keeper_loop_));
    // Before the first lane is taken: what is parked was parked by the order that the store knows.
    if (!order_kept_) SEALANE_RETURN_IF_ERROR(log->KeepOrder(ToString(options_.order)));
    order_kept_ = true;
    SEALANE_RETURN_IF_ERROR(keeper_.RunOnce(*log));
    const LeaseBoard::Decisions decisions = board_.decisions();
    const std::lock_guard lock(stats_mutex_);
    stats_.lanes = decisions.lanes;
    stats_.live_relays = decisions.live_relays;
    stats_.last_beat_at = decisions.last_beat_at;
    ShowHeld();
    return Ok();
  }

  Result<LogReader::Step> Read() {
    SEALANE_ASSIGN_OR_RETURN(OutboxLog * log, LogOf(reader_loop_));
    if (hurry_.exchange(false, std::memory_order_acq_rel)) reader_.Hurry();
    Result<LogReader::Step> tried = reader_.RunOnce(*log);
    if (!tried) reader_.ForgetHorizon();
    SEALANE_ASSIGN_OR_RETURN(LogReader::Step step, std::move(tried));
    if (step.looked || step.read > 0) {
      const std::lock_guard lock(stats_mutex_);
      if (step.looked) ++stats_.polls;
      if (step.horizon) stats_.seq_high = step.horizon->seq_high;
    }
    return step;
  }

  // Before anything that needs the store: that may be away for longer than the lease lasts.
  void WatchLease() {
    if (publisher_ != nullptr) dispatcher_.WatchLease(*publisher_);
  }

  Result<Dispatcher::Step> Dispatch(milliseconds wait) {
    SEALANE_ASSIGN_OR_RETURN(OutboxLog * log, LogOf(dispatch_loop_));
    if (publisher_ == nullptr) {
      SEALANE_ASSIGN_OR_RETURN(auto opened, open_publisher_());
      const std::lock_guard lock(publisher_mutex_);
      publisher_ = std::move(opened);
    }
    SEALANE_ASSIGN_OR_RETURN(Dispatcher::Step step, dispatcher_.RunOnce(*log, *publisher_, wait));
    // Copying the counts for every batch would cost a busy relay more than they are worth.
    if (const BootTime now = clock_.SinceBoot(); now - shown_at_ >= kShowInterval || wait.count() == 0) {
      shown_at_ = now;
      ShowCounts();
    }
    return step;
  }

  void ShowCounts() {
    const PublisherHealth health = publisher_->health();
    const LeaseBoard::Decisions decisions = board_.decisions();
    const std::lock_guard lock(stats_mutex_);
    const RouteStats& counts = dispatcher_.counts();
    stats_.attempts = counts.attempts;
    stats_.published = counts.published;
    stats_.published_bytes = counts.published_bytes;
    stats_.filtered = counts.filtered;
    stats_.repeated = counts.repeated;
    stats_.late = counts.late;
    stats_.fenced = counts.fenced;
    stats_.settles = counts.settles;
    stats_.parked_total = counts.parked_total;
    stats_.delayed_total = counts.delayed_total;
    stats_.dead_total = counts.dead_total;
    stats_.commit_to_publish = counts.commit_to_publish;
    if (stats_.failures != counts.failures) stats_.failures = counts.failures;
    if (stats_.topics != counts.topics) stats_.topics = counts.topics;
    if (const std::uint64_t generation = board_.generation(); generation != shown_generation_) {
      shown_generation_ = generation;
      ShowHeld();
    }
    stats_.last_beat_at = decisions.last_beat_at;
    stats_.store_reachable = !keeper_loop_.problem && !reader_loop_.problem;
    stats_.problem.clear();
    stats_.problem_code.clear();
    dispatcher_.FillGauges(stats_);
    if (health.state != PublisherHealth::State::kReady && health.problem) ShowProblem(*health.problem);
    for (const Loop* loop : {&reader_loop_, &keeper_loop_}) {
      if (loop->problem) ShowProblem(*loop->problem);
    }
    if (stats_.state == RelayState::kDraining || stats_.state == RelayState::kStopped) {
      dispatcher_.ShowFullTenants(stats_);
      return dispatcher_.ShowMissingTopics(stats_);
    }
    if (!stats_.problem.empty()) {
      ShowState(RelayState::kHolding);
    } else if (decisions.paused) {
      ShowState(RelayState::kPaused);
    } else {
      ShowState(stats_.held.empty() ? RelayState::kStarting : RelayState::kRunning);
    }
    // Last: the route runs all the same.
    dispatcher_.ShowFullTenants(stats_);
    dispatcher_.ShowMissingTopics(stats_);
  }

  // With stats_mutex_ held.
  void ShowHeld() {
    stats_.held.clear();
    for (const LeaseBoard::Held& held : board_.held()) stats_.held.push_back(held.lease);
  }
  // With stats_mutex_ held.
  void ShowProblem(const Error& problem) {
    stats_.problem = problem.ToString();
    stats_.problem_code = problem.code();
  }
  // With stats_mutex_ held.
  void ShowState(RelayState state) {
    if (stats_.state == state) return;
    LogInfo("relay state", {{"store", options_.store},
                            {"route", options_.route},
                            {"owner", options_.owner},
                            {"state", ToString(state)},
                            {"problem", stats_.problem}});
    stats_.state = state;
  }
  void SetState(RelayState state) {
    const std::lock_guard lock(stats_mutex_);
    ShowState(state);
  }

  // ---- the threads ----

  // Logs an error, forgets the connection and says how long to wait before the next try.
  milliseconds Recover(Loop& loop, const Error& error, milliseconds wait_max) {
    loop.log.reset();
    ++loop.failures;
    const milliseconds wait =
        std::min(wait_max, options_.failures.outage.DelayAfter(loop.failures, random_).value_or(milliseconds{1'000}));
    LogError("relay loop failed", {{"store", options_.store},
                                   {"route", options_.route},
                                   {"loop", loop.name},
                                   {"kind", ToString(error.kind())},
                                   {"error", error.code()},
                                   {"detail", error.ToString()},
                                   {"retry_ms", wait.count()}});
    const std::lock_guard lock(stats_mutex_);
    ++stats_.restarts;
    loop.problem = error;
    stats_.store_reachable = !keeper_loop_.problem && !reader_loop_.problem;
    ShowProblem(error);
    if (stats_.state == RelayState::kRunning) ShowState(RelayState::kHolding);
    return wait;
  }

  void Recovered(Loop& loop) {
    if (loop.failures == 0) return;
    loop.failures = 0;
    const std::lock_guard lock(stats_mutex_);
    loop.problem.reset();
  }

  void KeeperLoop(const std::stop_token& stop) {
    ::pthread_setname_np(::pthread_self(), "keeper");
    while (!stop.stop_requested()) {
      milliseconds wait = keeper_.interval();
      if (const Status beat = Beat(); !beat) {
        wait = Recover(keeper_loop_, beat.error(), keeper_.interval());
      } else {
        Recovered(keeper_loop_);
      }
      keeper_bell_.Wait(wait, stop);
    }
  }

  void ReaderLoop(const std::stop_token& stop) {
    ::pthread_setname_np(::pthread_self(), "reader");
    while (!stop.stop_requested()) {
      const std::uint64_t generation = board_.generation();
      const Result<LogReader::Step> step = Read();
      const Status noted = step && until_drained_ ? NoteCaughtUp(*step, generation) : Ok();
      if (!step || !noted) {
        const Error& error = step ? noted.error() : step.error();
        caught_up_at_.store(kNotCaughtUp, std::memory_order_release);
        // Positions of a server that was changed: the keeper has to take the lanes anew, on the same server.
        if (error.kind() == ErrorKind::kFenced) keeper_reopens_.store(true, std::memory_order_release);
        // Not for longer than a heartbeat: a store that is back should be read at once.
        clock_.SleepFor(Recover(reader_loop_, error, keeper_.interval()), stop);
        continue;
      }
      Recovered(reader_loop_);
      if (const auto wait = reader_.Pace(*step); wait.count() > 0) reader_bell_.Wait(wait, stop);
    }
  }

  // Drained means that nothing is pending on the route, also in lanes that another relay has. Whatever was found
  // counts only as long as the lanes are the same: one that is lost takes what was read of it along, unpublished.
  Status NoteCaughtUp(const LogReader::Step& step, std::uint64_t generation) {
    std::vector<LaneLease> mine;
    for (const LeaseBoard::Held& held : board_.held()) mine.push_back(held.lease);
    const std::int32_t lanes = board_.decisions().lanes;
    bool drained = lanes > 0 && (mine.empty() || (step.caught_up && step.horizon));
    if (drained && mine.size() < static_cast<std::size_t>(lanes)) {
      if (const BootTime now = clock_.SinceBoot(); now >= next_survey_ || surveyed_ != generation) {
        next_survey_ = now + kSurveyInterval;
        surveyed_ = generation;
        others_done_ = false;
        SEALANE_ASSIGN_OR_RETURN(OutboxLog * log, LogOf(reader_loop_));
        std::optional<Horizon> horizon = step.horizon;
        if (!horizon) {
          SEALANE_ASSIGN_OR_RETURN(horizon, log->Look());
        }
        SEALANE_ASSIGN_OR_RETURN(others_done_, log->OthersDone(mine, *horizon));
      }
      drained = others_done_;
    }
    drained = drained && board_.generation() == generation;
    caught_up_at_.store(drained ? generation : kNotCaughtUp, std::memory_order_release);
    if (drained) InterruptPublisher();
    return Ok();
  }

  void DispatchStep(const std::stop_token& stop) {
    WatchLease();
    const Result<Dispatcher::Step> step = Dispatch(kCollectWait);
    if (step) {
      Recovered(dispatch_loop_);
      return;
    }
    // Not for longer than a lease may be left alone.
    clock_.SleepFor(Recover(dispatch_loop_, step.error(), keeper_.interval()), stop);
  }

  bool Drained() const {
    return until_drained_ && queue_.empty() && dispatcher_.empty() && !dispatcher_.waits() &&
           caught_up_at_.load(std::memory_order_acquire) == board_.generation();
  }

  void InterruptPublisher() {
    const std::lock_guard lock(publisher_mutex_);
    if (publisher_ != nullptr) publisher_->Interrupt();
  }

  std::optional<Dispatcher::Step> DrainStep(milliseconds wait) {
    WatchLease();
    const Result<Dispatcher::Step> step = Dispatch(wait);
    if (step) return *step;
    LogError("drain failed", {{"route", options_.route}, {"error", step.error().ToString()}});
    dispatch_loop_.log.reset();
    return std::nullopt;
  }

  // The last stages of a stop: what is known is written down, lanes are given back.
  RelayEnd Finish() {
    std::size_t unresolved = 0;
    if (publisher_ != nullptr && !dispatcher_.quiet()) unresolved = dispatcher_.GiveUp(*publisher_);
    CrashPoint("relay.drained");
    bool written = true;
    if (const auto log = LogOf(dispatch_loop_); log) {
      const Result<bool> settled = dispatcher_.Settle(**log);
      if (!settled)
        LogError("last settle failed", {{"route", options_.route}, {"error", settled.error().ToString()}});
      const Status left = (*log)->Leave();
      if (!left) LogError("lanes were not released", {{"route", options_.route}, {"error", left.error().ToString()}});
      written = settled.has_value() && left.has_value();
    } else {
      written = board_.held().empty();
    }
    if (publisher_ != nullptr) ShowCounts();
    board_.DropAll();
    if (unresolved > 0) {
      LogWarning("stopped with messages that have no answer; they will be sent again",
                 {{"route", options_.route}, {"messages", unresolved}});
    }
    SetState(RelayState::kStopped);
    return unresolved == 0 && written ? RelayEnd::kDrained : RelayEnd::kUnresolved;
  }

  // Constant.
  const RouteOptions options_;
  const OpenLog open_log_;
  const OpenPublisher open_publisher_;
  Clock& clock_;
  Random& random_;

  // With their own synchronisation.
  Doorbell reader_bell_;
  Doorbell keeper_bell_;
  LeaseBoard board_;
  WorkQueue queue_;
  MemoryBudget budget_;
  std::atomic<std::uint64_t> caught_up_at_{kNotCaughtUp};  // the generation of lanes that are
  std::atomic<bool> hurry_{false};
  std::atomic<bool> keeper_reopens_{false};
  std::atomic<bool> until_drained_{false};
  mutable std::mutex stats_mutex_;
  RouteStats stats_;  // guarded by stats_mutex_
  std::mutex publisher_mutex_;
  std::unique_ptr<Publisher> publisher_;  // set under publisher_mutex_, used by the publishing loop

  // Each used by one loop.
  Loop keeper_loop_{"keeper"};
  Loop reader_loop_{"reader"};
  Loop dispatch_loop_{"dispatch"};
  LeaseKeeper keeper_;
  LogReader reader_;
  Dispatcher dispatcher_;
  BootTime next_beat_{0};
  BootTime next_survey_{0};                // of the reader, like the next two
  std::uint64_t surveyed_ = kNotCaughtUp;  // for which lanes
  bool others_done_ = false;               // as of the last survey
  bool order_kept_ = false;
  BootTime shown_at_{-1'000'000'000};
  std::uint64_t shown_generation_ = 0;
};

RouteRelay::RouteRelay(RouteOptions options, OpenLog open_log, OpenPublisher open_publisher, Clock& clock,
                       Random& random)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(open_log), std::move(open_publisher), clock,
                                   random)) {}
RouteRelay::~RouteRelay() = default;

Result<RelayReport> RouteRelay::RunOnce() {
  return impl_->RunOnce();
}
RelayEnd RouteRelay::Run(std::stop_token stop, bool until_drained) {
  return impl_->Run(std::move(stop), until_drained);
}
RelayEnd RouteRelay::Drain() {
  return impl_->Drain();
}
RouteStats RouteRelay::stats() const {
  return impl_->stats();
}
void RouteRelay::Wake() {
  impl_->Wake();
}

}  // namespace sealane
