#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

#include "http/http_caller.hpp"
#include "http/task_answer.hpp"
#include "tasks/task_executor.hpp"

namespace sealane {

struct HttpTaskOptions {
  http::CallerOptions caller;
  std::string method = "POST";  ///< POST, PUT, PATCH or DELETE
  Headers headers = {};         ///< sent with every request, for example `Authorization`
  ConflictMeaning conflict = ConflictMeaning::kRefused;
};

/// Carries out tasks as requests: the target's URL and the task's operation make the address, the task's request is
/// the body, and `Idempotency-Key` is the task's key, the same on every attempt (http/http_headers.hpp). What which
/// answer means: http/task_answer.hpp.
///
/// An operation that is no IsTaskPath() is refused as `invalid_operation`. Nothing is connected yet. Errors are about
/// the options.
Result<std::shared_ptr<TaskExecutor>> OpenHttpTaskExecutor(HttpTaskOptions options);

/// Whether an operation is a path, with a query if need be, in printable ASCII, that cannot lead out of the target's
/// URL (another host, `..`).
bool IsTaskPath(std::string_view operation);

}  // namespace sealane
