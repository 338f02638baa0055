#include "postgres/postgres_transaction.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "sealane/postgres_sql.hpp"

#include "postgres/append_call.hpp"
#include "postgres/connection.hpp"
#include "postgres/sql_state.hpp"

namespace sealane {

TransactionRef::TransactionRef(pg_conn* connection, std::string_view schema)
    : owned_(std::make_unique<postgres::PostgresTransaction>(connection, schema)), transaction_(owned_.get()) {}

namespace postgres {
namespace {

SqlRows ReadRows(const PgResult& result) {
  SqlRows rows(static_cast<std::size_t>(PQntuples(result.get())));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      const int r = static_cast<int>(row);
      rows[row].push_back(IsNull(result, r, column) ? std::nullopt
                                                    : std::optional(std::string(TextAt(result, r, column))));
    }
  }
  return rows;
}

/// Not prepared: a named statement would break behind a pooler that hands every transaction another session, and the
/// work inside the function is planned once per session anyway.
Result<PgResult> RunBinary(PGconn* connection, const std::string& sql, std::span<const Oid> types,
                           const BinaryCall& call) {
  SEALANE_ASSERT(types.size() == call.buffers.size(), "every parameter has a type");
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (std::size_t i = 0; i < call.buffers.size(); ++i) {
    values.push_back(call.nulls[i] ? nullptr : call.buffers[i].data());
    lengths.push_back(static_cast<int>(call.buffers[i].size()));
  }
  const std::vector<int> formats(call.buffers.size(), 1);
  PgResult result(PQexecParams(connection, sql.c_str(), static_cast<int>(values.size()), types.data(), values.data(),
                               lengths.data(), formats.data(), 0));
  SEALANE_RETURN_IF_ERROR(CheckResult(connection, result.get()));
  return result;
}

Result<SqlRows> Run(PGconn* connection, const SqlCall& call) {
  SEALANE_ASSIGN_OR_RETURN(const PgResult result, Execute(connection, call.text, call.parameters));
  return ReadRows(result);
}

}  // namespace

Status PostgresTransaction::RequireTransaction() const {
  if (connection_ == nullptr) {
    return Error(ErrorKind::kMisuse, "no_connection", "there is no connection").WithHint("connect first");
  }
  if (PQpipelineStatus(connection_) != PQ_PIPELINE_OFF) {
    return Error(ErrorKind::kMisuse, "pipeline_mode", "the connection is in pipeline mode; nothing was written")
        .WithHint("leave it with PQexitPipelineMode before appending");
  }
  switch (PQtransactionStatus(connection_)) {
    case PQTRANS_INTRANS:
      return RequireUtf8();
    case PQTRANS_INERROR:
      return Error(ErrorKind::kMisuse, "transaction_failed",
                   "the open transaction has failed already; nothing was written")
          .WithHint("roll it back");
    case PQTRANS_ACTIVE:
      return Error(ErrorKind::kMisuse, "connection_busy", "a statement is still running on this connection")
          .WithHint("read all its results first");
    case PQTRANS_UNKNOWN:
      return Error(ErrorKind::kUnavailable, "connection_lost", "the connection to the server is broken")
          .WithHint("connect again and repeat the transaction");
    case PQTRANS_IDLE:
      break;
  }
  return Error(ErrorKind::kMisuse, "no_transaction", "no transaction is open on this connection; nothing was written")
      .WithHint("BEGIN, write your data, append the event, COMMIT");
}

Status PostgresTransaction::RequireUtf8() const {
  // Known to libpq without a round trip. In any other encoding the server would store other bytes than were hashed.
  const char* const encoding = PQparameterStatus(connection_, "client_encoding");
  if (encoding != nullptr && std::string_view(encoding) == "UTF8") return Ok();
  return Error(
             ErrorKind::kMisconfigured, "client_encoding",
             fmt::format("the connection's client_encoding is {}, events are UTF-8", encoding ? encoding : "unknown"))
      .WithHint("SET client_encoding TO 'UTF8' on this connection");
}

Result<std::vector<Appended>> PostgresTransaction::Append(std::span<const NewEntry> entries) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const std::string schema, QuoteSchema(schema_));
  if (entries.empty()) return std::vector<Appended>{};

  if (entries.size() == 1 && !AsksForUniqueness(entries.front())) {
    SEALANE_RETURN_IF_ERROR(
        RunBinary(connection_, AppendOneSql(schema), AppendOneTypes(), EncodeAppendOne(entries.front())));
    return ReadAppended(entries, {});
  }
  SEALANE_ASSIGN_OR_RETURN(const PgResult result,
                           RunBinary(connection_, AppendSql(schema), AppendTypes(), EncodeAppendBinary(entries)));
  return ReadAppended(entries, ReadRows(result));
}

Result<std::int64_t> PostgresTransaction::NextVersion(const AggregateName& aggregate) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const SqlCall call, NextVersionCall(aggregate, schema_));
  SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(connection_, call));
  return ReadVersion(aggregate, 0, rows);
}

Result<std::int64_t> PostgresTransaction::AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const SqlCall call, AdvanceVersionCall(aggregate, expected, schema_));
  SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(connection_, call));
  return ReadVersion(aggregate, expected, rows);
}

Result<bool> PostgresTransaction::EnsureOnce(std::string_view scope, std::string_view key) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const SqlCall call, EnsureOnceCall(scope, key, schema_));
  SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(connection_, call));
  return ReadEnsureOnce(rows);
}

Result<IdempotencyOutcome> PostgresTransaction::BeginOnce(const IdempotencyClaim& claim) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const SqlCall call, BeginOnceCall(claim, schema_));
  SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(connection_, call));
  return ReadBeginOnce(rows);
}

Status PostgresTransaction::CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const SqlCall call, CompleteOnceCall(claim, response, schema_));
  SEALANE_RETURN_IF_ERROR(Run(connection_, call));
  return Ok();
}

Result<EnqueuedTask> PostgresTransaction::EnqueueTask(const NewTask& task) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const SqlCall call, EnqueueTaskCall(task, schema_));
  SEALANE_ASSIGN_OR_RETURN(const SqlRows rows, Run(connection_, call));
  return ReadEnqueuedTask(task, rows);
}

}  // namespace postgres
}  // namespace sealane
