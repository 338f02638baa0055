#include "tasks/task_worker.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "tasks/result_event.hpp"
#include "tasks/task_ruling.hpp"

namespace sealane {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// How many tasks are forgotten in one transaction.
constexpr std::size_t kPruneStep = 1'000;
/// Messages are for people, and a store must be able to hold them.
constexpr std::size_t kMessageMax = 2'000;
constexpr std::size_t kWordMax = 255;

std::string Tidy(const std::string& text, std::size_t max) {
  return EscapeForTerminal(std::string_view(text).substr(0, max));
}

/// An executor's report with nothing in it that a store or an event could not hold.
AttemptReport Tidied(AttemptReport report) {
  report.code = Tidy(report.code, kWordMax);
  report.message = Tidy(report.message, kMessageMax);
  report.response_type = Tidy(report.response_type, kWordMax);
  if (report.verdict != AttemptVerdict::kSucceeded && report.code.empty()) report.code = "unspecified";
  return report;
}

AttemptReport ExecutorFailed(std::string_view what) {
  AttemptReport report;
  report.verdict = AttemptVerdict::kUnknown;
  report.code = "executor_failed";
  report.message = what;
  return report;
}

void LogEnd(const EndedAttempt& ended) {
  const ClaimedTask& task = ended.held.task;
  const AttemptReport& report = ended.report;
  const std::string id = task.id.ToString();
  const std::string target = EscapeForTerminal(task.task.target);
  const std::string operation = EscapeForTerminal(task.task.operation);
  const std::string status = report.status ? std::to_string(*report.status) : "";
  const auto took_ms = std::chrono::duration_cast<milliseconds>(report.took).count();
  switch (ended.step.state) {
    case TaskState::kSucceeded:
      LogInfo("task succeeded", {{"task", id},
                                 {"target", target},
                                 {"operation", operation},
                                 {"attempt", task.attempt},
                                 {"status", status},
                                 {"took_ms", took_ms}});
      return;
    case TaskState::kFailed:
      LogWarning("task failed and will be tried again",
                 {{"task", id},
                  {"target", target},
                  {"operation", operation},
                  {"attempt", task.attempt},
                  {"verdict", ToString(report.verdict)},
                  {"status", status},
                  {"code", report.code},
                  {"error", report.message},
                  {"retry_ms", ended.step.retry_after.value_or(milliseconds{0}).count()},
                  {"took_ms", took_ms}});
      return;
    default:
      LogError("task is dead and waits for a person", {{"task", id},
                                                       {"target", target},
                                                       {"operation", operation},
                                                       {"attempt", task.attempt},
                                                       {"verdict", ToString(report.verdict)},
                                                       {"status", status},
                                                       {"code", report.code},
                                                       {"error", report.message},
                                                       {"took_ms", took_ms}});
  }
}

}  // namespace

TaskWorkplace::TaskWorkplace(TaskDispatcherOptions wanted, TaskTargets served, OpenTaskStore open_store,
                             const Outbox& events, Clock& time, Random& chance)
    : options(std::move(wanted)),
      targets(std::move(served)),
      outbox(events),
      clock(time),
      random(chance),
      scheduler(targets, options.workers),
      stores(std::move(open_store), std::max<std::size_t>(options.workers, 1)) {
  milliseconds longest{0};
  for (const auto& [name, target] : targets) longest = std::max(longest, target.executor->time_limit());
  lease = longest + options.lease_margin;
}

// ---- connections
// ----------------------------------------------------------------------------------------------------

Result<std::unique_ptr<TaskStore>> TaskStorePool::Take() {
  {
    std::unique_lock lock(mutex_);
    given_back_.wait(lock, [&] { return out_ < most_; });
    ++out_;
    if (!idle_.empty()) {
      // The one that was used last: the others are rarely needed.
      std::unique_ptr<TaskStore> store = std::move(idle_.back());
      idle_.pop_back();
      return store;
    }
  }
  auto opened = open_();
  if (!opened) GiveBack(nullptr);
  return opened;
}

void TaskStorePool::GiveBack(std::unique_ptr<TaskStore> store) {
  {
    const std::lock_guard lock(mutex_);
    --out_;
    if (store != nullptr) idle_.push_back(std::move(store));
  }
  given_back_.notify_one();
}

