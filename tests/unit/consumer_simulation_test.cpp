// Protects the consumer's promises under schedules that nobody would write down: producers that repeat themselves
// and, where versions are guarded, deliver out of order; several members that come, crash and sleep; partitions taken
// away; failing store calls, commits in doubt, outages; handlers that fail for a while or for ever. All of it in an
// order drawn from a seed. Whatever happens: at the end every event had its effect once, in the order of its key,
// except those that were refused and what waits behind them.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/log.hpp"
#include "support/consumer_bench.hpp"
#include "support/sanitized.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct World {
  InboxMode mode;
  bool guard;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, World world)
      : bench_(seed, 1 + static_cast<std::int32_t>(seed % 4)), world_(world), dice_(seed * 104729 + 7) {
    poison_ = Chance(2) ? "k" + std::to_string(dice_.Below(kKeys)) : "";
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) Step();
    Calm();
  }

  // Empty when everything holds.
  std::string Verdict() const {
    std::map<std::string, std::int64_t> last;
    std::set<std::string> seen;
    for (const Effect& effect : bench_.Effects()) {
      if (!seen.insert(effect.id).second) return fmt::format("{} {} had two effects", effect.key, effect.version);
      std::int64_t& before = last[effect.key];
      if (effect.version != before + 1) {
        return fmt::format("key {}: version {} after {}", effect.key, effect.version, before);
      }
      before = effect.version;
    }
    for (const auto& [key, versions] : published_) {
      const std::int64_t due = key == poison_ ? std::min<std::int64_t>(kPoisonVersion - 1, versions) : versions;
      if (last[key] != due) return fmt::format("key {}: {} of {} applied", key, last[key], due);
    }
    return {};
  }

  std::uint64_t effects() const { return bench_.Effects().size(); }

 private:
  static constexpr std::uint64_t kKeys = 6;
  static constexpr std::int64_t kPoisonVersion = 3;

  bool Chance(std::uint64_t one_in) { return dice_.Below(one_in) == 0; }

  // A relay that lost its memory sends a suffix again; in a guarded world a version may also come after its
  // successor.
  void Publish() {
    const std::string key = "k" + std::to_string(dice_.Below(kKeys));
    std::vector<Envelope>& history = history_[key];
    if (!history.empty() && Chance(5)) {
      const std::size_t from = history.size() - 1 - dice_.Below(std::min<std::size_t>(history.size(), 4));
      for (std::size_t i = from; i < history.size(); ++i) bench_.Publish(history[i]);
      return;
    }
    const std::int64_t next = ++published_[key];
    history.push_back(bench_.Make(key, next));
    if (world_.guard && Chance(4)) {
      ++published_[key];
      history.push_back(bench_.Make(key, next + 1));
      bench_.Publish(history[history.size() - 1]);
      bench_.Publish(history[history.size() - 2]);
      return;
    }
    bench_.Publish(history.back());
  }

  Handling Handler() {
    return [this, noting = bench_.Noting()](const Envelope& event, const ReceivedMessage& message,
                                            HandlerTransaction& tx) -> Decision {
      const Decision done = noting(event, message, tx);
      if (event.key == poison_ && event.aggregate.version == kPoisonVersion) return Decision::Reject("poison", "no");
      if (!calm_ && Chance(12)) return Decision::RetryLater("not_now", "later");
      if (!calm_ && Chance(25)) throw std::runtime_error("stumbled");
      return done;
    };
  }

  void StepConsumer() {
    auto& consumer = consumers_[dice_.Below(consumers_.size())];
    if (!consumer) {
      ConsumerOptions options = bench_.Options();
      options.mode = world_.mode;
      options.guard_versions = world_.guard;
      options.gap_timeout = std::chrono::hours{24};
      options.workers = 1 + dice_.Below(3);
      options.batch_max = 1 + dice_.Below(8);
      options.poll_messages = 1 + dice_.Below(20);
      options.retry = {
          .first = milliseconds{200}, .factor = 1.5, .max = seconds{2}, .jitter = 0.5, .attempts_max = 0};
      options.crash_budget = 1'000'000;  // here nobody dies of an event
      options.retry_patience = seconds{2};
      consumer = bench_.Start(options, Handler());
      return;
    }
    // An error of the broker's side ends a run; somebody starts it again.
    if (!consumer->RunOnce()) consumer.reset();
  }

  void Trouble() {
    using memory::InboxCall;
    using When = memory::InboxFaults::When;
    const auto group = std::string(ConsumerBench::kGroup);
    const Error away(ErrorKind::kUnavailable, "away", "the store is away");
    switch (dice_.Below(12)) {
      case 0:
        consumers_[dice_.Below(consumers_.size())].reset();  // a crash: nobody says goodbye
        break;
      case 1:
        bench_.topics().EndSessions(group);
        break;
      case 2:
        bench_.topics().Rebalance(group);
        break;
      case 3:
        bench_.topics().TakeAway(group, {ConsumerBench::kTopic, static_cast<std::int32_t>(dice_.Below(3))});
        break;
      case 4:
        bench_.topics().LoseMembers(group);
        break;
      case 5:
        if (auto& consumer = consumers_[dice_.Below(consumers_.size())]) {
          (void)consumer->Close();
          consumer.reset();
        }
        break;
      case 6:
        bench_.faults()->Fail(InboxCall::kFinish, Error(ErrorKind::kInDoubt, "in_doubt", "no answer"),
                              Chance(2) ? When::kAfterTheWork : When::kInsteadOfTheWork);
        break;
      case 7:
        bench_.faults()->Fail(Chance(2) ? InboxCall::kOpen : InboxCall::kOpenRetry, away,
                              Chance(2) ? When::kAfterTheWork : When::kInsteadOfTheWork,
                              1 + static_cast<std::int64_t>(dice_.Below(3)));
        break;
      case 8:
        bench_.faults()->Fail(Chance(2) ? InboxCall::kAttach : InboxCall::kExecute, away,
                              Chance(2) ? When::kAfterTheWork : When::kInsteadOfTheWork);
        break;
      case 9:
        bench_.faults()->Fail(Chance(2) ? InboxCall::kFinish : InboxCall::kSettle,
                              Error(ErrorKind::kConflict, "deadlock", "two collided"));
        if (Chance(4)) {
          bench_.faults()->Fail(InboxCall::kSettle, Error(ErrorKind::kRejected, "constraint", "a posted one failed"));
        }
        break;
      case 10:
        if (outage_) {
          bench_.topics().EndOutage();
        } else {
          bench_.topics().BeginOutage();
        }
        outage_ = !outage_;
        break;
      default:
        bench_.clock().Advance(milliseconds{static_cast<std::int64_t>(dice_.Below(5'000))});
        break;
    }
  }

  void Step() {
    const std::uint64_t roll = dice_.Below(10);
    if (roll < 3) {
      Publish();
    } else if (roll < 9) {
      StepConsumer();
    } else {
      Trouble();
    }
    bench_.clock().Advance(milliseconds{static_cast<std::int64_t>(dice_.Below(50))});
  }

  void Calm() {
    calm_ = true;
    bench_.faults()->Heal();
    if (outage_) bench_.topics().EndOutage();
    bench_.topics().EndSessions(ConsumerBench::kGroup);
    for (int i = 0; i < 600; ++i) {
      for (std::size_t j = 0; j < consumers_.size(); ++j) StepConsumer();
      bench_.clock().Advance(milliseconds{500});
      if (i % 50 == 49 && Verdict().empty()) return;
    }
  }

  ConsumerBench bench_;
  const World world_;
  SeededRandom dice_;
  std::string poison_;
  bool calm_ = false;
  bool outage_ = false;
  std::vector<std::unique_ptr<Consumer>> consumers_ = std::vector<std::unique_ptr<Consumer>>(3);
  std::map<std::string, std::vector<Envelope>> history_;
  std::map<std::string, std::int64_t> published_;
};

class ConsumerSimulation : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int kSeeds = 25;  // per case
  void SetUp() override { Logger::Instance().SetLevel(LogLevel::kError); }

  void Play(World world) {
    const char* const only = std::getenv("SEALANE_TEST_SEED");
    const auto first = static_cast<std::uint64_t>(GetParam()) * kSeeds;
    std::uint64_t effects = 0;
    for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
      const std::uint64_t used = only != nullptr ? std::stoull(only) : seed;
      Simulation simulation(used, world);
      simulation.Run(300);
      effects += simulation.effects();
      ASSERT_EQ(simulation.Verdict(), "") << "run it again with SEALANE_TEST_SEED=" << used;
      if (only != nullptr) break;
    }
    EXPECT_GT(effects, 0U);
  }
};

TEST_P(ConsumerSimulation, ReceiptsKeepEveryEffectOnce) {
  Play({InboxMode::kRecord, false});
}
TEST_P(ConsumerSimulation, ReceiptsAndVersionsKeepEveryEffectOnceAndInOrder) {
  Play({InboxMode::kRecord, true});
}
TEST_P(ConsumerSimulation, OffsetsKeepEveryEffectOnce) {
  Play({InboxMode::kOffsets, false});
}
TEST_P(ConsumerSimulation, OffsetsAndVersionsKeepEveryEffectOnceAndInOrder) {
  Play({InboxMode::kOffsets, true});
}

INSTANTIATE_TEST_SUITE_P(Seeds, ConsumerSimulation, ::testing::Range(0, 6));

// ---- one large world ----

/// What a relay that loses its memory now and then, and a broker that keeps no order, make of the versions of one
/// key: each at least once, some after their successors, some again.
std::vector<std::int64_t> SendsOf(std::int64_t versions, SeededRandom& dice) {
  std::vector<std::int64_t> sends;
  for (std::int64_t version = 1; version <= versions; ++version) {
    sends.push_back(version);
    if (sends.size() >= 4 && dice.Below(10) == 0) std::swap(sends.back(), sends[sends.size() - 2 - dice.Below(3)]);
    if (dice.Below(10) == 0) {
      const std::size_t from = sends.size() - 1 - dice.Below(std::min<std::size_t>(sends.size(), 5));
      const std::vector<std::int64_t> again(sends.begin() + static_cast<std::ptrdiff_t>(from), sends.end());
      sends.insert(sends.end(), again.begin(), again.end());
    }
  }
  return sends;
}

class ConsumerLargeWorld : public ::testing::TestWithParam<InboxMode> {
 protected:
  static constexpr std::size_t kKeys = 50;
  static constexpr std::int64_t kVersions = kSanitized ? 200 : 1'000;  // as many as a sanitizer has time for
  static std::string Name(std::size_t key) { return fmt::format("k{}", key); }
};

TEST_P(ConsumerLargeWorld, FiftyKeysOfAThousandVersionsEqualTheModel) {
  Logger::Instance().SetLevel(LogLevel::kError);
  ConsumerBench bench(2'026, 8);
  SeededRandom dice(97);
  ConsumerOptions options = bench.Options();
  options.mode = GetParam();
  options.guard_versions = true;
  options.gap_timeout = std::chrono::hours{24};
  options.workers = 4;
  options.batch_max = 50;
  auto consumer = bench.Start(options, bench.Noting());

  std::vector<std::vector<Envelope>> events(kKeys);
  std::vector<std::vector<std::int64_t>> sends(kKeys);
  std::size_t left = 0;
  for (std::size_t key = 0; key < kKeys; ++key) {
    for (std::int64_t version = 1; version <= kVersions; ++version) {
      events[key].push_back(bench.Make(Name(key), version, std::to_string(version)));
    }
    sends[key] = SendsOf(kVersions, dice);
    left += sends[key].size();
  }
  const std::size_t sent = left;
  std::vector<std::size_t> next(kKeys, 0);
  for (; left > 0; --left) {
    std::size_t key = dice.Below(kKeys);
    while (next[key] == sends[key].size()) key = (key + 1) % kKeys;
    bench.Publish(events[key][static_cast<std::size_t>(sends[key][next[key]++] - 1)]);
    if (left % 400 == 0) {
      ASSERT_TRUE(consumer->RunOnce());
    }
    if (left % 9'000 == 0) {
      // A crash: nobody says goodbye, and what was not committed comes again.
      consumer = bench.Start(options, bench.Noting());
      bench.topics().EndSessions(ConsumerBench::kGroup);
    }
  }
  bench.SettleOver(*consumer, seconds{3}, seconds{1});

  std::map<std::string, std::int64_t> last;
  for (const Effect& effect : bench.Effects()) {
    ASSERT_EQ(effect.version, ++last[effect.key]) << "key " << effect.key;
    ASSERT_EQ(effect.payload, std::to_string(effect.version));
  }
  ASSERT_EQ(last.size(), kKeys);
  for (const auto& [key, version] : last) EXPECT_EQ(version, kVersions) << "key " << key;
  EXPECT_GT(sent, kKeys * kVersions * 11 / 10) << "hardly anything was repeated";
}

INSTANTIATE_TEST_SUITE_P(Modes, ConsumerLargeWorld, ::testing::Values(InboxMode::kRecord, InboxMode::kOffsets),
                         [](const auto& mode) { return std::string(ToString(mode.param)); });

}  // namespace
}  // namespace sealane::testing
