#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sealane {

/// What an attempt came to.
enum class AttemptVerdict : std::uint8_t {
  kSucceeded,  ///< the receiver says it is done
  kRetry,      ///< it surely did not happen, and may later
  kUnknown,    ///< it may have happened: no answer, or half of one. Tried again with the same key
  kRefused,    ///< the receiver will never take it
};
/// `succeeded`, `retry`, `unknown`, `refused`.
std::string_view ToString(AttemptVerdict verdict);
std::optional<AttemptVerdict> ParseAttemptVerdict(std::string_view text);

/// One attempt at a task, as it is written down.
struct AttemptReport {
  AttemptVerdict verdict = AttemptVerdict::kSucceeded;
  std::optional<std::int32_t> status = {};  ///< of the receiver's answer, for example 503
  std::string code = {};                    ///< a stable snake_case word when it did not succeed
  std::string message = {};                 ///< for people; no secrets
  std::string response = {};                ///< body of the answer, cut at the executor's limit
  bool response_cut = false;
  std::string response_type = {};                             ///< its media type
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< the receiver asked for this wait
  std::chrono::microseconds took{};
  /// With kRetry and kUnknown: the target is down or takes nothing from us at all, which is not this task's fault.
  /// For the target's circuit breaker; not written down.
  bool target_down = false;
};

}  // namespace sealane
