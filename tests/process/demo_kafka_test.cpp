// Protects `sealane demo` on PostgreSQL and Kafka: the same verdict there, and nothing left of it in the database.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_demo.hpp"

namespace sealane {
namespace {

using nlohmann::json;
using testing::CommandResult;
using testing::DemoPlace;
using testing::ScratchDatabase;

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
  EXPECT_EQ(testing::PgSession(database.url()).Count("pg_namespace WHERE nspname LIKE 'sealane_demo%'"), 0);
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

TEST(DemoKafka, SaysThatTheServersAreAway) {
  const DemoPlace place;
  const CommandResult store = place.Run({"--store", "postgres://nobody@127.0.0.1:1/nothing", "-o", "json"});
  EXPECT_EQ(store.code, 10) << store.err;
  EXPECT_EQ(json::parse(store.err)["error"]["code"], "store_unreachable");
  EXPECT_TRUE(place.IsEmpty());
}

}  // namespace
}  // namespace sealane
