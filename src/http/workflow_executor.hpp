#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "sealane/event.hpp"
#include "sealane/result.hpp"

#include "http/http_caller.hpp"
#include "http/task_answer.hpp"
#include "tasks/task_executor.hpp"

namespace sealane {

struct WorkflowOptions {
  http::CallerOptions caller;                ///< of the cluster's REST API, without /v2
  Headers headers = {};                      ///< sent with every request, for example `Authorization`
  std::string key_variable = "businessKey";  ///< the process variable that holds the task's key
  ConflictMeaning conflict = ConflictMeaning::kRefused;
  /// After an attempt that may have started an instance: at least this long until the next, because a search finds
  /// new instances with a delay.
  std::chrono::milliseconds settle = std::chrono::seconds{10};
};

/// Starts process instances over the REST API of Camunda 8 (8.8 and later): the task's operation is the process id
/// (of its newest version), its request a JSON object of variables, to which its key is added. The response, with
/// processInstanceKey, is the answer of the cluster.
///
/// The cluster keeps no Idempotency-Keys. Before an attempt that is not the first, it is asked for an instance of
/// this process that has the key in its variable; when there is one, that is the task's, and nothing is started. The
/// search lags behind (seconds, more under load), so an instance can be started twice when the answer to the first
/// attempt was lost and the search did not yet know it: `settle` makes that rare, not impossible.
Result<std::shared_ptr<TaskExecutor>> OpenWorkflowExecutor(WorkflowOptions options);

}  // namespace sealane
