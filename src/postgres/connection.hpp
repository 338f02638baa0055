#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "sealane/result.hpp"

#include "postgres/postgres_store.hpp"

namespace sealane::postgres {

struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, ClearResult>;

/// A parameter in text form, or null.
using TextParameter = std::optional<std::string>;

/// The schema name as it may stand in SQL text: checked against [a-z_][a-z0-9_]{0,39}, then quoted.
Result<std::string> QuoteSchema(std::string_view schema);

/// Runs one statement on a connection with parameters in text form; results come in text form too. On a connection of
/// ours it has the settings of that connection (session_settings.hpp).
Result<PgResult> Execute(PGconn* connection, const std::string& sql, std::span<const TextParameter> parameters = {});

/// Text of one field; empty for null.
std::string_view TextAt(const PgResult& result, int row, int column);
bool IsNull(const PgResult& result, int row, int column);
std::int64_t IntAt(const PgResult& result, int row, int column);
/// Bytes of a bytea field that came in text form.
std::string BytesAt(const PgResult& result, int row, int column);
/// Time of a field that the statement rendered as microseconds since 1970.
Timestamp TimeAt(const PgResult& result, int row, int column);

/// A connection of our own. One owner, one thread.
class Connection {
 public:
  /// Waits at most options.connect_timeout. Statements run with UTF8, the statement timeout and UTC, also through a
  /// pooler; then no state is left in its sessions.
  static Result<Connection> Open(const Options& options);

  PGconn* get() const { return handle_.get(); }

 private:
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  explicit Connection(PGconn* handle) : handle_(handle) {}

  std::unique_ptr<PGconn, Finish> handle_;
};

}  // namespace sealane::postgres
