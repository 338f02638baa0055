#include "postgres/sql_state.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane::postgres {
namespace {

struct Row {
  std::string_view state;  // a whole SQLSTATE, or its first characters for a class
  ErrorKind kind;
  std::string_view code;
  std::string_view hint;
};

// The first match counts, so single states stand before their class.
constexpr std::array kRows = {
    Row{"28", ErrorKind::kMisconfigured, "login_refused",
        "check user and password (store.password_file, PGPASSFILE)"},
    Row{"3D000", ErrorKind::kMisconfigured, "database_missing",
        "create the database, or correct its name in store.url"},
    Row{"3F000", ErrorKind::kMisconfigured, "schema_missing", "create the tables with: sealane migrate up"},
    Row{"42P01", ErrorKind::kMisconfigured, "schema_missing", "create the tables with: sealane migrate up"},
    Row{"42883", ErrorKind::kMisconfigured, "schema_missing", "create the functions with: sealane migrate up"},
    Row{"42501", ErrorKind::kMisconfigured, "not_permitted",
        "grant the role for this work to the user: writer, relay, consumer, dispatcher or operator; their names "
        "begin "
        "with <schema>_<database>_"},
    Row{"40001", ErrorKind::kConflict, "serialization_failure", "roll back and run the transaction again"},
    Row{"40P01", ErrorKind::kConflict, "deadlock", "roll back and run the transaction again"},
    Row{"55P03", ErrorKind::kConflict, "lock_timeout", "roll back and run the transaction again"},
    Row{"25006", ErrorKind::kMisconfigured, "store_read_only",
        "connect to the primary server, in a transaction that may write"},
    Row{"25P02", ErrorKind::kMisuse, "transaction_failed", "an earlier statement failed: roll the transaction back"},
    Row{"25P03", ErrorKind::kUnavailable, "connection_lost",
        "the server ended a transaction that was idle for too long; look at idle_in_transaction_session_timeout"},
    Row{"25P04", ErrorKind::kUnavailable, "connection_lost",
        "the server ended a transaction that took too long; look at transaction_timeout"},
    Row{"53100", ErrorKind::kUnavailable, "store_full", "free space on the database server's disk"},
    Row{"53300", ErrorKind::kUnavailable, "too_many_connections", "raise max_connections, or use fewer clients"},
    Row{"53", ErrorKind::kUnavailable, "store_out_of_resources", "look at the database server's log"},
    Row{"57014", ErrorKind::kUnavailable, "statement_timeout",
        "allow more time with store.statement_timeout or --timeout"},
    Row{"57P", ErrorKind::kUnavailable, "connection_lost", "the server is stopping or starting; try again"},
    Row{"08", ErrorKind::kUnavailable, "connection_lost",
        "look at the network and the database server's log; try again"},
    Row{"58", ErrorKind::kUnavailable, "store_io_error", "look at the database server's log and its disk"},
    Row{"XX", ErrorKind::kCorrupt, "store_corrupt", "look at the database server's log"},
    Row{"22", ErrorKind::kRejected, "invalid_value", ""},
    Row{"23", ErrorKind::kRejected, "constraint_violated", ""},
    Row{"54", ErrorKind::kRejected, "too_large", ""},
    Row{"0A000", ErrorKind::kMisconfigured, "not_supported", ""},
};

/// A protocol violation is a poor connection, but for one that the caller makes: the server compares the values with
/// the placeholders. Told by its source, because poolers give the state for troubles of their own.
constexpr std::string_view kProtocolViolation = "08P01";
constexpr std::string_view kComparesValues = "exec_bind_message";

constexpr std::string_view kOurConstraints = "sealane_";

/// libpq breaks its advice over several indented lines; an error is one.
std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool space = c == '\n' || c == '\t' || c == ' ';
    if (!space) {
      line.push_back(c);
    } else if (!line.empty() && line.back() != ' ') {
      line.push_back(' ');
    }
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string_view Field(const PGresult* result, int code) {
  const char* text = PQresultErrorField(result, code);
  return text != nullptr ? text : "";
}

}  // namespace

