#include "outbox/outbox_log.hpp"

#include <algorithm>
#include <array>

namespace sealane {
namespace {

constexpr std::array<std::string_view, 4> kParkedNames = {"WAITING", "FAILED", "DEAD", "DISCARDED"};

}  // namespace

std::string_view ToString(ParkedState state) {
  return kParkedNames.at(static_cast<std::size_t>(state));
}

std::optional<ParkedState> ParseParkedState(std::string_view text) {
  for (std::size_t i = 0; i < kParkedNames.size(); ++i) {
    if (kParkedNames[i] == text) return static_cast<ParkedState>(i);
  }
  return std::nullopt;
}

void SortByTime(Page& page) {
  std::stable_sort(page.entries.begin(), page.entries.end(), [](const LogEntry& a, const LogEntry& b) {
    return DelayedPlace{a.event.available_at.value_or(Timestamp{}), a.seq} <
           DelayedPlace{b.event.available_at.value_or(Timestamp{}), b.seq};
  });
}

Error OrderChanged(std::string_view route, std::string_view recorded, std::string_view wanted, std::int64_t parked,
                   std::int64_t relays) {
  const std::string change =
      fmt::format("route {} was run with order {} and is now configured with order {}", route, recorded, wanted);
  if (parked > 0) {
    return Error(ErrorKind::kMisconfigured, "order_changed",
                 fmt::format("{}, while {} events are parked by the old order: events of one key could overtake each "
                             "other",
                             change, parked))
        .WithField(fmt::format("route.{}.order", route))
        .WithHint(
            fmt::format("set order = \"{}\" again, or first resolve what is parked: sealane dead list --route {}, "
                        "then sealane dead retry or sealane dead discard",
                        recorded, route));
  }
  return Error(ErrorKind::kMisconfigured, "order_changed",
               fmt::format("{}, while {} other relays still run it with the old order", change, relays))
      .WithField(fmt::format("route.{}.order", route))
      .WithHint("stop every relay of the route, then start them with the new order");
}

}  // namespace sealane
