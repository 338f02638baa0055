#include "sqlite/sqlite_transaction.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "outbox/refusal.hpp"
#include "sqlite/appender.hpp"
#include "sqlite/connection.hpp"
#include "sqlite/statement.hpp"
#include "sqlite/task_rows.hpp"

namespace sealane {

TransactionRef::TransactionRef(sqlite3* connection)
    : owned_(std::make_unique<sqlite::SqliteTransaction>(connection)), transaction_(owned_.get()) {}

namespace sqlite {
namespace {

Result<std::vector<Appended>> AppendEach(sqlite3* connection, std::span<const NewEntry> entries) {
  Appender appender(connection);
  std::vector<Appended> appended;
  appended.reserve(entries.size());
  for (const NewEntry& entry : entries) {
    auto one = appender.Append(entry);
    if (!one && entries.size() == 1) return std::move(one).error();
    if (!one) {
      return std::move(one).error().WithContext(
          fmt::format("in event {} of {}", appended.size() + 1, entries.size()));
    }
    appended.push_back(*one);
  }
  return appended;
}

/// The first column of the only row; empty when there is no row.
Result<std::optional<std::int64_t>> ReadNumber(Statement& statement) {
  SEALANE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return std::optional<std::int64_t>();
  const std::int64_t number = statement.Int(0);
  SEALANE_RETURN_IF_ERROR(statement.Run());
  return std::optional(number);
}

Result<std::int64_t> CurrentVersion(sqlite3* connection, const AggregateName& aggregate) {
  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(connection,
                         "SELECT version FROM sealane_aggregate_version WHERE tenant = ? AND type = ? AND id = ?"));
  select.Bind(aggregate.tenant).Bind(aggregate.type).Bind(aggregate.id);
  SEALANE_ASSIGN_OR_RETURN(const auto version, ReadNumber(select));
  return version.value_or(0);
}

constexpr std::string_view kFirstVersionSql =
    "INSERT INTO sealane_aggregate_version (tenant, type, id, version) VALUES (?, ?, ?, 1)"
    " ON CONFLICT DO NOTHING RETURNING version";
constexpr std::string_view kAdvanceSql =
    "UPDATE sealane_aggregate_version SET version = version + 1"
    " WHERE tenant = ? AND type = ? AND id = ? AND version = ? RETURNING version";

std::int64_t Microseconds(std::chrono::seconds duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

/// Takes the key when nobody has it, or when whoever had it is past its memory or its patience. True when taken.
Result<bool> TakeKey(sqlite3* connection, const IdempotencyClaim& claim) {
  static const std::string sql = fmt::format(
      "INSERT INTO sealane_idempotency AS r (tenant, key, request_hash, claimed_at, patience_until, expires_at)"
      " VALUES (?, ?, ?, {0}, {0} + ?, {0} + ?)"
      " ON CONFLICT DO UPDATE SET request_hash = excluded.request_hash, claimed_at = excluded.claimed_at,"
      " patience_until = excluded.patience_until, expires_at = excluded.expires_at, completed_at = NULL,"
      " status = NULL, body = NULL"
      " WHERE r.expires_at <= excluded.claimed_at OR (r.completed_at IS NULL"
      " AND r.request_hash = excluded.request_hash AND r.patience_until <= excluded.claimed_at)"
      " RETURNING 1",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(Statement take, Statement::Prepare(connection, sql));
  take.Bind(claim.tenant)
      .Bind(claim.key)
      .Bind(claim.request_hash)
      .Bind(Microseconds(claim.patience))
      .Bind(Microseconds(claim.remember));
  SEALANE_ASSIGN_OR_RETURN(const auto taken, ReadNumber(take));
  return taken.has_value();
}

}  // namespace

Error NoTransaction() {
  return Error(ErrorKind::kMisuse, "no_transaction", "no transaction is open on this connection; nothing was written")
      .WithHint("BEGIN IMMEDIATE, write your data, append the event, COMMIT");
}

Status SqliteTransaction::RequireTransaction() const {
  if (connection_ == nullptr) return Error(ErrorKind::kMisuse, "no_connection", "the SQLite connection is null");
  if (sqlite3_get_autocommit(connection_) != 0) return NoTransaction();
  // An application may keep its connection for weeks.
  return RequireCurrent(connection_);
}

Result<std::vector<Appended>> SqliteTransaction::Append(std::span<const NewEntry> entries) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  if (entries.empty()) return std::vector<Appended>{};

  SEALANE_RETURN_IF_ERROR(Execute(connection_, "SAVEPOINT sealane_append"));
  auto appended = AppendEach(connection_, entries);
  if (appended) {
    SEALANE_RETURN_IF_ERROR(Execute(connection_, "RELEASE sealane_append"));
    return appended;
  }
  if (sqlite3_get_autocommit(connection_) != 0) {
    return std::move(appended).error().WithContext("SQLite has rolled the whole transaction back");
  }
  SEALANE_RETURN_IF_ERROR(Execute(connection_, "ROLLBACK TO sealane_append; RELEASE sealane_append"));
  return std::move(appended).error();
}

Result<std::int64_t> SqliteTransaction::NextVersion(const AggregateName& aggregate) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(
      Statement count,
      Statement::Prepare(connection_,
                         "INSERT INTO sealane_aggregate_version (tenant, type, id, version) VALUES (?, ?, ?, 1)"
                         " ON CONFLICT DO UPDATE SET version = version + 1 RETURNING version"));
  count.Bind(aggregate.tenant).Bind(aggregate.type).Bind(aggregate.id);
  SEALANE_ASSIGN_OR_RETURN(const auto version, ReadNumber(count));
  SEALANE_ASSERT(version.has_value(), "an upsert without a condition returns its row");
  return *version;
}

Result<std::int64_t> SqliteTransaction::AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(Statement advance,
                           Statement::Prepare(connection_, expected == 0 ? kFirstVersionSql : kAdvanceSql));
  advance.Bind(aggregate.tenant).Bind(aggregate.type).Bind(aggregate.id);
  if (expected != 0) advance.Bind(expected);
  SEALANE_ASSIGN_OR_RETURN(const auto version, ReadNumber(advance));
  if (version) return *version;
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t current, CurrentVersion(connection_, aggregate));
  return VersionConflict(aggregate, expected, current);
}

