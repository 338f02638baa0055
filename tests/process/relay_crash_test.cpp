// Protects what a relay leaves behind when it dies: killed at every labelled step, and at counted system calls from
// its first to its last. A second relay then finishes the work. Every event must have arrived, first deliveries of a
// key in order, nothing invented; an event may arrive twice only where a relay died.

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "journal/journal_reader.hpp"
#include "support/child_process.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

constexpr int kEvents = 40;
constexpr int kKeys = 8;
constexpr int kKilled = 128 + SIGKILL;
constexpr std::size_t kAtOnce = 6;  // cycles mostly wait for a lease to run out

constexpr std::array kSteps = {"keeper.beat",        "keeper.claimed",  "relay.opened",    "relay.looked",
                               "relay.read",         "relay.submitted", "relay.delivered", "relay.before_settle",
                               "relay.after_settle", "relay.drained"};

using Delivered = std::vector<std::pair<std::string, int>>;  // key and number, in the order of arrival

struct Setup {
  std::string store;   // `postgres` or `sqlite`
  std::string broker;  // `kafka` or `journal`
};

struct Tally {
  std::atomic<int> cycles{0};
  std::atomic<int> died{0};
  std::atomic<int> repeated{0};
};

std::string Complaint(const Delivered& delivered) {
  std::map<std::string, int> next;
  for (const auto& [key, number] : delivered) {
    int& due = next[key];
    if (number > due) return fmt::format("{} {} came before {}", key, number, due);
    if (number == due) ++due;
  }
  for (int k = 0; k < kKeys; ++k) {
    const int had = next[fmt::format("k{}", k)];
    if (had != kEvents / kKeys) return fmt::format("k{} has {} events", k, had);
  }
  return {};
}

