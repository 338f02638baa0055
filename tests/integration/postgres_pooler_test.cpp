// Protects other applications behind the same pooler: with pgbouncer in transaction mode everything of ours has its
// settings, works, and leaves nothing in the sessions that it shares.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/memory_broker.hpp"
#include "postgres/connection.hpp"
#include "postgres/postgres_store.hpp"
#include "postgres/session_settings.hpp"
#include "relay/route_relay.hpp"
#include "support/inbox_fixture.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/private_pooler.hpp"

namespace sealane {
namespace {

using postgres::Connection;
using postgres::Execute;
using postgres::TextAt;
using testing::LeftInSessions;
using testing::PgSession;
using testing::PrivatePooler;
using testing::ScratchDatabase;

constexpr int kPoolSize = 3;

class PostgresPooler : public ::testing::Test {
 protected:
  void SetUp() override {
    SEALANE_REQUIRE_POOLER();
    pooler_ = std::make_unique<PrivatePooler>(kPoolSize);
    options_.url = pooler_->UrlOf(database_);
  }

  std::string Left() const { return LeftInSessions(options_.url, kPoolSize); }
  static std::string Ask(const Connection& connection, const std::string& sql) {
    const auto result = ValueOrThrow(Execute(connection.get(), sql));
    return std::string(TextAt(result, 0, 0));
  }

  ScratchDatabase database_{testing::kMigrated};
  std::unique_ptr<PrivatePooler> pooler_;
  postgres::Options options_;
};

TEST_F(PostgresPooler, ADirectConnectionIsToldFromAPooledOne) {
  EXPECT_FALSE(postgres::IsPooled(ValueOrThrow(Connection::Open({.url = database_.url()})).get()));
  EXPECT_TRUE(postgres::IsPooled(ValueOrThrow(Connection::Open(options_)).get()));
  // With one session only, two transactions after each other cannot tell.
  const PrivatePooler narrow(1);
  EXPECT_TRUE(postgres::IsPooled(ValueOrThrow(Connection::Open({.url = narrow.UrlOf(database_)})).get()));
  // Where it cannot be told, the configuration can say so.
  EXPECT_TRUE(postgres::IsPooled(ValueOrThrow(Connection::Open({.url = database_.url(), .pooled = true})).get()));
}

TEST_F(PostgresPooler, SettingsHoldInEveryTransactionAndEndWithIt) {
  PgSession(database_.url())
      .Exec("alter database " + database_.name() + " set TimeZone = 'Asia/Tokyo'; alter database " +
            database_.name() + " set statement_timeout = '7s'");
  options_.statement_timeout = std::chrono::seconds{12};
  const Connection connection = ValueOrThrow(Connection::Open(options_));
  EXPECT_EQ(Ask(connection, "show statement_timeout"), "12s");
  EXPECT_EQ(Ask(connection, "show TimeZone"), "UTC");
  ValueOrThrow(postgres::AddSettings(connection.get(),
                                     std::vector<postgres::Setting>{{"enable_seqscan", "off"}, {"jit", "on"}}));
  EXPECT_EQ(Ask(connection, "show enable_seqscan"), "off");
  EXPECT_EQ(Ask(connection, "show jit"), "on");

  ValueOrThrow(Execute(connection.get(), "BEGIN"));
  EXPECT_EQ(Ask(connection, "show enable_seqscan"), "off");
  EXPECT_EQ(Ask(connection, "show statement_timeout"), "12s");
  ValueOrThrow(Execute(connection.get(), "COMMIT"));

  EXPECT_EQ(Left(), "");
  PgSession other(options_.url);
  EXPECT_EQ(other.Exec("show statement_timeout"), "7s");
  EXPECT_EQ(other.Exec("show TimeZone"), "Asia/Tokyo");
  EXPECT_EQ(other.Exec("show enable_seqscan"), "on");
}

TEST_F(PostgresPooler, AStatementHasItsTimeout) {
  options_.statement_timeout = std::chrono::milliseconds{50};
  const Connection connection = ValueOrThrow(Connection::Open(options_));
  const auto slept = Execute(connection.get(), "select pg_sleep(60)");
  ASSERT_FALSE(slept.has_value());
  EXPECT_EQ(slept.error().code(), "statement_timeout");
  EXPECT_EQ(Ask(connection, "select 1"), "1");
}

TEST_F(PostgresPooler, FailuresOfAStatementAndOfItsCommitAreToldAndLeaveTheConnectionUsable) {
  const Connection connection = ValueOrThrow(Connection::Open(options_));
  const auto divided = Execute(connection.get(), "select 1 / 0");
  ASSERT_FALSE(divided.has_value());
  EXPECT_EQ(divided.error().native(), "SQLSTATE 22012");
  EXPECT_EQ(PQtransactionStatus(connection.get()), PQTRANS_IDLE);

  ValueOrThrow(Execute(connection.get(), "create table late (a int unique deferrable initially deferred)"));
  // The statement itself goes well; the server says no when it commits.
  const auto twice = Execute(connection.get(), "insert into late values (1), (1)");
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().native(), "SQLSTATE 23505");
  EXPECT_EQ(Ask(connection, "select count(*) from late"), "0");

