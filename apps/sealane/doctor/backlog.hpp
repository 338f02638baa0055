#pragma once

#include <string>
#include <vector>

#include "config/settings.hpp"
#include "doctor/finding.hpp"
#include "ops/dead_letters.hpp"
#include "ops/inbox_desk.hpp"
#include "ops/task_desk.hpp"

namespace sealane::cli {

/// Looks at what was set aside in a store: events that failed, at the relay and at consumers, and tasks. What this
/// user may not see is left out.
std::vector<Finding> ExamineBacklog(const std::string& subject, const Settings& store, Timestamp now);

/// The consumers whose inbox this store is, as far as this user may see them.
std::vector<std::string> ConsumersOf(const Settings& store);

/// Dead letters and failed ones, at most kSeenMax of them.
std::vector<Finding> JudgeDeadLetters(const std::string& subject, const std::vector<DeadLetter>& letters);
std::vector<Finding> JudgeInbox(const std::string& subject, const std::vector<InboxSummary>& consumers,
                                Timestamp now);
/// Dead tasks, at most kSeenMax of them.
std::vector<Finding> JudgeTasks(const std::string& subject, const std::vector<TaskSummary>& tasks);
/// Targets of tasks that are down or paused.
std::vector<Finding> JudgeTargets(const std::string& subject, const std::vector<TargetSummary>& targets);

inline constexpr std::size_t kSeenMax = 100;

}  // namespace sealane::cli
