#include "time_option.hpp"

#include <fmt/format.h>

#include "base/time_text.hpp"
#include "config/units.hpp"

namespace sealane::cli {
namespace {

Error InvalidTime(std::string_view text, std::string_view relative) {
  return Error(ErrorKind::kRejected, "invalid_time", fmt::format("`{}` is not a time", text))
      .WithHint(fmt::format("write 2030-01-02T03:04:05Z or {}", relative));
}

}  // namespace

Result<Timestamp> ParseFutureTime(std::string_view text, Timestamp now) {
  if (const auto time = ParseRfc3339(text)) return *time;
  if (text.starts_with('+')) {
    if (const auto duration = ParseDuration(text.substr(1))) return now + *duration;
  }
  return InvalidTime(text, "+5m for five minutes from now");
}

Result<Timestamp> ParsePastTime(std::string_view text, Timestamp now) {
  if (const auto time = ParseRfc3339(text)) return *time;
  const auto duration = ParseDuration(text);
  if (duration && *duration <= now - kTimestampMin) return now - *duration;
  return InvalidTime(text, "15m for fifteen minutes ago");
}

}  // namespace sealane::cli
