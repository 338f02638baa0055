#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "memory/database.hpp"
#include "memory/inbox_batch.hpp"
#include "ops/operator_action.hpp"

namespace sealane::memory {
namespace {

/// A parked message that an operator asked for.
struct Found {
  const std::string* name;
  ConsumerRecord* consumer;
  ParkedMessage* message;
};

template <class T>
bool Fits(const std::optional<T>& wanted, const T& value) {
  return !wanted || *wanted == value;
}

bool Fits(const ReceiptFilter& filter, const std::string& consumer, const EventId& id, const Receipt& receipt) {
  return Fits(filter.consumer, consumer) && Fits(filter.state, receipt.state) && Fits(filter.event_id, id) &&
         Fits(filter.topic, receipt.source.partition.topic) &&
         Fits(filter.aggregate_type, std::get<1>(receipt.aggregate)) &&
         Fits(filter.aggregate_id, std::get<2>(receipt.aggregate));
}

/// What a person can have tried again.
bool CanBeDue(const ParkedMessage& message) {
  return message.state == InboxState::kGap || message.state == InboxState::kFailed ||
         message.state == InboxState::kDead;
}

/// Skipped by its consumer, which does not know whether it was applied before.
bool IsTooOld(const ParkedMessage& message) {
  return message.state == InboxState::kSkipped && message.error_code == kTooOldCode;
}

bool Fits(const ParkedFilter& filter, const std::string& consumer, const ParkedMessage& message) {
  return (filter.state ? message.state == *filter.state : CanBeDue(message)) && Fits(filter.consumer, consumer) &&
         Fits(filter.unit, message.unit) && Fits(filter.error_code, message.error_code) &&
         Fits(filter.topic, message.message.partition.topic);
}

template <class Wanted>
std::vector<Found> Select(InboxTables& tables, std::size_t limit, const Wanted& wanted) {
  std::vector<Found> found;
  for (auto& [name, consumer] : tables.consumers) {
    for (auto& [place, message] : consumer.parked) {
      if (wanted(name, message)) found.push_back({&name, &consumer, &message});
    }
  }
  std::ranges::stable_sort(found, {},
                           [](const Found& one) { return std::tuple(one.message->parked_at, one.message->place); });
  if (found.size() > limit) found.resize(limit);
  return found;
}

ParkedEvent Show(const Found& found, Timestamp now) {
  const ParkedMessage& message = *found.message;
  ParkedEvent event;
  event.consumer = *found.name;
  event.id = message.id;
  event.unit = message.unit;
  event.state = message.state;
  event.attempts = message.attempts;
  event.is_claimed = message.claimed_until && *message.claimed_until > now;
  event.parked_at = message.parked_at;
  event.next_attempt_at = message.next_attempt_at;
  event.gap_until = message.gap_until;
  event.first_failed_at = message.first_failed_at;
  event.last_failed_at = message.last_failed_at;
  event.error_code = message.error_code;
  event.error_message = message.error_message;
  event.source = {message.message.partition, message.message.offset};
  event.type = message.type;
  std::tie(event.tenant, event.aggregate_type, event.aggregate_id) = message.aggregate;
  event.aggregate_version = message.version;
  if (message.holds_back()) {
    const auto behind = std::ranges::count_if(found.consumer->parked, [&](const auto& other) {
      return other.first > message.place && other.second.unit == message.unit && other.second.holds_back();
    });
    event.followers = std::min<std::int64_t>(behind, InboxDesk::kFollowersMax);
  }
  return event;
}

InboxReceipt Show(const std::string& consumer, const EventId& id, const Receipt& receipt) {
  InboxReceipt shown;
  shown.consumer = consumer;
  shown.id = id;
  shown.state = receipt.state;
  shown.source = receipt.source;
  shown.type = receipt.type;
  std::tie(shown.tenant, shown.aggregate_type, shown.aggregate_id) = receipt.aggregate;
  shown.aggregate_version = receipt.version;
  shown.filed_at = receipt.filed_at;
  shown.received_at = receipt.received_at;
  shown.finished_at = receipt.finished_at;
  shown.code = receipt.code;
  shown.message = receipt.message;
  return shown;
}

InboxSummary Summarize(const std::string& name, const ConsumerRecord& consumer) {
  InboxSummary summary;
  summary.consumer = name;
  summary.mode = consumer.mode;
  if (consumer.pause)
    summary.pause = ConsumerPause{consumer.pause->at, consumer.pause->actor, consumer.pause->reason};
  summary.hold = consumer.hold;
  summary.held_at = consumer.held_at;
  std::int64_t counted = 0;
  for (const auto& [id, receipt] : consumer.receipts) {
    summary.more_receipts = ++counted > InboxCounts::kCountMax;
    if (summary.more_receipts) break;
    ++summary.receipts[receipt.state];
  }
  for (const auto& [place, message] : consumer.parked) {
    if (!message.holds_back() || summary.waiting.parked == InboxCounts::kCountMax) continue;
    if (!summary.oldest_parked_at) summary.oldest_parked_at = message.parked_at;
    ++summary.waiting.parked;
    summary.waiting.dead += message.state == InboxState::kDead ? 1 : 0;
    summary.waiting.gaps += message.state == InboxState::kGap ? 1 : 0;
  }
  for (const auto& [partition, record] : consumer.partitions) {
    summary.partitions.push_back({.partition = partition,
                                  .epoch = record.epoch,
                                  .next_offset = record.next_offset,
                                  .topic_id = record.topic_id,
                                  .attached = !record.clean,
                                  .stop = record.stop,
                                  .stopped_at = record.stopped_at,
                                  .resume = record.resume});
  }
  return summary;
}

/// The receipt of these very bytes; null when there is none.
Receipt* ReceiptOf(const Found& found) {
  const auto receipt = found.consumer->receipts.find(found.message->id);
  const bool same = receipt != found.consumer->receipts.end() && receipt->second.hash == found.message->hash;
  return same ? &receipt->second : nullptr;
}

void MakeDue(const Found& found, Timestamp now) {
  ParkedMessage& message = *found.message;
  if (message.state == InboxState::kDead || message.state == InboxState::kSkipped) {
    message.state = InboxState::kFailed;
    if (Receipt* const receipt = ReceiptOf(found)) {
      receipt->state = InboxState::kFailed;
      receipt->finished_at.reset();
    }
  }
  message.attempts = 0;
  message.next_attempt_at = now;
  message.claimed_until.reset();
}

void GiveUp(const Found& found, Timestamp now) {
  ParkedMessage& message = *found.message;
  const std::int64_t seen = found.consumer->VersionOf(message.aggregate);
  if (!std::get<2>(message.aggregate).empty() && PassesVersion(Show(found, now), seen)) {
    found.consumer->versions[message.aggregate] = *message.version;
  }
  message.state = InboxState::kSkipped;
  message.next_attempt_at.reset();
  message.gap_until.reset();
  message.claimed_until.reset();
  if (Receipt* const receipt = ReceiptOf(found)) {
    receipt->state = InboxState::kSkipped;
    receipt->finished_at = now;
  }
  found.consumer->WakeGaps(message.unit, now);
}

/// At most so many rows of what a consumer has; the positions last, so that a consumer that is started in between
/// does not begin anew.
RemoveReport TakeAway(ConsumerRecord& consumer, std::size_t limit) {
  RemoveReport report;
  const auto take = [&](auto& rows) {
    const std::size_t count = std::min(rows.size(), limit - static_cast<std::size_t>(report.rows));
    rows.erase(rows.begin(), std::next(rows.begin(), static_cast<std::ptrdiff_t>(count)));
    report.rows += static_cast<std::int64_t>(count);
  };
  take(consumer.receipts);
  take(consumer.versions);
  for (auto& [name, partition] : consumer.partitions) take(partition.recent);
  take(consumer.parked);
  if (consumer.parked.empty()) take(consumer.partitions);
  std::erase_if(consumer.places_of, [&](const auto& place) { return !consumer.parked.contains(place.second); });
  report.more = report.rows == static_cast<std::int64_t>(limit);
  return report;
}

class MemoryInboxDesk final : public InboxDesk {
 public:
  explicit MemoryInboxDesk(std::shared_ptr<Database> database) : database_(std::move(database)) {}

