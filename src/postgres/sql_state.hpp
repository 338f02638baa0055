#pragma once

#include <string>
#include <string_view>

#include <libpq-fe.h>

#include "sealane/result.hpp"

namespace sealane::postgres {

/// What the server says about a failed statement.
struct Diagnosis {
  std::string_view state;  ///< SQLSTATE
  std::string_view message;
  std::string_view constraint = {};
  std::string_view column = {};
  std::string_view hint = {};
  std::string_view detail = {};  ///< of our own errors: `code: ..., entry: N`
  std::string_view source = {};  ///< the function of the server that says so
};

/// The one place that translates SQLSTATEs. Constraint names that start with `sealane_` carry our own code.
Error ErrorFromSqlState(const Diagnosis& diagnosis);
/// A connection that could not be made: libpq gives text only, and whether the server asked for a password.
Error ErrorFromConnect(std::string_view message, bool needs_password, std::string_view store);

/// Ok for rows or a finished command; otherwise the error, `connection_lost` when the connection is gone.
Status CheckResult(const PGconn* connection, const PGresult* result);

}  // namespace sealane::postgres
