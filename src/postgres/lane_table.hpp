#pragma once

#include <span>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "outbox/outbox_log.hpp"

namespace sealane::postgres {

/// Leases and positions: the rows of relay_member and lane_state, one per relay and one per lane.
///
/// A relay has one lease for all its lanes, in its row of relay_member; a lane names the lease it was claimed under.
/// So a heartbeat writes one row, and lanes of a lease that ended are free without being written.
///
/// All times are the server's. Statements that touch several lanes lock them in the order of their numbers, so that
/// two statements of the same relay cannot wait for each other in a circle.
class LaneTable {
 public:
  LaneTable(PGconn* connection, std::string quoted_schema, std::string route, std::string owner);

  Status EnsureRoute();
  Result<Membership> Beat(std::chrono::milliseconds ttl);
  Result<std::vector<LaneGrant>> Claim(std::int32_t max, std::chrono::milliseconds ttl);
  Status Release(std::span<const LaneLease> leases);
  Status Leave();
  /// As OutboxLog::OthersDone().
  Result<bool> OthersDone(std::span<const LaneLease> mine, const Horizon& horizon);
  /// Writes positions. Returns the lanes that were ours.
  Result<std::vector<Lane>> Write(std::span<const SettleRequest::Progress> progress);

 private:
  Status CheckServer();
  std::string Sql(const char* text) const;

  PGconn* connection_;
  std::string schema_;
  std::string route_;
  std::string owner_;
};

}  // namespace sealane::postgres
