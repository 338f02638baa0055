#include "memory/database.hpp"

#include <algorithm>
#include <utility>

#include "core/lane.hpp"

namespace sealane::memory {
namespace {

/// How long own ids, versions and dedup keys are remembered; the SQL stores have it as a setting.
constexpr std::chrono::hours kUniqueMemory{24 * 30};

bool Fits(const std::optional<std::string>& wanted, std::string_view value) {
  return !wanted || *wanted == value;
}

bool Fits(const MessageFilter& filter, const StoredMessage& message) {
  const Envelope& envelope = message.envelope;
  return Fits(filter.tenant, envelope.tenant) && Fits(filter.topic, envelope.topic) &&
         Fits(filter.key, envelope.key) && Fits(filter.type, envelope.type) &&
         Fits(filter.aggregate_type, envelope.aggregate.type) && Fits(filter.aggregate_id, envelope.aggregate.id) &&
         Fits(filter.correlation_id, envelope.correlation_id) &&
         (!filter.since || message.appended_at >= *filter.since) &&
         (!filter.until || message.appended_at < *filter.until) &&
         (!filter.before_seq || message.seq < *filter.before_seq) &&
         std::ranges::any_of(message.routes, [&](const RouteStatus& status) {
           return Fits(filter.route, status.route) && (!filter.state || status.state == *filter.state);
         });
}

template <class Map, class IsOld>
std::int64_t EraseSome(Map& map, std::size_t limit, IsOld is_old) {
  std::size_t erased = 0;
  for (auto it = map.begin(); it != map.end() && erased < limit;) {
    if (is_old(it->second)) {
      it = map.erase(it);
      ++erased;
    } else {
      ++it;
    }
  }
  return static_cast<std::int64_t>(erased);
}

}  // namespace

TransactionNumber Database::StartTransaction() {
  const std::lock_guard lock(mutex_);
  return ++last_transaction_;
}

Status Database::Commit(TransactionNumber transaction, Changes changes) {
  return CommitOn<InboxTables>(data_.inbox, transaction, std::move(changes), [](InboxTables&) { return Ok(); });
}

Status Database::CommitWith(TransactionNumber transaction, Changes changes,
                            const std::function<Status(InboxTables&)>& work) {
  return CommitOn(data_.inbox, transaction, std::move(changes), work);
}

Status Database::CommitWith(TransactionNumber transaction, Changes changes,
                            const std::function<Status(TaskTables&)>& work) {
  return CommitOn(data_.tasks, transaction, std::move(changes), work);
}

template <class Tables>
Status Database::CommitOn(Tables& tables, TransactionNumber transaction, Changes changes,
                          const std::function<Status(Tables&)>& work) {
  {
    const std::lock_guard lock(mutex_);
    if (transaction <= last_of_earlier_life_) return StoreChanged();
    SEALANE_RETURN_IF_ERROR(work(tables));
    Apply(std::move(changes));
    ReleaseLocks(transaction);
  }
  released_.notify_all();
  return Ok();
}

void Database::Apply(Changes changes) {
  const Timestamp now = clock_.Now();
  for (Envelope& envelope : changes.events) {
    StoredMessage message;
    message.seq = ++data_.log.seq_high;
    message.lane = LaneOf(LaneHash(envelope.key), data_.log.lanes);
    message.appended_at = now;
    message.payload_size = envelope.payload.size();
    data_.log.seq_of.emplace(envelope.id, message.seq);
    message.envelope = std::move(envelope);
    data_.log.log.emplace(message.seq, std::move(message));
  }
  for (const auto& [fingerprint, id] : changes.unique) data_.unique[fingerprint] = {id, now};
  for (const auto& [aggregate, version] : changes.versions) data_.versions[aggregate] = version;
  for (auto& [key, request] : changes.requests) data_.requests[key] = std::move(request);
  for (NewTask& task : changes.tasks) data_.tasks.Add(std::move(task), now);
  data_.once.merge(changes.once);
}

void Database::Rollback(TransactionNumber transaction) {
  {
    const std::lock_guard lock(mutex_);
    ReleaseLocks(transaction);
  }
  released_.notify_all();
}

void Database::ReleaseLocks(TransactionNumber transaction) {
  std::erase_if(locks_, [&](const auto& held) { return held.second == transaction; });
}

Snapshot Database::TakeSnapshot() const {
  const std::lock_guard lock(mutex_);
  return data_;
}

void Database::Restore(const Snapshot& snapshot) {
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t life = data_.inbox.life + 1;
    data_ = snapshot;
    data_.inbox.life = life;
    last_of_earlier_life_ = last_transaction_;
    locks_.clear();
  }
  released_.notify_all();
}

