#include "memory/inbox_store.hpp"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "memory/database.hpp"
#include "memory/inbox_batch.hpp"

namespace sealane::memory {
namespace {

class MemoryInboxStore final : public InboxStore {
 public:
  MemoryInboxStore(std::shared_ptr<Database> database, std::string consumer, InboxMode mode, Clock& clock,
                   std::int64_t life)
      : database_(std::move(database)), consumer_(std::move(consumer)), mode_(mode), clock_(clock), life_(life) {}

  std::string life() const override { return std::to_string(life_); }
  Result<std::unique_ptr<InboxBatch>> Open(const BatchRequest& request) override;
  Result<InboxLook> Look(bool by_version, std::size_t limit) override;
  Result<std::optional<RetryBatch>> OpenRetry(const std::string& unit, bool by_version,
                                              std::chrono::milliseconds patience) override;
  Result<RetryGroup> OpenRetries(std::span<const std::string> units, bool by_version,
                                 std::chrono::milliseconds patience) override;
  Status SetHold(const std::optional<ConsumerHold>& hold) override;
  Result<std::vector<AttachedPartition>> Attach(std::span<const Partition> partitions,
                                                std::size_t recent_max) override;
  Status Detach(std::span<const AttachedPartition> partitions) override;
  Result<std::vector<std::size_t>> SavePositions(std::span<const PositionSave> saves) override;
  Status Place(const AttachedPartition& partition, std::int64_t next_offset, const std::string& topic_id) override;
  Status Stop(const AttachedPartition& partition, const PartitionStop& stop) override;
  Status Suspect(const AttachedPartition& partition, std::int64_t offset) override;
  Status Calm(const AttachedPartition& partition) override;
  Result<InboxCounts> Count(std::int64_t count_max) override;
  Status Tend() override { return Ok(); }
  Result<InboxTimes> Times() override;
  Result<PruneReport> Prune(Timestamp before, std::size_t limit) override;

 private:
  Result<std::unique_ptr<MemoryInboxBatch>> Begin();
  /// Runs `work`, which returns a Result, on the consumer's part and the time while no other thread can.
  template <class Work>
  auto OnConsumer(const Work& work) {
    return database_->WithInbox([&](InboxTables& tables) -> std::invoke_result_t<Work, ConsumerRecord&, Timestamp> {
      if (tables.life != life_) return StoreChanged();
      return work(tables.consumers.at(consumer_), clock_.Now());
    });
  }
  /// The same on a partition that must still be ours.
  template <class Work>
  Status OnPartition(const AttachedPartition& partition, const Work& work) {
    return OnConsumer([&](ConsumerRecord& consumer, Timestamp now) -> Status {
      const auto found = consumer.partitions.find(partition.partition);
      if (found == consumer.partitions.end() || found->second.epoch != partition.epoch) {
        return PartitionFenced(partition.partition);
      }
      work(found->second, now);
      return Ok();
    });
  }
  static RetryMessage Claim(const ConsumerRecord& consumer, ParkedMessage& message, Timestamp now,
                            std::chrono::milliseconds patience);
  AttachedPartition Take(const Partition& name, PartitionRecord& partition, std::size_t recent_max) const;

