// Protects what a consumer leaves behind when it dies: killed at every labelled step, and at counted system calls
// from its first to its last, several times in a row. A last one then finishes the work. Every event must have taken
// effect once, those of a key in order, and the broker must at no time have been told more than was committed.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"

namespace sealane::testing {
namespace {

constexpr int kKeys = 8;
constexpr int kVersions = 10;
constexpr int kKilled = 128 + SIGKILL;

struct Setup {
  std::string place;
  std::string mode;
};

/// One death.
struct Point {
  std::string variable;
  std::string value;
  bool stays = false;  // reached only by one that goes on when it is done, and by that surely
};
/// Deaths of one consumer in a row. Fewer than would make it believe that an event is to blame.
using Chain = std::vector<Point>;

Point AtStep(const std::string& name, int hit) {
  return {"SEALANE_TEST_CRASH_AT", fmt::format("inbox.{}:{}", name, hit)};
}

class ConsumerCrash : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (is_kafka()) {
      SEALANE_REQUIRE_KAFKA();
      shared_ = std::make_unique<ConsumePlace>(GetParam().place);
      events_ = ChangesOf(kKeys, kVersions);
      shared_->Publish(events_);
    }
  }

  static bool is_kafka() { return GetParam().place == "postgres_kafka"; }
  static bool record() { return GetParam().mode == "record"; }

  /// Every effect fails in a way that is tried again. The script is well: one that is not is refused at the start.
  static void HoldBackEffects(const ConsumePlace& place) {
    place.Execute(is_kafka() ? "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
                               " RAISE EXCEPTION 'not now' USING ERRCODE = 'undefined_table'; END$$;"
                               "CREATE TRIGGER refuse BEFORE INSERT ON effects FOR EACH ROW EXECUTE FUNCTION refuse()"
                             : "CREATE TRIGGER refuse BEFORE INSERT ON effects BEGIN"
                               " SELECT abs(-9223372036854775808); END");
  }

  /// Named, so that the next one takes over at once; small batches, so that there is something between the deaths.
  static std::vector<std::string> Options(bool stays) {
    std::vector<std::string> options = {"--mode", GetParam().mode, "--member", "m1", "--workers",
                                        "2",      "--batch",       "5",        "-o", "json"};
    if (!stays) options.insert(options.end(), {"--until", "caught-up", "--timeout", "90s"});
    return options;
  }

  static CommandResult RunVictim(const ConsumePlace& place, const std::string& consumer, const Point& point) {
    std::vector<std::string> command = {SEALANE_TEST_RELAY_VICTIM};
    const std::vector<std::string> arguments = place.Arguments(consumer, Options(point.stays));
    command.insert(command.end(), arguments.begin(), arguments.end());
    return ChildProcess(command, {{point.variable, point.value}}, place.folder()).Finish();
  }

  /// Halves a number of system calls; false for other points, and when there is nothing left of it.
  static bool Sooner(Point& point) {
    if (point.variable != "SEALANE_TEST_KILL_CALL") return false;
    const long call = std::atol(point.value.c_str()) / 2;
    point.value = fmt::format("{}{}", call, point.value.ends_with('+') ? "+" : "");
    return call > 0;
  }

  void RunChain(const Chain& chain) {
    std::unique_ptr<ConsumePlace> own;
    std::vector<Envelope> events = events_;
    if (!is_kafka()) {
      own = std::make_unique<ConsumePlace>(GetParam().place);
      events = ChangesOf(kKeys, kVersions);
      own->Publish(events);
    }
    const ConsumePlace& place = own ? *own : *shared_;
    // A group's name is used once: the broker remembers named members of it beyond their end.
    const std::string consumer = fmt::format("{}-c{}", place.topic(), ++names_);
    std::string where;
    for (const Point& planned : chain) {
      Point point = planned;
      where += fmt::format("{} ", point.value);
      CommandResult victim = RunVictim(place, consumer, point);
      // One that found less to do than the measured run makes fewer calls.
      while (victim.code == 0 && Sooner(point)) {
        where += fmt::format("{} ", point.value);
        victim = RunVictim(place, consumer, point);
      }
      const std::string ahead = place.AheadComplaint(consumer);
      const std::lock_guard lock(mutex_);
      ++points_;
      if (victim.code == kKilled) ++died_;
      EXPECT_TRUE(victim.code == kKilled || victim.code == 0) << where << ": " << victim.code << " " << victim.err;
      EXPECT_EQ(ahead, "") << where;
    }
    const CommandResult heir = place.CatchUp(consumer, {"--mode", GetParam().mode, "--member", "m1"});
    const std::string complaint = place.Complaint(consumer, events, record());
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(heir.code, 0) << where << ": " << heir.err;
    EXPECT_EQ(complaint, "") << where << heir.out << heir.err;
  }