bool TaskWorker::MayPass(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::kUnavailable:
    case ErrorKind::kConflict:
    case ErrorKind::kInDoubt:
    case ErrorKind::kMisconfigured:
    case ErrorKind::kCancelled:
      return true;
    default:
      return false;
  }
}

template <class Use>
auto TaskWorker::With(Use use) -> std::invoke_result_t<Use, TaskStore&> {
  SEALANE_ASSIGN_OR_RETURN(auto store, place_.stores.Take());
  auto result = use(*store);
  if (result) {
    place_.board.Reached();
  } else if (result.error().kind() != ErrorKind::kConflict && MayPass(result.error())) {
    store.reset();
  }
  place_.stores.GiveBack(std::move(store));
  return result;
}

Status TaskWorker::LookAhead() {
  SEALANE_ASSIGN_OR_RETURN(const std::vector<TargetOutlook> outlooks,
                           With([&](TaskStore& store) { return store.Outlook(place_.scheduler.names()); }));
  place_.scheduler.Learn(outlooks, place_.clock.SinceBoot());
  return Ok();
}

Result<std::vector<HeldTask>> TaskWorker::Claim(std::size_t limit) {
  // Read before the claim: the store's lease begins later, so it does not end before ours.
  const BootTime began = place_.clock.SinceBoot();
  const std::vector<TargetQuota> quotas = place_.scheduler.Quotas(began, limit);
  if (quotas.empty()) return std::vector<HeldTask>{};
  SEALANE_ASSIGN_OR_RETURN(
      std::vector<ClaimedTask> claimed, With([&](TaskStore& store) {
        return store.Claim({.owner = place_.options.name, .targets = quotas, .limit = limit, .lease = place_.lease});
      }));
  return place_.scheduler.Claimed(quotas, std::move(claimed), began + place_.lease, place_.clock.SinceBoot());
}

Status TaskWorker::Count() {
  SEALANE_ASSIGN_OR_RETURN(const TaskCounts counts, With([](TaskStore& store) { return store.Count(); }));
  place_.board.Waiting(counts);
  return Ok();
}

Result<bool> TaskWorker::Prune() {
  if (!place_.options.retention) return false;
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t forgotten, With([&](TaskStore& store) {
                             return store.Prune(place_.scheduler.names(), *place_.options.retention, kPruneStep);
                           }));
  return static_cast<std::size_t>(forgotten) >= kPruneStep;
}

void TaskWorker::TellNews() {
  for (const auto& [target, outage] : place_.scheduler.TakeNews(place_.clock.SinceBoot())) {
    const Status told = With([&, &name = target, &what = outage](TaskStore& store) {
      return store.ReportOutage(place_.options.name, name, what);
    });
    if (!told) place_.scheduler.NotTold(target);
  }
}

void TaskWorker::WithdrawNews() {
  // Best effort: what stays is forgotten after a while.
  for (const std::string& target : place_.scheduler.KnownDown()) {
    (void)With([&](TaskStore& store) { return store.ReportOutage(place_.options.name, target, std::nullopt); });
    // Another Run() begins with it.
    place_.scheduler.NotTold(target);
  }
}

// ---- the attempt
// ----------------------------------------------------------------------------------------------------

bool TaskWorker::IsTooLate(const HeldTask& held, const TaskExecutor& executor) const {
  const auto left = std::chrono::duration_cast<milliseconds>(held.lease_until - place_.clock.SinceBoot());
  if (executor.time_limit() <= left) return false;
  LogWarning("a task was claimed too late to send it", {{"task", held.task.id.ToString()},
                                                        {"target", EscapeForTerminal(held.task.task.target)},
                                                        {"lease_left_ms", left.count()},
                                                        {"attempt_max_ms", executor.time_limit().count()},
                                                        {"hint", "make lease_margin longer if this happens often"}});
  return true;
}

AttemptReport TaskWorker::Execute(const HeldTask& held, TaskExecutor& executor, std::stop_token stop) const {
  const BootTime began = place_.clock.SinceBoot();
  AttemptReport report;
  // What threw may have sent before.
  try {
    report = executor.Execute(held.task, std::move(stop));
  } catch (const std::exception& error) {
    report = ExecutorFailed(error.what());
  } catch (...) {
    report = ExecutorFailed("the executor failed without saying why");
  }
  if (report.took == microseconds{0}) {
    report.took = std::chrono::duration_cast<microseconds>(place_.clock.SinceBoot() - began);
  }
  return Tidied(std::move(report));
}