  std::shared_ptr<Database> database_;
  std::string consumer_;
  InboxMode mode_;
  Clock& clock_;
  std::int64_t life_;
  std::weak_ptr<void> open_;  // alive while a batch of this store is
};

Result<std::unique_ptr<MemoryInboxBatch>> MemoryInboxStore::Begin() {
  if (!open_.expired()) {
    return Error(ErrorKind::kMisuse, "transaction_open", "a batch of this store is open")
        .WithHint("finish or destroy it first, or open a second store");
  }
  auto token = std::make_shared<char>();
  open_ = token;
  return std::make_unique<MemoryInboxBatch>(database_, consumer_, clock_, life_, std::move(token));
}

// ---- applying
// -------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<InboxBatch>> MemoryInboxStore::Open(const BatchRequest& request) {
  if (request.progress.has_value() != (mode_ == InboxMode::kOffsets)) {
    return Error(ErrorKind::kMisuse, "progress_differs",
                 fmt::format("a batch in mode {} comes {} progress", ToString(mode_),
                             mode_ == InboxMode::kOffsets ? "with" : "without"));
  }
  SEALANE_ASSIGN_OR_RETURN(auto batch, Begin());
  SEALANE_RETURN_IF_ERROR(batch->File(request.arrivals, request.guard_versions, request.progress));
  return std::unique_ptr<InboxBatch>(std::move(batch));
}

// ---- what was set aside
// ---------------------------------------------------------------------------------------------

Result<InboxLook> MemoryInboxStore::Look(bool by_version, std::size_t limit) {
  return OnConsumer([&](ConsumerRecord& consumer, Timestamp now) -> Result<InboxLook> {
    InboxLook look;
    if (consumer.pause) look.pause = consumer.pause->reason;
    look.hold = consumer.hold;
    std::vector<const ParkedMessage*> due;
    std::set<std::string_view> seen;
    for (const auto& [place, message] : consumer.parked) {
      if (!message.holds_back() || !seen.insert(message.unit).second) continue;
      const ParkedMessage* const first = consumer.FirstOf(message.unit, by_version);
      if (first->may_be_tried(now)) due.push_back(first);
      if (const auto at = first->due_at()) {
        const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::max(*at, now) - now);
        look.next_due = std::min(look.next_due.value_or(wait), wait);
      }
    }
    std::ranges::stable_sort(due, {}, &ParkedMessage::waits_since);
    for (const ParkedMessage* const message : due) {
      if (look.due.size() < limit) look.due.push_back(message->unit);
    }
    return look;
  });
}

Status MemoryInboxStore::SetHold(const std::optional<ConsumerHold>& hold) {
  return OnConsumer([&](ConsumerRecord& consumer, Timestamp now) -> Status {
    consumer.SetHold(hold, now);
    return Ok();
  });
}

Result<std::optional<RetryBatch>> MemoryInboxStore::OpenRetry(const std::string& unit, bool by_version,
                                                              std::chrono::milliseconds patience) {
  SEALANE_ASSIGN_OR_RETURN(auto batch, Begin());
  // Copied while nobody can change it; the lock of the event is taken outside, because taking it calls the database.
  using Candidate = std::optional<ParkedMessage>;
  const auto look = [&](ConsumerRecord& consumer, Timestamp now) -> Result<Candidate> {
    const ParkedMessage* const message = consumer.FirstOf(unit, by_version);
    if (message == nullptr || !message->may_be_tried(now)) return Candidate();
    return Candidate(*message);
  };
  SEALANE_ASSIGN_OR_RETURN(const Candidate candidate, OnConsumer(look));
  if (!candidate || !batch->Take(*candidate)) return std::optional<RetryBatch>();
  return OnConsumer([&](ConsumerRecord& consumer, Timestamp now) -> Result<std::optional<RetryBatch>> {
    // Between the two looks somebody may have been faster.
    ParkedMessage* const message = consumer.FirstOf(unit, by_version);
    if (message == nullptr || message->place != candidate->place || !message->may_be_tried(now)) {
      return std::optional<RetryBatch>();
    }
    RetryBatch retry;
    static_cast<RetryMessage&>(retry) = Claim(consumer, *message, now, patience);
    retry.batch = std::move(batch);
    return std::optional<RetryBatch>(std::move(retry));
  });
}

RetryMessage MemoryInboxStore::Claim(const ConsumerRecord& consumer, ParkedMessage& message, Timestamp now,
                                     std::chrono::milliseconds patience) {
  ++message.attempts;
  message.claimed_until = now + patience;
  RetryMessage retry;
  retry.message = message.message;
  retry.id = message.id;
  retry.unit = message.unit;
  retry.state = message.state;
  retry.attempts = message.attempts;
  retry.parked_at = message.parked_at;
  retry.first_failed_at = message.first_failed_at;
  retry.gap_overdue = message.gap_overdue(now);
  retry.version_seen = consumer.VersionOf(message.aggregate);
  return retry;
}

