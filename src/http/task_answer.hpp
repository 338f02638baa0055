#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "http/http_caller.hpp"
#include "tasks/task_attempt.hpp"

namespace sealane {

/// What 409 from a target means. Receivers differ: some say it for a task that contradicts what is there, some while
/// the first request with the same Idempotency-Key is being worked on, some for one that was done before.
enum class ConflictMeaning : std::uint8_t { kRefused, kRetry, kSucceeded };
/// `refused`, `retry`, `success`.
std::optional<ConflictMeaning> ParseConflictMeaning(std::string_view text);

}  // namespace sealane

namespace sealane::http {

/// No Retry-After makes a task wait longer.
inline constexpr std::chrono::hours kTaskRetryAfterMax{1};

/// What an answer says about a task.
///
/// 2xx: succeeded. 425, 429, 503: it did not happen, and may later. 408 and every other 5xx may have taken effect. A
/// redirect is refused, and so is every other 4xx, but 401, 403 and 407: there the target's configuration is at fault
/// and not the task. Without an answer it did not happen when nothing was sent, and may have when a part was.
AttemptReport JudgeTaskReply(HttpReply reply, ConflictMeaning conflict);

}  // namespace sealane::http