  Result<std::vector<InboxSummary>> Summaries() override {
    return database_->WithInbox([](InboxTables& tables) -> Result<std::vector<InboxSummary>> {
      std::vector<InboxSummary> summaries;
      for (const auto& [name, consumer] : tables.consumers) summaries.push_back(Summarize(name, consumer));
      return summaries;
    });
  }

  Result<std::vector<InboxReceipt>> List(const ReceiptFilter& filter) override {
    SEALANE_RETURN_IF_ERROR(RequireConsumer(filter.consumer));
    return database_->WithInbox([&](InboxTables& tables) -> Result<std::vector<InboxReceipt>> {
      std::vector<InboxReceipt> receipts;
      for (const auto& [name, consumer] : tables.consumers) {
        for (const auto& [id, receipt] : consumer.receipts) {
          if (Fits(filter, name, id, receipt)) receipts.push_back(Show(name, id, receipt));
        }
      }
      std::ranges::stable_sort(receipts, [](const InboxReceipt& a, const InboxReceipt& b) {
        return std::tie(a.filed_at, a.id) > std::tie(b.filed_at, b.id);
      });
      if (receipts.size() > DeskLimit(filter.limit)) receipts.resize(DeskLimit(filter.limit));
      return receipts;
    });
  }

  Result<std::vector<ParkedEvent>> Parked(const ParkedFilter& filter) override {
    SEALANE_RETURN_IF_ERROR(RequireConsumer(filter.consumer));
    return SelectAndShow(DeskLimit(filter.limit), [&](const std::string& name, const ParkedMessage& message) {
      return Fits(filter, name, message);
    });
  }

