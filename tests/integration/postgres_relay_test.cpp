// Protects a relay on PostgreSQL against what the functions of the outbox never let in: rows that somebody wrote or
// changed past them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/memory_broker.hpp"
#include "postgres/postgres_store.hpp"
#include "relay/route_relay.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using testing::PgSession;
using testing::ScratchDatabase;

class PostgresRelay : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    RouteOptions options;
    options.owner = "relay-1";
    options.profile = WireProfile::kRaw;
    options.settle_interval = std::chrono::milliseconds{0};
    relay_ = std::make_unique<RouteRelay>(
        options, [this] { return postgres::OpenOutboxLog({.url = database_.url()}, "main", "relay-1"); },
        [this]() -> Result<std::unique_ptr<Publisher>> { return broker_.Connect(); }, clock_, random_);
  }

  static void Emit(PgSession& session, const std::string& key, const std::string& value) {
    session.Exec("select sealane.emit('t', '" + key + "', 'T', '" + value + "'::text)");
  }
  /// Lets time pass for the relay and steps it, often enough for a look at what is set aside.
  void Step() {
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(relay_->RunOnce().has_value());
      clock_.Advance(std::chrono::milliseconds{50});
    }
  }
  std::vector<std::string> Published() const {
    std::vector<std::string> values;
    for (const MemoryRecord& record : broker_.records()) values.push_back(record.value);
    return values;
  }

  ScratchDatabase database_{testing::kMigrated};
  MemoryBroker broker_;
  ManualClock clock_;
  SeededRandom random_{1};
  std::unique_ptr<RouteRelay> relay_;
};

INSTANTIATE_TEST_SUITE_P(Headers, PostgresRelay,
                         ::testing::Values("[1]", R"({"a": 1})", R"({"a": {"b": "c"}})", R"("text")"),
                         [](const auto& test) { return "Case" + std::to_string(test.index); });

TEST_P(PostgresRelay, HeadersThatAreNoTextsStopTheirKeyAlone) {
  PgSession session(database_.url());
  session.Exec("set session_replication_role = replica");  // past the trigger that keeps rows as they are
  const std::string failures = "select state || ' ' || error_code from sealane.parked where error_code is not null";
  for (const char* value : {"1", "2", "3"}) Emit(session, "a", value);
  Emit(session, "b", "4");
  session.Exec("update sealane.outbox set headers = '" + GetParam() + "' where payload = '2'");
  Step();
  EXPECT_THAT(Published(), ::testing::UnorderedElementsAre("1", "4"));
  EXPECT_EQ(session.Exec(failures), "DEAD bad_headers");

  const auto dead = ValueOrThrow(postgres::OpenDeadLetters({.url = database_.url()}));
  const auto id = EventId::Parse(session.Exec("select event_id from sealane.outbox where payload = '2'"));
  ASSERT_EQ(ValueOrThrow(dead->Retry(*id, std::nullopt, {.actor = "ops", .reason = "let us see"})), 1);
  Step();
  EXPECT_EQ(session.Exec(failures), "DEAD bad_headers");
  EXPECT_THAT(Published(), ::testing::UnorderedElementsAre("1", "4"));

  session.Exec("update sealane.outbox set headers = '{}' where payload = '2'");
  ASSERT_EQ(ValueOrThrow(dead->Retry(*id, std::nullopt, {.actor = "ops", .reason = "repaired"})), 1);
  Step();
  EXPECT_THAT(broker_.ValuesOf("t", "a"), ::testing::ElementsAre("1", "2", "3"));
}

}  // namespace
}  // namespace sealane
