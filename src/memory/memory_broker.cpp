#include "memory/memory_broker.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace sealane {
namespace {

struct ScriptedFault {
  MemoryBroker::Predicate predicate;  // empty: any message
  std::size_t skip = 0;               // this many that it would pick are spared first
  std::size_t times = 1;
  MemoryFault fault;
};

MemoryRecord RecordOf(const HeldMessage& message) {
  return {.event_id = message.event_id,
          .topic = message.topic,
          .key = message.key,
          .value = message.value,
          .headers = message.headers};
}

Delivery DeliveryOf(std::uint64_t token, const std::optional<MemoryFault>& fault) {
  if (!fault) return {.token = token};
  return {.token = token,
          .status = fault->status,
          .failure = fault->failure,
          .code = fault->code,
          .message = fault->message};
}

}  // namespace

/// What all publishers share. `changed` wakes those that wait for an outage to end or for a delivery to be released.
class MemoryBroker::Core {
 public:
  // Persists or fails one message. Call with the mutex held and no outage.
  std::optional<MemoryFault> Judge(const HeldMessage& message) {
    MemoryRecord record = RecordOf(message);
    ++arrived;
    std::optional<MemoryFault> fault = NextFault(record);
    if (!fault || fault->persist) records.push_back(std::move(record));
    return fault;
  }

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<MemoryRecord> records;
  std::vector<ScriptedFault> script;
  std::size_t arrived = 0;
  std::size_t abandoned = 0;
  std::size_t release_budget = kAlways;  // deliveries that may come out; kAlways: no limit
  std::optional<Error> outage;

 private:
  // All scripted faults count every message; the first that is due strikes.
  std::optional<MemoryFault> NextFault(const MemoryRecord& record) {
    std::optional<MemoryFault> struck;
    for (ScriptedFault& scripted : script) {
      if (scripted.times == 0 || (scripted.predicate && !scripted.predicate(record))) continue;
      if (scripted.skip > 0) {
        --scripted.skip;
      } else if (!struck) {
        struck = scripted.fault;
        if (scripted.times != kAlways) --scripted.times;
      }
    }
    return struck;
  }
};

class MemoryBroker::Connection final : public Publisher {
 public:
  Connection(std::shared_ptr<Core> core, HoldLimits limits) : core_(std::move(core)), limits_(limits) {}

  Submitted Submit(const OutgoingMessage& message) override {
    const std::size_t size = HeldSize(message);
    if (!limits_.HasRoom(held_sizes_.size(), held_bytes_, size)) return Submitted::kFull;
    waiting_.emplace_back(message);
    held_sizes_.push_back(size);
    held_bytes_ += size;
    return Submitted::kTaken;
  }

  void Collect(std::vector<Delivery>& out, std::chrono::milliseconds wait) override {
    std::unique_lock lock(core_->mutex);
    const std::size_t before = out.size();
    core_->changed.wait_for(lock, wait, [&] {
      Send();
      HandOut(out);
      return out.size() > before || interrupted_;
    });
    interrupted_ = false;
    lock.unlock();
    core_->changed.notify_all();  // somebody may await the records
  }

  void Abandon() override {
    const std::lock_guard lock(core_->mutex);
    // An answer that is kept back is one that never came: the message may be there.
    for (Delivery& answer : answers_) answer = AbandonedDelivery(answer.token, DeliveryStatus::kPossiblyPersisted);
    std::move(answers_.begin(), answers_.end(), std::back_inserter(abandoned_));
    answers_.clear();
    core_->abandoned += waiting_.size();
    for (const HeldMessage& message : waiting_) {
      abandoned_.push_back(AbandonedDelivery(message.token, DeliveryStatus::kNotPersisted));
    }
    waiting_.clear();
  }

  void Interrupt() override {
    {
      const std::lock_guard lock(core_->mutex);
      interrupted_ = true;
    }
    core_->changed.notify_all();
  }

  PublisherHealth health() const override {
    const std::lock_guard lock(core_->mutex);
    if (!core_->outage) return {};
    const bool misconfigured = core_->outage->kind() == ErrorKind::kMisconfigured;
    return {.state = misconfigured ? PublisherHealth::State::kMisconfigured : PublisherHealth::State::kUnreachable,
            .problem = core_->outage};
  }

 private:
  // The following two are called with the mutex held.
  void Send() {
    if (core_->outage) return;
    for (const HeldMessage& message : waiting_) answers_.push_back(Judged(message));
    waiting_.clear();
  }

  Delivery Judged(const HeldMessage& message) {
    if (failed_keys_.Has(message.topic, message.key)) return HeldBackDelivery(message.token);
    const std::optional<MemoryFault> fault = core_->Judge(message);
    if (fault && !fault->persist) failed_keys_.Add(message.topic, message.key);
    return DeliveryOf(message.token, fault);
  }

