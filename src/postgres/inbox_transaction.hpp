#pragma once

#include <vector>

#include "postgres/inbox_session.hpp"
#include "postgres/postgres_transaction.hpp"

namespace sealane::postgres {

/// The part that every batch has: an open transaction in which handlers work, rolled back when it is destroyed
/// unfinished.
class InboxTransaction : public InboxBatch {
 public:
  /// Whether Post() waits for its answer.
  enum class Answers : std::uint8_t { kLater, kAtOnce };
  /// The session has begun a transaction.
  InboxTransaction(InboxSession session, Answers answers)
      : session_(std::move(session)), inner_(session_.get(), session_.schema), answers_(answers) {}
  ~InboxTransaction() override;
  InboxTransaction(const InboxTransaction&) = delete;
  InboxTransaction& operator=(const InboxTransaction&) = delete;

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override {
    return Settled([&] { return inner_.Append(entries); });
  }
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override {
    return Settled([&] { return inner_.NextVersion(aggregate); });
  }
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override {
    return Settled([&] { return inner_.AdvanceVersion(aggregate, expected); });
  }
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override {
    return Settled([&] { return inner_.EnsureOnce(scope, key); });
  }
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override {
    return Settled([&] { return inner_.BeginOnce(claim); });
  }
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override {
    return Settled([&] { return inner_.CompleteOnce(claim, response); });
  }
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override {
    return Settled([&] { return inner_.EnqueueTask(task); });
  }

  Result<std::int64_t> Execute(const std::string& sql, std::span<const SqlValue> values) override;
  Status Post(const std::string& sql, std::span<const SqlValue> values) override;
  Result<std::vector<std::vector<std::optional<std::string>>>> Query(const std::string& sql,
                                                                     std::span<const SqlValue> values,
                                                                     std::size_t rows_max) override;
  /// What was posted is waited for: whoever has the connection may use it.
  Native native() override {
    static_cast<void>(Settle());  // an error stays, for whoever asks next
    return {.postgres = session_.get()};
  }
  Status Check() override { return RequireOpen(); }
  Status Settle() override;

  const std::vector<Standing>& standings() const override { return standings_; }
  Status Rewind() override;

 protected:
  const InboxSession& session() const { return session_; }
  std::vector<Standing>& mutable_standings() { return standings_; }
  /// Whether the transaction can be finished; a handler that ended it or let it fail is told so.
  Status RequireOpen() const;
  /// Runs the calls and commits, in one round trip. Ends the batch in any case.
  Status Commit(std::vector<Call> calls);

 private:
  /// Does the work unless something that was posted before has failed.
  template <class Work>
  auto Settled(const Work& work) -> decltype(work()) {
    if (Status posted = Settle(); !posted) return std::move(posted).error();
    return work();
  }
  Status RequireHandlersOwn(const std::string& sql) const;
  Result<PgResult> RunStatement(const std::string& sql, std::span<const SqlValue> values);

  InboxSession session_;
  PostgresTransaction inner_;
  const Answers answers_;
  std::vector<Standing> standings_;
  std::optional<Error> post_failure_;
  std::optional<Error> failure_;  // of a statement that never reached the server, which knows nothing of it
  bool finished_ = false;
};

/// What Rewind() goes back to, for transactions that begin with it.
inline constexpr const char* kSavepoint = "SAVEPOINT sealane_handler";

/// The receipt of one event that gets another state.
struct ReceiptChange {
  EventId id;
  Timestamp filed_at{};
  std::string_view hash;
  std::optional<std::string_view> state = {};  ///< empty: the receipt is taken back
  std::optional<std::string> code = {};
  std::optional<std::string> message = {};
};
Call MarkCall(const InboxSession& session, std::span<const ReceiptChange> changes);

/// The version that an aggregate stands at from now on.
struct VersionChange {
  std::string_view tenant;
  std::string_view type;
  std::string_view id;
  std::int64_t version = 0;
};
/// Every aggregate at most once.
Call SetVersionsCall(const InboxSession& session, std::span<const VersionChange> changes);

/// The error for outcomes that are not one per event.
Error OutcomesDiffer(std::size_t outcomes, std::size_t events);

/// An error's code and message as columns; empty when there was none.
std::optional<std::string> ColumnOf(std::string_view text);

}  // namespace sealane::postgres
