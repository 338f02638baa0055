#pragma once

#include <span>
#include <string>
#include <string_view>

#include <libpq-fe.h>

#include "sealane/result.hpp"

namespace sealane::postgres {

/// One server setting and its value.
struct Setting {
  std::string_view name;
  std::string value;
};

/// Settings of a connection of ours, for every statement on it.
///
/// A connection may end at a pooler that gives every transaction another session (pgbouncer in transaction mode).
/// What is set there for a session stays with other applications, and what is prepared there is missing in the next
/// transaction. So on a pooled connection settings are sent along with every transaction and end with it, in the same
/// round trip, and nothing is prepared. On a direct connection they are set once for the session.
///
/// How the two are told apart: every pooler has its own cancellation keys, so the process id that it sends at log-in
/// is not the one that the server says about itself. A pooler that only passes bytes on is a direct connection.
///
/// Called once, right after log-in. `assume_pooled` skips the comparison.
Status BeginSession(PGconn* connection, bool assume_pooled, std::span<const Setting> settings);

/// More settings for the same connection, while no transaction is open. A later value of a name replaces an earlier.
Status AddSettings(PGconn* connection, std::span<const Setting> settings);

/// Whether transactions on this connection may run in different sessions of the server. False for connections that
/// did not go through BeginSession(): those of applications, inside whose transactions we only append.
bool IsPooled(const PGconn* connection);

/// The statement that makes the settings hold until the end of the transaction; null on a direct connection, and
/// inside a transaction, which has them already.
const std::string* PendingSettings(const PGconn* connection);

/// Whether a statement begins a transaction: the settings then follow it instead of preceding it.
bool BeginsTransaction(std::string_view sql);

/// As PQexecParams(), with the settings of a pooled connection, in one round trip in any case.
PGresult* RunParams(PGconn* connection, const std::string& sql, int count, const Oid* types,
                    const char* const* values, const int* lengths, const int* formats, int result_format);

}  // namespace sealane::postgres
