// The commands that look at targets of tasks, and stop and continue them.
#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/time_text.hpp"
#include "commands/operator_options.hpp"
#include "commands/tasks.hpp"
#include "task_view.hpp"

namespace sealane::cli {
namespace {

/// What the store knows, and the targets of the configuration that it has nothing about.
Result<std::vector<TargetSummary>> AllTargets(CommandContext& context, TaskDesk& desk) {
  SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
  SEALANE_ASSIGN_OR_RETURN(auto targets, desk.Targets());
  for (const auto& section : config->targets()) {
    const std::string& name = section.first;
    if (std::ranges::find(targets, name, &TargetSummary::target) != targets.end()) continue;
    TargetSummary configured;
    configured.target = name;
    targets.push_back(std::move(configured));
  }
  std::ranges::sort(targets, {}, &TargetSummary::target);
  return targets;
}

class TasksTargetsCommand final : public Command {
 public:
  std::string_view path() const override { return "tasks targets"; }
  std::string_view summary() const override {
    return "list targets: which are down or paused, and what waits for them";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane tasks targets", "sealane tasks targets -o json"};
  }
  std::vector<OptionSpec> Options() override { return {}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreTaskDesk());
    SEALANE_ASSIGN_OR_RETURN(const auto targets, AllTargets(context, *desk));
    if (context.format() == OutputFormat::kJsonl) {
      for (const TargetSummary& target : targets) context.out() << TargetSummaryJson(target) << '\n';
      return ExitCode::kDone;
    }
    if (!context.is_table()) {
      std::vector<std::string> items;
      for (const TargetSummary& target : targets) items.push_back(TargetSummaryJson(target));
      context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("targets", JsonArray(items)).Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    if (targets.empty()) {
      context.err() << "there are no targets: none is configured, and no task waits\n";
      return ExitCode::kDone;
    }
    context.out() << TargetSummaryTable(targets, context.color());
    for (const TargetSummary& target : targets) {
      if (!target.pause) continue;
      context.SuggestNext(fmt::format("sealane tasks resume {} --reason \"...\"", target.target));
      break;
    }
    return ExitCode::kDone;
  }
};

class TasksPauseCommand final : public Command {
 public:
  explicit TasksPauseCommand(bool pause) : pause_(pause) {}

  std::string_view path() const override { return pause_ ? "tasks pause" : "tasks resume"; }
  std::string_view summary() const override {
    return pause_ ? "send nothing more to a target; its tasks wait" : "let a paused target go on";
  }
  std::vector<std::string_view> examples() const override {
    return {pause_ ? "sealane tasks pause billing --reason \"provider maintenance until 14:00\""
                   : "sealane tasks resume billing --reason \"maintenance is over\""};
  }
  std::vector<OptionSpec> Options() override {
    std::vector<OptionSpec> options = {{"target", "TARGET", "the target", &target_, true}};
    operator_.AddTo(options);
    return options;
  }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const OperatorAction action, operator_.Action(context));
    SEALANE_ASSIGN_OR_RETURN(const Config* config, context.config());
    SEALANE_ASSIGN_OR_RETURN(const auto desk, context.OpenStoreTaskDesk());
    const bool configured = config->targets().find(*target_) != config->targets().end();
    if (!pause_) {
      SEALANE_ASSIGN_OR_RETURN(const bool resumed, desk->Resume(*target_, action));
      return resumed ? Answer(context, *desk, true) : NotPaused(context, *desk);
    }
    SEALANE_ASSIGN_OR_RETURN(const PauseOutcome outcome, desk->Pause(*target_, configured, action));
    if (outcome == PauseOutcome::kUnknown) return Unknown(context, *desk);
    return Answer(context, *desk, outcome == PauseOutcome::kPaused);
  }

 private:
  Result<std::optional<TargetSummary>> Find(CommandContext& context, TaskDesk& desk) const {
    SEALANE_ASSIGN_OR_RETURN(const auto targets, AllTargets(context, desk));
    const auto found = std::ranges::find(targets, *target_, &TargetSummary::target);
    return found == targets.end() ? std::nullopt : std::optional(*found);
  }

  Result<ExitCode> NotPaused(CommandContext& context, TaskDesk& desk) const {
    SEALANE_ASSIGN_OR_RETURN(const auto found, Find(context, desk));
    if (!found) return Unknown(context, desk);
    return Answer(context, desk, false);
  }

  Error Unknown(CommandContext& context, TaskDesk& desk) const {
    const auto targets = AllTargets(context, desk);
    std::vector<std::string_view> names;
    if (targets) {
      for (const TargetSummary& target : *targets) names.push_back(target.target);
    }
    const std::string_view meant = ClosestMatch(*target_, names);
    return Error(ErrorKind::kRejected, "unknown_target", fmt::format("there is no target \"{}\"", *target_))
        .WithHint(meant.empty() ? fmt::format("sealane tasks targets lists them; a target without tasks is known by "
                                              "[target.{}] in sealane.toml",
                                              *target_)
                                : fmt::format("did you mean `{}`?", meant))
        .WithField("TARGET");
  }

  Result<ExitCode> Answer(CommandContext& context, TaskDesk& desk, bool changed) const {
    SEALANE_ASSIGN_OR_RETURN(const auto found, Find(context, desk));
    TargetSummary target = found.value_or(TargetSummary{});
    target.target = *target_;
    if (!context.is_table()) {
      context.out() << JsonDocument()
                           .Text("apiVersion", kApiVersion)
                           .Truth("changed", changed)
                           .Raw("target", TargetSummaryJson(target))
                           .Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    const std::string name = EscapeForTerminal(*target_);
    if (!pause_) {
      context.out() << fmt::format("target {} {}\n", name,
                                   changed ? "goes on" : "is not paused; nothing was changed");
      return ExitCode::kDone;
    }
    if (changed) {
      context.out() << fmt::format("target {} is paused; attempts under way go on\n", name);
    } else if (target.pause) {
      context.out() << fmt::format("target {} is paused already, since {} by {}: {}; nothing was changed\n", name,
                                   ToRfc3339(target.pause->at), EscapeForTerminal(target.pause->actor),
                                   EscapeForTerminal(target.pause->reason));
    }
    context.SuggestNext(fmt::format("sealane tasks resume {} --reason \"...\"", *target_));
    return ExitCode::kDone;
  }

  const bool pause_;
  std::optional<std::string> target_;
  OperatorOptions operator_;
};

}  // namespace

std::unique_ptr<Command> MakeTasksTargetsCommand() {
  return std::make_unique<TasksTargetsCommand>();
}
std::unique_ptr<Command> MakeTasksPauseCommand() {
  return std::make_unique<TasksPauseCommand>(true);
}
std::unique_ptr<Command> MakeTasksResumeCommand() {
  return std::make_unique<TasksPauseCommand>(false);
}

}  // namespace sealane::cli
