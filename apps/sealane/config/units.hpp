#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "sealane/result.hpp"

namespace sealane::cli {

/// `100ms`, `5s`, `2m`, `1h`, `1d`, or `0`. A number without a unit is refused, because nobody remembers which it
/// was; so is anything over a hundred years. Errors (kMisconfigured, `bad_unit`) carry a hint with the right
/// spelling.
Result<std::chrono::milliseconds> ParseDuration(std::string_view text);
/// `500B`, `900KiB`, `64MiB`, `2GiB` (powers of 1024), `1KB`, `1MB`, `1GB` (powers of 1000), or `0`.
Result<std::uint64_t> ParseSize(std::string_view text);

/// The shortest spelling that means the same: 300,000 ms is `5m`.
std::string FormatDuration(std::chrono::milliseconds duration);
std::string FormatSize(std::uint64_t bytes);

}  // namespace sealane::cli