  Result<InboxFindings> Find(const std::optional<std::string>& consumer, const EventId& id) override {
    InboxFindings findings;
    SEALANE_ASSIGN_OR_RETURN(findings.receipts,
                             List({.consumer = consumer, .event_id = id, .limit = kDeadLettersMax}));
    findings.parked = SelectAndShow(kDeadLettersMax, [&](const std::string& name, const ParkedMessage& message) {
      return Fits(consumer, name) && message.id == id;
    });
    return findings;
  }

  Result<std::int64_t> Retry(const ParkedFilter& which, const OperatorAction& why) override {
    const Timestamp now = database_->clock().Now();
    const auto wanted = [&](const std::string& name, const ParkedMessage& message) {
      const bool due =
          message.state != InboxState::kDead && message.attempts == 0 && message.next_attempt_at.value_or(now) <= now;
      return CanBeDue(message) && !due && Fits(which, name, message);
    };
    return Apply("inbox.retry", which.consumer, DeskLimit(which.limit), why, wanted, MakeDue);
  }
  Result<std::int64_t> Retry(const std::string& consumer, const EventId& id, const OperatorAction& why,
                             bool may_apply_twice) override {
    const auto wanted = [&](const std::string& name, const ParkedMessage& message) {
      return (CanBeDue(message) || (may_apply_twice && IsTooOld(message))) && name == consumer && message.id == id;
    };
    const auto too_old = [&](const std::string& name, const ParkedMessage& message) {
      return IsTooOld(message) && name == consumer && message.id == id;
    };
    const auto count = Apply("inbox.retry", consumer, kDeadLettersMax, why, wanted, MakeDue);
    if (!count || *count > 0 || SelectAndShow(1, too_old).empty()) return count;
    return TooOldToRetry(consumer, id);
  }
  Result<std::int64_t> Skip(const std::string& consumer, const EventId& id, const OperatorAction& why) override {
    const auto wanted = [&](const std::string& name, const ParkedMessage& message) {
      return message.holds_back() && name == consumer && message.id == id;
    };
    return Apply("inbox.skip", consumer, kDeadLettersMax, why, wanted, GiveUp);
  }
  Result<AcceptedGap> AcceptGap(const std::string& consumer, const GapChoice& which,
                                const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
    return database_->WithLogAndInbox([&](LogState& log, InboxTables& tables) -> Result<AcceptedGap> {
      ConsumerRecord& record = tables.consumers.at(consumer);
      InboxAggregate name = {which.aggregate.tenant, which.aggregate.type, which.aggregate.id};
      if (which.event_id) {
        const auto place = record.places_of.find(*which.event_id);
        if (place == record.places_of.end() || !record.parked.at(place->second).holds_back()) {
          return NoParkedVersion(consumer, which);
        }
        const ParkedMessage& message = record.parked.at(place->second);
        name = message.aggregate;
        if (!message.version || std::get<2>(name).empty()) return NoGap(consumer, message.id, std::nullopt, 0);
      }
      const std::int64_t seen = record.VersionOf(name);
      ParkedMessage* first = nullptr;
      for (auto& [place, message] : record.parked) {
        if (message.aggregate != name || !message.version || !message.holds_back()) continue;
        const auto rank = [&](const ParkedMessage& one) { return std::tuple(*one.version <= seen, *one.version); };
        if (first == nullptr || rank(message) < rank(*first)) first = &message;
      }
      if (first == nullptr) return NoParkedVersion(consumer, which);
      const AcceptedGap gap{first->id, *first->version, seen};
      if (gap.version > seen && which.event_id && *which.event_id != gap.id) {
        return NotFirstGap(consumer, gap.id, gap.version);
      }
      const Timestamp now = database_->clock().Now();
      if (!WaitsForGap(Show({&consumer, &record, first}, now), seen)) {
        return NoGap(consumer, which.event_id.value_or(gap.id), gap.version, seen);
      }
      record.versions[name] = gap.version - 1;
      if (first->state != InboxState::kReceived) first->state = InboxState::kFailed;
      first->attempts = 0;
      first->next_attempt_at = now;
      first->gap_until.reset();
      first->claimed_until.reset();
      const auto receipt = record.receipts.find(first->id);
      if (receipt != record.receipts.end() && receipt->second.hash == first->hash &&
          first->state == InboxState::kFailed) {
        receipt->second.state = InboxState::kFailed;
        receipt->second.finished_at.reset();
      }
      Note(log, "inbox.accept_gap", AcceptGapTarget(consumer, gap), why);
      return gap;
    });
  }
  Result<bool> Pause(const std::string& consumer, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
    return database_->WithLogAndInbox([&](LogState& log, InboxTables& tables) -> Result<bool> {
      ConsumerRecord& record = tables.consumers.at(consumer);
      if (record.pause) return false;
      record.pause = InboxPause{database_->clock().Now(), why.actor, why.reason};
      Note(log, "inbox.pause", consumer, why);
      return true;
    });
  }
  Result<bool> Unpause(const std::string& consumer, const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
    return database_->WithLogAndInbox([&](LogState& log, InboxTables& tables) -> Result<bool> {
      ConsumerRecord& record = tables.consumers.at(consumer);
      if (!record.pause && !record.hold) return false;
      record.pause.reset();
      record.SetHold(std::nullopt, database_->clock().Now());
      Note(log, "inbox.unpause", consumer, why);
      return true;
    });
  }
  Result<std::int64_t> Resume(const std::string& consumer, const std::string& topic,
                              std::optional<std::int32_t> partition, const ResumePoint& from,
                              const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    return database_->WithLogAndInbox([&](LogState& log, InboxTables& tables) -> Result<std::int64_t> {
      const auto found = tables.consumers.find(consumer);
      if (found == tables.consumers.end()) return UnknownConsumer(consumer);
      std::int64_t count = 0;
      for (auto& [known, record] : found->second.partitions) {
        if (known.topic != topic || !Fits(partition, known.number)) continue;
        record.resume = from;
        record.stop.reset();
        record.stopped_at.reset();
        ++record.epoch;
        record.clean = true;
        Note(log, "inbox.resume", ResumeTarget(consumer, known, from), why);
        ++count;
      }
      if (count > 0) return count;
      return UnknownPartition(consumer, topic, partition, Summarize(consumer, found->second).partitions);
    });
  }
  Result<RemoveReport> Remove(const std::string& consumer, bool although_attached, std::size_t limit,
                              const OperatorAction& why) override {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    return database_->WithLogAndInbox([&](LogState& log, InboxTables& tables) -> Result<RemoveReport> {
      const auto found = tables.consumers.find(consumer);
      if (found == tables.consumers.end()) return UnknownConsumer(consumer);
      ConsumerRecord& record = found->second;
      for (const auto& [partition, one] : record.partitions) {
        if (!one.clean && !although_attached) return ConsumerAttached(consumer, partition);
      }
      // A consumer that is started before the last call must not apply again what it has no receipt of any more.
      if (record.mode == InboxMode::kRecord) {
        record.forgotten_before = std::max(record.forgotten_before, database_->clock().Now());
      }
      const RemoveReport report = TakeAway(record, DeskLimit(limit));
      if (report.more) {
        const bool begun = std::ranges::any_of(log.audit, [&](const AuditRecord& one) {
          return one.action == "inbox.remove_begin" && one.target == consumer && one.at >= record.added_at;
        });
        if (!begun) Note(log, "inbox.remove_begin", consumer, why);
        return report;
      }
      tables.consumers.erase(found);
      Note(log, "inbox.remove", consumer, why);
      return report;
    });
  }

