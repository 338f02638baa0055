// The commands by which a person decides about tasks.
#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "commands/operator_options.hpp"
#include "commands/task_filter.hpp"
#include "commands/tasks.hpp"
#include "task_view.hpp"

namespace sealane::cli {
namespace {

constexpr std::string_view kRetryStates = "FAILED, DEAD";

void PrintChanged(CommandContext& context, std::string_view verb, std::int64_t count) {
  if (context.is_table()) {
    context.out() << fmt::format("{} {}\n", count, verb);
  } else {
    context.out() << JsonDocument().Text("apiVersion", kApiVersion).Integer("changed", count).Finish() << '\n';
  }
}

class TasksRetryCommand final : public Command {
 public:
  std::string_view path() const override { return "tasks retry"; }
  std::string_view summary() const override {
    return "have failed and dead tasks tried again now, with the same key";
  }
  std::vector<std::string_view> examples() const override {
    return {
        "sealane tasks retry 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --reason \"card was renewed\"",
        "sealane tasks retry --target billing --code http_404 --dry-run --reason \"INC-42\"",
        "sealane tasks retry --target billing --state DEAD --reason \"INC-42 is over\" --yes",
        "sealane tasks retry --all --reason \"INC-42 is over\" --yes",
    };
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"id", "ID", "one task", &id_}};
    filter_.AddTo(options, kRetryStates);
    options.push_back({"--all", "", "every task that is FAILED or DEAD", &all_});
    options.push_back({"--dry-run", "", "show what would be tried, and change nothing", &dry_run_});
    options.push_back({"--yes", "", "do not ask", &yes_});
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_RETURN_IF_ERROR(CheckSelection());
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    if (id_) return RetryOne(context, action);
    SEALANE_ASSIGN_OR_RETURN(TaskFilter filter, filter_.Filter(kRetryStates));
    filter.limit = kDeadLettersMax;
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreTaskDesk());
    SEALANE_ASSIGN_OR_RETURN(const auto found, Candidates(*desk, filter));
    if (dry_run_) return PrintPlan(context, found);
    if (found.empty()) {
      PrintChanged(context, "tasks to try again", 0);
      return ExitCode::kDone;
    }
    if (found.size() > 1) {
      SEALANE_RETURN_IF_ERROR(Confirm(context, yes_, fmt::format("try {} tasks again?", found.size())));
    }
    context.OnInterrupt("some of the tasks may be due already, look with: sealane tasks list");
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, desk->Retry(filter, action));
    PrintChanged(context, count == 1 ? "task is due now" : "tasks are due now", count);
    if (found.size() >= kDeadLettersMax) context.Warn("there may be more: run it again");
    context.SuggestNext("sealane tasks list");
    return ExitCode::kDone;
  }

 private:
  Status CheckSelection() const {
    if (id_ && (all_ || !filter_.selects_all())) {
      return BadUsage("a task and a filter cannot be given together", "give the id alone, or the filter alone", "ID");
    }
    if (id_ && dry_run_) {
      return BadUsage("--dry-run is for filters", "sealane tasks show ID shows the task", "--dry-run");
    }
    if (!id_ && !all_ && filter_.selects_all()) {
      return BadUsage("tasks retry needs a task or a filter",
                      "give an ID, --target, --operation, --tenant, --key, --code, --state, or --all", "ID");
    }
    if (all_ && !filter_.selects_all()) {
      return BadUsage("--all and a filter cannot be given together", "leave --all out", "--all");
    }
    return Ok();
  }

  // Both states when none is given: a filter has one.
  static Result<std::vector<TaskSummary>> Candidates(TaskDesk& desk, TaskFilter filter) {
    if (filter.state) return desk.List(filter);
    filter.state = TaskState::kDead;
    SEALANE_ASSIGN_OR_RETURN(auto found, desk.List(filter));
    filter.state = TaskState::kFailed;
    SEALANE_ASSIGN_OR_RETURN(const auto failed, desk.List(filter));
    found.insert(found.end(), failed.begin(), failed.end());
    return found;
  }

  Result<ExitCode> RetryOne(CommandContext& context, const OperatorAction& action) const {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseTaskIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreTaskDesk());
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, desk->Retry(id, action));
    if (count == 0) return NoSuchTask(id, "is neither FAILED nor DEAD");
    PrintChanged(context, "due now", count);
    context.SuggestNext(fmt::format("sealane tasks show {}", id.ToString()));
    return ExitCode::kDone;
  }

  static Result<ExitCode> PrintPlan(CommandContext& context, const std::vector<TaskSummary>& found) {
    if (context.is_table()) {
      if (!found.empty()) context.out() << TaskSummaryTable(found, context.color());
      context.err() << fmt::format("{} tasks would be tried again; nothing was changed\n", found.size());
      return ExitCode::kDone;
    }
    context.out() << JsonDocument()
                         .Text("apiVersion", kApiVersion)
                         .Truth("dry_run", true)
                         .Integer("would_change", static_cast<std::int64_t>(found.size()))
                         .Raw("tasks", JsonArray(TaskSummariesJson(found)))
                         .Finish()
                  << '\n';
    return ExitCode::kDone;
  }

  std::optional<std::string> id_;
  TaskFilterOptions filter_;
  bool all_ = false;
  bool dry_run_ = false;
  bool yes_ = false;
  OperatorOptions operator_;
};

class TasksDiscardCommand final : public Command {
 public:
  std::string_view path() const override { return "tasks discard"; }
  std::string_view summary() const override {
    return "give one task up for good; those behind it in its order go on";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane tasks discard 018f2f1e-7a5b-7c3d-9e1f-2a3b4c5d6e7f --reason \"refunded by hand\""};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"id", "ID", "the task's id", &id_, true}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const EventId id, ParseTaskIdOption(*id_));
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreTaskDesk());
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t count, desk->Discard(id, action));
    if (count == 0) return NoSuchTask(id, "is not PENDING, FAILED or DEAD");
    PrintChanged(context, "discarded", count);
    context.SuggestNext(fmt::format("sealane tasks show {}", id.ToString()));
    return ExitCode::kDone;
  }

 private:
  std::optional<std::string> id_;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeTasksRetryCommand() {
  return std::make_unique<TasksRetryCommand>();
}
std::unique_ptr<Command> MakeTasksDiscardCommand() {
  return std::make_unique<TasksDiscardCommand>();
}

}  // namespace sealane::cli
