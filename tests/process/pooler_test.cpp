// Protects what people run behind a shared pgbouncer in transaction mode: the same results as without it, and nothing
// of ours in the sessions that other applications get.

#include <atomic>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/child_process.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/private_pooler.hpp"
#include "support/running_demo.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::LeftInSessions;
using testing::PgSession;
using testing::PrivatePooler;
using testing::ScratchDatabase;

constexpr int kPoolSize = 8;

class PoolerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SEALANE_REQUIRE_POOLER();
    pooler_ = std::make_unique<PrivatePooler>(kPoolSize);
    url_ = pooler_->UrlOf(database_);
  }

  ScratchDatabase database_;
  std::unique_ptr<PrivatePooler> pooler_;
  std::string url_;
};

TEST_F(PoolerTest, TheDemoHoldsAndAnotherClientSeesNothingOfIt) {
  const testing::DemoPlace place;
  std::atomic<bool> over{false};
  std::string left;
  int looks = 0;
  std::thread other([&] {
    while (!over && left.empty()) {
      // Some of the sessions, so that the demo need not stand still.
      left = LeftInSessions(url_, 2);
      ++looks;
    }
  });
  const CommandResult result = place.Run({"--seconds", "3", "-o", "json", "--store", url_});
  over = true;
  other.join();
  EXPECT_EQ(left, "") << "during the demo";
  EXPECT_GT(looks, 1);
  EXPECT_EQ(LeftInSessions(url_, kPoolSize), "") << "after the demo";
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const json verdict = json::parse(result.out);
  EXPECT_EQ(verdict["holds"], true) << result.out;
  EXPECT_EQ(verdict["delivered"], verdict["committed"]);
}

/// The whole way of forty events through the commands, at one address of the store. Returns what they said.
std::string Journey(const std::string& store) {
  const testing::SqliteFile place;
  const std::string broker = "journal:" + place.folder() + "/journal.db";
  std::ofstream(place.folder() + "/effect.sql") << "insert into effect (key, payload) values (:key, :payload);\n";
  std::string said;
  const auto run = [&](std::vector<std::string> words, const std::string& input = {}) {
    words.insert(words.end(), {"--store", store});
    const CommandResult result = testing::RunSealane(words, input, {{"USER", "ann"}}, place.folder());
    EXPECT_EQ(result.code, 0) << words.front() << ": " << result.err;
    return result.out;
  };
  run({"migrate", "up"});
  for (int i = 0; i < 40; ++i) {
    run({"emit", "--topic", "orders", "--key", fmt::format("o-{}", i % 5), "--type", "OrderPlaced", "--payload",
         fmt::format("{{\"n\":{}}}", i)});
  }
  const json relay = json::parse(run({"relay", "--broker", broker, "--until", "drained", "-o", "json"}));
  said += fmt::format("published {}\n", relay.value("published", -1));
  const json consumed = json::parse(run({"consume", "--broker", broker, "--topic", "orders", "--consumer", "billing",
                                         "--sql", "effect.sql", "--until", "caught-up", "-o", "json"}));
  said += fmt::format("effects {}\n", consumed.value("effects", -1));
  run({"route", "pause", "main", "--reason", "a look"});
  run({"route", "resume", "main", "--reason", "a look"});
  said += run({"inbox", "status"}).empty() ? "no inbox\n" : "";
  said += fmt::format("messages {}\n", json::parse(run({"messages", "list", "-o", "json"}))["messages"].size());
  return said;
}

TEST_F(PoolerTest, EmitRelayConsumeAndOperatorsCommandsSayTheSameAsOnADirectConnection) {
  const ScratchDatabase direct;
  for (const std::string& store : {database_.url(), direct.url()}) {
    PgSession(store).Exec(
        "create table effect (id bigint primary key generated always as identity, key text, payload text)");
  }
  const std::string through_pooler = Journey(url_);
  EXPECT_EQ(through_pooler, Journey(direct.url()));
  EXPECT_EQ(LeftInSessions(url_, kPoolSize), "");
  const std::string effects =
      "select count(*) || ' ' || string_agg(key || payload, ' ' order by key, id) from effect";
  EXPECT_EQ(PgSession(database_.url()).Exec(effects), PgSession(direct.url()).Exec(effects));
  EXPECT_EQ(PgSession(database_.url()).Exec("select count(*) from effect"), "40");
}

}  // namespace
}  // namespace sealane
