#include "memory/outbox_log_faults.hpp"

#include <limits>
#include <utility>

namespace sealane::memory {
namespace {

class FaultyLog final : public OutboxLog {
 public:
  FaultyLog(std::unique_ptr<OutboxLog> log, std::shared_ptr<LogFaults> faults)
      : log_(std::move(log)), faults_(std::move(faults)) {}

  Result<Membership> Beat(std::chrono::milliseconds ttl) override {
    return Call(LogCall::kBeat, [&] { return log_->Beat(ttl); });
  }
  Result<std::vector<LaneGrant>> Claim(std::int32_t max, std::chrono::milliseconds ttl) override {
    return Call(LogCall::kClaim, [&] { return log_->Claim(max, ttl); });
  }
  Status Release(std::span<const LaneLease> leases) override {
    return Call(LogCall::kRelease, [&] { return log_->Release(leases); });
  }
  Status Leave() override {
    return Call(LogCall::kLeave, [&] { return log_->Leave(); });
  }
  Result<Horizon> Look() override {
    return Call(LogCall::kLook, [&] { return log_->Look(); });
  }
  Result<Page> Read(const ReadRequest& request) override {
    return Call(LogCall::kRead, [&] { return log_->Read(request); });
  }
  Result<SettleReport> Settle(const SettleRequest& request) override {
    return Call(LogCall::kSettle, [&] { return log_->Settle(request); });
  }
  Result<std::vector<DueUnit>> BlockedUnits(std::span<const LaneLease> leases) override {
    return Call(LogCall::kBlockedUnits, [&] { return log_->BlockedUnits(leases); });
  }
  Result<std::vector<DueUnit>> DueUnits(std::span<const LaneLease> leases, std::span<const std::string> but_tenants,
                                        std::size_t limit) override {
    return Call(LogCall::kDueUnits, [&] { return log_->DueUnits(leases, but_tenants, limit); });
  }
  Result<Page> ReadParked(const DueUnit& unit, std::size_t limit, std::vector<ParkedEntry>& entries) override {
    return Call(LogCall::kReadParked, [&] { return log_->ReadParked(unit, limit, entries); });
  }
  Result<TendReport> Tend() override {
    return Call(LogCall::kTend, [&] { return log_->Tend(); });
  }

 private:
  template <class Work>
  auto Call(LogCall call, const Work& work) -> decltype(work()) {
    auto fault = faults_->Enter(call);
    if (!fault) return work();
    // The caller learns nothing about how the work went.
    if (fault->when == LogFaults::When::kAfterTheWork) static_cast<void>(work());
    return std::move(fault->error);
  }

  std::unique_ptr<OutboxLog> log_;
  std::shared_ptr<LogFaults> faults_;
};

std::size_t IndexOf(LogCall call) {
  return static_cast<std::size_t>(call);
}

}  // namespace

void LogFaults::Fail(LogCall call, Error error, When when, std::int64_t times) {
  const std::lock_guard lock(mutex_);
  faults_.at(IndexOf(call)) = Fault{std::move(error), when, times};
}

void LogFaults::FailAll(LogCall call, Error error, When when) {
  Fail(call, std::move(error), when, std::numeric_limits<std::int64_t>::max());
}

void LogFaults::Heal() {
  const std::lock_guard lock(mutex_);
  faults_ = {};
}

std::int64_t LogFaults::count(LogCall call) const {
  const std::lock_guard lock(mutex_);
  return counts_.at(IndexOf(call));
}

std::optional<LogFaults::Fault> LogFaults::Enter(LogCall call) {
  const std::lock_guard lock(mutex_);
  ++counts_.at(IndexOf(call));
  std::optional<Fault>& fault = faults_.at(IndexOf(call));
  std::optional<Fault> now = fault;
  if (fault && --fault->times == 0) fault.reset();
  return now;
}

std::unique_ptr<OutboxLog> WithFaults(std::unique_ptr<OutboxLog> log, std::shared_ptr<LogFaults> faults) {
  return std::make_unique<FaultyLog>(std::move(log), std::move(faults));
}

}  // namespace sealane::memory
