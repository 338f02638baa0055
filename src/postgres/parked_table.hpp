#pragma once

#include <span>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "outbox/outbox_log.hpp"
#include "postgres/connection.hpp"

namespace sealane::postgres {

/// The rows of `parked` and `delayed`, as a relay writes and reads them. A change counts only while the relay owns
/// the lane with that epoch; the caller has locked the lane row in the same transaction, or the change is fenced by
/// the join alone.
class ParkedTable {
 public:
  ParkedTable(PGconn* connection, std::string quoted_schema, std::string route, std::string owner);

  /// Inserts or changes. What a person gave up stays given up, and what failed does not become a follower.
  Status Park(std::span<const ParkChange> changes);
  Status Unpark(std::span<const sealane::Unpark> gone);
  Status Delay(std::span<const DelayChange> changes);
  Status Undelay(std::span<const sealane::Undelay> gone);

  Result<std::vector<BlockedUnit>> Blocked(std::span<const LaneLease> leases);
  Result<std::vector<BlockedUnit>> Blocked(std::span<const DueUnit> units);
  Result<std::vector<DueUnit>> TakeChanges(std::span<const LaneLease> leases, std::size_t limit);
  Result<ParkedBatch> Read(std::span<const DueUnit> units, std::size_t limit, std::size_t bytes_max);

  Result<std::vector<WaitingTopic>> WaitingTopics(std::span<const LaneLease> leases, std::size_t limit);
  Result<Page> ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                           std::span<const std::string> but_tenants, std::size_t limit, std::size_t bytes_max);

  Result<DelayedPage> ReadDelayed(const DelayedRequest& request);

  Status KeepOrder(std::string_view order);

 private:
  std::string Sql(std::string_view text) const;
  static BlockedUnit UnitAt(const PgResult& result, int row, LaneLease lease);

  PGconn* connection_;
  std::string schema_;
  std::string route_;
  std::string owner_;
};

}  // namespace sealane::postgres
