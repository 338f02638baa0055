#pragma once

#include <string>
#include <vector>

#include "ops/task_desk.hpp"

namespace sealane::cli {

/// A task of a listing as a JSON object on one line.
std::string TaskSummaryJson(const TaskSummary& task);
std::vector<std::string> TaskSummariesJson(const std::vector<TaskSummary>& tasks);
/// Everything about one, with its attempts. Request and responses stand as `request` and `response` byte for byte
/// when they are JSON on one line, else as `request_base64` and `response_base64`.
std::string TaskDetailsJson(const TaskDetails& details);
/// The same for eyes that are not to see what was sent and answered: sizes instead of bytes.
std::string TaskHistoryJson(const TaskDetails& details);

/// A target as a JSON object on one line. Every member is always there, null where it has no value.
std::string TargetSummaryJson(const TargetSummary& target);

/// The same for people.
std::string TargetSummaryTable(const std::vector<TargetSummary>& targets, bool color);
std::string TaskSummaryTable(const std::vector<TaskSummary>& tasks, bool color);
std::string TaskDetailsText(const TaskDetails& details, bool color);

}  // namespace sealane::cli