Result<RetryGroup> MemoryInboxStore::OpenRetries(std::span<const std::string> units, bool by_version,
                                                 std::chrono::milliseconds patience) {
  SEALANE_ASSIGN_OR_RETURN(auto batch, Begin());
  const auto may_be_taken = [](const ParkedMessage* message, Timestamp now) {
    return message != nullptr && message->attempts == 0 && message->may_be_tried(now);
  };
  using Candidates = std::vector<ParkedMessage>;
  SEALANE_ASSIGN_OR_RETURN(Candidates candidates,
                           OnConsumer([&](ConsumerRecord& consumer, Timestamp now) -> Result<Candidates> {
                             Candidates found;
                             for (const std::string& unit : std::set<std::string>(units.begin(), units.end())) {
                               const ParkedMessage* const message = consumer.FirstOf(unit, by_version);
                               if (may_be_taken(message, now)) found.push_back(*message);
                             }
                             return found;
                           }));
  std::ranges::sort(candidates, {}, &ParkedMessage::place);
  // The locks are taken outside, and what another member changed meanwhile is left out: a batch has no item that it
  // does not finish.
  std::erase_if(candidates, [&](const ParkedMessage& candidate) { return !batch->TryLock(candidate); });
  return OnConsumer([&](ConsumerRecord& consumer, Timestamp now) -> Result<RetryGroup> {
    RetryGroup group;
    for (const ParkedMessage& candidate : candidates) {
      ParkedMessage* const message = consumer.FirstOf(candidate.unit, by_version);
      if (!may_be_taken(message, now) || message->place != candidate.place) continue;
      batch->Add(*message);
      group.messages.push_back(Claim(consumer, *message, now, patience));
    }
    if (!group.messages.empty()) group.batch = std::move(batch);
    return group;
  });
}

// ---- partitions
// -----------------------------------------------------------------------------------------------------

AttachedPartition MemoryInboxStore::Take(const Partition& name, PartitionRecord& partition,
                                         std::size_t recent_max) const {
  if (!partition.clean) ++partition.deaths;
  // What an earlier owner noted says nothing about where the last one died.
  if (!partition.clean && partition.suspect_epoch == partition.epoch) {
    ++partition.suspect_deaths;
  } else {
    partition.ClearSuspicion();
  }
  ++partition.epoch;
  partition.clean = false;
  AttachedPartition attached;
  attached.partition = name;
  attached.epoch = partition.epoch;
  attached.next_offset = partition.next_offset;
  attached.topic_id = partition.topic_id;
  attached.witness = partition.witness;
  attached.follows_group = partition.follows_group;
  attached.stop = partition.stop;
  attached.resume = partition.resume;
  attached.deaths = partition.deaths;
  attached.suspect_offset = partition.suspect_offset;
  attached.suspect_deaths = partition.suspect_deaths;
  for (auto batch = partition.recent.rbegin(); batch != partition.recent.rend(); ++batch) {
    for (auto id = batch->ids.rbegin(); id != batch->ids.rend() && attached.recent.size() < recent_max; ++id) {
      attached.recent.push_back(*id);
      attached.recent_through.push_back(batch->through);
    }
  }
  std::ranges::reverse(attached.recent);
  std::ranges::reverse(attached.recent_through);
  return attached;
}

Result<std::vector<AttachedPartition>> MemoryInboxStore::Attach(std::span<const Partition> partitions,
                                                                std::size_t recent_max) {
  return OnConsumer([&](ConsumerRecord& consumer, Timestamp) -> Result<std::vector<AttachedPartition>> {
    std::vector<AttachedPartition> attached;
    for (const Partition& partition : partitions) {
      attached.push_back(Take(partition, consumer.partitions[partition], recent_max));
    }
    return attached;
  });
}

Status MemoryInboxStore::Detach(std::span<const AttachedPartition> partitions) {
  for (const AttachedPartition& attached : partitions) {
    const Status detached = OnPartition(attached, [](PartitionRecord& partition, Timestamp) {
      partition.clean = true;
      partition.deaths = 0;
      partition.ClearSuspicion();
    });
    // One that another member has attached is passed over.
    if (!detached && detached.error().kind() != ErrorKind::kFenced) return detached;
  }
  return Ok();
}

Result<std::vector<std::size_t>> MemoryInboxStore::SavePositions(std::span<const PositionSave> saves) {
  for (const PositionSave& save : saves) {
    SEALANE_RETURN_IF_ERROR(CheckMove({save.partition, save.epoch, save.from.value_or(save.to), save.to}));
  }
  return OnConsumer([&](ConsumerRecord& consumer, Timestamp) -> Result<std::vector<std::size_t>> {
    std::vector<std::size_t> differ;
    for (std::size_t i = 0; i < saves.size(); ++i) {
      if (!consumer.Save(saves[i])) differ.push_back(i);
    }
    return differ;
  });
}

Status MemoryInboxStore::Place(const AttachedPartition& partition, std::int64_t next_offset,
                               const std::string& topic_id) {
  return OnPartition(partition, [&](PartitionRecord& record, Timestamp) {
    record.next_offset = next_offset;
    record.topic_id = topic_id;
    record.witness.reset();
    record.follows_group = false;
    record.stop.reset();
    record.stopped_at.reset();
    record.resume.reset();
  });
}

