// Protects the relay's promises under schedules that nobody would write down: appends, steps of several relays,
// crashes, long sleeps, lost acknowledgements, outages, refused events, failing store calls and operators' decisions,
// in an order drawn from a seed. Whatever happens: at the end every committed event was published, first deliveries
// of a key are in order, and nothing was published that was not committed.

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/log.hpp"
#include "support/relay_bench.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : bench_(8, seed), dice_(seed * 7919 + 1) {}

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) Step();
    Calm();
  }

  // Empty when everything holds.
  std::string Verdict() const {
    std::map<std::string, int> next;  // the first delivery that is due, by key
    for (const MemoryRecord& record : bench_.broker_records()) {
      const int value = std::stoi(record.value);
      const auto committed = committed_.find(record.key);
      if (committed == committed_.end() || value >= committed->second)
        return "a ghost: " + record.key + " " + record.value;
      int& due = next[record.key];
      if (value > due) return "key " + record.key + ": " + record.value + " came before " + std::to_string(due);
      if (value == due) ++due;
    }
    for (const auto& [key, count] : committed_) {
      if (next[key] != count) return "key " + key + ": " + std::to_string(next[key]) + " of " + std::to_string(count);
    }
    return {};
  }

 private:
  class Bench : public RelayBench {
   public:
    using RelayBench::RelayBench;
    std::vector<MemoryRecord> broker_records() const { return const_cast<Bench*>(this)->broker().records(); }
  };

  bool Chance(std::uint64_t one_in) { return dice_.Below(one_in) == 0; }

  void Append() {
    const std::string key = "k" + std::to_string(dice_.Below(12));
    const std::string tenant = "t" + std::to_string(dice_.Below(3));
    // A key belongs to one tenant.
    const std::string owner = tenants_.try_emplace(key, tenant).first->second;
    bench_.Append(key, std::to_string(committed_[key]++), owner);
  }

  void StepRelay() {
    auto& relay = relays_[dice_.Below(relays_.size())];
    if (relay == nullptr) {
      RouteOptions options = bench_.Options("relay-" + std::to_string(++started_));
      options.settle_interval = milliseconds{static_cast<std::int64_t>(dice_.Below(400))};
      options.page_entries = 1 + dice_.Below(20);
      options.page_bytes = 8'192;
      options.crowd_backlog = 5 + static_cast<std::int64_t>(dice_.Below(100));
      options.failures.retry.attempts_max = 3;
      relay = bench_.MakeRelay(options);
    }
    if (Chance(150)) {
      relay.reset();  // killed
    } else if (Chance(300)) {
      (void)relay->Drain();
      relay.reset();
    } else {
      (void)relay->RunOnce();
    }
  }

  void Trouble() {
    const auto call = static_cast<memory::LogCall>(dice_.Below(memory::kLogCalls));
    switch (dice_.Below(9)) {
      case 0:
        bench_.faults().Fail(call, Error(ErrorKind::kUnavailable, "connection_lost", "cut"));
        break;
      case 1:
        bench_.faults().Fail(call, Error(ErrorKind::kInDoubt, "commit_in_doubt", "cut after the work"),
                             memory::LogFaults::When::kAfterTheWork);
        break;
      case 2:
        bench_.broker().FailNth(1 + dice_.Below(20), {.status = DeliveryStatus::kPossiblyPersisted,
                                                      .failure = FailureClass::kOutage,
                                                      .code = "connection_lost",
                                                      .persist = Chance(2)});
        break;
      case 3:
        bench_.broker().FailNth(1 + dice_.Below(20), {.failure = FailureClass::kRetry, .code = "said_500"});
        break;
      case 4:
        bench_.broker().FailNth(1 + dice_.Below(20), {.failure = FailureClass::kRejected, .code = "too_large"});
        break;
      case 5:
        bench_.broker().BeginOutage();
        break;
      case 6:
        bench_.broker().EndOutage();
        break;
      case 7:
        (void)bench_.dead_letters().SetTenant("main",
                                              {.tenant = "t" + std::to_string(dice_.Below(3)), .paused = Chance(2)},
                                              {.actor = "sim", .reason = "dice"});
        break;
      default:
        RetryDead();
        break;
    }
  }

  void Step() {
    switch (dice_.Below(10)) {
      case 0:
      case 1:
        return Append();
      case 2:
        if (Chance(8)) return Trouble();
        return bench_.Advance(milliseconds{static_cast<std::int64_t>(1 + dice_.Below(Chance(20) ? 15'000 : 60))});
      default:
        return StepRelay();
    }
  }

  void RetryDead() {
    (void)bench_.dead_letters().Retry(DeadLetterFilter{.limit = 10'000}, {.actor = "sim", .reason = "again"});
  }

  // Faults stop; everything has to drain within a bounded time.
  void Calm() {
    bench_.faults().Heal();
    bench_.broker().ForgetFaults();
    bench_.broker().EndOutage();
    for (int t = 0; t < 3; ++t) {
      (void)bench_.dead_letters().SetTenant("main", {.tenant = "t" + std::to_string(t)},
                                            {.actor = "sim", .reason = "calm"});
    }
    for (int round = 0; round < 6; ++round) {
      RetryDead();
      for (int i = 0; i < 400; ++i) {
        for (auto& relay : relays_) {
          if (relay == nullptr) relay = bench_.MakeRelay("calm-" + std::to_string(++started_));
          (void)relay->RunOnce();
        }
        bench_.Advance(milliseconds{50});
      }
    }
  }

  Bench bench_;
  SeededRandom dice_;
  std::array<std::unique_ptr<RouteRelay>, 3> relays_;
  std::map<std::string, int> committed_;  // how many, by key; values count from 0
  std::map<std::string, std::string> tenants_;
  int started_ = 0;
};

class RelaySimulation : public ::testing::TestWithParam<int> {};

TEST_P(RelaySimulation, LosesNothingInventsNothingAndKeepsOrder) {
  Logger::Instance().SetLevel(LogLevel::kError);
  constexpr int kSeedsEach = 6;
  for (int i = 0; i < kSeedsEach; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kSeedsEach + i);
    Simulation simulation(seed);
    simulation.Run(3'000);
    ASSERT_EQ(simulation.Verdict(), "") << "seed=" << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RelaySimulation, ::testing::Range(0, 8));

}  // namespace
}  // namespace sealane::testing
