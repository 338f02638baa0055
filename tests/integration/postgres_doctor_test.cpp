// Protects the facts that the doctor reads from a real PostgreSQL: each is changed, and the next look must show it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/doctor.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane::postgres {
namespace {

using sealane::testing::PgSession;
using sealane::testing::ScratchDatabase;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::IsEmpty;

class PostgresDoctor : public ::testing::Test {
 protected:
  DoctorFacts Look(const std::string& url, seconds long_transaction = seconds{300}) const {
    auto facts = Examine({.url = url}, long_transaction, SystemClock::Instance());
    EXPECT_TRUE(facts) << facts.error().ToString();
    return facts ? *std::move(facts) : DoctorFacts();
  }
  DoctorFacts Look() const { return Look(database_.url()); }

  ScratchDatabase database_{sealane::testing::kMigrated};
  PgSession admin_{database_.url()};
};

TEST_F(PostgresDoctor, FindsAFreshOutboxHealthy) {
  const DoctorFacts facts = Look();
  EXPECT_FALSE(facts.server_version.empty());
  EXPECT_FALSE(facts.in_recovery);
  EXPECT_LT(std::chrono::abs(facts.clock_difference), seconds{1}) << "the same machine";
  EXPECT_EQ(facts.sequence_cache, 1);
  EXPECT_TRUE(facts.xid_before_seq);
  EXPECT_GE(facts.days_ahead, 13);
  EXPECT_FALSE(facts.default_partition_used);
  EXPECT_THAT(facts.missing_rights, IsEmpty());
  EXPECT_EQ(facts.long_transactions, 0);
  EXPECT_EQ(facts.prepared_transactions, 0);
  EXPECT_GE(facts.server_number, 130'000);
  EXPECT_TRUE(facts.autovacuum);
  EXPECT_GT(facts.connections, 0);
  EXPECT_GT(facts.connections_max, facts.connections);
  EXPECT_FALSE(facts.has_events);
  EXPECT_EQ(facts.live_relays, 0);
}

TEST_F(PostgresDoctor, SeesTheSettingsOfTheUsersSessions) {
  const DoctorFacts before = Look();
  admin_.Exec(fmt::format("ALTER DATABASE {} SET synchronous_commit = off", database_.name()));
  admin_.Exec(fmt::format("ALTER DATABASE {} SET idle_in_transaction_session_timeout = '7min'", database_.name()));
  const DoctorFacts facts = Look();
  EXPECT_FALSE(facts.synchronous_commit);
  EXPECT_EQ(facts.idle_timeout, std::chrono::minutes{7});
  EXPECT_NE(before.idle_timeout, facts.idle_timeout);
}

TEST_F(PostgresDoctor, SeesRelaysThatLive) {
  admin_.Exec("SELECT sealane.emit(topic => 'orders', key => 'o-1', type => 'T', payload => '{}')");
  EXPECT_TRUE(Look().has_events);
  EXPECT_EQ(Look().live_relays, 0);
  admin_.Exec(
      "INSERT INTO sealane.relay_member (route, owner, expires_at) VALUES ('main', 'alive', now() + interval '1 h'), "
      "('main', 'dead', now() - interval '1 h')");
  EXPECT_EQ(Look().live_relays, 1);
}

TEST_F(PostgresDoctor, SeesChangesThatBreakTheOrder) {
  admin_.Exec("ALTER SEQUENCE sealane.outbox_seq_seq CACHE 32");
  EXPECT_EQ(Look().sequence_cache, 32);
  admin_.Exec("ALTER TABLE sealane.outbox ALTER seq SET DEFAULT nextval('sealane.outbox_seq_seq')");
  EXPECT_FALSE(Look().xid_before_seq);
  // What the doctor advises.
  admin_.Exec(
      "ALTER TABLE sealane.outbox ALTER seq SET DEFAULT CASE WHEN pg_current_xact_id() <> '0'::xid8 THEN "
      "nextval('sealane.outbox_seq_seq') END");
  EXPECT_TRUE(Look().xid_before_seq);
  admin_.Exec("ALTER TABLE sealane.outbox ALTER seq DROP DEFAULT");
  EXPECT_FALSE(Look().xid_before_seq);
}

TEST_F(PostgresDoctor, CountsPartitionsAhead) {
  const int before = Look().days_ahead;
  const std::string last = admin_.Exec(
      "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'sealane.outbox'::regclass AND "
      "inhrelid::regclass::text LIKE '%outbox_p%'");
  admin_.Exec("DROP TABLE " + last);
  EXPECT_EQ(Look().days_ahead, before - 1);
}

TEST_F(PostgresDoctor, KnowsWhoMayRelay) {
  const std::string relay = database_.name() + "_doctor_relay";
  const std::string writer = database_.name() + "_doctor_writer";
  admin_.Exec(
      fmt::format("CREATE ROLE {0} LOGIN; GRANT sealane_relay TO {0}; CREATE ROLE {1} LOGIN; "
                  "GRANT sealane_writer TO {1}",
                  relay, writer));
  EXPECT_THAT(Look(database_.UrlAs(relay)).missing_rights, IsEmpty()) << "the role for relays has every right";
  EXPECT_FALSE(Look(database_.UrlAs(relay)).is_superuser);
  EXPECT_FALSE(Look(database_.UrlAs(relay)).owns_tables) << "and none too many";
  EXPECT_TRUE(Look().is_superuser);
  EXPECT_TRUE(Look().owns_tables);
  EXPECT_THAT(Look(database_.UrlAs(writer)).missing_rights, Contains("select on outbox"));
  EXPECT_THAT(Look(database_.UrlAs(writer)).missing_rights, Contains("update on lane_state"));
  for (const std::string& role : {relay, writer}) admin_.Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", role));
}

TEST_F(PostgresDoctor, NamesTheRoleForRelaysOfThisSchema) {
  EXPECT_EQ(Look().relay_role, "sealane_relay");
  const std::string prefix = "sealane_" + database_.name();
  admin_.Exec(fmt::format("SELECT sealane.move_roles('{}')", prefix));
  const std::string login = database_.name() + "_a_relay";
  admin_.Exec(fmt::format("CREATE ROLE {0} LOGIN; GRANT {1}_writer TO {0}", login, prefix));
  admin_.Exec(fmt::format("GRANT INSERT ON sealane.relay_member TO {}", login));
  EXPECT_EQ(Look().relay_role, prefix + "_relay");
  const DoctorFacts facts = Look(database_.UrlAs(login));
  EXPECT_THAT(facts.missing_rights, Contains("select on outbox"));
  EXPECT_EQ(facts.relay_role, prefix + "_relay") << "also for a user who may not read the settings";
  admin_.Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", login));
  for (const char* kind : {"writer", "relay", "consumer", "dispatcher", "operator"}) {
    admin_.Exec(fmt::format("DROP OWNED BY {0}_{1}; DROP ROLE {0}_{1}", prefix, kind));
  }
}

TEST_F(PostgresDoctor, SeesTransactionsThatStayOpen) {
  PgSession sleeper(database_.url());
  sleeper.Exec("BEGIN; SELECT pg_current_xact_id()");
  const DoctorFacts facts = Look(database_.url(), seconds{0});
  EXPECT_GE(facts.long_transactions, 1);
  EXPECT_FALSE(facts.longest_by.empty());
  EXPECT_EQ(Look().long_transactions, 0) << "not for long yet";
}

TEST_F(PostgresDoctor, NeedsTheTables) {
  const ScratchDatabase empty;
  EXPECT_FALSE(Examine({.url = empty.url()}, seconds{300}, SystemClock::Instance()));
}

}  // namespace
}  // namespace sealane::postgres