  void Sweep(const std::vector<Chain>& chains) {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (int w = 0; w < kAtOnce; ++w) {
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < chains.size(); i = next++) RunChain(chains[i]);
      });
    }
    for (std::thread& worker : workers) worker.join();
    std::cout << fmt::format("{}, {}: {} points, {} deaths\n", GetParam().place, GetParam().mode, points_, died_);
  }

  /// How many system calls an undisturbed run makes.
  long CountCalls() {
    std::unique_ptr<ConsumePlace> own;
    if (!is_kafka()) {
      own = std::make_unique<ConsumePlace>(GetParam().place);
      own->Publish(ChangesOf(kKeys, kVersions));
    }
    const ConsumePlace& place = own ? *own : *shared_;
    const CommandResult run = RunVictim(place, place.topic() + "-count", {"SEALANE_TEST_KILL_CALL", "0"});
    EXPECT_EQ(run.code, 0) << run.err;
    const std::size_t line = run.err.find_last_of('\n', run.err.size() - 2);
    return std::atol(run.err.c_str() + (line == std::string::npos ? 0 : line + 1));
  }

  static constexpr int kAtOnce = 6;  // those of Kafka mostly wait for their group
  std::unique_ptr<ConsumePlace> shared_;
  std::vector<Envelope> events_;
  int points_ = 0;
  int died_ = 0;

 private:
  std::atomic<int> names_{0};
  std::mutex mutex_;
};

TEST_P(ConsumerCrash, AtEveryLabelledStepAppliesEachEventOnce) {
  const std::vector<std::string> steps = {"polled",   "attached", "opened",         "handled",
                                          "finished", "applied",  "before_handover"};
  std::vector<Chain> chains;
  for (const char* step : {"before_commit", "committed"}) {
    Point point = AtStep(step, 1);
    point.stays = true;
    chains.push_back({point, AtStep("polled", 2), AtStep("before_handover", 1)});
  }
  // The third of a row finds two deaths and handles events one by one, each noted beforehand.
  for (std::size_t i = 0; i < steps.size(); ++i) {
    chains.push_back({AtStep(steps[i], 1), AtStep("opened", 2), AtStep(steps[(i + 3) % steps.size()], 1)});
    if (is_kafka()) continue;
    const int hit = steps[i] == "attached" || steps[i] == "before_handover" ? 1 : 3;
    chains.push_back({AtStep("finished", 2), AtStep("handled", 3), AtStep(steps[i], hit)});
  }
  Sweep(chains);
  EXPECT_GE(died_, points_ * 8 / 10) << "too many steps were never reached";
}

