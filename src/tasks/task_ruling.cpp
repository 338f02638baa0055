#include "tasks/task_ruling.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace sealane {
namespace {

AttemptReport NotAttempted(std::string code, std::string message) {
  AttemptReport report;
  report.verdict = AttemptVerdict::kUnknown;
  report.code = std::move(code);
  report.message = std::move(message);
  return report;
}

}  // namespace

std::optional<AttemptReport> Forbidden(const ClaimedTask& task, const TaskTarget& target) {
  // A first try is what a person has asked for, in doubt or not.
  if (task.in_doubt && task.tries > 1 && !target.resend_in_doubt) {
    return NotAttempted("in_doubt", "an earlier attempt may have taken effect; nothing was sent again");
  }
  if (target.retry.attempts_max > 0 && task.tries > target.retry.attempts_max) {
    return NotAttempted("attempts_exhausted",
                        fmt::format("the last of {} attempts was interrupted and may have taken effect; nothing was "
                                    "sent again",
                                    target.retry.attempts_max));
  }
  return std::nullopt;
}

Ruling RuleOn(const ClaimedTask& task, const TaskTarget& target, AttemptReport& report, Random& random,
              std::optional<std::chrono::milliseconds> next_probe) {
  if (report.verdict == AttemptVerdict::kSucceeded) return {TaskState::kSucceeded, std::nullopt, true};
  if (report.verdict == AttemptVerdict::kRefused) return {TaskState::kDead, std::nullopt, true};
  if (report.verdict == AttemptVerdict::kUnknown && !target.resend_in_doubt) {
    report.message = report.code.empty() ? report.message : fmt::format("{}: {}", report.code, report.message);
    report.code = "in_doubt";
    return {TaskState::kDead, std::nullopt, true};
  }
  // Due again with the probe: the policy's waits are for targets that answer.
  if (next_probe) {
    return {TaskState::kFailed, std::max(*next_probe, report.retry_after.value_or(*next_probe)), false};
  }
  const auto wait = target.retry.DelayAfter(task.tries, random);
  if (!wait) return {TaskState::kDead, std::nullopt, true};
  return {TaskState::kFailed, std::max(*wait, report.retry_after.value_or(*wait)), true};
}

}  // namespace sealane
