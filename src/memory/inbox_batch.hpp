#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inbox/inbox_store.hpp"
#include "memory/inbox_state.hpp"
#include "memory/memory_transaction.hpp"

namespace sealane::memory {

/// Some arrivals, or one message tried again, with a transaction that commits what became of them.
class MemoryInboxBatch final : public InboxBatch {
 public:
  /// `life` is that of the database when the store was opened. `token` lives as long as the batch is open, so that
  /// its store can tell.
  MemoryInboxBatch(std::shared_ptr<Database> database, std::string consumer, Clock& clock, std::int64_t life,
                   std::shared_ptr<void> token);

  /// Waits until no other batch has one of these, then looks up what is known of them.
  Status File(std::span<const Arrival> arrivals, bool guard_versions, std::optional<ProgressMove> progress);
  /// False when another batch has the message.
  bool Take(const ParkedMessage& parked);
  /// The two halves of that, where several are taken: only those that were added have an outcome.
  bool TryLock(const ParkedMessage& parked);
  void Add(const ParkedMessage& parked);

  const std::vector<Standing>& standings() const override { return standings_; }
  Status Finish(std::span<const Outcome> outcomes) override;
  Status Rewind() override;

  Result<std::int64_t> Execute(const std::string& sql, std::span<const SqlValue> values) override;
  Result<std::vector<std::vector<std::optional<std::string>>>> Query(const std::string& sql,
                                                                     std::span<const SqlValue> values,
                                                                     std::size_t rows_max) override;

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override;
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override;
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override;
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override;
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override;
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override;
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override;

 private:
  std::string VersionLock(const InboxAggregate& aggregate) const;
  Status Write(InboxTables& tables, std::span<const Outcome> outcomes);
  /// After an error the transaction is lost, whatever its owner makes of it.
  template <class T>
  Result<T> Noted(Result<T> result) {
    lost_ = lost_ || !result;
    return result;
  }

  std::shared_ptr<Database> database_;
  std::string consumer_;
  Clock& clock_;
  std::int64_t life_;
  MemoryTransaction transaction_;
  std::vector<InboxItem> items_;
  std::vector<Standing> standings_;
  std::optional<ProgressMove> progress_;
  std::vector<ExecutedStatement> executed_;
  bool lost_ = false;
};

/// The lock that whoever is at an event of a consumer holds.
std::string InboxEventLock(std::string_view consumer, const EventId& id);

}  // namespace sealane::memory
