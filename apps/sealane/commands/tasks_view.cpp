// The commands that look at tasks and change nothing.
#include <ostream>

#include <fmt/format.h>

#include "commands/inbox_filter.hpp"
#include "commands/task_filter.hpp"
#include "commands/tasks.hpp"
#include "task_view.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kAllStates = "PENDING, SENDING, FAILED, SUCCEEDED, DEAD, DISCARDED";

class TasksListCommand final : public Command {
 public:
  std::string_view path() const override { return "tasks list"; }
  std::string_view summary() const override { return "list tasks, newest first"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane tasks list", "sealane tasks list --state DEAD --target billing",
            "sealane tasks list --key order-17 -o json"};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options;
    options_.AddTo(options, kAllStates);
    options.push_back({"--limit", "N", "at most this many (default: 50)", &limit_});
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(TaskFilter filter, options_.Filter(kAllStates));
    SEALANE_ASSIGN_OR_RETURN(filter.limit, LimitOption(limit_));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreTaskDesk());
    SEALANE_ASSIGN_OR_RETURN(const auto found, desk->List(filter));
    const bool more = found.size() == filter.limit;
    if (context.format() == OutputFormat::kJsonl) {
      for (const TaskSummary& task : found) context.out() << TaskSummaryJson(task) << '\n';
      return ExitCode::kDone;
    }
    if (!context.is_table()) {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Raw("tasks", JsonArray(TaskSummariesJson(found)))
                           .Truth("more", more)
                           .Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    if (found.empty()) {
      context.err() << "there are no such tasks\n";
      return ExitCode::kDone;
    }
    context.out() << TaskSummaryTable(found, context.color());
    if (more) context.err() << "there may be more: raise --limit or narrow it down\n";
    context.SuggestNext(fmt::format("sealane tasks show {}", found.front().id.ToString()));
    return ExitCode::kDone;
  }

 private:
  TaskFilterOptions options_;
  std::optional<std::string> limit_;
};

class TasksShowCommand final : public Command {
 public:
  std::string_view path() const override { return "tasks show"; }
  std::string_view summary() const override {
    return "show one task, its request, and every attempt with its answer";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane tasks show 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f"};
  }
  std::vector<OptionSpec> Options() override { return {{"id", "ID", "the task's id", &id_, true}}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseTaskIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreTaskDesk());
    SEALANE_ASSIGN_OR_RETURN(const auto found, desk->Find(id));
    if (!found) {
      return Error(ErrorKind::kRejected, "not_found", fmt::format("there is no task {}", id.ToString()))
          .WithHint("it was never committed, or it ended long ago and is forgotten");
    }
    if (!context.is_table()) {
      context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("task", TaskDetailsJson(*found)).Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    context.out() << TaskDetailsText(*found, context.color());
    if (found->summary.state == TaskState::kDead || found->summary.state == TaskState::kFailed) {
      context.SuggestNext(fmt::format("sealane tasks retry {} --reason \"...\"", id.ToString()));
    }
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> id_;
};

}  // namespace

std::unique_ptr<Command> MakeTasksListCommand() {
  return std::make_unique<TasksListCommand>();
}
std::unique_ptr<Command> MakeTasksShowCommand() {
  return std::make_unique<TasksShowCommand>();
}

}  // namespace sealane::cli
