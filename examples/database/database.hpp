#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/handler.hpp"

namespace example {

using Row = std::vector<std::optional<std::string>>;  ///< in text form; empty for null

class Connection;

/// One connection to PostgreSQL or SQLite, for one thread at a time, so that each example runs on both. It stands
/// here for the data layer that your service has already: all that Sealane needs of it is an open transaction on a
/// PGconn* or sqlite3*.
class Database {
 public:
  /// `postgres://user@host/database` or `sqlite:PATH`, which must exist. Throws a SealaneException.
  explicit Database(const std::string& url);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// One query while no transaction is open here, as Query() below does it in one.
  std::vector<Row> Query(const std::string& sql, std::initializer_list<sealane::SqlValue> values = {});

 private:
  friend class Transaction;
  std::unique_ptr<Connection> connection_;
};

/// A transaction that rolls back unless it was committed, whichever way its scope is left. There is one at a time on
/// a connection.
///
/// It is of the type that handlers of an inbox get, so that the rules of the business are written once and called
/// from commands and handlers alike.
class Transaction final : public sealane::HandlerTransaction {
 public:
  /// Throws a SealaneException, as Commit() does.
  explicit Transaction(Database& database);
  ~Transaction() override;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void Commit();

  sealane::Result<std::int64_t> Execute(const std::string& sql, std::span<const sealane::SqlValue> values) override;
  sealane::Result<std::vector<Row>> Query(const std::string& sql, std::span<const sealane::SqlValue> values,
                                          std::size_t rows_max) override;

 private:
  // What Sealane does in a transaction. It has adapters of its own for both connections; these calls lead there.
  sealane::Result<std::vector<sealane::Appended>> Append(std::span<const sealane::NewEntry> entries) override;
  sealane::Result<std::int64_t> NextVersion(const sealane::AggregateName& aggregate) override;
  sealane::Result<std::int64_t> AdvanceVersion(const sealane::AggregateName& aggregate,
                                               std::int64_t expected) override;
  sealane::Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override;
  sealane::Result<sealane::IdempotencyOutcome> BeginOnce(const sealane::IdempotencyClaim& claim) override;
  sealane::Status CompleteOnce(const sealane::IdempotencyClaim& claim,
                               const sealane::StoredResponse& response) override;
  sealane::Result<sealane::EnqueuedTask> EnqueueTask(const sealane::NewTask& task) override;

  Connection& connection_;
  bool open_ = true;
};

/// One statement with $1, $2, ... in the order they first appear; how many rows it changed. Throws a
/// SealaneException.
std::int64_t Execute(sealane::HandlerTransaction& tx, const std::string& sql,
                     std::initializer_list<sealane::SqlValue> values = {});
/// The rows of a query, or of a change with RETURNING. Throws a SealaneException.
std::vector<Row> Query(sealane::HandlerTransaction& tx, const std::string& sql,
                       std::initializer_list<sealane::SqlValue> values = {});

}  // namespace example
