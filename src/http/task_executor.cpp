#include "http/task_executor.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "http/http_endpoint.hpp"
#include "http/http_headers.hpp"

namespace sealane {
namespace {

constexpr std::array<std::string_view, 4> kMethods = {"POST", "PUT", "PATCH", "DELETE"};

// Printable, and without what a URL parser would read as something else than a path and a query.
bool IsPlain(std::string_view operation) {
  return operation.starts_with('/') && std::all_of(operation.begin(), operation.end(), [](char c) {
           return c > 0x20 && c < 0x7f && c != '#' && c != '\\';
         });
}

// `.` or `..`, however their dots are spelled.
bool ClimbsUp(std::string_view segment) {
  int dots = 0;
  while (!segment.empty()) {
    if (segment.starts_with('.')) {
      segment.remove_prefix(1);
    } else if (segment.starts_with("%2e") || segment.starts_with("%2E")) {
      segment.remove_prefix(3);
    } else {
      return false;
    }
    ++dots;
  }
  return dots == 1 || dots == 2;
}

}  // namespace

bool IsTaskPath(std::string_view operation) {
  if (!IsPlain(operation)) return false;
  const std::string_view path = operation.substr(0, operation.find('?'));
  for (std::size_t at = 1; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (ClimbsUp(path.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

namespace {

class HttpTaskExecutor final : public TaskExecutor {
 public:
  HttpTaskExecutor(HttpTaskOptions options, std::unique_ptr<http::HttpCaller> caller)
      : options_(std::move(options)), caller_(std::move(caller)) {}

  AttemptReport Execute(const ClaimedTask& claimed, std::stop_token stop) override {
    if (!IsTaskPath(claimed.task.operation)) {
      AttemptReport report{.verdict = AttemptVerdict::kRefused, .code = "invalid_operation"};
      report.message =
          fmt::format("`{}` is no path below the target's URL", EscapeForTerminal(claimed.task.operation));
      return report;
    }
    if (stop.stop_requested()) {
      return {.verdict = AttemptVerdict::kRetry, .code = "stopped", .message = "the dispatcher was stopped"};
    }
    return http::JudgeTaskReply(caller_->Call({.method = options_.method,
                                               .path = claimed.task.operation,
                                               .headers = http::TaskHeaderLines(claimed, options_.headers),
                                               .body = claimed.task.request}),
                                options_.conflict);
  }

  std::chrono::milliseconds time_limit() const override { return options_.caller.timeout; }

 private:
  const HttpTaskOptions options_;
  const std::unique_ptr<http::HttpCaller> caller_;
};

}  // namespace

Result<std::shared_ptr<TaskExecutor>> OpenHttpTaskExecutor(HttpTaskOptions options) {
  if (std::find(kMethods.begin(), kMethods.end(), options.method) == kMethods.end()) {
    return Error(ErrorKind::kMisconfigured, "invalid_http_options",
                 fmt::format("tasks are not sent with {}", EscapeForTerminal(options.method)))
        .WithField("method")
        .WithHint("use POST, PUT, PATCH or DELETE");
  }
  SEALANE_RETURN_IF_ERROR(http::CheckHeaders(options.headers));
  SEALANE_ASSIGN_OR_RETURN(auto caller, http::HttpCaller::Open(options.caller));
  return std::shared_ptr<TaskExecutor>(std::make_shared<HttpTaskExecutor>(std::move(options), std::move(caller)));
}

}  // namespace sealane