EndedAttempt TaskWorker::CarryOut(HeldTask held, std::stop_token stop) {
  const auto found = place_.targets.find(held.task.task.target);
  SEALANE_ASSERT(found != place_.targets.end(), "a store hands out tasks for the named targets alone");
  const TaskTarget& target = found->second;
  EndedAttempt ended;
  ended.held = std::move(held);
  const ClaimedTask& task = ended.held.task;
  if (auto forbidden = Forbidden(task, target)) {
    ended.report = *std::move(forbidden);
    ended.step.state = TaskState::kDead;
    place_.scheduler.Withdrawn(ended.held);
  } else if (IsTooLate(ended.held, *target.executor)) {
    // A claim whose answer came late, or a machine that slept: by the end of it somebody else would send as well.
    ended.given_back = true;
    place_.scheduler.Withdrawn(ended.held);
    return ended;
  } else {
    ended.report = Execute(ended.held, *target.executor, std::move(stop));
    ended.given_back = ended.report.verdict == AttemptVerdict::kRetry && ended.report.code == "stopped";
    std::optional<milliseconds> next_probe;
    if (ended.given_back) {
      place_.scheduler.Withdrawn(ended.held);
    } else {
      next_probe = place_.scheduler.Ended(ended.held, ended.report, place_.clock.SinceBoot());
    }
    const Ruling ruling = RuleOn(task, target, ended.report, place_.random, next_probe);
    ended.step.state = ruling.state;
    ended.step.retry_after = ruling.retry_after;
    ended.step.counts = ruling.counts;
  }
  if (ended.step.state != TaskState::kFailed) ended.step.event = EventOf(task, ended.report, ended.step.state);
  return ended;
}

std::optional<NewEntry> TaskWorker::EventOf(const ClaimedTask& task, const AttemptReport& report,
                                            TaskState state) const {
  if (task.task.result_topic.empty()) return std::nullopt;
  const TaskEnd end{state, report, place_.clock.Now()};
  std::size_t response_max = std::min(place_.options.result_response_max, report.response.size());
  while (true) {
    auto admitted = place_.outbox.Admit(ResultEvent(task, end, response_max));
    if (admitted) return *std::move(admitted);
    if (response_max == 0) {
      // The end of the task matters more than the news of it.
      LogError("the result of a task cannot be told", {{"task", task.id.ToString()},
                                                       {"topic", EscapeForTerminal(task.task.result_topic)},
                                                       {"code", admitted.error().code()},
                                                       {"error", admitted.error().ToString()}});
      return std::nullopt;
    }
    response_max /= 2;
  }
}

Status TaskWorker::WriteDown(EndedAttempt& ended) {
  const ClaimedTask& task = ended.held.task;
  if (ended.given_back) return With([&](TaskStore& store) { return store.Release({&task, 1}); });
  bool asked = false;  // false: there was no connection, so nothing can have been written
  Status written = With([&](TaskStore& store) {
    asked = true;
    return store.Finish(task, ended.report, ended.step);
  });
  const bool fenced = !written && written.error().kind() == ErrorKind::kFenced;
  if (!written && !fenced) {
    ended.maybe_written = ended.maybe_written || (asked && MayPass(written.error()));
    return written;
  }
  // Behind a lost answer "fenced" usually means that the first try went through.
  if (fenced && !ended.maybe_written) {
    place_.board.Fenced();
    LogWarning("an attempt ended after its lease", {{"task", task.id.ToString()},
                                                    {"target", EscapeForTerminal(task.task.target)},
                                                    {"operation", EscapeForTerminal(task.task.operation)},
                                                    {"attempt", task.attempt},
                                                    {"verdict", ToString(ended.report.verdict)},
                                                    {"code", written.error().code()}});
    return Ok();
  }
  place_.board.Ended(task.task.target, ended.report, ended.step.state);
  LogEnd(ended);
  return Ok();
}

}  // namespace sealane
