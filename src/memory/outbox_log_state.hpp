#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/dead_letters.hpp"
#include "outbox/outbox_log.hpp"
#include "outbox/outbox_store.hpp"

namespace sealane::memory {

/// An event that was set aside on a route.
struct ParkedRow {
  ParkChange event;  ///< as it was parked last
  ParkedState state = ParkedState::kWaiting;
  bool skipped = false;
  std::int32_t attempts = 0;
  std::optional<Timestamp> next_attempt_at = {};
  std::optional<Timestamp> first_failed_at = {};
  std::optional<Timestamp> last_failed_at = {};
  std::string error_code = {};
  std::string error_message = {};
  std::string destination = {};  ///< the topic that an operator chose

  Lane lane() const { return event.lease.lane; }
  /// Whether it waits for a topic, and has not failed.
  bool waits_for_topic() const { return state == ParkedState::kWaiting && !event.waits_for.empty(); }
  /// Whether its followers wait for it.
  bool holds_back() const { return state != ParkedState::kDiscarded && !skipped && !waits_for_topic(); }
  bool may_be_tried(Timestamp now) const {
    return state != ParkedState::kDead && (!next_attempt_at || *next_attempt_at <= now);
  }
};

struct LaneState {
  std::string owner = {};  ///< empty: nobody's
  std::int64_t epoch = 0;
  std::int64_t lease = 0;  ///< of the owner, under which it was claimed
  LanePositions positions = {};
  std::int64_t window_seq = 0;
};

/// When a flow of a lane got where.
struct Settlement {
  Timestamp at{};
  Lane lane = 0;
  std::int64_t seq_to = 0;
  std::vector<std::string> tenants = {};
  bool all_but = true;
};

/// A relay that lives, and its lease: one for all its lanes.
struct Member {
  Timestamp started_at{};
  Timestamp expires_at{};
  std::int64_t lease = 0;
};

/// The topic that an operator chose for an event, and when.
struct Rerouted {
  std::string topic;
  Timestamp at{};
};

struct RouteState {
  std::vector<LaneState> lanes;
  std::map<std::string, Member> members = {};              ///< by owner
  std::int64_t leases = 0;                                 ///< given out so far
  std::map<std::int64_t, ParkedRow> parked = {};           ///< by seq
  std::vector<std::pair<Lane, std::string>> changes = {};  ///< units that operators changed
  std::map<DelayedPlace, Lane> delayed = {};               ///< events whose time has not come
  std::map<std::string, TenantRule> tenants = {};
  std::deque<Settlement> settlements = {};  ///< oldest first
  bool paused = false;
  std::string order_mode = {};                     ///< empty until a relay has run it
  std::map<std::int64_t, Rerouted> rerouted = {};  ///< by seq

  /// Extends the lease of `owner` up to `until`, or begins another one, under which it holds nothing yet.
  Member& Renew(const std::string& owner, Timestamp now, Timestamp until);
  /// Whether its owner's lease has not run out.
  bool IsHeld(const LaneState& lane, Timestamp now) const;
};

/// The log and everything relays and operators have written about it.
struct LogState {
  explicit LogState(std::int32_t lane_count) : lanes(lane_count) { AddRoute("main"); }

  /// The route, made when it is new.
  RouteState& AddRoute(const std::string& name);

  std::int32_t lanes;
  std::map<std::int64_t, StoredMessage> log = {};  ///< by seq, without status
  std::map<EventId, std::int64_t> seq_of = {};
  std::int64_t seq_high = 0;
  std::map<std::string, RouteState> routes = {};
  std::vector<AuditRecord> audit = {};
};

/// seq is given at the commit, so a position is one number: everything up to it is done.
Position PositionAt(std::int64_t seq);
/// kMisuse (`invalid_position`) for a text that no log in memory made.
Result<std::int64_t> SeqOf(std::string_view cursor);

/// Whether the position of its lane, or of its tenant there, has passed an event.
bool Passed(const RouteState& route, Lane lane, std::string_view tenant, std::int64_t seq);

/// What the status view of the other stores shows.
RouteStatus StatusOf(const StoredMessage& message, const std::string& name, const RouteState& route, Timestamp now);

}  // namespace sealane::memory
