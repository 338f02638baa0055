#include "database.hpp"

#include <algorithm>
#include <tuple>

#include "connection.hpp"

namespace example {

using sealane::Result;
using sealane::SqlValue;

Database::Database(const std::string& url) {
  const std::string lite = "sqlite:";
  connection_ = url.starts_with(lite) ? ConnectLite(url.substr(lite.size())) : ConnectPostgres(url);
}

Database::~Database() = default;

std::vector<Row> Database::Query(const std::string& sql, std::initializer_list<SqlValue> values) {
  return ValueOrThrow(connection_->Run(sql, {values.begin(), values.size()})).rows;
}

Transaction::Transaction(Database& database) : connection_(*database.connection_) {
  ValueOrThrow(connection_.Begin());
}

Transaction::~Transaction() {
  // What cannot be rolled back is gone already, with its connection.
  if (open_) std::ignore = connection_.Run("ROLLBACK");
}

void Transaction::Commit() {
  ValueOrThrow(connection_.Commit());
  open_ = false;
}

Result<std::int64_t> Transaction::Execute(const std::string& sql, std::span<const SqlValue> values) {
  SEALANE_ASSIGN_OR_RETURN(const Connection::Outcome outcome, connection_.Run(sql, values));
  return outcome.changed;
}

Result<std::vector<Row>> Transaction::Query(const std::string& sql, std::span<const SqlValue> values,
                                            std::size_t rows_max) {
  SEALANE_ASSIGN_OR_RETURN(Connection::Outcome outcome, connection_.Run(sql, values));
  outcome.rows.resize(std::min(outcome.rows.size(), rows_max));
  return std::move(outcome.rows);
}

Result<std::vector<sealane::Appended>> Transaction::Append(std::span<const sealane::NewEntry> entries) {
  return connection_.transaction()->Append(entries);
}

Result<std::int64_t> Transaction::NextVersion(const sealane::AggregateName& aggregate) {
  return connection_.transaction()->NextVersion(aggregate);
}

Result<std::int64_t> Transaction::AdvanceVersion(const sealane::AggregateName& aggregate, std::int64_t expected) {
  return connection_.transaction()->AdvanceVersion(aggregate, expected);
}

Result<bool> Transaction::EnsureOnce(std::string_view scope, std::string_view key) {
  return connection_.transaction()->EnsureOnce(scope, key);
}

Result<sealane::IdempotencyOutcome> Transaction::BeginOnce(const sealane::IdempotencyClaim& claim) {
  return connection_.transaction()->BeginOnce(claim);
}

sealane::Status Transaction::CompleteOnce(const sealane::IdempotencyClaim& claim,
                                          const sealane::StoredResponse& response) {
  return connection_.transaction()->CompleteOnce(claim, response);
}

Result<sealane::EnqueuedTask> Transaction::EnqueueTask(const sealane::NewTask& task) {
  return connection_.transaction()->EnqueueTask(task);
}

std::int64_t Execute(sealane::HandlerTransaction& tx, const std::string& sql,
                     std::initializer_list<SqlValue> values) {
  return ValueOrThrow(tx.Execute(sql, {values.begin(), values.size()}));
}

std::vector<Row> Query(sealane::HandlerTransaction& tx, const std::string& sql,
                       std::initializer_list<SqlValue> values) {
  return ValueOrThrow(tx.Query(sql, {values.begin(), values.size()}));
}

}  // namespace example