Error ErrorFromSqlState(const Diagnosis& diagnosis) {
  const std::string message = EscapeForTerminal(diagnosis.message);
  const std::string native = fmt::format("SQLSTATE {}", diagnosis.state);
  if (diagnosis.constraint.starts_with(kOurConstraints)) {
    const auto code = std::string(diagnosis.constraint.substr(kOurConstraints.size()));
    const ErrorKind kind = code == "not_begun"          ? ErrorKind::kMisuse
                           : code == "partition_fenced" ? ErrorKind::kFenced
                           : code == "task_fenced"      ? ErrorKind::kFenced
                           : code == "task_conflict"    ? ErrorKind::kConflict
                           : code == "store_changed"    ? ErrorKind::kUnavailable
                                                        : ErrorKind::kRejected;
    auto error = Error(kind, code, message)
                     .WithNative(native)
                     .WithField(std::string(diagnosis.column))
                     .WithHint(std::string(diagnosis.hint));
    constexpr std::string_view kEntry = "entry: ";
    if (const std::size_t at = diagnosis.detail.find(kEntry); at != std::string_view::npos) {
      return std::move(error).WithContext(
          fmt::format("in event {} of the batch", diagnosis.detail.substr(at + kEntry.size())));
    }
    return error;
  }
  if (diagnosis.state == kProtocolViolation && diagnosis.source == kComparesValues) {
    return Error(ErrorKind::kMisuse, "parameters_differ", message)
        .WithNative(native)
        .WithHint("parameters are $1, $2 and so on, one value for each");
  }
  const auto* const row =
      std::ranges::find_if(kRows, [&](const Row& r) { return diagnosis.state.starts_with(r.state); });
  if (row == kRows.end()) {
    return Error(ErrorKind::kMisconfigured, "store_error", message)
        .WithNative(native)
        .WithHint(std::string(diagnosis.hint));
  }
  return Error(row->kind, std::string(row->code), message)
      .WithNative(native)
      .WithHint(std::string(diagnosis.hint.empty() ? row->hint : diagnosis.hint));
}

Error ErrorFromConnect(std::string_view message, bool needs_password, std::string_view store) {
  const auto says = [&](std::string_view words) { return message.find(words) != std::string_view::npos; };
  const std::string text = EscapeForTerminal(OneLine(message));
  if (needs_password || says("password authentication failed") || says("no password supplied") ||
      says("no pg_hba.conf entry") || (says("role \"") && says("does not exist"))) {
    return Error(ErrorKind::kMisconfigured, "login_refused", fmt::format("{} refused the login: {}", store, text))
        .WithHint("check user and password (store.password_file, PGPASSFILE)");
  }
  if (says("database \"") && says("does not exist")) {
    return Error(ErrorKind::kMisconfigured, "database_missing", text)
        .WithHint("create the database, or correct its name in store.url");
  }
  // Words of libpq and OpenSSL. Waiting heals none of it, and the message names no secret.
  const bool cut_off = says("unexpected eof") || says("EOF detected") || says("onnection reset");
  if (says("certificate verify failed") || (says("SSL error: ") && !cut_off) || says("server certificate for") ||
      says("does not match host name") || says("does not support SSL") || says("root certificate file") ||
      says("could not load private key") || says("could not read certificate") || says("SSL certificate")) {
    return Error(ErrorKind::kMisconfigured, "store_tls_failed", fmt::format("no trust in {}: {}", store, text))
        .WithHint(
            "check sslmode, sslrootcert and the host name in store.url, and the server's certificate (expired?)");
  }
  if (says("invalid connection option") || says("invalid URI") || says("missing \"=\"") ||
      says("unexpected character") || says("invalid port") || says("invalid integer value") ||
      says("forbidden value") || says("invalid sslmode value") || says("extra key/value separator")) {
    return Error(ErrorKind::kMisconfigured, "invalid_store_url", fmt::format("{}: {}", store, text))
        .WithField("store.url")
        .WithHint("write it as postgres://user@host:5432/database");
  }
  return Error(ErrorKind::kUnavailable, "store_unreachable", fmt::format("cannot reach {}: {}", store, text))
      .WithHint("is the server running, and are host and port right?");
}

Status CheckResult(const PGconn* connection, const PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return Ok();
  const std::string_view state = Field(result, PG_DIAG_SQLSTATE);
  if (state.empty()) {
    // libpq itself gave up: the server never answered this statement.
    const std::string text = OneLine(PQerrorMessage(connection));
    if (PQstatus(connection) != CONNECTION_BAD) {
      return Error(ErrorKind::kMisuse, "client_error", fmt::format("libpq refused: {}", EscapeForTerminal(text)))
          .WithHint("the connection is intact; look at what is under way on it");
    }
    return Error(ErrorKind::kUnavailable, "connection_lost",
                 fmt::format("the connection to the server broke: {}", EscapeForTerminal(text)))
        .WithHint("nothing of an unfinished transaction is kept; connect again and repeat it");
  }
  return ErrorFromSqlState({.state = state,
                            .message = Field(result, PG_DIAG_MESSAGE_PRIMARY),
                            .constraint = Field(result, PG_DIAG_CONSTRAINT_NAME),
                            .column = Field(result, PG_DIAG_COLUMN_NAME),
                            .hint = Field(result, PG_DIAG_MESSAGE_HINT),
                            .detail = Field(result, PG_DIAG_MESSAGE_DETAIL),
                            .source = Field(result, PG_DIAG_SOURCE_FUNCTION)});
}

}  // namespace sealane::postgres
