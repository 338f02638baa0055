#include "config/units.hpp"

#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace sealane::cli {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array<Unit, 5> kDurations = {
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};
constexpr std::array<Unit, 7> kSizes = {{{"GiB", 1ULL << 30U},
                                         {"GB", 1'000'000'000},
                                         {"MiB", 1ULL << 20U},
                                         {"MB", 1'000'000},
                                         {"KiB", 1ULL << 10U},
                                         {"KB", 1'000},
                                         {"B", 1}}};
constexpr std::uint64_t kDurationMax = 36'500ULL * 86'400'000;
constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();

struct Quantity {
  std::string_view what;      // "a duration"
  std::string_view examples;  // "100ms, 5s, ..."
  std::string_view usual;     // the unit a bare number is shown with
  std::uint64_t max;
};
constexpr Quantity kDuration = {"a duration", "100ms, 5s, 2m, 1h, 1d", "s", kDurationMax};
constexpr Quantity kSize = {"a size", "500B, 900KiB, 64MiB, 1MB", "KiB", kSizeMax};

Error BadUnit(const Quantity& quantity, std::string message, std::string hint) {
  if (hint.empty()) hint = fmt::format("write {} as {}", quantity.what, quantity.examples);
  return Error(ErrorKind::kMisconfigured, "bad_unit", std::move(message)).WithHint(std::move(hint));
}

template <std::size_t N>
Result<std::uint64_t> Parse(std::string_view text, const Quantity& quantity, const std::array<Unit, N>& units) {
  if (text == "0") return std::uint64_t{0};
  std::uint64_t number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc::invalid_argument) {
    return BadUnit(quantity, fmt::format("`{}` is not {}", text, quantity.what), {});
  }
  const std::string_view suffix = text.substr(static_cast<std::size_t>(rest - text.data()));
  if (suffix.empty()) {
    return BadUnit(quantity, fmt::format("`{}` has no unit", text),
                   fmt::format("did you mean \"{}{}\"? Units: {}", text, quantity.usual, quantity.examples));
  }
  for (const Unit& unit : units) {
    if (suffix != unit.name) continue;
    if (failure == std::errc::result_out_of_range || number > quantity.max / unit.factor) {
      return BadUnit(quantity, fmt::format("`{}` is too large", text), {});
    }
    return number * unit.factor;
  }
  return BadUnit(quantity, fmt::format("`{}` has an unknown unit `{}`", text, suffix), {});
}

template <std::size_t N>
std::string Format(std::uint64_t number, const std::array<Unit, N>& units) {
  if (number == 0) return "0";
  std::string best;
  for (const Unit& unit : units) {
    if (number % unit.factor != 0) continue;
    const std::string text = fmt::format("{}{}", number / unit.factor, unit.name);
    if (best.empty() || text.size() < best.size()) best = text;
  }
  return best;
}

}  // namespace

Result<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  SEALANE_ASSIGN_OR_RETURN(const std::uint64_t count, Parse(text, kDuration, kDurations));
  return std::chrono::milliseconds(static_cast<std::int64_t>(count));
}

Result<std::uint64_t> ParseSize(std::string_view text) {
  return Parse(text, kSize, kSizes);
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  return Format(static_cast<std::uint64_t>(duration.count()), kDurations);
}

std::string FormatSize(std::uint64_t bytes) {
  return Format(bytes, kSizes);
}

}  // namespace sealane::cli