Result<bool> SqliteTransaction::EnsureOnce(std::string_view scope, std::string_view key) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(Statement take, Statement::Prepare(connection_,
                                                              "INSERT INTO sealane_once (scope, key) VALUES (?, ?)"
                                                              " ON CONFLICT DO NOTHING RETURNING 1"));
  take.Bind(scope).Bind(key);
  SEALANE_ASSIGN_OR_RETURN(const auto taken, ReadNumber(take));
  return taken.has_value();
}

Result<IdempotencyOutcome> SqliteTransaction::BeginOnce(const IdempotencyClaim& claim) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const bool taken, TakeKey(connection_, claim));
  if (taken) return IdempotencyOutcome{IdempotencyState::kNew, std::nullopt};

  SEALANE_ASSIGN_OR_RETURN(
      Statement select,
      Statement::Prepare(connection_,
                         "SELECT request_hash = ?, completed_at IS NOT NULL, status, body FROM sealane_idempotency"
                         " WHERE tenant = ? AND key = ?"));
  select.Bind(claim.request_hash).Bind(claim.tenant).Bind(claim.key);
  SEALANE_ASSIGN_OR_RETURN(const bool row, select.Step());
  SEALANE_ASSERT(row, "a key that could not be taken is there");
  RowReader reader(select);
  if (reader.Int() == 0) return IdempotencyOutcome{IdempotencyState::kConflict, std::nullopt};
  if (reader.Int() == 0) return IdempotencyOutcome{IdempotencyState::kInProgress, std::nullopt};
  StoredResponse response;
  response.status = static_cast<std::int32_t>(reader.Int());
  response.body = reader.Blob();
  return IdempotencyOutcome{IdempotencyState::kReplay, std::move(response)};
}

Status SqliteTransaction::CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  static const std::string sql = fmt::format(
      "UPDATE sealane_idempotency SET completed_at = {}, status = ?, body = ?"
      " WHERE tenant = ? AND key = ? AND request_hash = ? AND completed_at IS NULL RETURNING 1",
      kNowSql);
  SEALANE_ASSIGN_OR_RETURN(Statement complete, Statement::Prepare(connection_, sql));
  complete.Bind(std::int64_t{response.status}).BindBlob(response.body);
  complete.Bind(claim.tenant).Bind(claim.key).Bind(claim.request_hash);
  SEALANE_ASSIGN_OR_RETURN(const auto updated, ReadNumber(complete));
  if (updated) return Ok();
  return RequestNotBegun(claim);
}

Result<EnqueuedTask> SqliteTransaction::EnqueueTask(const NewTask& task) {
  SEALANE_RETURN_IF_ERROR(RequireTransaction());
  SEALANE_ASSIGN_OR_RETURN(const auto earlier, FindTask(connection_, task));
  if (!earlier) {
    SEALANE_RETURN_IF_ERROR(InsertTask(connection_, task));
    return EnqueuedTask{task.id, false};
  }
  if (!earlier->is_same) return TaskConflict(task.task, earlier->id);
  return EnqueuedTask{earlier->id, true};
}

}  // namespace sqlite
}  // namespace sealane
