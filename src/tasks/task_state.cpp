#include <algorithm>
#include <array>
#include <utility>

#include "tasks/task_attempt.hpp"
#include "tasks/task_store.hpp"

namespace sealane {
namespace {

constexpr std::array<std::pair<TaskState, std::string_view>, 6> kStates = {{
    {TaskState::kPending, "PENDING"},
    {TaskState::kSending, "SENDING"},
    {TaskState::kFailed, "FAILED"},
    {TaskState::kSucceeded, "SUCCEEDED"},
    {TaskState::kDead, "DEAD"},
    {TaskState::kDiscarded, "DISCARDED"},
}};
constexpr std::array<std::pair<AttemptVerdict, std::string_view>, 4> kVerdicts = {{
    {AttemptVerdict::kSucceeded, "succeeded"},
    {AttemptVerdict::kRetry, "retry"},
    {AttemptVerdict::kUnknown, "unknown"},
    {AttemptVerdict::kRefused, "refused"},
}};

template <class Table, class Value>
std::string_view NameIn(const Table& table, Value value) {
  for (const auto& [entry, name] : table) {
    if (entry == value) return name;
  }
  return "?";
}

template <class Table>
auto ValueIn(const Table& table, std::string_view text) -> std::optional<decltype(table.front().first)> {
  for (const auto& [entry, name] : table) {
    if (name == text) return entry;
  }
  return std::nullopt;
}

}  // namespace

std::string_view ToString(TaskState state) {
  return NameIn(kStates, state);
}
std::optional<TaskState> ParseTaskState(std::string_view text) {
  return ValueIn(kStates, text);
}
std::optional<std::chrono::milliseconds> FirstDue(std::span<const TargetOutlook> outlooks) {
  std::optional<std::chrono::milliseconds> first;
  for (const TargetOutlook& outlook : outlooks) {
    if (!outlook.due_in || outlook.paused) continue;
    first = std::min(first.value_or(*outlook.due_in), *outlook.due_in);
  }
  return first;
}

std::string_view ToString(AttemptVerdict verdict) {
  return NameIn(kVerdicts, verdict);
}
std::optional<AttemptVerdict> ParseAttemptVerdict(std::string_view text) {
  return ValueIn(kVerdicts, text);
}

}  // namespace sealane
