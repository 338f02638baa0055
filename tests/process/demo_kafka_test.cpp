// Protects `sealane demo` on PostgreSQL and Kafka: the same verdict there, and however it ends nothing left of it in
// the database or at the broker.

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_demo.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::ChildProcess;
using testing::CommandResult;
using testing::DemoPlace;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::ScratchDatabase;

constexpr const char* kSchemas = "pg_namespace WHERE nspname LIKE 'sealane_demo%'";

/// Topics of one run of the demo; they begin with the name of its schema.
std::vector<std::string> TopicsOf(const std::string& run) {
  std::vector<std::string> names = testing::TopicNames(testing::KafkaUrl());
  std::erase_if(names, [&](const std::string& name) { return !name.starts_with(run); });
  std::sort(names.begin(), names.end());
  return names;
}

TEST(DemoKafka, EndsWithTheSameVerdictOnPostgresAndKafka) {
  SEALANE_REQUIRE_KAFKA();
  const ScratchDatabase database;
  const DemoPlace place;
  const CommandResult result =
      place.Run({"--seconds", "4", "--store", database.url(), "--broker", testing::KafkaUrl(), "-o", "json"});
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  const json verdict = json::parse(result.out);
  EXPECT_EQ(verdict["holds"], true);
  EXPECT_EQ(verdict["place"], "PostgreSQL and Kafka");
  EXPECT_EQ(verdict["delivered"], verdict["committed"]);
  EXPECT_THAT(verdict["findings"][1]["broken"].get<std::string>(),
              ::testing::HasSubstr("the broker could not be taken away"))
      << "what was not done is not claimed";
  EXPECT_EQ(testing::PgSession(database.url()).Count(kSchemas), 0);
  EXPECT_TRUE(place.IsEmpty());
  EXPECT_TRUE(place.Processes().empty());
}

TEST(DemoKafka, TurnsRedOnPostgresToo) {
  const ScratchDatabase database;
  const DemoPlace place;
  const CommandResult result =
      place.Run({"--seconds", "3", "--store", database.url(), "--plant", "effect-outside-transaction", "-o", "json"});
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  EXPECT_EQ(json::parse(result.out)["place"], "PostgreSQL and a journal");
}

TEST(DemoKafka, LeavesNothingAfterCtrlCAtAnyMoment) {
  SEALANE_REQUIRE_KAFKA();
  const ScratchDatabase database;
  testing::PgSession session(database.url());
  const DemoPlace place;
  std::string run;
  struct Moment {
    const char* name;
    std::function<bool()> has_come;
  };
  const std::vector<Moment> moments = {
      {"its schema", [] { return true; }},
      {"its topics", [&] { return TopicsOf(run).size() == 2; }},
      {"the start of its relay", [&] { return !place.Find("relay.log").empty(); }},
      {"its work",
       [&] {
         const auto topics = TopicsOf(run);
         return topics.size() == 2 && testing::CountRecords(testing::KafkaUrl(), topics[0]) > 0;
       }},
  };
  for (const Moment& moment : moments) {
    ChildProcess demo(
        {SEALANE_TEST_BINARY, "demo", "--seconds", "8", "--store", database.url(), "--broker", testing::KafkaUrl()},
        place.variables(), "/");
    ASSERT_TRUE(Eventually([&] {
      run = session.Exec(std::string("SELECT nspname FROM ") + kSchemas);
      return !run.empty();
    }));
    ASSERT_TRUE(Eventually(moment.has_come)) << moment.name;
    demo.Signal(SIGINT);
    const CommandResult result = demo.Finish();
    EXPECT_EQ(result.code, 130) << "after " << moment.name << ": " << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr("interrupted; there is no verdict")) << "after " << moment.name;
    EXPECT_EQ(session.Count(kSchemas), 0) << "after " << moment.name;
    // The broker has agreed to it; that it is done takes a moment.
    EXPECT_TRUE(Eventually([&] { return TopicsOf(run).empty(); })) << "after " << moment.name;
    EXPECT_TRUE(Eventually([&] { return place.Processes().empty(); })) << "after " << moment.name;
    EXPECT_TRUE(place.IsEmpty()) << "after " << moment.name;
  }
}

TEST(DemoKafka, SaysThatTheBrokerIsAway) {
  const ScratchDatabase database;
  const DemoPlace place;
  const CommandResult result =
      place.Run({"--store", database.url(), "--broker", "kafka://127.0.0.1:1", "-o", "json"});
  EXPECT_EQ(result.code, 11) << result.out << result.err;
  EXPECT_EQ(result.out, "");
  const json document = json::parse(result.err, nullptr, false);
  ASSERT_FALSE(document.is_discarded()) << result.err;
  EXPECT_EQ(document["error"]["code"], "broker_unreachable");
  EXPECT_THAT(document["error"]["message"].get<std::string>(), HasSubstr("127.0.0.1:1"));
  EXPECT_NE(document["error"]["hint"], "");
  EXPECT_EQ(testing::PgSession(database.url()).Count(kSchemas), 0);
  EXPECT_TRUE(place.IsEmpty());
  EXPECT_TRUE(place.Processes().empty());
}

TEST(DemoKafka, SaysThatTheServersAreAway) {
  const DemoPlace place;
  const CommandResult store = place.Run({"--store", "postgres://nobody@127.0.0.1:1/nothing", "-o", "json"});
  EXPECT_EQ(store.code, 10) << store.err;
  EXPECT_EQ(json::parse(store.err)["error"]["code"], "store_unreachable");
  EXPECT_TRUE(place.IsEmpty());
}

}  // namespace
}  // namespace sealane
