#include "memory/task_store_faults.hpp"

#include <utility>

namespace sealane::memory {
namespace {

class FaultyTaskStore final : public TaskStore {
 public:
  FaultyTaskStore(std::unique_ptr<TaskStore> store, std::shared_ptr<TaskFaults> faults)
      : store_(std::move(store)), faults_(std::move(faults)) {}

  Result<std::vector<ClaimedTask>> Claim(const TaskClaim& claim) override {
    return faults_->Run(TaskCall::kClaim, [&] { return store_->Claim(claim); });
  }
  Status Finish(const ClaimedTask& claimed, const AttemptReport& report, const TaskStep& step) override {
    return faults_->Run(TaskCall::kFinish, [&] { return store_->Finish(claimed, report, step); });
  }
  Status Release(std::span<const ClaimedTask> claimed) override {
    return faults_->Run(TaskCall::kRelease, [&] { return store_->Release(claimed); });
  }
  Result<std::vector<TargetOutlook>> Outlook(std::span<const std::string> targets) override {
    return faults_->Run(TaskCall::kOutlook, [&] { return store_->Outlook(targets); });
  }
  Status ReportOutage(std::string_view owner, std::string_view target,
                      const std::optional<TargetOutage>& outage) override {
    return faults_->Run(TaskCall::kReportOutage, [&] { return store_->ReportOutage(owner, target, outage); });
  }
  Result<TaskCounts> Count() override {
    return faults_->Run(TaskCall::kCount, [&] { return store_->Count(); });
  }
  Result<std::int64_t> Prune(std::span<const std::string> targets, std::chrono::milliseconds age,
                             std::size_t limit) override {
    return faults_->Run(TaskCall::kPrune, [&] { return store_->Prune(targets, age, limit); });
  }

 private:
  std::unique_ptr<TaskStore> store_;
  std::shared_ptr<TaskFaults> faults_;
};

}  // namespace

std::unique_ptr<TaskStore> WithFaults(std::unique_ptr<TaskStore> store, std::shared_ptr<TaskFaults> faults) {
  return std::make_unique<FaultyTaskStore>(std::move(store), std::move(faults));
}

}  // namespace sealane::memory
