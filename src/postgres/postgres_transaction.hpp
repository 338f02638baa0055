#pragma once

#include <string>
#include <string_view>

#include <libpq-fe.h>

#include "sealane/transaction.hpp"

namespace sealane::postgres {

/// The producer's port over a libpq connection that somebody else owns.
///
/// Every method is one round trip and refuses with `no_transaction` when none is open. After any other error the
/// server has marked the transaction as failed: only a rollback (or a rollback to a savepoint) ends that.
class PostgresTransaction final : public Transaction {
 public:
  PostgresTransaction(PGconn* connection, std::string_view schema) : connection_(connection), schema_(schema) {}

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override;
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override;
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override;
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override;
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override;
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override;
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override;

 private:
  Status RequireTransaction() const;
  Status RequireUtf8() const;

  PGconn* connection_;
  std::string schema_;
};

}  // namespace sealane::postgres
