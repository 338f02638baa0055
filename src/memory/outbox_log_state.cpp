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

Member& RouteState::Renew(const std::string& owner, Timestamp now, Timestamp until) {
  Member& member = members.try_emplace(owner, Member{.started_at = now}).first->second;
  if (member.expires_at <= now) member.lease = ++leases;
  member.expires_at = until;
  return member;
}

bool RouteState::IsHeld(const LaneState& lane, Timestamp now) const {
  const auto member = members.find(lane.owner);
  return member != members.end() && member->second.lease == lane.lease && member->second.expires_at > now;
}

bool Passed(const RouteState& route, Lane lane, std::string_view tenant, std::int64_t seq) {
  const LanePositions& positions = route.lanes.at(static_cast<std::size_t>(lane)).positions;
  const auto flow =
      std::ranges::find_if(positions.apart, [&](const ApartFlow& apart) { return Contains(apart.tenants, tenant); });
  const Position& position = flow != positions.apart.end() ? flow->position : positions.main;
  return seq <= SeqOf(position.cursor).value_or(0);
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
  if (const auto due_at = message.envelope.available_at; due_at && route.delayed.contains({*due_at, message.seq})) {
    status.next_attempt_at = due_at;
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
  } else if (!apart && message.seq <= lane.window_seq && route.IsHeld(lane, now)) {
    status.state = DeliveryState::kPublishing;
  }
  return status;
}

}  // namespace sealane::memory
