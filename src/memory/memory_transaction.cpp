#include "memory/memory_transaction.hpp"

#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "outbox/refusal.hpp"

namespace sealane::memory {
namespace {

/// The letter keeps locks of different things apart, the lengths keep different lists of parts apart.
std::string LockName(char what, std::initializer_list<std::string_view> parts) {
  std::string name(1, what);
  for (const std::string_view part : parts) name += fmt::format("{}:{}", part.size(), part);
  return name;
}

void Merge(Changes& into, Changes&& call) {
  std::move(call.events.begin(), call.events.end(), std::back_inserter(into.events));
  into.unique.merge(call.unique);
}

bool IsFree(const std::optional<Request>& request, const IdempotencyClaim& claim, Timestamp now) {
  if (!request || request->expires_at <= now) return true;
  return !request->response && request->request_hash == claim.request_hash && request->patience_until <= now;
}

IdempotencyOutcome OutcomeOf(const Request& request, const IdempotencyClaim& claim) {
  if (request.request_hash != claim.request_hash) return {IdempotencyState::kConflict, std::nullopt};
  if (!request.response) return {IdempotencyState::kInProgress, std::nullopt};
  return {IdempotencyState::kReplay, request.response};
}

}  // namespace

MemoryTransaction::MemoryTransaction(std::shared_ptr<Database> database, std::shared_ptr<void> token)
    : database_(std::move(database)), token_(std::move(token)), number_(database_->StartTransaction()) {}

MemoryTransaction::~MemoryTransaction() {
  if (token_ != nullptr) database_->Rollback(number_);
}

Status MemoryTransaction::RequireOpen() const {
  if (token_ != nullptr) return Ok();
  return Error(ErrorKind::kMisuse, "no_transaction", "this transaction has ended; nothing was written")
      .WithHint("begin, write, append, commit");
}

Status MemoryTransaction::Commit() {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  Status committed = database_->Commit(number_, std::move(changes_));
  if (!committed) database_->Rollback(number_);
  token_.reset();
  return committed;
}

Status MemoryTransaction::CommitWith(const std::function<Status(InboxTables&)>& work) {
  return CommitOn(work);
}

Status MemoryTransaction::CommitWith(const std::function<Status(TaskTables&)>& work) {
  return CommitOn(work);
}

template <class Tables>
Status MemoryTransaction::CommitOn(const std::function<Status(Tables&)>& work) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  Status committed = database_->CommitWith(number_, std::move(changes_), work);
  if (!committed) database_->Rollback(number_);
  token_.reset();
  return committed;
}

Status MemoryTransaction::Rollback() {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  database_->Rollback(number_);
  token_.reset();
  return Ok();
}

Result<std::vector<Appended>> MemoryTransaction::Append(std::span<const NewEntry> entries) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  Changes call;
  std::vector<Appended> appended;
  appended.reserve(entries.size());
  for (const NewEntry& entry : entries) {
    auto one = AppendOne(entry, call);
    if (!one && entries.size() == 1) return std::move(one).error();
    if (!one) {
      return std::move(one).error().WithContext(
          fmt::format("in event {} of {}", appended.size() + 1, entries.size()));
    }
    appended.push_back(*one);
  }
  Merge(changes_, std::move(call));
  return appended;
}

Result<Appended> MemoryTransaction::AppendOne(const NewEntry& entry, Changes& call) {
  const Envelope& envelope = entry.envelope;
  if (entry.dedup_key) {
    const Fingerprint fingerprint = FingerprintOfDedupKey(envelope.tenant, *entry.dedup_key);
    SEALANE_ASSIGN_OR_RETURN(const auto earlier, LockAndFind(fingerprint, call));
    if (earlier) return Appended{*earlier, true};
    call.unique.emplace(fingerprint, envelope.id);
  }
  SEALANE_RETURN_IF_ERROR(ClaimUnique(entry, call));
  call.events.push_back(envelope);
  return Appended{envelope.id, false};
}

Status MemoryTransaction::ClaimUnique(const NewEntry& entry, Changes& call) {
  const Envelope& envelope = entry.envelope;
  if (entry.own_id) {
    const Fingerprint fingerprint = FingerprintOfId(envelope.id);
    SEALANE_ASSIGN_OR_RETURN(const auto earlier, LockAndFind(fingerprint, call));
    if (earlier) return DuplicateEventId(envelope.id);
    call.unique.emplace(fingerprint, envelope.id);
  }
  if (entry.unique_version) {
    const Fingerprint fingerprint = FingerprintOfVersion(envelope);
    SEALANE_ASSIGN_OR_RETURN(const auto earlier, LockAndFind(fingerprint, call));
    if (earlier) return DuplicateVersion(envelope);
    call.unique.emplace(fingerprint, envelope.id);
  }
  return Ok();
}