  void HandOut(std::vector<Delivery>& out) {
    while (!abandoned_.empty()) Take(abandoned_, out);
    while (!answers_.empty() && core_->release_budget > 0) {
      if (core_->release_budget != kAlways) --core_->release_budget;
      Take(answers_, out);
    }
    const auto failed = [](const Delivery& answer) { return answer.status != DeliveryStatus::kPersisted; };
    if (std::none_of(answers_.begin(), answers_.end(), failed)) failed_keys_.Clear();
  }

  // Deliveries come out in the order of their messages, so the oldest size is the right one to give back.
  void Take(std::deque<Delivery>& from, std::vector<Delivery>& out) {
    out.push_back(std::move(from.front()));
    from.pop_front();
    held_bytes_ -= held_sizes_.front();
    held_sizes_.pop_front();
  }

  const std::shared_ptr<Core> core_;
  const HoldLimits limits_;
  // Of the thread that submits and collects.
  std::deque<HeldMessage> waiting_;
  std::deque<Delivery> answers_;
  std::deque<Delivery> abandoned_;
  std::deque<std::size_t> held_sizes_;
  FailedKeys failed_keys_;
  std::size_t held_bytes_ = 0;
  // Guarded by the core's mutex.
  bool interrupted_ = false;
};

MemoryBroker::MemoryBroker() : core_(std::make_shared<Core>()) {}
MemoryBroker::~MemoryBroker() = default;

std::unique_ptr<Publisher> MemoryBroker::Connect(HoldLimits limits) {
  return std::make_unique<Connection>(core_, limits);
}

void MemoryBroker::FailNth(std::size_t n, MemoryFault fault) {
  SEALANE_ASSERT(n > 0, "messages are counted from 1");
  const std::lock_guard lock(core_->mutex);
  core_->script.push_back({.predicate = {}, .skip = n - 1, .times = 1, .fault = std::move(fault)});
}

void MemoryBroker::FailWhen(Predicate predicate, MemoryFault fault, std::size_t times) {
  const std::lock_guard lock(core_->mutex);
  core_->script.push_back({.predicate = std::move(predicate), .skip = 0, .times = times, .fault = std::move(fault)});
}

void MemoryBroker::FailTopic(std::string topic, MemoryFault fault, std::size_t times) {
  FailWhen([topic = std::move(topic)](const MemoryRecord& record) { return record.topic == topic; }, std::move(fault),
           times);
}

void MemoryBroker::FailKey(std::string key, MemoryFault fault, std::size_t times) {
  FailWhen([key = std::move(key)](const MemoryRecord& record) { return record.key == key; }, std::move(fault), times);
}

void MemoryBroker::ForgetFaults() {
  const std::lock_guard lock(core_->mutex);
  core_->script.clear();
}

void MemoryBroker::BeginOutage(std::optional<Error> problem) {
  const std::lock_guard lock(core_->mutex);
  core_->outage = problem ? std::move(problem)
                          : Error(ErrorKind::kUnavailable, "broker_unreachable", "the broker in memory is away")
                                .WithHint("end the outage in the test");
}

void MemoryBroker::EndOutage() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->outage.reset();
  }
  core_->changed.notify_all();
}

void MemoryBroker::HoldDeliveries() {
  const std::lock_guard lock(core_->mutex);
  core_->release_budget = 0;
}

void MemoryBroker::ReleaseDeliveries(std::size_t count) {
  {
    const std::lock_guard lock(core_->mutex);
    std::size_t& budget = core_->release_budget;
    budget = count == kAlways || budget == kAlways ? kAlways : budget + count;
  }
  core_->changed.notify_all();
}

std::vector<MemoryRecord> MemoryBroker::records() const {
  const std::lock_guard lock(core_->mutex);
  return core_->records;
}

std::vector<std::string> MemoryBroker::ValuesOf(std::string_view topic, std::string_view key) const {
  const std::lock_guard lock(core_->mutex);
  std::vector<std::string> values;
  for (const MemoryRecord& record : core_->records) {
    if (record.topic == topic && record.key == key) values.push_back(record.value);
  }
  return values;
}

std::size_t MemoryBroker::record_count() const {
  const std::lock_guard lock(core_->mutex);
  return core_->records.size();
}

std::size_t MemoryBroker::abandoned_count() const {
  const std::lock_guard lock(core_->mutex);
  return core_->abandoned;
}

std::size_t MemoryBroker::arrived_count() const {
  const std::lock_guard lock(core_->mutex);
  return core_->arrived;
}

bool MemoryBroker::AwaitRecords(std::size_t count, std::chrono::milliseconds limit) const {
  std::unique_lock lock(core_->mutex);
  return core_->changed.wait_for(lock, limit, [&] { return core_->records.size() >= count; });
}

}  // namespace sealane
