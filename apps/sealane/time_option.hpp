#pragma once

#include <string_view>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

namespace sealane::cli {

/// A point in the future: RFC 3339, or `+5m` from now. Errors are kRejected (`invalid_time`).
Result<Timestamp> ParseFutureTime(std::string_view text, Timestamp now);
/// A point in the past: RFC 3339, or `15m` ago.
Result<Timestamp> ParsePastTime(std::string_view text, Timestamp now);

}  // namespace sealane::cli
