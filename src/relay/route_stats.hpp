#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sealane/clock.hpp"

#include "broker/publisher.hpp"
#include "core/histogram.hpp"
#include "outbox/outbox_log.hpp"

namespace sealane {

enum class RelayState : std::uint8_t {
  kStarting,  ///< no store yet, or no lane yet
  kRunning,
  kHolding,  ///< the destination is away or refuses us: events wait
  kPaused,   ///< by an operator
  kDraining,
  kStopped,
};
std::string_view ToString(RelayState state);

/// What a relay knows about itself, copied out at one moment.
struct RouteStats {
  std::string store;
  std::string route;
  std::string owner;
  RelayState state = RelayState::kStarting;
  std::string problem = {};  ///< why it holds or has no store; empty when all is well
  std::string problem_code = {};
  bool store_reachable = true;  ///< the last heartbeat was written, and the log could be read

  std::int32_t lanes = 0;
  std::vector<LaneLease> held = {};
  std::int32_t live_relays = 0;
  Timestamp last_beat_at{};

  std::int64_t seq_high = 0;          ///< newest number handed out, as far as seen
  std::int64_t pending = 0;           ///< events behind the horizon (an estimate by sequence numbers)
  double oldest_pending_seconds = 0;  ///< 0 when nothing is pending
  std::uint64_t inflight_messages = 0;
  std::uint64_t inflight_bytes = 0;  ///< pages in memory
  std::int64_t parked = 0;
  std::int64_t waiting = 0;         ///< events that wait for a topic; counted up to a bound for each topic
  std::int64_t missing_topics = 0;  ///< topics that the destination does not have

  std::uint64_t attempts = 0;
  std::uint64_t published = 0;
  std::uint64_t published_bytes = 0;
  std::uint64_t filtered = 0;
  std::uint64_t repeated = 0;  ///< sent again after an unknown outcome: possible duplicates
  std::uint64_t late = 0;      ///< acknowledged after the lease was over
  std::uint64_t fenced = 0;    ///< lanes lost while they were in use
  std::uint64_t settles = 0;
  std::uint64_t polls = 0;
  std::uint64_t parked_total = 0;
  std::uint64_t delayed_total = 0;  ///< read before their time
  std::uint64_t dead_total = 0;
  std::uint64_t restarts = 0;                          ///< of a loop after an error
  std::map<std::string, std::uint64_t> failures = {};  ///< by error code; bounded, the rest under `other`
  std::map<std::string, std::uint64_t> topics = {};    ///< published by topic; bounded, the rest under `other`
  Histogram commit_to_publish = {};
};

}  // namespace sealane