// Enough work that positions are told to the broker while events are still under way.
TEST_P(ConsumerCrash, BetweenTwoCommitsUnderLoadTellsTheBrokerNothingTooEarly) {
  ConsumePlace place(GetParam().place);
  const std::vector<Envelope> events = ChangesOf(kKeys, 750);
  place.Publish(events);
  const std::string consumer = place.topic() + "-load";
  for (const Point& point : {AtStep("applied", 4'000), AtStep("committed", 2)}) {
    std::vector<std::string> command = {SEALANE_TEST_RELAY_VICTIM};
    std::vector<std::string> options = Options(false);
    *(std::find(options.begin(), options.end(), "--batch") + 1) = "1";
    const std::vector<std::string> arguments = place.Arguments(consumer, options);
    command.insert(command.end(), arguments.begin(), arguments.end());
    const CommandResult victim = ChildProcess(command, {{point.variable, point.value}}, place.folder()).Finish();
    EXPECT_TRUE(victim.code == kKilled || victim.code == 0) << victim.code << " " << victim.err;
    if (victim.code == kKilled) ++died_;
    EXPECT_EQ(place.AheadComplaint(consumer), "") << point.value;
  }
  EXPECT_GE(died_, 1) << "it was done before it could die";
  const CommandResult heir = place.CatchUp(consumer, {"--mode", GetParam().mode, "--member", "m1"});
  EXPECT_EQ(heir.code, 0) << heir.err;
  EXPECT_EQ(place.Complaint(consumer, events, record()), "");
}

TEST_P(ConsumerCrash, AtCountedSystemCallsAppliesEachEventOnce) {
  const long calls = CountCalls();
  ASSERT_GT(calls, 50);
  const long wanted = is_kafka() ? 6 : 20;
  std::vector<Chain> chains;
  for (long i = 0; i < wanted; ++i) {
    Chain chain;
    for (long k = 0; k < 3; ++k) {
      // Early ones last: they find less to do.
      const long call = 1 + (i + (2 - k) * wanted) * calls / (3 * wanted);
      chain.push_back({"SEALANE_TEST_KILL_CALL", fmt::format("{}{}", call, (i + k) % 2 == 0 ? "" : "+")});
    }
    chains.push_back(chain);
  }
  Sweep(chains);
  EXPECT_EQ(died_, points_);
}

TEST_P(ConsumerCrash, WhileItTriesAgainAppliesEachEventOnce) {
  std::unique_ptr<ConsumePlace> own;
  std::vector<Envelope> events = events_;
  if (!is_kafka()) {
    own = std::make_unique<ConsumePlace>(GetParam().place);
    events = ChangesOf(kKeys, kVersions);
    own->Publish(events);
  }
  const ConsumePlace& place = own ? *own : *shared_;
  const std::vector<std::string> steps = {"retry_opened", "retry_handled", "retry_finished"};
  HoldBackEffects(place);
  for (const std::string& step : steps) {
    const CommandResult run =
        place.CatchUp(place.topic() + "-" + step, {"--mode", GetParam().mode, "--member", "m1"});
    ASSERT_EQ(run.code, 0) << run.err;
  }
  place.Execute(is_kafka() ? "DROP FUNCTION refuse() CASCADE" : "DROP TRIGGER refuse");
  for (const std::string& step : steps) {
    const std::string consumer = place.topic() + "-" + step;
    ASSERT_EQ(place.Number(fmt::format("SELECT count(*) FROM {} WHERE consumer = '{}' AND state <> 'DEAD'",
                                       place.Table("inbox_parked"), consumer)),
              kKeys * kVersions);
    // The waits are over: those of failed attempts, and the patience with one that died in the middle.
    const std::string due =
        fmt::format("UPDATE {} SET next_attempt_at = NULL, claimed_until = NULL WHERE consumer = '{}'",
                    place.Table("inbox_parked"), consumer);
    for (const int hit : {1, 2, 5}) {
      place.Execute(due);
      Point point = AtStep(step, hit);
      point.stays = true;
      const CommandResult victim = RunVictim(place, consumer, point);
      EXPECT_EQ(victim.code, kKilled) << step << ": " << victim.err;
      EXPECT_EQ(place.AheadComplaint(consumer), "") << step << " " << hit;
    }
    place.Execute(due);
    const auto heir = place.Start(step, consumer, {"--mode", GetParam().mode, "--member", "m1"});
    EXPECT_TRUE(Eventually([&] { return place.CountEffects(consumer) >= kKeys * kVersions; }))
        << step << ": " << place.CountEffects(consumer) << "\n"
        << place.ReadLog(step);
    heir->Signal(SIGTERM);
    EXPECT_EQ(heir->Finish().code, 0) << place.ReadLog(step);
    EXPECT_EQ(place.Complaint(consumer, events, record()), "") << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Setups, ConsumerCrash,
                         ::testing::Values(Setup{"sqlite_journal", "record"}, Setup{"sqlite_journal", "offsets"},
                                           Setup{"postgres_kafka", "record"}, Setup{"postgres_kafka", "offsets"}),
                         [](const auto& setup) { return setup.param.place + "_" + setup.param.mode; });

}  // namespace
}  // namespace sealane::testing
