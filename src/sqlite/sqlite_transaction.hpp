#pragma once

#include <sqlite3.h>

#include "sealane/transaction.hpp"

namespace sealane::sqlite {

/// The producer's port over a SQLite connection that somebody else owns.
///
/// Every method refuses with `no_transaction` when none is open. After an error the transaction can go on, without
/// anything of the failed call, unless SQLite itself has rolled it back (a full disk can do that); the error says so.
///
/// SQLite has one writer at a time. A transaction that began DEFERRED and finds another one writing gets `store_busy`
/// (kConflict) from any method here, BeginOnce included, where PostgreSQL would answer kInProgress; one that began
/// IMMEDIATE has waited for its turn and never does.
class SqliteTransaction : public Transaction {
 public:
  explicit SqliteTransaction(sqlite3* connection) : connection_(connection) {}

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override;
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override;
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override;
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override;
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override;
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override;
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override;

 private:
  Status RequireTransaction() const;

  sqlite3* connection_;
};

/// What the methods say when no transaction is open.
Error NoTransaction();

}  // namespace sealane::sqlite
