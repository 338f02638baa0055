#include "memory/inbox_store_faults.hpp"

#include <utility>

namespace sealane::memory {
namespace {

class FaultyBatch final : public InboxBatch {
 public:
  FaultyBatch(std::unique_ptr<InboxBatch> batch, std::shared_ptr<InboxFaults> faults)
      : batch_(std::move(batch)), faults_(std::move(faults)) {}

  const std::vector<Standing>& standings() const override { return batch_->standings(); }
  Status Finish(std::span<const Outcome> outcomes) override {
    return faults_->Run(InboxCall::kFinish, [&] { return batch_->Finish(outcomes); });
  }

  Status Rewind() override { return batch_->Rewind(); }
  Status Settle() override {
    return faults_->Run(InboxCall::kSettle, [&] { return batch_->Settle(); });
  }

  Result<std::int64_t> Execute(const std::string& sql, std::span<const SqlValue> values) override {
    return faults_->Run(InboxCall::kExecute, [&] { return batch_->Execute(sql, values); });
  }
  Result<std::vector<std::vector<std::optional<std::string>>>> Query(const std::string& sql,
                                                                     std::span<const SqlValue> values,
                                                                     std::size_t rows_max) override {
    return batch_->Query(sql, values, rows_max);
  }
  Native native() override { return batch_->native(); }
  Status Check() override { return batch_->Check(); }

  Result<std::vector<Appended>> Append(std::span<const NewEntry> entries) override { return batch_->Append(entries); }
  Result<std::int64_t> NextVersion(const AggregateName& aggregate) override { return batch_->NextVersion(aggregate); }
  Result<std::int64_t> AdvanceVersion(const AggregateName& aggregate, std::int64_t expected) override {
    return batch_->AdvanceVersion(aggregate, expected);
  }
  Result<bool> EnsureOnce(std::string_view scope, std::string_view key) override {
    return batch_->EnsureOnce(scope, key);
  }
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim& claim) override { return batch_->BeginOnce(claim); }
  Status CompleteOnce(const IdempotencyClaim& claim, const StoredResponse& response) override {
    return batch_->CompleteOnce(claim, response);
  }
  Result<EnqueuedTask> EnqueueTask(const NewTask& task) override { return batch_->EnqueueTask(task); }

 private:
  std::unique_ptr<InboxBatch> batch_;
  std::shared_ptr<InboxFaults> faults_;
};

class FaultyStore final : public InboxStore {
 public:
  FaultyStore(std::unique_ptr<InboxStore> store, std::shared_ptr<InboxFaults> faults)
      : store_(std::move(store)), faults_(std::move(faults)) {}

  std::string life() const override { return store_->life(); }
  Result<std::unique_ptr<InboxBatch>> Open(const BatchRequest& request) override {
    SEALANE_ASSIGN_OR_RETURN(auto batch, faults_->Run(InboxCall::kOpen, [&] { return store_->Open(request); }));
    return Guard(std::move(batch));
  }
  Result<InboxLook> Look(bool by_version, std::size_t limit) override {
    return faults_->Run(InboxCall::kLook, [&] { return store_->Look(by_version, limit); });
  }
  Result<std::optional<RetryBatch>> OpenRetry(const std::string& unit, bool by_version,
                                              std::chrono::milliseconds patience) override {
    SEALANE_ASSIGN_OR_RETURN(auto retry, faults_->Run(InboxCall::kOpenRetry,
                                                      [&] { return store_->OpenRetry(unit, by_version, patience); }));
    if (retry) retry->batch = Guard(std::move(retry->batch));
    return retry;
  }
  Result<RetryGroup> OpenRetries(std::span<const std::string> units, bool by_version,
                                 std::chrono::milliseconds patience) override {
    SEALANE_ASSIGN_OR_RETURN(auto group, faults_->Run(InboxCall::kOpenRetry, [&] {
      return store_->OpenRetries(units, by_version, patience);
    }));
    if (group.batch) group.batch = Guard(std::move(group.batch));
    return group;
  }
  Status SetHold(const std::optional<ConsumerHold>& hold) override {
    return faults_->Run(InboxCall::kSetHold, [&] { return store_->SetHold(hold); });
  }
  Result<std::vector<AttachedPartition>> Attach(std::span<const Partition> partitions,
                                                std::size_t recent_max) override {
    return faults_->Run(InboxCall::kAttach, [&] { return store_->Attach(partitions, recent_max); });
  }
  Status Detach(std::span<const AttachedPartition> partitions) override {
    return faults_->Run(InboxCall::kDetach, [&] { return store_->Detach(partitions); });
  }
  Result<std::vector<std::size_t>> SavePositions(std::span<const PositionSave> saves) override {
    return faults_->Run(InboxCall::kSavePositions, [&] { return store_->SavePositions(saves); });
  }
  Status Place(const AttachedPartition& partition, std::int64_t next_offset, const std::string& topic_id) override {
    return faults_->Run(InboxCall::kPlace, [&] { return store_->Place(partition, next_offset, topic_id); });
  }
  Status Stop(const AttachedPartition& partition, const PartitionStop& stop) override {
    return faults_->Run(InboxCall::kStop, [&] { return store_->Stop(partition, stop); });
  }
  Status Suspect(const AttachedPartition& partition, std::int64_t offset) override {
    return faults_->Run(InboxCall::kSuspect, [&] { return store_->Suspect(partition, offset); });
  }
  Status Calm(const AttachedPartition& partition) override {
    return faults_->Run(InboxCall::kCalm, [&] { return store_->Calm(partition); });
  }
  Result<InboxCounts> Count(std::int64_t count_max) override {
    return faults_->Run(InboxCall::kCount, [&] { return store_->Count(count_max); });
  }
  Status Tend() override {
    return faults_->Run(InboxCall::kTend, [&] { return store_->Tend(); });
  }
  Result<InboxTimes> Times() override { return store_->Times(); }
  Result<PruneReport> Prune(Timestamp before, std::size_t limit) override {
    return faults_->Run(InboxCall::kPrune, [&] { return store_->Prune(before, limit); });
  }

 private:
  std::unique_ptr<InboxBatch> Guard(std::unique_ptr<InboxBatch> batch) const {
    return std::make_unique<FaultyBatch>(std::move(batch), faults_);
  }

  std::unique_ptr<InboxStore> store_;
  std::shared_ptr<InboxFaults> faults_;
};

}  // namespace

std::unique_ptr<InboxStore> WithFaults(std::unique_ptr<InboxStore> store, std::shared_ptr<InboxFaults> faults) {
  return std::make_unique<FaultyStore>(std::move(store), std::move(faults));
}

}  // namespace sealane::memory
