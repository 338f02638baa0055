#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/database.hpp"

namespace sealane::memory {

/// A transaction that collects its writes and hands them over at the commit.
class MemoryTransaction final : public OwnedTransaction {
 public:
  /// `token` lives as long as the transaction is open, so that its store can tell.
  MemoryTransaction(std::shared_ptr<Database> database, std::shared_ptr<void> token);
  ~MemoryTransaction() override;
  MemoryTransaction(const MemoryTransaction&) = delete;
  MemoryTransaction& operator=(const MemoryTransaction&) = delete;

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override;
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override;
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override;
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override;
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override;
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override;
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override;
  Status Commit() override;
  Status Rollback() override;

  /// Commits together with `work` on the inboxes; what that refuses is not committed, and cannot be any more.
  Status CommitWith(const std::function<Status(InboxTables&)>& work);
  /// The same with work on the tasks.
  Status CommitWith(const std::function<Status(TaskTables&)>& work);
  TransactionNumber number() const { return number_; }
  /// What was written so far is not, as after a rollback to a savepoint. Locks stay.
  void ForgetChanges() { changes_ = {}; }

 private:
  Status RequireOpen() const;
  template <class Tables>
  Status CommitOn(const std::function<Status(Tables&)>& work);
  Result<Appended> AppendOne(const NewEntry& entry, Changes& call);
  Status ClaimUnique(const NewEntry& entry, Changes& call);
  /// Locks the fingerprint, then tells which event has it, in this call, in this transaction or committed.
  Result<std::optional<EventId>> LockAndFind(const Fingerprint& fingerprint, const Changes& call);
  /// Locks the aggregate and tells where it stands for this transaction.
  Result<std::int64_t> LockVersion(const AggregateName& aggregate);
  std::optional<Request> SeenRequest(const RequestKey& key) const;
  std::optional<NewTask> SeenTask(const TaskName& name) const;

  std::shared_ptr<Database> database_;
  std::shared_ptr<void> token_;
  TransactionNumber number_;
  Changes changes_;
};

}  // namespace sealane::memory
