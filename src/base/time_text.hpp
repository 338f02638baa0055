#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sealane/clock.hpp"

namespace sealane {

/// The span of time that is stored and shipped: what four digits of year can say, from the epoch on.
inline constexpr Timestamp kTimestampMin{std::chrono::microseconds{0}};
inline constexpr Timestamp kTimestampMax{
    std::chrono::microseconds{253'402'300'799'999'999}};  // 9999-12-31T23:59:59.999999Z

/// `2024-05-06T07:08:09.123456Z`: UTC with six digits always, so that texts sort as times do.
///
/// A time outside kTimestampMin..kTimestampMax is written as the nearer end, so that even a damaged row can be shown;
/// admission keeps such times out.
std::string ToRfc3339(Timestamp time);
void AppendRfc3339(std::string& out, Timestamp time);

/// Reads an RFC 3339 date and time with `Z` or a numeric offset; empty for anything else.
///
/// Strict: the calendar is checked (no 30 February), at most nine fraction digits are taken and cut to microseconds,
/// the leap second `:60` is refused because nothing here could store it, and the result must lie within
/// kTimestampMin..kTimestampMax. `T` and `Z` may be lower case, as the RFC permits; a space for `T` is not taken.
std::optional<Timestamp> ParseRfc3339(std::string_view text);

}  // namespace sealane