Database::LockAnswer Database::TryLock(TransactionNumber transaction, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto [held, taken] = locks_.try_emplace(name, transaction);
  if (taken) return LockAnswer::kTaken;
  return held->second == transaction ? LockAnswer::kHadIt : LockAnswer::kHeldByOther;
}

Status Database::Lock(TransactionNumber transaction, const std::string& name) {
  std::unique_lock lock(mutex_);
  const bool ours = released_.wait_for(
      lock, lock_wait_, [&] { return locks_.try_emplace(name, transaction).first->second == transaction; });
  if (ours) return Ok();
  return Error(ErrorKind::kConflict, "store_busy", "another open transaction holds what this one needs")
      .WithHint("roll back and try again");
}

void Database::Unlock(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    locks_.erase(name);
  }
  released_.notify_all();
}

std::optional<EventId> Database::FindUnique(const Fingerprint& fingerprint) const {
  const std::lock_guard lock(mutex_);
  const auto found = data_.unique.find(fingerprint);
  return found == data_.unique.end() ? std::nullopt : std::optional(found->second.event_id);
}

std::int64_t Database::FindVersion(const AggregateKey& aggregate) const {
  const std::lock_guard lock(mutex_);
  const auto found = data_.versions.find(aggregate);
  return found == data_.versions.end() ? 0 : found->second;
}

bool Database::HasOnce(const OnceKey& key) const {
  const std::lock_guard lock(mutex_);
  return data_.once.contains(key);
}

std::optional<Request> Database::FindRequest(const RequestKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = data_.requests.find(key);
  return found == data_.requests.end() ? std::nullopt : std::optional(found->second);
}

std::optional<NewTask> Database::FindTask(const TaskName& name) const {
  const std::lock_guard lock(mutex_);
  const auto place = data_.tasks.place_of_name.find(name);
  return place == data_.tasks.place_of_name.end() ? std::nullopt
                                                  : std::optional(data_.tasks.tasks.at(place->second).task);
}

std::vector<StoredMessage> Database::List(const MessageFilter& filter) const {
  const std::lock_guard lock(mutex_);
  const std::size_t limit = std::clamp<std::size_t>(filter.limit, 1, MessageFilter::kListMax);
  std::vector<StoredMessage> messages;
  for (auto entry = data_.log.log.rbegin(); entry != data_.log.log.rend() && messages.size() < limit; ++entry) {
    StoredMessage message = Show(entry->second);
    if (!Fits(filter, message)) continue;
    messages.push_back(std::move(message));
    if (filter.with_payload) continue;
    messages.back().envelope.payload.clear();
    messages.back().payload_loaded = false;
  }
  return messages;
}

std::optional<StoredMessage> Database::Find(const EventId& id) const {
  const std::lock_guard lock(mutex_);
  const auto seq = data_.log.seq_of.find(id);
  return seq == data_.log.seq_of.end() ? std::nullopt : std::optional(Show(data_.log.log.at(seq->second)));
}

StoredMessage Database::Show(const StoredMessage& message) const {
  StoredMessage shown = message;
  for (const auto& [name, route] : data_.log.routes)
    shown.routes.push_back(StatusOf(message, name, route, clock_.Now()));
  return shown;
}

void Database::Erase(const EventId& id) {
  const std::lock_guard lock(mutex_);
  const auto seq = data_.log.seq_of.find(id);
  if (seq == data_.log.seq_of.end()) return;
  data_.log.log.erase(seq->second);
  data_.log.seq_of.erase(seq);
}

SweepReport Database::ForgetExpired(std::size_t limit) {
  const Timestamp now = clock_.Now();
  const std::lock_guard lock(mutex_);
  SweepReport report;
  report.unique_forgotten = EraseSome(data_.unique, limit, [&](const Snapshot::UniqueRecord& record) {
    return record.created_at < now - kUniqueMemory;
  });
  report.idempotency_forgotten =
      EraseSome(data_.requests, limit, [&](const Request& request) { return request.expires_at < now; });
  return report;
}

}  // namespace sealane::memory