class RelayCrash : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (GetParam().broker == "kafka") SEALANE_REQUIRE_KAFKA();
    if (GetParam().store == "postgres") {
      database_ = std::make_unique<ScratchDatabase>();
      Migrate(database_->url());
      PgSession session(database_->url());
      for (int i = 0; i < kEvents; ++i) {
        session.Exec(fmt::format("select sealane.emit('orders', 'k{}', 'T', '{}'::text)", i % kKeys, i / kKeys));
      }
    } else {
      const CommandResult up = RunSealane({"migrate", "up", "--store", "sqlite:" + Template()});
      ASSERT_EQ(up.code, 0) << up.err;
      std::string lines;
      for (int i = 0; i < kEvents; ++i) {
        lines += fmt::format("{{\"topic\":\"orders\",\"key\":\"k{}\",\"type\":\"T\",\"payload\":{}}}\n", i % kKeys,
                             i / kKeys);
      }
      const CommandResult emitted = RunSealane({"emit", "--jsonl", "-", "--store", "sqlite:" + Template()}, lines);
      ASSERT_EQ(emitted.code, 0) << emitted.err;
    }
  }

  /// One death and what comes after it: in a route, a journal or a topic of its own.
  void Cycle(const std::map<std::string, std::string>& variables) {
    const std::string name = fmt::format("c{}", ++names_);
    const std::string folder = place_.folder() + "/" + name;
    std::filesystem::create_directory(folder);
    const std::string topic = GetParam().broker == "kafka" ? FreshTopic(KafkaUrl(), 2) : name;
    std::string store = database_ ? database_->url() : "sqlite:" + folder + "/shop.db";
    if (!database_) std::filesystem::copy_file(Template(), folder + "/shop.db");
    const std::string broker = GetParam().broker == "kafka" ? KafkaUrl() : "journal:" + folder + "/journal.db";
    std::ofstream(folder + "/sealane.toml") << fmt::format(
        "[store]\nurl = \"{}\"\n[broker]\nurl = \"{}\"\njournal.partitions = 2\n[route.{}]\nprofile = \"raw\"\n"
        "topic = \"{}\"\n[relay]\nlease = \"400ms\"\nsettle_interval = \"5ms\"\nlisten = \"off\"\n[log]\n"
        "level = \"error\"\n",
        store, broker, name, topic);
    const std::vector<std::string> arguments = {
        "relay", "--config", folder + "/sealane.toml", "--until", "drained", "--timeout", "60s"};
    std::vector<std::string> victim = {SEALANE_TEST_RELAY_VICTIM};
    victim.insert(victim.end(), arguments.begin(), arguments.end());
    const CommandResult first = ChildProcess(victim, variables, folder).Finish();
    ++tally_.cycles;
    if (first.code == kKilled) ++tally_.died;
    const CommandResult heir = RunSealane(arguments);

    const Delivered delivered = Read(topic, folder);
    const std::string where = fmt::format("{} {}", variables.begin()->first, variables.begin()->second);
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(first.code == kKilled || first.code == 0) << where << ": " << first.code << " " << first.err;
    EXPECT_EQ(heir.code, 0) << where << ": " << heir.err;
    EXPECT_EQ(Complaint(delivered), "") << where;
    const int repeated = static_cast<int>(delivered.size()) - kEvents;
    if (first.code == 0) {
      EXPECT_EQ(repeated, 0) << where << ": nobody died";
    }
    tally_.repeated += std::max(repeated, 0);
  }

  void Sweep(const std::vector<std::map<std::string, std::string>>& points) {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (std::size_t w = 0; w < kAtOnce; ++w) {
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < points.size(); i = next++) Cycle(points[i]);
      });
    }
    for (std::thread& worker : workers) worker.join();
    std::cout << fmt::format("{} to {}: {} cycles, {} died, {} events repeated\n", GetParam().store,
                             GetParam().broker, tally_.cycles.load(), tally_.died.load(), tally_.repeated.load());
  }

  /// How many system calls an undisturbed run makes.
  long CountCalls() {
    const std::string folder = place_.folder() + "/count";
    std::filesystem::create_directory(folder);
    std::string store = database_ ? database_->url() : "sqlite:" + folder + "/shop.db";
    if (!database_) std::filesystem::copy_file(Template(), folder + "/shop.db");
    const std::string broker = GetParam().broker == "kafka" ? KafkaUrl() : "journal:" + folder + "/journal.db";
    std::ofstream(folder + "/sealane.toml") << fmt::format(
        "[store]\nurl = \"{}\"\n[broker]\nurl = \"{}\"\n[route.count]\ntopic = \"{}\"\n[relay]\nlease = \"400ms\"\n"
        "listen = \"off\"\n[log]\nlevel = \"error\"\n",
        store, broker, GetParam().broker == "kafka" ? FreshTopic(KafkaUrl(), 2) : "count");
    const CommandResult run = ChildProcess({SEALANE_TEST_RELAY_VICTIM, "relay", "--config", folder + "/sealane.toml",
                                            "--until", "drained", "--timeout", "60s"},
                                           {{"SEALANE_TEST_KILL_CALL", "0"}}, folder)
                                  .Finish();
    EXPECT_EQ(run.code, 0) << run.err;
    const std::size_t line = run.err.find_last_of('\n', run.err.size() - 2);
    return std::atol(run.err.c_str() + (line == std::string::npos ? 0 : line + 1));
  }

  Tally tally_;

 private:
  std::string Template() const { return place_.folder() + "/template.db"; }

  static Delivered Read(const std::string& topic, const std::string& folder) {
    Delivered delivered;
    if (GetParam().broker == "kafka") {
      for (const KafkaRecord& record : ReadTopic(KafkaUrl(), topic, CountRecords(KafkaUrl(), topic))) {
        delivered.emplace_back(record.key, std::stoi(record.value));
      }
      return delivered;
    }
    const auto reader = JournalReader::Open({.path = folder + "/journal.db"}, SystemClock::Instance());
    if (!reader) return delivered;
    for (std::int32_t partition = 0; partition < 2; ++partition) {
      for (const JournalMessage& message : ValueOrThrow((*reader)->Read(topic, partition, 0))) {
        delivered.emplace_back(message.key, std::stoi(message.value));
      }
    }
    return delivered;
  }

  std::unique_ptr<ScratchDatabase> database_;
  SqliteFile place_;  // for a folder
  std::atomic<int> names_{0};
  std::mutex mutex_;
};

TEST_P(RelayCrash, AtEveryLabelledStepLosesAndInvertsNothing) {
  std::vector<std::map<std::string, std::string>> points;
  for (const char* step : kSteps) {
    for (int hit = 1; hit <= 2; ++hit) points.push_back({{"SEALANE_TEST_CRASH_AT", fmt::format("{}:{}", step, hit)}});
  }
  Sweep(points);
  EXPECT_GE(tally_.died, static_cast<int>(kSteps.size())) << "some steps were never reached";
}

TEST_P(RelayCrash, AtCountedSystemCallsLosesAndInvertsNothing) {
  const long calls = CountCalls();
  ASSERT_GT(calls, 50);
  const long wanted = GetParam().broker == "kafka" ? 60 : 100;
  std::vector<std::map<std::string, std::string>> points;
  for (long i = 0; i < wanted; ++i) {
    points.push_back(
        {{"SEALANE_TEST_KILL_CALL", fmt::format("{}{}", 1 + i * calls / wanted, i % 2 == 0 ? "" : "+")}});
  }
  Sweep(points);
  // The last points may lie behind the end of a run that needed fewer calls.
  EXPECT_GE(tally_.died, static_cast<int>(wanted * 7 / 10));
}

INSTANTIATE_TEST_SUITE_P(Setups, RelayCrash,
                         ::testing::Values(Setup{"postgres", "kafka"}, Setup{"postgres", "journal"},
                                           Setup{"sqlite", "journal"}),
                         [](const auto& setup) { return setup.param.store + "_" + setup.param.broker; });

}  // namespace
}  // namespace sealane::testing