Result<std::optional<EventId>> MemoryTransaction::LockAndFind(const Fingerprint& fingerprint, const Changes& call) {
  const std::string_view bytes(reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size());
  SEALANE_RETURN_IF_ERROR(database_->Lock(number_, LockName('u', {bytes})));
  for (const Changes* const changes : {&call, static_cast<const Changes*>(&changes_)}) {
    const auto found = changes->unique.find(fingerprint);
    if (found != changes->unique.end()) return std::optional(found->second);
  }
  return database_->FindUnique(fingerprint);
}

Result<std::int64_t> MemoryTransaction::LockVersion(const AggregateName& aggregate) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  SEALANE_RETURN_IF_ERROR(database_->Lock(number_, LockName('v', {aggregate.tenant, aggregate.type, aggregate.id})));
  const AggregateKey key{aggregate.tenant, aggregate.type, aggregate.id};
  const auto changed = changes_.versions.find(key);
  return changed != changes_.versions.end() ? changed->second : database_->FindVersion(key);
}

Result<std::int64_t> MemoryTransaction::NextVersion(const AggregateName& aggregate) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t current, LockVersion(aggregate));
  changes_.versions[{aggregate.tenant, aggregate.type, aggregate.id}] = current + 1;
  return current + 1;
}

Result<std::int64_t> MemoryTransaction::AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t current, LockVersion(aggregate));
  if (current != expected) {
    return VersionConflict(aggregate, expected, current);
  }
  changes_.versions[{aggregate.tenant, aggregate.type, aggregate.id}] = current + 1;
  return current + 1;
}

std::optional<Request> MemoryTransaction::SeenRequest(const RequestKey& key) const {
  const auto changed = changes_.requests.find(key);
  return changed != changes_.requests.end() ? std::optional(changed->second) : database_->FindRequest(key);
}

Result<bool> MemoryTransaction::EnsureOnce(std::string_view scope, std::string_view key) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  OnceKey once(scope, key);
  // A key that is gone for good needs no lock.
  if (database_->HasOnce(once)) return false;
  SEALANE_RETURN_IF_ERROR(database_->Lock(number_, LockName('o', {scope, key})));
  if (changes_.once.contains(once) || database_->HasOnce(once)) return false;
  changes_.once.insert(std::move(once));
  return true;
}

Result<IdempotencyOutcome> MemoryTransaction::BeginOnce(const IdempotencyClaim& claim) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  const std::string lock = LockName('q', {claim.tenant, claim.key});
  const Database::LockAnswer answer = database_->TryLock(number_, lock);
  if (answer == Database::LockAnswer::kHeldByOther) {
    return IdempotencyOutcome{IdempotencyState::kInProgress, std::nullopt};
  }
  const Timestamp now = database_->clock().Now();
  const RequestKey key{claim.tenant, claim.key};
  const auto seen = SeenRequest(key);
  if (IsFree(seen, claim, now)) {
    changes_.requests[key] = {claim.request_hash, now + claim.patience, now + claim.remember, std::nullopt};
    return IdempotencyOutcome{IdempotencyState::kNew, std::nullopt};
  }
  // Nothing will be written for the key, so others need not wait for this transaction.
  if (answer == Database::LockAnswer::kTaken) database_->Unlock(lock);
  return OutcomeOf(*seen, claim);
}

Status MemoryTransaction::CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  const RequestKey key{claim.tenant, claim.key};
  auto seen = SeenRequest(key);
  const Database::LockAnswer answer = database_->TryLock(number_, LockName('q', {claim.tenant, claim.key}));
  if (answer == Database::LockAnswer::kHeldByOther || !seen || seen->response ||
      seen->request_hash != claim.request_hash) {
    return RequestNotBegun(claim);
  }
  seen->response = response;
  changes_.requests[key] = std::move(*seen);
  return Ok();
}

std::optional<NewTask> MemoryTransaction::SeenTask(const TaskName& name) const {
  for (const NewTask& task : changes_.tasks) {
    if (NameOf(task.task) == name) return task;
  }
  return database_->FindTask(name);
}

Result<EnqueuedTask> MemoryTransaction::EnqueueTask(const NewTask& task) {
  SEALANE_RETURN_IF_ERROR(RequireOpen());
  const Task& wish = task.task;
  SEALANE_RETURN_IF_ERROR(
      database_->Lock(number_, LockName('t', {wish.tenant, wish.target, wish.operation, wish.idempotency_key})));
  const auto earlier = SeenTask(NameOf(wish));
  if (!earlier) {
    changes_.tasks.push_back(task);
    return EnqueuedTask{task.id, false};
  }
  if (earlier->request_hash != task.request_hash) return TaskConflict(wish, earlier->id);
  return EnqueuedTask{earlier->id, true};
}

}  // namespace sealane::memory
