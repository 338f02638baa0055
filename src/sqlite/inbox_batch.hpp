#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sqlite/inbox_rows.hpp"
#include "sqlite/sqlite_transaction.hpp"
#include "sqlite/write_transaction.hpp"

namespace sealane::sqlite {

/// Some arrivals, or one message tried again, in a transaction that holds the file's write lock.
class SqliteInboxBatch final : public InboxBatch {
 public:
  SqliteInboxBatch(std::shared_ptr<InboxSession> session, WriteTransaction transaction);
  ~SqliteInboxBatch() override;
  SqliteInboxBatch(const SqliteInboxBatch&) = delete;
  SqliteInboxBatch& operator=(const SqliteInboxBatch&) = delete;

  /// Looks up what is known of the arrivals.
  Status File(const BatchRequest& request);
  /// Takes a message that is parked; before the handler of the first of them.
  Status Take(InboxItem item);

  const std::vector<Standing>& standings() const override { return standings_; }
  Status Finish(std::span<const Outcome> outcomes) override;
  Status Rewind() override;

  Result<std::int64_t> Execute(const std::string& sql, std::span<const SqlValue> values) override;
  Result<std::vector<std::vector<std::optional<std::string>>>> Query(const std::string& sql,
                                                                     std::span<const SqlValue> values,
                                                                     std::size_t rows_max) override;
  Native native() override { return {.lite = session_->connection.get()}; }
  Status Check() override { return RequireOpen(); }

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override;
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override;
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override;
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override;
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override;
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override;
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override;

 private:
  Status RequireOpen() const;
  /// A statement about the transaction itself, which handlers may not run.
  Status Control(const std::string& sql);
  Status CheckOutcomes(std::span<const Outcome> outcomes) const;
  Result<BookedStatement> Prepare(const std::string& sql, std::span<const SqlValue> values);
  Result<std::int64_t> Run(const std::string& sql, std::span<const SqlValue> values);
  Result<std::vector<std::vector<std::optional<std::string>>>> Fetch(const std::string& sql,
                                                                     std::span<const SqlValue> values,
                                                                     std::size_t rows_max);

  Status Write(const InboxItem& item, const Outcome& outcome, Timestamp now);
  /// The receipt of an event that came with other bytes is about the first ones.
  bool HasOwnReceipt(const InboxItem& item) const;
  Status WriteFinished(const InboxItem& item, InboxState state, std::string_view code, Timestamp now);
  Status WriteParked(const InboxItem& item, const ParkNote& note, Timestamp now);
  /// Takes away the notes that an event of this batch is being handled.
  Status ClearSuspicions();
  Status Move(std::span<const Outcome> outcomes);

  /// After an error the transaction is lost, whatever its owner makes of it.
  template <class T>
  Result<T> Noted(Result<T> result) {
    lost_ = lost_ || !result;
    return result;
  }

  std::shared_ptr<InboxSession> session_;
  WriteTransaction transaction_;
  InboxRows rows_;
  SqliteTransaction producer_;
  std::vector<InboxItem> items_;
  std::vector<Standing> standings_;
  std::optional<ProgressMove> progress_;
  bool anything_parked_ = false;
  bool finished_ = false;
  bool lost_ = false;
};

}  // namespace sealane::sqlite
