#include "memory/inbox_batch.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>

namespace sealane::memory {
namespace {

/// The lengths keep different lists of parts apart.
std::string LockName(char what, std::initializer_list<std::string_view> parts) {
  std::string name(1, what);
  for (const std::string_view part : parts) name += fmt::format("{}:{}", part.size(), part);
  return name;
}

/// Seen with these very bytes, so that nothing can become of it any more.
bool IsKnown(Standing::Known known) {
  return known == Standing::Known::kDone || known == Standing::Known::kParked;
}

}  // namespace

MemoryInboxBatch::MemoryInboxBatch(std::shared_ptr<Database> database, std::string consumer, Clock& clock,
                                   std::int64_t life, std::shared_ptr<void> token)
    : database_(std::move(database)),
      consumer_(std::move(consumer)),
      clock_(clock),
      life_(life),
      transaction_(database_, std::move(token)) {}

std::string InboxEventLock(std::string_view consumer, const EventId& id) {
  return LockName('e', {consumer, id.ToString()});
}

std::string MemoryInboxBatch::VersionLock(const InboxAggregate& aggregate) const {
  return LockName('a', {consumer_, std::get<0>(aggregate), std::get<1>(aggregate), std::get<2>(aggregate)});
}

Status MemoryInboxBatch::File(std::span<const Arrival> arrivals, bool guard_versions,
                              std::optional<ProgressMove> progress) {
  progress_ = std::move(progress);
  // In one order, so that two batches with the same events do not wait for each other in a circle.
  std::set<std::string> locks;
  for (const Arrival& arrival : arrivals) {
    items_.push_back(InboxItem::Of(arrival));
    locks.insert(InboxEventLock(consumer_, arrival.id));
    if (guard_versions && !std::get<2>(items_.back().aggregate).empty()) {
      locks.insert(VersionLock(items_.back().aggregate));
    }
  }
  for (const std::string& lock : locks) SEALANE_RETURN_IF_ERROR(database_->Lock(transaction_.number(), lock));
  return database_->WithInbox([&](InboxTables& tables) -> Status {
    if (tables.life != life_) return StoreChanged();
    ConsumerRecord& consumer = tables.consumers.at(consumer_);
    if (progress_) SEALANE_RETURN_IF_ERROR(consumer.CheckProgress(*progress_));
    for (InboxItem& item : items_) {
      item.standing = consumer.StandingOf(item, guard_versions);
      standings_.push_back(item.standing);
    }
    return Ok();
  });
}

bool MemoryInboxBatch::Take(const ParkedMessage& parked) {
  if (!TryLock(parked)) return false;
  Add(parked);
  return true;
}

bool MemoryInboxBatch::TryLock(const ParkedMessage& parked) {
  return database_->TryLock(transaction_.number(), InboxEventLock(consumer_, parked.id)) !=
         Database::LockAnswer::kHeldByOther;
}

void MemoryInboxBatch::Add(const ParkedMessage& parked) {
  items_.push_back(InboxItem::Of(parked));
  standings_.emplace_back();
}

Status MemoryInboxBatch::Finish(std::span<const Outcome> outcomes) {
  if (outcomes.size() != items_.size()) {
    return Error(ErrorKind::kMisuse, "outcomes_differ",
                 fmt::format("{} outcomes for {} events", outcomes.size(), items_.size()))
        .WithHint("say what became of each event of the batch, in their order");
  }
  if (lost_) {
    return Error(ErrorKind::kMisuse, "transaction_lost", "a call in this transaction failed; nothing was written")
        .WithHint("give the error of the call on instead of finishing the batch");
  }
  return transaction_.CommitWith([&](InboxTables& tables) { return Write(tables, outcomes); });
}

Status MemoryInboxBatch::Rewind() {
  transaction_.ForgetChanges();
  executed_.clear();
  lost_ = false;
  return Ok();
}

Status MemoryInboxBatch::Write(InboxTables& tables, std::span<const Outcome> outcomes) {
  ConsumerRecord& consumer = tables.consumers.at(consumer_);
  // Everything that can be refused is looked at first.
  if (progress_) SEALANE_RETURN_IF_ERROR(consumer.CheckProgress(*progress_));
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (outcomes[i].kind == Outcome::Kind::kNothing || !IsKnown(items_[i].standing.known)) continue;
    return Error(ErrorKind::kMisuse, "event_known",
                 fmt::format("event {} was known already: it has an outcome", items_[i].id.ToString()))
        .WithHint("the outcome of an event that was seen before is kNothing");
  }
  const Timestamp now = clock_.Now();
  std::vector<EventId> finished;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    consumer.Write(items_[i], outcomes[i], now);
    // What is set aside too: a repetition that comes after its retry meets an owner who knows nothing of that.
    if (outcomes[i].kind != Outcome::Kind::kNothing) finished.push_back(items_[i].id);
  }
  if (progress_) consumer.Move(*progress_, std::move(finished));
  for (ExecutedStatement& statement : executed_) tables.executed.push_back(std::move(statement));
  return Ok();
}

Result<std::int64_t> MemoryInboxBatch::Execute(const std::string& sql, std::span<const SqlValue> values) {
  executed_.push_back({consumer_, sql, {values.begin(), values.end()}});
  return std::int64_t{1};
}

Result<std::vector<std::vector<std::optional<std::string>>>> MemoryInboxBatch::Query(const std::string&,
                                                                                     std::span<const SqlValue>,
                                                                                     std::size_t) {
  lost_ = true;
  return Error(ErrorKind::kMisuse, "no_sql_in_memory", "the store in memory runs no SQL")
      .WithHint("test handlers that read the database with SQLite");
}

Result<std::vector<Appended>> MemoryInboxBatch::Append(std::span<const NewEntry> entries) {
  return Noted(transaction_.Append(entries));
}
Result<std::int64_t> MemoryInboxBatch::NextVersion(const AggregateName& aggregate) {
  return Noted(transaction_.NextVersion(aggregate));
}
Result<std::int64_t> MemoryInboxBatch::AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) {
  return Noted(transaction_.AdvanceVersion(aggregate, expected));
}
Result<bool> MemoryInboxBatch::EnsureOnce(std::string_view scope, std::string_view key) {
  return Noted(transaction_.EnsureOnce(scope, key));
}
Result<IdempotencyOutcome> MemoryInboxBatch::BeginOnce(const IdempotencyClaim& claim) {
  return Noted(transaction_.BeginOnce(claim));
}
Status MemoryInboxBatch::CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) {
  return Noted(transaction_.CompleteOnce(claim, response));
}
Result<EnqueuedTask> MemoryInboxBatch::EnqueueTask(const NewTask& task) {
  return Noted(transaction_.EnqueueTask(task));
}

}  // namespace sealane::memory
