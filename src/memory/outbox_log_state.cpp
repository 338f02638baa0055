#include "memory/outbox_log_state.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::memory {
namespace {

bool Contains(const std::vector<std::string>& tenants, std::string_view tenant) {
  return std::ranges::find(tenants, tenant) != tenants.end();
}

bool Covers(const Settlement& settlement, const StoredMessage& message) {
  return settlement.lane == message.lane && settlement.seq_to >= message.seq &&
         Contains(settlement.tenants, message.envelope.tenant) != settlement.all_but;
}

DeliveryState StateOf(ParkedState state) {
  switch (state) {
    case ParkedState::kWaiting:
      return DeliveryState::kPending;
    case ParkedState::kFailed:
      return DeliveryState::kFailed;
    case ParkedState::kDead:
      return DeliveryState::kDead;
    case ParkedState::kDiscarded:
      break;
  }
  return DeliveryState::kDiscarded;
}

}  // namespace

RouteState& LogState::AddRoute(const std::string& name) {
  RouteState& route = routes[name];
  if (route.lanes.empty()) {
    LaneState fresh;
    fresh.positions.main = PositionAt(0);
    route.lanes.assign(static_cast<std::size_t>(lanes), fresh);
  }
  return route;
}

Position PositionAt(std::int64_t seq) {
  return {.cursor = std::to_string(seq)};
}

Result<std::int64_t> SeqOf(std::string_view cursor) {
  std::int64_t seq = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), seq);
  if (error == std::errc{} && end == cursor.data() + cursor.size() && seq >= 0) return seq;
  return Error(ErrorKind::kMisuse, "invalid_position",
               fmt::format("\"{}\" is not a position of this log", EscapeForTerminal(cursor)));
}

RouteStatus StatusOf(const StoredMessage& message, const std::string& name, const RouteState& route, Timestamp now) {
  RouteStatus status;
  status.route = name;
  if (const auto chosen = route.rerouted.find(message.seq); chosen != route.rerouted.end()) {
    status.rerouted_to = chosen->second.topic;
  }
  if (const auto found = route.parked.find(message.seq); found != route.parked.end()) {
    const ParkedRow& row = found->second;
    status.state = StateOf(row.state);
    status.attempts = row.attempts;
    status.next_attempt_at = row.next_attempt_at;
    status.last_error_code = row.error_code;
    status.last_error_message = row.error_message;
    return status;
  }
  const LaneState& lane = route.lanes.at(static_cast<std::size_t>(message.lane));
  const auto flow = std::ranges::find_if(
      lane.positions.apart, [&](const ApartFlow& apart) { return Contains(apart.tenants, message.envelope.tenant); });
  const bool apart = flow != lane.positions.apart.end();
  // A position that was stored was checked before.
  const std::int64_t done = SeqOf((apart ? flow->position : lane.positions.main).cursor).value_or(0);
  if (message.seq <= done) {
    status.state = DeliveryState::kPublished;
    status.attempts = 1;
    const auto first = std::ranges::find_if(
        route.settlements, [&](const Settlement& settlement) { return Covers(settlement, message); });
    if (first != route.settlements.end()) status.published_at = first->at;
  } else if (!apart && message.seq <= lane.window_seq && lane.expires_at > now) {
    status.state = DeliveryState::kPublishing;
  }
  return status;
}

}  // namespace sealane::memory
