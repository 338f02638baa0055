#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/held_message.hpp"
#include "broker/publisher.hpp"

namespace sealane {

/// A message that the broker in memory took.
struct MemoryRecord {
  EventId event_id;
  std::string topic;
  std::string key;
  std::string value;
  Headers headers;
};

/// What becomes of a message instead of being persisted. Messages of the same key that were submitted behind one that
/// was not taken come back as `held_back`, until its delivery was collected.
struct MemoryFault {
  DeliveryStatus status = DeliveryStatus::kNotPersisted;
  FailureClass failure = FailureClass::kRetry;
  std::string code = "injected";
  std::string message = "a test asked for this failure";
  bool persist = false;  ///< take the message all the same: with kPossiblyPersisted, the lost acknowledgement
};

/// A broker in memory that keeps the contract of Publisher and fails as scripted. For unit tests and the simulator.
///
/// One broker, any number of publishers; every message that arrives, arrives here in one order. All members are safe
/// to call from any thread, while publishers work.
class MemoryBroker {
 public:
  using Predicate = std::function<bool(const MemoryRecord&)>;
  static constexpr std::size_t kAlways = std::numeric_limits<std::size_t>::max();

  MemoryBroker();
  ~MemoryBroker();

  /// A publisher of its own for one relay worker. It may outlive the broker's other publishers, not the broker.
  std::unique_ptr<Publisher> Connect(HoldLimits limits = {});

  /// Fails the n-th message that arrives from now on; 1 is the next.
  void FailNth(std::size_t n, MemoryFault fault = {});
  /// Fails the next `times` messages that the predicate picks, on every attempt.
  void FailWhen(Predicate predicate, MemoryFault fault = {}, std::size_t times = kAlways);
  void FailTopic(std::string topic, MemoryFault fault = {}, std::size_t times = kAlways);
  void FailKey(std::string key, MemoryFault fault = {}, std::size_t times = kAlways);
  void ForgetFaults();

  /// While there is a problem, messages wait inside the publishers and health() shows it. kMisconfigured errors show
  /// as such, others as unreachable.
  void BeginOutage(std::optional<Error> problem = std::nullopt);
  void EndOutage();

  /// From now on messages are persisted and the deliveries kept back, until ReleaseDeliveries().
  void HoldDeliveries();
  /// Lets the next `count` deliveries out; all of them, and those to come, without a count.
  void ReleaseDeliveries(std::size_t count = kAlways);

  /// What was persisted, in the order it arrived.
  std::vector<MemoryRecord> records() const;
  /// The values persisted for one key of one topic.
  std::vector<std::string> ValuesOf(std::string_view topic, std::string_view key) const;
  std::size_t record_count() const;
  /// How many messages arrived, persisted or not.
  std::size_t arrived_count() const;
  /// How many had not arrived when their publisher was told to give them up.
  std::size_t abandoned_count() const;
  /// Waits until that many records are persisted; false when they are not by then.
  bool AwaitRecords(std::size_t count, std::chrono::milliseconds limit) const;

 private:
  class Core;
  class Connection;
  const std::shared_ptr<Core> core_;
};

}  // namespace sealane