Status MemoryInboxStore::Stop(const AttachedPartition& partition, const PartitionStop& stop) {
  return OnPartition(partition, [&](PartitionRecord& record, Timestamp now) {
    if (record.stop) return;
    record.stop = stop;
    record.stopped_at = now;
  });
}

Status MemoryInboxStore::Suspect(const AttachedPartition& partition, std::int64_t offset) {
  return OnPartition(partition, [&](PartitionRecord& record, Timestamp) {
    if (record.suspect_offset != offset) record.suspect_deaths = 0;
    record.suspect_offset = offset;
    record.suspect_epoch = record.epoch;
  });
}

Status MemoryInboxStore::Calm(const AttachedPartition& partition) {
  return OnPartition(partition, [](PartitionRecord& record, Timestamp) {
    record.deaths = 0;
    record.ClearSuspicion();
  });
}

// ---- keeping
// --------------------------------------------------------------------------------------------------------

Result<InboxCounts> MemoryInboxStore::Count(std::int64_t count_max) {
  return OnConsumer([&](ConsumerRecord& consumer, Timestamp) -> Result<InboxCounts> {
    InboxCounts counts;
    for (const auto& [place, message] : consumer.parked) {
      if (!message.holds_back() || counts.parked == count_max) continue;
      ++counts.parked;
      counts.dead += message.state == InboxState::kDead ? 1 : 0;
      counts.gaps += message.state == InboxState::kGap ? 1 : 0;
    }
    return counts;
  });
}

Result<InboxTimes> MemoryInboxStore::Times() {
  return OnConsumer([](const ConsumerRecord& consumer, Timestamp now) -> Result<InboxTimes> {
    return InboxTimes{.now = now, .added_at = consumer.added_at};
  });
}

Result<PruneReport> MemoryInboxStore::Prune(Timestamp before, std::size_t limit) {
  return OnConsumer([&](ConsumerRecord& consumer, Timestamp) -> Result<PruneReport> {
    PruneReport report;
    if (mode_ == InboxMode::kRecord) consumer.Forget(before, limit, report);
    consumer.ClearSkipped(before, limit - static_cast<std::size_t>(report.receipts));
    return report;
  });
}

}  // namespace

Result<std::unique_ptr<InboxStore>> OpenInboxStore(std::shared_ptr<Database> database, std::string consumer,
                                                   InboxMode mode, Clock& clock,
                                                   std::shared_ptr<InboxFaults> faults) {
  const auto [known, life] = database->WithInbox([&](InboxTables& tables) {
    const auto [record, is_new] = tables.consumers.try_emplace(consumer);
    if (is_new) {
      record->second.mode = mode;
      record->second.added_at = clock.Now();
    }
    return std::pair(record->second.mode, tables.life);
  });
  if (known != mode) {
    return Error(ErrorKind::kMisconfigured, "inbox_mode_differs",
                 fmt::format("consumer {} works in mode {}, not {}", EscapeForTerminal(consumer), ToString(known),
                             ToString(mode)))
        .WithHint("a consumer keeps its mode: use it, or begin with a new consumer name");
  }
  std::unique_ptr<InboxStore> store =
      std::make_unique<MemoryInboxStore>(std::move(database), std::move(consumer), mode, clock, life);
  return faults == nullptr ? std::move(store) : WithFaults(std::move(store), std::move(faults));
}

std::unique_ptr<InboxStore> MakeInboxStore(std::shared_ptr<Database> database, std::string consumer, InboxMode mode,
                                           Clock& clock, std::shared_ptr<InboxFaults> faults) {
  return OpenInboxStore(std::move(database), std::move(consumer), mode, clock, std::move(faults)).value();
}

std::vector<ExecutedStatement> ExecutedStatements(Database& database) {
  return database.WithInbox([](const InboxTables& tables) { return tables.executed; });
}

void SkipParked(Database& database, const std::string& consumer, const EventId& id) {
  database.WithInbox([&](InboxTables& tables) {
    ConsumerRecord& record = tables.consumers.at(consumer);
    record.parked.at(record.places_of.find(id)->second).state = InboxState::kSkipped;
    if (record.mode == InboxMode::kRecord) record.receipts.at(id).state = InboxState::kSkipped;
  });
}

}  // namespace sealane::memory