  ValueOrThrow(Execute(connection.get(), "insert into late values (1)"));
  EXPECT_EQ(Ask(connection, "select count(*) from late"), "1");
  ValueOrThrow(Execute(connection.get(), "BEGIN"));
  EXPECT_FALSE(Execute(connection.get(), "select 1 / 0").has_value());
  EXPECT_EQ(PQtransactionStatus(connection.get()), PQTRANS_INERROR);
  ValueOrThrow(Execute(connection.get(), "ROLLBACK"));
  EXPECT_EQ(Left(), "");
}

TEST_F(PostgresPooler, ALostConnectionIsToldAsSuch) {
  const Connection connection = ValueOrThrow(Connection::Open(options_));
  pooler_.reset();
  const auto asked = Execute(connection.get(), "select 1");
  ASSERT_FALSE(asked.has_value());
  EXPECT_EQ(asked.error().kind(), ErrorKind::kUnavailable);
}

TEST_F(PostgresPooler, ARelayPublishesInOrderAndLeavesNothing) {
  MemoryBroker broker;
  ManualClock clock;
  SeededRandom random{1};
  RouteOptions route;
  route.owner = "relay-1";
  route.profile = WireProfile::kRaw;
  route.settle_interval = std::chrono::milliseconds{0};
  RouteRelay relay(
      route, [this] { return postgres::OpenOutboxLog(options_, "main", "relay-1"); },
      [&broker]() -> Result<std::unique_ptr<Publisher>> { return broker.Connect(); }, clock, random);
  PgSession writer(options_.url);
  const auto step = [&] {
    for (int i = 0; i < 30; ++i) {
      const auto ran = relay.RunOnce();
      ASSERT_TRUE(ran.has_value()) << ran.error().ToString();
      clock.Advance(std::chrono::milliseconds{50});
      // Other clients take the relay's sessions meanwhile.
      writer.Exec("select count(*) from sealane.outbox");
    }
  };
  const std::string before = Left();  // of this test's own writer
  // A few, more than one small window, and a backlog.
  int emitted = 0;
  for (const int count : {1, 3, 700, 12'000}) {
    writer.Exec("select count(sealane.emit('t', 'k' || n % 7, 'T', n::text)) from generate_series(" +
                std::to_string(emitted + 1) + ", " + std::to_string(emitted + count) + ") n");
    emitted += count;
    step();
    ASSERT_EQ(broker.records().size(), static_cast<std::size_t>(emitted));
    EXPECT_EQ(Left(), before);
  }
  int last = 0;
  for (const std::string& value : broker.ValuesOf("t", "k3")) {
    EXPECT_GT(std::stoi(value), last);
    last = std::stoi(value);
  }
  EXPECT_EQ(writer.Exec("select count(*) from sealane.outbox_status where status = 'PUBLISHED'"),
            std::to_string(emitted));
}

// The pooler reconnects to whatever server is there, and its clients notice nothing by themselves.
TEST_F(PostgresPooler, AConsumerNoticesThatAnotherServerAnswers) {
  PgSession admin(database_.url());
  const auto open = [&](InboxMode mode) {
    return ValueOrThrow(postgres::OpenInboxStore(options_, std::string(ToString(mode)), mode));
  };
  for (const InboxMode mode : {InboxMode::kRecord, InboxMode::kOffsets}) {
    const auto store = open(mode);
    const std::vector<Partition> one = {{"orders", 0}};
    const AttachedPartition owner = ValueOrThrow(store->Attach(one, 0)).at(0);
    ValueOrThrow(store->Place(owner, 5, "topic-1"));
    const testing::Delivery event = testing::DeliveryOf("a", 5);
    const std::vector<Arrival> arrivals = {event.arrival()};
    BatchRequest request{.arrivals = arrivals};
    if (mode == InboxMode::kOffsets) request.progress = {owner.partition, owner.epoch, 5, 6};
    ValueOrThrow(ValueOrThrow(store->Open(request))->Finish(std::vector{testing::Failed(1, {})}));
    EXPECT_TRUE(ValueOrThrow(store->OpenRetry("a", false, std::chrono::seconds{0})));

    const std::string known = admin.Exec("SELECT pg_get_functiondef('sealane.inbox_life()'::regprocedure)");
    admin.Exec("CREATE OR REPLACE FUNCTION sealane.inbox_life() RETURNS text LANGUAGE sql AS 'SELECT ''another'''");
    if (request.progress) request.progress = {owner.partition, owner.epoch, 6, 7};
    const auto opened = store->Open(request);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().kind(), ErrorKind::kUnavailable);
    EXPECT_EQ(opened.error().code(), "store_changed");
    EXPECT_EQ(store->OpenRetry("a", false, std::chrono::seconds{1}).error().code(), "store_changed");
    EXPECT_EQ(store->Attach(one, 0).error().code(), "store_changed");
    const std::vector<PositionSave> saves = {{owner.partition, owner.epoch, 5, 9}};
    EXPECT_EQ(store->SavePositions(saves).error().code(), "store_changed");
    EXPECT_EQ(store->Place(owner, 1, "").error().code(), "store_changed");
    EXPECT_EQ(store->Stop(owner, {"topic_replaced", ""}).error().code(), "store_changed");
    EXPECT_EQ(admin.Exec("SELECT max(attempts) FROM sealane.inbox_parked"), "2") << "none was counted";
    EXPECT_EQ(open(mode)->life(), "another");
    admin.Exec(known);
    EXPECT_EQ(open(mode)->life(), store->life());
    EXPECT_EQ(ValueOrThrow(store->Attach(one, 0)).at(0).epoch, owner.epoch + 1) << "none of the calls was run";
    admin.Exec("DELETE FROM sealane.inbox_parked");
  }
  EXPECT_EQ(Left(), "");
}

TEST_F(PostgresPooler, MigrationsRunThroughIt) {
  const auto migrator = ValueOrThrow(postgres::OpenMigrator({.url = options_.url, .schema = "second"}));
  EXPECT_FALSE(ValueOrThrow(migrator->Up()).empty());
  EXPECT_EQ(Left(), "");
}

}  // namespace
}  // namespace sealane
