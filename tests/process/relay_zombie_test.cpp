// Protects what happens when a relay is not dead but looks so, and when it is asked to go: one that slept through its
// lease does nothing more under its old epoch and never moves a position back; one that is stopped under load leaves
// nothing to repeat. Real PostgreSQL, real Kafka, the real program.

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/child_process.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kKeys = 20;

bool Eventually(const std::function<bool()>& so, seconds limit = seconds{60}) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds{20});
  }
  return true;
}

class RelayZombie : public ::testing::Test {
 protected:
  void SetUp() override {
    SEALANE_REQUIRE_KAFKA();
    Migrate(database_.url());
    topic_ = FreshTopic(KafkaUrl(), 4);
  }

  std::unique_ptr<ChildProcess> StartRelay(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> command = {
        "/bin/sh",  "-c",      "exec \"$@\" 2>\"$LOG\"", "sh",       SEALANE_TEST_BINARY,
        "relay",    "--store", database_.url(),          "--broker", KafkaUrl(),
        "--listen", "off"};
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<ChildProcess>(command,
                                          std::map<std::string, std::string>{{"LOG", LogOf(name)},
                                                                             {"SEALANE_RELAY__OWNER", name},
                                                                             {"SEALANE_RELAY__LEASE", "1s"},
                                                                             {"SEALANE_ROUTE__MAIN__PROFILE", "raw"},
                                                                             {"SEALANE_ROUTE__MAIN__TOPIC", topic_}},
                                          place_.folder());
  }
  std::string LogOf(const std::string& name) const { return place_.folder() + "/" + name + ".log"; }
  bool SaysOneOf(const std::string& name, const std::vector<std::string>& texts) const {
    return Eventually([&] {
      std::ifstream file(LogOf(name));
      const std::string log(std::istreambuf_iterator<char>(file), {});
      return std::any_of(texts.begin(), texts.end(),
                         [&](const std::string& text) { return log.find(text) != std::string::npos; });
    });
  }

  /// Appends events 0, 1, 2, ... for every key until told to stop.
  void Write() {
    PgSession session(database_.url());
    for (int n = 0; !stop_; ++n) {
      session.Exec(
          fmt::format("select count(sealane.emit('orders', 'k' || g, 'T', '{}'::text)) from generate_series(0, {}) g",
                      n, kKeys - 1));
      written_ = n + 1;
    }
  }
  void StartWriting() {
    writer_ = std::thread([this] { Write(); });
  }
  void StopWriting() {
    stop_ = true;
    if (writer_.joinable()) writer_.join();
  }
  void TearDown() override { StopWriting(); }

  void DrainAll() const {
    const CommandResult drained = StartRelay("last", {"--until", "drained", "--timeout", "60s"})->Finish();
    EXPECT_EQ(drained.code, 0) << drained.err;
  }

  /// How many records came more than once. First deliveries must be complete and in order.
  std::size_t CountRepeated() {
    std::map<std::string, int> next;
    std::size_t records = 0;
    for (const KafkaRecord& record : ReadTopic(KafkaUrl(), topic_, CountRecords(KafkaUrl(), topic_), seconds{60})) {
      ++records;
      int& due = next[record.key];
      const int number = std::stoi(record.value);
      EXPECT_LE(number, due) << record.key << " was inverted, partition " << record.partition << " offset "
                             << record.offset;
      if (number == due) ++due;
    }
    for (int k = 0; k < kKeys; ++k) EXPECT_EQ(next[fmt::format("k{}", k)], written_) << "k" << k;
    return records - static_cast<std::size_t>(written_) * kKeys;
  }

  ScratchDatabase database_;
  SqliteFile place_;  // for a folder
  std::string topic_;
  std::atomic<bool> stop_{false};
  std::atomic<int> written_{0};
  std::thread writer_;
};

TEST_F(RelayZombie, DoesNothingMoreUnderItsOldEpoch) {
  const auto zombie = StartRelay("zombie");
  StartWriting();
  ASSERT_TRUE(Eventually([&] { return CountRecords(KafkaUrl(), topic_) > 500; }));

  PgSession session(database_.url());
  zombie->Signal(SIGSTOP);
  const int epochs = std::stoi(session.Exec("select sum(epoch) from sealane.lane_state"));
  const auto heir = StartRelay("heir");
  ASSERT_TRUE(Eventually([&] {
    return session.Exec("select count(*) from sealane.lane_state where owner like 'heir%'") == "64";
  })) << "the heir did not take over";
  EXPECT_GE(std::stoi(session.Exec("select sum(epoch) from sealane.lane_state")), epochs + 64);

  // From here on positions must not go back, whatever the zombie writes when it wakes up.
  const auto positions = [&] {
    return session.Query("select lane, cursor_high from sealane.lane_state order by lane");
  };
  auto before = positions();
  zombie->Signal(SIGCONT);
  const auto watch_until = std::chrono::steady_clock::now() + seconds{3};
  while (std::chrono::steady_clock::now() < watch_until) {
    const auto now = positions();
    for (std::size_t lane = 0; lane < now.size(); ++lane) {
      ASSERT_GE(std::stoll(now[lane][1]), std::stoll(before[lane][1])) << "lane " << lane << " went back";
    }
    before = now;
  }
  // By its own clock, or because the store refused what it wrote.
  EXPECT_TRUE(SaysOneOf("zombie", {"lease ran out", "lane taken by another relay"}));
  // It takes part again, under new epochs.
  EXPECT_TRUE(Eventually(
      [&] { return session.Exec("select count(*) from sealane.lane_state where owner like 'zombie%'") == "32"; }));
  StopWriting();
  zombie->Signal(SIGTERM);
  EXPECT_EQ(zombie->Finish().code, 0);
  heir->Signal(SIGTERM);
  EXPECT_EQ(heir->Finish().code, 0);
  DrainAll();
  std::cout << fmt::format("{} events, {} repeated\n", written_.load() * kKeys, CountRepeated());
}

TEST_F(RelayZombie, FiftyStopsUnderLoadRepeatNothing) {
  StartWriting();
  std::size_t before = 0;
  for (int i = 0; i < 50; ++i) {
    const auto relay = StartRelay(fmt::format("relay-{}", i));
    ASSERT_TRUE(Eventually([&] { return CountRecords(KafkaUrl(), topic_) > before; })) << "stop " << i;
    relay->Signal(SIGTERM);
    ASSERT_EQ(relay->Finish().code, 0) << "stop " << i;
    before = CountRecords(KafkaUrl(), topic_);
  }
  StopWriting();
  DrainAll();
  EXPECT_EQ(CountRepeated(), 0U);
  std::cout << fmt::format("{} events, 50 stops\n", written_.load() * kKeys);
}

}  // namespace
}  // namespace sealane::testing
