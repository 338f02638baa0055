#include "memory/outbox_log_faults.hpp"

#include <utility>

namespace sealane::memory {
namespace {

class FaultyLog final : public OutboxLog {
 public:
  FaultyLog(std::unique_ptr<OutboxLog> log, std::shared_ptr<LogFaults> faults)
      : log_(std::move(log)), faults_(std::move(faults)) {}

  Result<Membership> Beat(std::chrono::milliseconds ttl) override {
    return faults_->Run(LogCall::kBeat, [&] { return log_->Beat(ttl); });
  }
  Result<std::vector<LaneGrant>> Claim(std::int32_t max, std::chrono::milliseconds ttl) override {
    return faults_->Run(LogCall::kClaim, [&] { return log_->Claim(max, ttl); });
  }
  Status Release(std::span<const LaneLease> leases) override {
    return faults_->Run(LogCall::kRelease, [&] { return log_->Release(leases); });
  }
  Status Leave() override {
    return faults_->Run(LogCall::kLeave, [&] { return log_->Leave(); });
  }
  Result<Horizon> Look() override {
    return faults_->Run(LogCall::kLook, [&] { return log_->Look(); });
  }
  Result<Page> Read(const ReadRequest& request) override {
    return faults_->Run(LogCall::kRead, [&] { return log_->Read(request); });
  }
  Result<bool> OthersDone(std::span<const LaneLease> mine, const Horizon& horizon) override {
    return faults_->Run(LogCall::kOthersDone, [&] { return log_->OthersDone(mine, horizon); });
  }
  Result<SettleReport> Settle(const SettleRequest& request) override {
    return faults_->Run(LogCall::kSettle, [&] { return log_->Settle(request); });
  }
  Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const LaneLease> leases) override {
    return faults_->Run(LogCall::kBlockedUnits, [&] { return log_->BlockedUnits(leases); });
  }
  Result<std::vector<BlockedUnit>> BlockedUnits(std::span<const DueUnit> units) override {
    return faults_->Run(LogCall::kBlockedUnits, [&] { return log_->BlockedUnits(units); });
  }
  Result<std::vector<DueUnit>> TakeChanges(std::span<const LaneLease> leases, std::size_t limit) override {
    return faults_->Run(LogCall::kTakeChanges, [&] { return log_->TakeChanges(leases, limit); });
  }
  Result<ParkedBatch> ReadParked(std::span<const DueUnit> units, std::size_t limit, std::size_t bytes_max) override {
    return faults_->Run(LogCall::kReadParked, [&] { return log_->ReadParked(units, limit, bytes_max); });
  }
  Result<std::vector<WaitingTopic>> WaitingTopics(std::span<const LaneLease> leases, std::size_t limit) override {
    return faults_->Run(LogCall::kWaitingTopics, [&] { return log_->WaitingTopics(leases, limit); });
  }
  Result<Page> ReadWaiting(const std::string& topic, std::span<const LaneLease> leases,
                           std::span<const std::string> but_tenants, std::size_t limit,
                           std::size_t bytes_max) override {
    return faults_->Run(LogCall::kReadWaiting,
                        [&] { return log_->ReadWaiting(topic, leases, but_tenants, limit, bytes_max); });
  }
  Result<DelayedPage> ReadDelayed(const DelayedRequest& request) override {
    return faults_->Run(LogCall::kReadDelayed, [&] { return log_->ReadDelayed(request); });
  }
  Status KeepOrder(std::string_view order) override {
    return faults_->Run(LogCall::kKeepOrder, [&] { return log_->KeepOrder(order); });
  }
  Result<TendReport> Tend() override {
    return faults_->Run(LogCall::kTend, [&] { return log_->Tend(); });
  }

 private:
  std::unique_ptr<OutboxLog> log_;
  std::shared_ptr<LogFaults> faults_;
};

}  // namespace

std::unique_ptr<OutboxLog> WithFaults(std::unique_ptr<OutboxLog> log, std::shared_ptr<LogFaults> faults) {
  return std::make_unique<FaultyLog>(std::move(log), std::move(faults));
}

}  // namespace sealane::memory
