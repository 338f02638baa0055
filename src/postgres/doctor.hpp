#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "postgres/postgres_store.hpp"

namespace sealane::postgres {

/// What a look at a server and its outbox shows. Facts only: whoever asked judges them.
struct DoctorFacts {
  std::string server_version;            ///< `15.14`
  std::int32_t server_number = 150'000;  ///< 150014
  std::string user;
  std::string schema;
  std::string hosts = {};    ///< that the connection was asked for, addresses before names; empty: a local socket
  std::string sslmode = {};  ///< in force, whether it came from the URL or the environment
  bool in_recovery = false;  ///< a standby: nothing can be written
  bool fsync = true;
  bool synchronous_commit = true;  ///< of this user's sessions
  bool autovacuum = true;
  std::chrono::milliseconds idle_timeout{0};      ///< of sessions that are idle in a transaction; 0: never ended
  std::int32_t connections = 0;                   ///< of the whole server
  std::int32_t connections_max = 0;               ///< for users who are no superusers; 0: not known
  std::chrono::milliseconds clock_difference{0};  ///< the server's clock minus ours, as far as the round trip allows

  std::string home;              ///< the cluster that the log's positions belong to; empty: not known
  std::string here;              ///< the cluster that this is
  bool positions_ahead = false;  ///< some lie beyond what this server has begun
  bool sequence_behind = false;  ///< it stands before numbers that are published already

  std::int64_t sequence_cache = 1;  ///< of the log's sequence
  bool xid_before_seq = true;       ///< the default of outbox.seq takes the transaction's number first
  std::int32_t days_ahead = 0;      ///< with a partition of their own, today not counted
  bool default_partition_used = false;
  bool is_superuser = false;
  bool owns_tables = false;                      ///< directly, or as a member of the owner
  std::string relay_role = {};                   ///< that has a relay's rights in this schema, as SQL writes its name
  std::vector<std::string> missing_rights = {};  ///< of this user, for a relay: `update on lane_state`
  bool has_events = false;                       ///< the log is not empty
  std::int32_t live_relays = 0;                  ///< as far as this user may see them

  /// Transactions of this database that have been open for long, as far as this user may see them.
  std::int32_t long_transactions = 0;
  std::chrono::seconds longest_transaction{0};
  std::string longest_by = {};  ///< pid and program
  std::int32_t prepared_transactions = 0;
  std::chrono::seconds oldest_prepared{0};
};

/// Connects, looks and leaves; changes nothing. The outbox must have its tables.
Result<DoctorFacts> Examine(const Options& options, std::chrono::seconds long_transaction, Clock& clock);

}  // namespace sealane::postgres
