#include "sqlite/sqlite_store.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/text.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/embedded_migrations.hpp"
#include "sqlite/message_query.hpp"
#include "sqlite/migrated_connection.hpp"
#include "sqlite/sqlite_error.hpp"
#include "sqlite/sqlite_migrator.hpp"
#include "sqlite/sqlite_transaction.hpp"
#include "sqlite/statement.hpp"
#include "sqlite/write_transaction.hpp"

namespace sealane::sqlite {
namespace {

/// Shares the connection with its store, so that either may be destroyed first.
class OwnedSqliteTransaction final : public OwnedTransaction {
 public:
  explicit OwnedSqliteTransaction(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)), inner_(connection_->get()) {}
  ~OwnedSqliteTransaction() override {
    // A rollback that fails has nothing left to roll back.
    if (open_ && connection_->in_transaction()) static_cast<void>(Execute(connection_->get(), "ROLLBACK"));
  }
  OwnedSqliteTransaction(const OwnedSqliteTransaction&) = delete;
  OwnedSqliteTransaction& operator=(const OwnedSqliteTransaction&) = delete;

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    return inner_.Append(entries);
  }
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    return inner_.NextVersion(aggregate);
  }
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    return inner_.AdvanceVersion(aggregate, expected);
  }
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    return inner_.EnsureOnce(scope, key);
  }
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    return inner_.BeginOnce(claim);
  }
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    return inner_.CompleteOnce(claim, response);
  }
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    return inner_.EnqueueTask(task);
  }

  Status Commit() override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    // Left open, so that it is rolled back at the end.
    SEALANE_RETURN_IF_ERROR(connection_->RequireCurrent());
    if (sqlite3_exec(connection_->get(), "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK) {
      open_ = false;
      return CommittedIn(connection_->get());
    }
    const int code = sqlite3_extended_errcode(connection_->get());
    if (code == SQLITE_IOERR_FSYNC) {
      // Everything was written and only the wait for the disk failed.
      return Error(ErrorKind::kInDoubt, "commit_in_doubt", "the disk failed while the commit was under way")
          .WithNative(fmt::format("sqlite {}", code))
          .WithHint("look whether the event is there before doing it again");
    }
    return LastError(connection_->get());
  }
  Status Rollback() override {
    SEALANE_RETURN_IF_ERROR(RequireOpen());
    open_ = false;
    return Execute(connection_->get(), "ROLLBACK");
  }

 private:
  Status RequireOpen() const {
    if (!open_ || !connection_->in_transaction()) return NoTransaction();
    return Ok();
  }

  std::shared_ptr<Connection> connection_;
  SqliteTransaction inner_;
  bool open_ = true;
};

class SqliteOutboxStore final : public OutboxStore {
 public:
  SqliteOutboxStore(Connection connection, Options options)
      : connection_(std::make_shared<Connection>(std::move(connection))), options_(std::move(options)) {}

  Result<std::unique_ptr<OwnedTransaction>> Begin() override {
    SEALANE_RETURN_IF_ERROR(RequireIdle());
    // SQLite would begin a transaction that can only read, and refuse the first write.
    if (sqlite3_db_readonly(connection_->get(), "main") == 1) {
      return ErrorFromSqlite(SQLITE_READONLY, fmt::format("{} is read-only", connection_->path()));
    }
    SEALANE_RETURN_IF_ERROR(Execute(connection_->get(), "BEGIN IMMEDIATE"));
    return std::unique_ptr<OwnedTransaction>(std::make_unique<OwnedSqliteTransaction>(connection_));
  }
  Result<std::vector<StoredMessage>> ListMessages(const MessageFilter& filter) override {
    SEALANE_RETURN_IF_ERROR(RequireIdle());
    return QueryMessages(connection_->get(), filter);
  }
  Result<std::optional<StoredMessage>> FindMessage(const EventId& id) override {
    SEALANE_RETURN_IF_ERROR(RequireIdle());
    return QueryMessage(connection_->get(), id);
  }
  Result<SweepReport> ForgetExpired(std::size_t limit) override;

 private:
  /// Our own open transaction would show its events before they are committed, and there is one per connection.
  Status RequireIdle() {
    if (!connection_->in_transaction()) return FollowPath();
    return Error(ErrorKind::kMisuse, "transaction_open", "a transaction of this store is open")
        .WithHint("commit or roll back first, or open a second store");
  }
  /// A store may be kept for weeks: when its file was replaced, the one that is there now is opened.
  Status FollowPath() {
    if (connection_->RequireCurrent()) return Ok();
    SEALANE_ASSIGN_OR_RETURN(Connection opened, OpenMigrated(options_));
    connection_ = std::make_shared<Connection>(std::move(opened));
    return Ok();
  }
  Result<std::int64_t> Delete(const std::string& sql, std::size_t limit);

  std::shared_ptr<Connection> connection_;
  const Options options_;
};

Result<std::int64_t> SqliteOutboxStore::Delete(const std::string& sql, std::size_t limit) {
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  SEALANE_ASSIGN_OR_RETURN(Statement statement, Statement::Prepare(connection_->get(), sql));
  statement.Bind(static_cast<std::int64_t>(std::min(limit, kMax)));
  SEALANE_RETURN_IF_ERROR(statement.Run());
  return sqlite3_changes64(connection_->get());
}

Result<SweepReport> SqliteOutboxStore::ForgetExpired(std::size_t limit) {
  SEALANE_RETURN_IF_ERROR(RequireIdle());
  static const std::string forget_unique = fmt::format(
      "DELETE FROM sealane_outbox_unique WHERE (kind, fingerprint) IN (SELECT kind, fingerprint"
      " FROM sealane_outbox_unique WHERE created_at < {} - (SELECT CAST(value AS INTEGER) * 86400000000"
      " FROM sealane_setting WHERE name = 'unique_memory_days') ORDER BY created_at LIMIT ?)",
      kNowSql);
  static const std::string forget_requests = fmt::format(
      "DELETE FROM sealane_idempotency WHERE (tenant, key) IN (SELECT tenant, key FROM sealane_idempotency"
      " WHERE expires_at < {} ORDER BY expires_at LIMIT ?)",
      kNowSql);
  // Two short transactions: the one writer of the file is held up as little as possible.
  SweepReport report;
  SEALANE_ASSIGN_OR_RETURN(report.unique_forgotten, Delete(forget_unique, limit));
  SEALANE_ASSIGN_OR_RETURN(report.idempotency_forgotten, Delete(forget_requests, limit));
  return report;
}

}  // namespace

Result<std::unique_ptr<OutboxStore>> OpenOutboxStore(const Options& options) {
  SEALANE_ASSIGN_OR_RETURN(Connection connection, OpenMigrated(options));
  Options kept = options;
  kept.path = connection.path();
  return std::unique_ptr<OutboxStore>(std::make_unique<SqliteOutboxStore>(std::move(connection), std::move(kept)));
}

Result<std::unique_ptr<Migrator>> OpenMigrator(const Options& options) {
  return std::unique_ptr<Migrator>(std::make_unique<SqliteMigrator>(options, EmbeddedMigrations()));
}

std::string LibraryVersion() {
  return sqlite3_libversion();
}

}  // namespace sealane::sqlite