 private:
  void Note(LogState& log, std::string_view action, std::string target, const OperatorAction& why) const {
    const auto id = static_cast<std::int64_t>(log.audit.size()) + 1;
    log.audit.push_back(RecordOf(id, database_->clock().Now(), action, std::move(target), why));
  }

  Status RequireConsumer(const std::optional<std::string>& consumer) const {
    const bool known = !consumer || database_->WithInbox([&](const InboxTables& tables) {
      return tables.consumers.contains(*consumer);
    });
    if (known) return Ok();
    return UnknownConsumer(*consumer);
  }

  template <class Wanted>
  std::vector<ParkedEvent> SelectAndShow(std::size_t limit, const Wanted& wanted) const {
    return database_->WithInbox([&](InboxTables& tables) {
      std::vector<ParkedEvent> events;
      for (const Found& found : Select(tables, limit, wanted)) {
        events.push_back(Show(found, database_->clock().Now()));
      }
      return events;
    });
  }

  template <class Wanted, class Change>
  Result<std::int64_t> Apply(std::string_view action, const std::optional<std::string>& consumer, std::size_t limit,
                             const OperatorAction& why, const Wanted& wanted, const Change& change) {
    SEALANE_RETURN_IF_ERROR(CheckAction(why));
    SEALANE_RETURN_IF_ERROR(RequireConsumer(consumer));
    // Whoever is at one of them finishes first. What he leaves is looked at again, among those that were locked.
    const Locks locks(*database_);
    std::set<std::string> names;
    for (const ParkedEvent& event : SelectAndShow(limit, wanted)) {
      names.insert(InboxEventLock(event.consumer, event.id));
    }
    for (const std::string& name : names) SEALANE_RETURN_IF_ERROR(locks.Take(name));
    return database_->WithLogAndInbox([&](LogState& log, InboxTables& tables) -> Result<std::int64_t> {
      const auto still_wanted = [&](const std::string& name, const ParkedMessage& message) {
        return wanted(name, message) && names.contains(InboxEventLock(name, message.id));
      };
      const std::vector<Found> found = Select(tables, limit, still_wanted);
      const Timestamp now = database_->clock().Now();
      for (const Found& one : found) {
        change(one, now);
        Note(log, action, AuditTarget(one.message->id.ToString(), *one.name), why);
      }
      return static_cast<std::int64_t>(found.size());
    });
  }

  /// Locks that end with it.
  class Locks {
   public:
    explicit Locks(Database& database) : database_(database), transaction_(database.StartTransaction()) {}
    ~Locks() { database_.Rollback(transaction_); }
    Locks(const Locks&) = delete;
    Locks& operator=(const Locks&) = delete;
    Status Take(const std::string& name) const { return database_.Lock(transaction_, name); }

   private:
    Database& database_;
    TransactionNumber transaction_;
  };

  std::shared_ptr<Database> database_;
};

}  // namespace

Result<std::unique_ptr<InboxDesk>> OpenInboxDesk(std::shared_ptr<Database> database) {
  return std::unique_ptr<InboxDesk>(std::make_unique<MemoryInboxDesk>(std::move(database)));
}

}  // namespace sealane::memory
