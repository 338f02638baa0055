#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sealane/clock.hpp"
#include "sealane/random.hpp"

#include "memory/memory_broker.hpp"
#include "memory/memory_store.hpp"
#include "relay/route_relay.hpp"

namespace sealane::testing {

/// An outbox and a broker in memory, a clock that tests move, and relays between them that are stepped by hand.
class RelayBench {
 public:
  explicit RelayBench(std::int32_t lanes = 8, std::uint64_t seed = 1);

  ManualClock& clock() { return clock_; }
  MemoryBroker& broker() { return broker_; }
  memory::LogFaults& faults() { return *faults_; }
  OutboxStore& store() { return *store_; }
  DeadLetters& dead_letters() { return *dead_letters_; }
  Random& random() { return random_; }

  /// Options with short pages and no waits that a test would have to sit out.
  RouteOptions Options(std::string owner = "relay-1") const;
  std::unique_ptr<RouteRelay> MakeRelay(RouteOptions options) { return MakeRelay(std::move(options), clock_); }
  /// A relay with a clock of its own; the store keeps its.
  std::unique_ptr<RouteRelay> MakeRelay(RouteOptions options, Clock& clock);
  std::unique_ptr<RouteRelay> MakeRelay(std::string owner = "relay-1") {
    return MakeRelay(Options(std::move(owner)));
  }

  /// Commits one event; the value says which it is.
  EventId Append(const std::string& key, const std::string& value, const std::string& tenant = "",
                 const std::string& topic = "orders");
  /// Commits one that must not be delivered before `delay` has passed.
  EventId AppendDelayed(const std::string& key, const std::string& value, std::chrono::seconds delay,
                        const std::string& tenant = "");
  /// Steps, and lets a little time pass with each, until the relay has nothing left to do.
  void RunUntilQuiet(RouteRelay& relay, int steps_max = 10'000);
  /// Steps the relays in turn, `times` each, with `by` between the rounds. Errors are for them to get over.
  void Step(std::initializer_list<RouteRelay*> relays, int times,
            std::chrono::milliseconds by = std::chrono::milliseconds{20});
  /// From now on nothing can be had from the store, nor can a new connection be opened.
  void CutStore();
  void HealStore();
  /// Removes an event from the log, as retention does.
  void Erase(const EventId& id);
  void Advance(std::chrono::milliseconds by) { clock_.Advance(by); }

  /// What the broker has for a key, in order.
  std::vector<std::string> Published(const std::string& key, const std::string& topic = "orders") const;
  DeliveryState StateOf(const EventId& id, const std::string& route = "main");
  RouteStatus StatusOf(const EventId& id, const std::string& route = "main");

 private:
  ManualClock clock_;
  SeededRandom random_;
  std::shared_ptr<memory::Database> database_;
  std::shared_ptr<memory::LogFaults> faults_;
  std::unique_ptr<OutboxStore> store_;
  std::unique_ptr<DeadLetters> dead_letters_;
  MemoryBroker broker_;
  bool store_is_cut_ = false;
};

}  // namespace sealane::testing
