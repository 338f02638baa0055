#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/fingerprint.hpp"
#include "memory/inbox_state.hpp"
#include "memory/memory_store.hpp"
#include "memory/outbox_log_state.hpp"
#include "memory/task_state.hpp"

namespace sealane::memory {

using AggregateKey = std::tuple<std::string, std::string, std::string>;  // tenant, type, id
using RequestKey = std::pair<std::string, std::string>;                  // tenant, key

using OnceKey = std::pair<std::string, std::string>;  // scope, key

/// A request that was begun and maybe answered.
struct Request {
  std::string request_hash;
  Timestamp patience_until{};
  Timestamp expires_at{};
  std::optional<StoredResponse> response;
};

/// What a transaction has written and not committed.
struct Changes {
  std::vector<Envelope> events;
  std::map<Fingerprint, EventId> unique;
  std::map<AggregateKey, std::int64_t> versions;
  std::map<RequestKey, Request> requests;
  std::vector<NewTask> tasks;
  std::set<OnceKey> once;
};

/// Everything that is committed.
struct Snapshot {
  struct UniqueRecord {
    EventId event_id;
    Timestamp created_at{};
  };

  explicit Snapshot(std::int32_t lanes) : log(lanes) {}

  LogState log;
  InboxTables inbox = {};
  TaskTables tasks = {};
  std::map<Fingerprint, UniqueRecord> unique = {};
  std::map<AggregateKey, std::int64_t> versions = {};
  std::map<RequestKey, Request> requests = {};
  std::set<OnceKey> once = {};
};

/// Names one open transaction.
using TransactionNumber = std::uint64_t;

/// The committed data and the locks. Every method is atomic.
class Database {
 public:
  Database(Clock& clock, std::chrono::milliseconds lock_wait, std::int32_t lanes)
      : clock_(clock), lock_wait_(lock_wait), data_(lanes) {}

  Clock& clock() const { return clock_; }
  TransactionNumber StartTransaction();
  /// Makes the changes visible, all at once, and ends the transaction. kUnavailable (`store_changed`) when it was
  /// started before a Restore(); so do the other ways to commit.
  Status Commit(TransactionNumber transaction, Changes changes);
  /// The same together with what `work` does to the inboxes. When that refuses, it has changed nothing, and neither
  /// does this.
  Status CommitWith(TransactionNumber transaction, Changes changes, const std::function<Status(InboxTables&)>& work);
  /// The same with what it does to the tasks.
  Status CommitWith(TransactionNumber transaction, Changes changes, const std::function<Status(TaskTables&)>& work);
  void Rollback(TransactionNumber transaction);

  Snapshot TakeSnapshot() const;
  /// See memory::Restore().
  void Restore(const Snapshot& snapshot);

  enum class LockAnswer { kTaken, kHadIt, kHeldByOther };
  /// Takes the lock until the end of the transaction, or says who has it.
  LockAnswer TryLock(TransactionNumber transaction, const std::string& name);
  /// The same, but waits for another holder; kConflict (`store_busy`) when that takes too long.
  Status Lock(TransactionNumber transaction, const std::string& name);
  /// Gives a lock back before the end.
  void Unlock(const std::string& name);

  std::optional<EventId> FindUnique(const Fingerprint& fingerprint) const;
  std::int64_t FindVersion(const AggregateKey& aggregate) const;
  std::optional<Request> FindRequest(const RequestKey& key) const;
  /// The task of that name, as it was enqueued.
  std::optional<NewTask> FindTask(const TaskName& name) const;
  bool HasOnce(const OnceKey& key) const;

  std::vector<StoredMessage> List(const MessageFilter& filter) const;
  std::optional<StoredMessage> Find(const EventId& id) const;
  SweepReport ForgetExpired(std::size_t limit);
  /// Removes an event from the log, as retention does.
  void Erase(const EventId& id);

  /// Runs `work` on the log and the routes while nobody else can. It must not call back.
  template <class Work>
  auto WithLog(const Work& work) {
    const std::lock_guard lock(mutex_);
    return work(data_.log);
  }
  /// The same on the inboxes.
  template <class Work>
  auto WithInbox(const Work& work) {
    const std::lock_guard lock(mutex_);
    return work(data_.inbox);
  }
  /// The same on the tasks.
  template <class Work>
  auto WithTasks(const Work& work) {
    const std::lock_guard lock(mutex_);
    return work(data_.tasks);
  }
  /// The same on both, because what operators do to inboxes is written to the audit trail next to the log.
  template <class Work>
  auto WithLogAndInbox(const Work& work) {
    const std::lock_guard lock(mutex_);
    return work(data_.log, data_.inbox);
  }
  template <class Work>
  auto WithLogAndTasks(const Work& work) {
    const std::lock_guard lock(mutex_);
    return work(data_.log, data_.tasks);
  }

 private:
  template <class Tables>
  Status CommitOn(Tables& tables, TransactionNumber transaction, Changes changes,
                  const std::function<Status(Tables&)>& work);
  /// With mutex_ held.
  void Apply(Changes changes);
  void ReleaseLocks(TransactionNumber transaction);
  /// The message with its status on every route.
  StoredMessage Show(const StoredMessage& message) const;

  Clock& clock_;
  const std::chrono::milliseconds lock_wait_;

  mutable std::mutex mutex_;
  std::condition_variable released_;
  // Guarded by mutex_.
  TransactionNumber last_transaction_ = 0;
  TransactionNumber last_of_earlier_life_ = 0;  // this one and those before it began before the last Restore()
  std::map<std::string, TransactionNumber> locks_;
  Snapshot data_;
};

}  // namespace sealane::memory
