#include "support/relay_bench.hpp"

#include <gtest/gtest.h>

#include "memory/database.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane::testing {

using std::chrono::milliseconds;

namespace {

Error StoreIsCut() {
  return Error(ErrorKind::kUnavailable, "connection_lost", "cut by the test");
}

}  // namespace

RelayBench::RelayBench(std::int32_t lanes, std::uint64_t seed)
    : random_(seed),
      database_(memory::MakeDatabase(clock_, std::chrono::seconds{5}, lanes)),
      faults_(std::make_shared<memory::LogFaults>()),
      store_(ValueOrThrow(memory::OpenOutboxStore(database_))),
      dead_letters_(ValueOrThrow(memory::OpenDeadLetters(database_))) {}

RouteOptions RelayBench::Options(std::string owner) const {
  RouteOptions options;
  options.owner = std::move(owner);
  options.profile = WireProfile::kRaw;
  options.lease_ttl = milliseconds{10'000};
  options.settle_interval = milliseconds{0};
  options.page_entries = 7;
  options.drain_timeout = milliseconds{1'000};
  options.failures.retry = {
      .first = milliseconds{1'000}, .factor = 2, .max = milliseconds{8'000}, .jitter = 0, .attempts_max = 3};
  return options;
}

std::unique_ptr<RouteRelay> RelayBench::MakeRelay(RouteOptions options, Clock& clock) {
  const std::string route = options.route;
  const std::string owner = options.owner;
  return std::make_unique<RouteRelay>(
      std::move(options),
      [this, route, owner]() -> Result<std::unique_ptr<OutboxLog>> {
        if (store_is_cut_) return StoreIsCut();
        return memory::MakeOutboxLog(database_, route, owner, clock_, faults_);
      },
      [this]() -> Result<std::unique_ptr<Publisher>> { return broker_.Connect(); }, clock, random_);
}

EventId RelayBench::Append(const std::string& key, const std::string& value, const std::string& tenant,
                           const std::string& topic) {
  NewEntry entry = WithPayload(SampleEntry(key), value);
  entry.envelope.tenant = tenant;
  entry.envelope.topic = topic;
  return AppendAndCommit(*store_, {entry}).front().id;
}

EventId RelayBench::AppendDelayed(const std::string& key, const std::string& value, std::chrono::seconds delay,
                                  const std::string& tenant) {
  NewEntry entry = WithPayload(SampleEntry(key), value);
  entry.envelope.tenant = tenant;
  entry.envelope.topic = "orders";
  entry.envelope.available_at = clock_.Now() + delay;
  return AppendAndCommit(*store_, {entry}).front().id;
}

void RelayBench::Step(std::initializer_list<RouteRelay*> relays, int times, milliseconds by) {
  for (int i = 0; i < times; ++i) {
    for (RouteRelay* const relay : relays) (void)relay->RunOnce();
    Advance(by);
  }
}

void RelayBench::CutStore() {
  store_is_cut_ = true;
  for (std::size_t call = 0; call < memory::kLogCalls; ++call) {
    faults_->FailAll(static_cast<memory::LogCall>(call), StoreIsCut());
  }
}

void RelayBench::HealStore() {
  store_is_cut_ = false;
  faults_->Heal();
}

void RelayBench::Erase(const EventId& id) {
  database_->Erase(id);
}

void RelayBench::RunUntilQuiet(RouteRelay& relay, int steps_max) {
  int quiet = 0;
  for (int step = 0; step < steps_max && quiet < 5; ++step) {
    const Result<RelayReport> report = relay.RunOnce();
    quiet = report && report->idle() && report->caught_up ? quiet + 1 : 0;
    clock_.Advance(milliseconds{2});
  }
}

std::vector<std::string> RelayBench::Published(const std::string& key, const std::string& topic) const {
  return broker_.ValuesOf(topic, key);
}

RouteStatus RelayBench::StatusOf(const EventId& id, const std::string& route) {
  const auto message = ValueOrThrow(store_->FindMessage(id));
  EXPECT_TRUE(message.has_value());
  if (message) {
    for (const RouteStatus& status : message->routes) {
      if (status.route == route) return status;
    }
  }
  ADD_FAILURE() << "no status on route " << route;
  return {};
}

DeliveryState RelayBench::StateOf(const EventId& id, const std::string& route) {
  return StatusOf(id, route).state;
}

}  // namespace sealane::testing
