#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/envelope.hpp"
#include "sealane/result.hpp"
#include "sealane/task.hpp"

// The handles of libpq and sqlite3, named so that an application can hand over its own. Their headers stay inside.
struct pg_conn;
struct sqlite3;

namespace sealane {

/// What became of one event handed to the outbox.
struct Appended {
  EventId id;                  ///< of the stored event: the earlier one's when already_there
  bool already_there = false;  ///< the dedup key was used before; nothing was written
  friend bool operator==(const Appended&, const Appended&) = default;
};

/// An admitted event on its way into the log, with the uniqueness its caller asked for.
struct NewEntry {
  Envelope envelope;
  bool own_id = false;          ///< the caller chose the id: refuse it when it exists already
  bool unique_version = false;  ///< refuse a second (tenant, aggregate, version, type)
  std::optional<std::string> dedup_key;
};

/// One business object whose versions are counted.
struct AggregateName {
  std::string tenant;
  std::string type;
  std::string id;
};

/// A request that must run once however often it is sent.
struct IdempotencyClaim {
  std::string tenant;
  std::string key;           ///< chosen by the client, for example its Idempotency-Key header
  std::string request_hash;  ///< of the request's content: the same key with another hash is a conflict
  std::chrono::seconds remember = std::chrono::hours{24};  ///< how long a response is replayed
  std::chrono::seconds patience =
      std::chrono::minutes{1};  ///< an unfinished committed claim is free again after this
};

/// The answer that was given and will be given again.
struct StoredResponse {
  std::int32_t status = 0;
  std::string body;
  friend bool operator==(const StoredResponse&, const StoredResponse&) = default;
};

enum class IdempotencyState : std::uint8_t {
  kNew,         ///< run the command, then Complete() in the same transaction
  kReplay,      ///< answer with the stored response
  kConflict,    ///< the key was used for another request: refuse
  kInProgress,  ///< another transaction runs it right now: ask the client to come back
};

struct IdempotencyOutcome {
  IdempotencyState state = IdempotencyState::kNew;
  std::optional<StoredResponse> response;  ///< with kReplay
};

/// Port: what a producer does inside a database transaction that is already open and that somebody else will end.
///
/// No method begins, commits or rolls back anything. When one fails nothing of that call is written; whether the
/// transaction itself can go on depends on the store (in PostgreSQL it cannot) and the error's message says so.
/// Not thread-safe: it lives on the thread of its connection.
class Transaction {
 public:
  virtual ~Transaction() = default;

  /// Writes all entries or none, in one round trip, in the order given. Results stand in the same order.
  virtual Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) = 0;

  /// Counts the aggregate up under a row lock that lasts to the end of the transaction: 1, 2, 3 without gaps.
  virtual Result<std::int64_t> NextVersion(const AggregateName& aggregate) = 0;
  /// Moves the aggregate from `expected` to `expected + 1` and returns that; kConflict (`version_conflict`) when it
  /// stands elsewhere. An aggregate never seen stands at 0.
  virtual Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) = 0;

  /// True when nobody has asked for (scope, key) before, in this transaction or a committed one. Waits for another
  /// open one that has.
  virtual Result<bool> EnsureOnce(std::string_view scope, std::string_view key) {
    return Error(ErrorKind::kMisuse, "no_once",
                 "this store keeps no keys: " + std::string(scope) + ", " + std::string(key));
  }

  virtual Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) = 0;
  /// kMisuse when this key was not begun.
  virtual Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) = 0;

  /// Writes a task unless it is there already; kConflict (`task_conflict`) when it is there with another request.
  virtual Result<EnqueuedTask> EnqueueTask(const NewTask& task) = 0;
};

/// A transaction as an application has it: an open PGconn, an open sqlite3, or any Transaction. Made implicitly, for
/// the length of one call; the handle stays the caller's.
class TransactionRef {
 public:
  /// An open transaction on a libpq connection. `schema` is where `sealane migrate up` put the tables.
  TransactionRef(pg_conn* connection, std::string_view schema = "sealane");  // NOLINT: implicit on purpose
  /// An open transaction on a SQLite connection.
  TransactionRef(sqlite3* connection);                                      // NOLINT: implicit on purpose
  TransactionRef(Transaction& transaction) : transaction_(&transaction) {}  // NOLINT: implicit on purpose

  Transaction* operator->() const { return transaction_; }

 private:
  std::unique_ptr<Transaction> owned_;
  Transaction* transaction_;
};

}  // namespace sealane
