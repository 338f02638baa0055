#include "http/workflow_executor.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "core/json_scan.hpp"
#include "http/http_endpoint.hpp"
#include "http/http_headers.hpp"

namespace sealane {
namespace {

constexpr std::string_view kInstances = "/v2/process-instances";

Result<std::optional<JsonSlice>> Member(const JsonSlice& object, std::string_view name) {
  JsonMembers members(object);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const auto member, members.Next());
    if (!member) return std::optional<JsonSlice>();
    if (member->name == name) return std::optional(member->value);
  }
}

// The task's variables with its key among them.
Result<std::string> VariablesOf(const Task& task, const std::string& key_variable) {
  const std::string_view text = task.request.empty() ? std::string_view("{}") : std::string_view(task.request);
  SEALANE_ASSIGN_OR_RETURN(const JsonSlice request, ScanJson(text));
  if (request.type != JsonType::kObject) {
    return Error(ErrorKind::kRejected, "invalid_request", "the request is no JSON object of variables");
  }
  SEALANE_ASSIGN_OR_RETURN(const auto there, Member(request, key_variable));
  if (there) {
    if (there->type == JsonType::kString) {
      SEALANE_ASSIGN_OR_RETURN(const std::string value, DecodeJsonString(*there));
      if (value == task.idempotency_key) return std::string(request.bytes);
    }
    return Error(ErrorKind::kRejected, "invalid_request",
                 fmt::format("the request has a variable {} that is not the task's key", key_variable));
  }
  const std::string_view rest = request.bytes.substr(1);
  const bool empty = rest.find_first_not_of(" \t\r\n") == rest.size() - 1;
  return fmt::format("{{{}:{}{}{}", JsonString(key_variable), JsonString(task.idempotency_key), empty ? "" : ",",
                     rest);
}

// The first item of what a search found, as it was written. An error when that is no result of a search.
Result<std::optional<std::string>> FirstItem(std::string_view body) {
  const auto strange = [] {
    return Error(ErrorKind::kRejected, "search_failed", "the answer to the search has no items");
  };
  SEALANE_ASSIGN_OR_RETURN(const JsonSlice whole, ScanJson(body));
  if (whole.type != JsonType::kObject) return strange();
  SEALANE_ASSIGN_OR_RETURN(const auto items, Member(whole, "items"));
  if (!items || items->type != JsonType::kArray) return strange();
  const std::string_view inside = items->bytes.substr(1, items->bytes.size() - 2);
  if (inside.find_first_not_of(" \t\r\n") == std::string_view::npos) return std::optional<std::string>();
  // One item was asked for; with more of them the array as a whole is told.
  if (auto one = ScanJson(inside)) return std::optional(std::string(one->bytes));
  return std::optional(std::string(items->bytes));
}

class WorkflowExecutor final : public TaskExecutor {
 public:
  WorkflowExecutor(WorkflowOptions options, std::unique_ptr<http::HttpCaller> caller)
      : options_(std::move(options)), caller_(std::move(caller)) {}

  AttemptReport Execute(const ClaimedTask& claimed, std::stop_token stop) override {
    const auto variables = VariablesOf(claimed.task, options_.key_variable);
    if (!variables) {
      return {.verdict = AttemptVerdict::kRefused, .code = "invalid_request", .message = variables.error().message()};
    }
    if (stop.stop_requested()) {
      return {.verdict = AttemptVerdict::kRetry, .code = "stopped", .message = "the dispatcher was stopped"};
    }
    std::chrono::microseconds searched{};
    if (claimed.attempt > 1 || claimed.in_doubt) {
      Search search = FindInstance(claimed);
      if (search.end) return *std::move(search.end);
      searched = search.took;
    }
    const std::string body =
        fmt::format(R"({{"processDefinitionId":{},"variables":{}}})", JsonString(claimed.task.operation), *variables);
    AttemptReport report = http::JudgeTaskReply(Post(claimed, std::string(kInstances), body), options_.conflict);
    report.took += searched;
    if (report.verdict == AttemptVerdict::kUnknown) {
      report.retry_after = std::max(report.retry_after.value_or(options_.settle), options_.settle);
    }
    return report;
  }

  std::chrono::milliseconds time_limit() const override { return options_.caller.timeout * 2; }

 private:
  struct Search {
    std::optional<AttemptReport> end = {};  ///< an instance was found, or it could not be found out
    std::chrono::microseconds took{};
  };

  http::HttpReply Post(const ClaimedTask& claimed, std::string path, const std::string& body) const {
    std::vector<std::string> headers = http::TaskHeaderLines(claimed, options_.headers);
    headers.emplace_back("Accept: application/json");
    return caller_->Call({.path = std::move(path), .headers = std::move(headers), .body = body});
  }

  // A variable's value is compared in its JSON form: a text has quotes.
  Search FindInstance(const ClaimedTask& claimed) const {
    const std::string body =
        fmt::format(R"({{"filter":{{"processDefinitionId":{},"variables":[{{"name":{},"value":{}}}]}},)"
                    R"("page":{{"limit":1}}}})",
                    JsonString(claimed.task.operation), JsonString(options_.key_variable),
                    JsonString(JsonString(claimed.task.idempotency_key)));
    AttemptReport report =
        http::JudgeTaskReply(Post(claimed, std::string(kInstances) + "/search", body), ConflictMeaning::kRefused);
    if (report.verdict != AttemptVerdict::kSucceeded) {
      // Looking has no effect, and without it nothing is started.
      report.verdict = AttemptVerdict::kRetry;
      if (report.code != "not_authorised") report.code = "search_failed";
      report.message = "whether an instance was started could not be found out: " + report.message;
      return {.end = std::move(report)};
    }
    auto found = FirstItem(report.response);
    if (!found) {
      report.verdict = AttemptVerdict::kRetry;
      report.code = "search_failed";
      report.message = found.error().message();
      return {.end = std::move(report)};
    }
    if (!*found) return {.took = report.took};
    report.response = **std::move(found);
    return {.end = std::move(report)};
  }

  const WorkflowOptions options_;
  const std::unique_ptr<http::HttpCaller> caller_;
};

}  // namespace

Result<std::shared_ptr<TaskExecutor>> OpenWorkflowExecutor(WorkflowOptions options) {
  if (options.key_variable.empty()) {
    return Error(ErrorKind::kMisconfigured, "invalid_http_options", "the variable for the key has no name")
        .WithField("key_variable")
        .WithHint("leave it out for businessKey");
  }
  SEALANE_RETURN_IF_ERROR(http::CheckHeaders(options.headers));
  SEALANE_ASSIGN_OR_RETURN(auto caller, http::HttpCaller::Open(options.caller));
  return std::shared_ptr<TaskExecutor>(std::make_shared<WorkflowExecutor>(std::move(options), std::move(caller)));
}

}  // namespace sealane
