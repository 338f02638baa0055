#include "daemon/target_setup.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "command.hpp"
#include "config/key_place.hpp"
#include "config/values.hpp"
#include "daemon/retry_setup.hpp"
#include "http/task_executor.hpp"
#include "http/workflow_executor.hpp"

namespace sealane::cli {
namespace {

constexpr RetryKeys kRetryKeys = {.preset = Key::kTargetRetryPreset,
                                  .first = Key::kTargetRetryFirst,
                                  .factor = Key::kTargetRetryFactor,
                                  .max = Key::kTargetRetryMax,
                                  .jitter = Key::kTargetRetryJitter,
                                  .attempts = Key::kTargetRetryAttempts};

Error Misconfigured(const std::string& target, Key key, std::string_view message, std::string_view hint) {
  const std::string name = FullName(SpecOf(key).name, Section::kTarget, target);
  return Error(ErrorKind::kMisconfigured, "bad_configuration", fmt::format("{}: {}", name, message))
      .WithHint(std::string(hint))
      .WithField(name);
}

bool HoldsDoubtful(const Settings& target) {
  return target.Text(Key::kTargetInDoubt) == "hold";
}

http::CallerOptions CallerOf(const Settings& target) {
  return {.url = target.Text(Key::kTargetUrl),
          .ca_file = target.Text(Key::kTargetCaFile),
          .timeout = target.Duration(Key::kTargetTimeout),
          .connect_timeout = target.Duration(Key::kTargetConnectTimeout),
          .response_max = target.Size(Key::kTargetResponseMax),
          .reuse_connections = !HoldsDoubtful(target)};
}

Result<std::shared_ptr<TaskExecutor>> OpenExecutor(const Settings& target) {
  Headers headers;
  for (const auto& [name, header] : target.Table(kTargetHeaderTable)) headers.push_back({name, header.value});
  const ConflictMeaning conflict = *ParseConflictMeaning(target.Text(Key::kTargetConflict));
  if (target.Text(Key::kTargetKind) == "workflow") {
    return OpenWorkflowExecutor({.caller = CallerOf(target),
                                 .headers = std::move(headers),
                                 .key_variable = target.Text(Key::kTargetKeyVariable),
                                 .conflict = conflict,
                                 .settle = target.Duration(Key::kTargetSettle)});
  }
  return OpenHttpTaskExecutor({.caller = CallerOf(target),
                               .method = target.Text(Key::kTargetMethod),
                               .headers = std::move(headers),
                               .conflict = conflict});
}

BreakerOptions BreakerOf(const Settings& target) {
  return {.failures = static_cast<std::int32_t>(target.Integer(Key::kTargetBreakerFailures)),
          .first = std::max(target.Duration(Key::kTargetBreakerFirst), std::chrono::milliseconds{1}),
          .max = target.Duration(Key::kTargetBreakerMax)};
}

Result<TaskTarget> OpenTarget(const std::string& name, const Settings& section) {
  if (!section.Has(Key::kTargetUrl)) {
    return Misconfigured(name, Key::kTargetUrl, "it is not set", "write the address of the target");
  }
  auto executor = OpenExecutor(section);
  if (!executor) {
    return Error(ErrorKind::kMisconfigured, "bad_configuration",
                 fmt::format("target {}: {}", name, executor.error().message()))
        .WithHint(executor.error().hint())
        .WithField(executor.error().field());
  }
  TaskTarget target{.executor = *std::move(executor),
                    .retry = RetryOf(section, kRetryKeys),
                    .resend_in_doubt = !HoldsDoubtful(section),
                    .concurrency = static_cast<std::size_t>(section.Integer(Key::kTargetConcurrency)),
                    .breaker = BreakerOf(section)};
  if (target.retry.first > target.retry.max) {
    return Misconfigured(name, Key::kTargetRetryMax, "the first wait is longer than the longest",
                         fmt::format("set it to at least {} ms", target.retry.first.count()));
  }
  if (target.breaker.first > target.breaker.max) {
    return Misconfigured(name, Key::kTargetBreakerMax, "the first wait is longer than the longest",
                         fmt::format("set it to at least {} ms", target.breaker.first.count()));
  }
  return target;
}

Result<Settings> SectionFor(const Config& config, const std::string& flag) {
  const std::size_t equals = flag.find('=');
  const std::string name = flag.substr(0, equals);
  if (auto checked = CheckSectionName(name); !checked) {
    return BadUsage(fmt::format("--target: {}", checked.error().message()), checked.error().hint(), "--target");
  }
  const auto found = config.targets().find(name);
  if (equals != std::string::npos) {
    Settings section = found == config.targets().end() ? Settings() : found->second;
    const std::string url = flag.substr(equals + 1);
    auto checked = CheckValue(SpecOf(Key::kTargetUrl), url);
    if (!checked) {
      return BadUsage(fmt::format("--target {}: {}", name, checked.error().message()), checked.error().hint(),
                      "--target");
    }
    section.At(Key::kTargetUrl) = {.written = url, .value = *checked, .origin = "--target"};
    return section;
  }
  if (found != config.targets().end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& target : config.targets()) known.push_back(target.first);
  const std::string_view meant = ClosestMatch(name, known);
  return BadUsage(fmt::format("--target: there is no target `{}`", name),
                  meant.empty() ? fmt::format("add [target.{}], or write --target {}=https://host/path", name, name)
                                : fmt::format("did you mean `{}`?", meant),
                  "--target");
}

}  // namespace

Result<Config::Sections> SelectTargets(const Config& config, const std::vector<std::string>& flags) {
  Config::Sections targets;
  if (flags.empty()) targets = config.targets();
  for (const std::string& flag : flags) {
    SEALANE_ASSIGN_OR_RETURN(Settings section, SectionFor(config, flag));
    if (!targets.try_emplace(flag.substr(0, flag.find('=')), std::move(section)).second) {
      return BadUsage(fmt::format("--target: `{}` is named twice", flag.substr(0, flag.find('='))), {}, "--target");
    }
  }
  if (targets.empty()) {
    return Error(ErrorKind::kMisconfigured, "target_not_set", "no target is given")
        .WithHint("use --target NAME=https://host/path, or put [target.NAME] with its url into sealane.toml")
        .WithField("target.NAME.url");
  }
  return targets;
}

Result<TaskTargets> OpenTargets(const Config::Sections& targets) {
  TaskTargets opened;
  for (const auto& [name, section] : targets) {
    SEALANE_ASSIGN_OR_RETURN(TaskTarget target, OpenTarget(name, section));
    opened.emplace(name, std::move(target));
  }
  return opened;
}

Status CheckTargets(const Config& config) {
  SEALANE_RETURN_IF_ERROR(OpenTargets(config.targets()));
  return Ok();
}

}  // namespace sealane::cli
