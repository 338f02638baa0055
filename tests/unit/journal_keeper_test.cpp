// Protects the disk from a journal that grows without bound, and the messages from a keeper that is too eager.

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/journal_keepers.hpp"
#include "journal/journal_publisher.hpp"
#include "journal/journal_reader.hpp"
#include "support/courier.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using namespace std::chrono_literals;
using testing::Courier;
using testing::SqliteFile;

RouteSetup RouteTo(const std::string& broker_url, const std::string& retention = "7d") {
  RouteSetup setup{};
  setup.broker.At(Key::kBrokerUrl).value = broker_url;
  setup.broker.At(Key::kBrokerJournalRetention).value = retention;
  return setup;
}

/// Somebody whose calendar is a year behind. Time passes for him all the same: a publisher that finds the keeper in
/// its way waits.
class YearBehind final : public Clock {
 public:
  Timestamp Now() const override { return SystemClock::Instance().Now() - 24h * 365; }
  BootTime SinceBoot() const override { return SystemClock::Instance().SinceBoot(); }
  bool SleepFor(std::chrono::nanoseconds duration, std::stop_token stop) override {
    return SystemClock::Instance().SleepFor(duration, std::move(stop));
  }
};

class JournalKeeperTest : public ::testing::Test {
 protected:
  JournalOptions journal() const { return {.path = file_.folder() + "/journal.db", .partitions = 1}; }
  void Publish(const std::string& value, Clock& clock) const {
    const auto publisher = ValueOrThrow(OpenJournalPublisher(journal(), clock));
    Courier courier(*publisher);
    courier.Send("orders", "k", value);
    courier.CollectAll();
  }
  std::vector<std::string> Values() const {
    const auto reader = ValueOrThrow(JournalReader::Open(journal(), SystemClock::Instance()));
    std::vector<std::string> values;
    for (const JournalMessage& message : ValueOrThrow(reader->Read("orders", 0, 0))) values.push_back(message.value);
    return values;
  }

  SqliteFile file_;
  YearBehind long_ago_;
};

TEST_F(JournalKeeperTest, RemovesWhatIsTooOldAndNothingElse) {
  Publish("old", long_ago_);
  Publish("new", SystemClock::Instance());
  const JournalKeeper keeper({.journal = journal(), .retention = 24h}, SystemClock::Instance());
  keeper.RunOnce();
  EXPECT_EQ(Values(), std::vector<std::string>{"new"});
}

TEST_F(JournalKeeperTest, TriesAgainAfterAFailureAndEndsWhenAskedTo) {
  const JournalKeeper keeper({.journal = journal(), .retention = 24h, .first = 1ms, .interval = 1ms},
                             SystemClock::Instance());
  std::jthread thread([&](std::stop_token stop) { keeper.Run(std::move(stop)); });
  SystemClock::Instance().SleepFor(20ms, {});  // there is no journal yet
  Publish("old", long_ago_);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!Values().empty() && std::chrono::steady_clock::now() < deadline) {
    SystemClock::Instance().SleepFor(2ms, {});
  }
  EXPECT_TRUE(Values().empty());
}

TEST(JournalsOf, NamesEachFileOnceWithTheLongestTime) {
  const auto journals =
      JournalsOf({RouteTo("journal:/data/a.db", "1h"), RouteTo("journal:/data/./a.db", "2h"), RouteTo("null:"),
                  RouteTo("journal:/data/b.db"), RouteTo("journal:/data/c.db", "0"), RouteTo("journal:/data/c.db")});
  ASSERT_EQ(journals.size(), 2U) << "what is kept for ever needs no keeper";
  EXPECT_EQ(journals.at("/data/a.db").retention, 2h);
  EXPECT_EQ(journals.at("/data/b.db").retention, 24h * 7);
  EXPECT_EQ(journals.at("/data/b.db").journal.path, "/data/b.db");
}

TEST(JournalKeepers, FollowTheRoutes) {
  JournalKeepers keepers(SystemClock::Instance());
  keepers.KeepFor({RouteTo("journal:/data/a.db"), RouteTo("journal:/data/a.db"), RouteTo("journal:/data/b.db")});
  EXPECT_EQ(keepers.count(), 2U);
  keepers.KeepFor({RouteTo("journal:/data/a.db", "1h")});
  EXPECT_EQ(keepers.count(), 1U);
  keepers.KeepFor({});
  EXPECT_EQ(keepers.count(), 0U);
}

}  // namespace
}  // namespace sealane::cli
