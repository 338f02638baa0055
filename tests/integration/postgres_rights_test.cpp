// What a login with one role can do to others: nothing. Each test is an attack that worked once.

#include <array>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inbox/inbox_store.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "support/inbox_fixture.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Migrate;
using testing::PgSession;
using testing::ScratchDatabase;
using ::testing::StartsWith;

constexpr std::string_view kRefused = "42501";

class PostgresRights : public ::testing::Test {
 protected:
  PostgresRights() { Migrate(database_.url()); }
  ~PostgresRights() override {
    for (const std::string& login : logins_) admin_.Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", login));
  }

  /// A new login with one of Sealane's roles; returns its URL.
  std::string Login(const std::string& name, const std::string& role) {
    logins_.push_back(fmt::format("{}_{}", database_.name(), name));
    admin_.Exec(fmt::format("CREATE ROLE {0} LOGIN; GRANT sealane_{1} TO {0}", logins_.back(), role));
    return database_.UrlAs(logins_.back());
  }
  std::string NameOf(const std::string& name) const { return fmt::format("{}_{}", database_.name(), name); }
  std::string LastAudit() {
    return admin_.Exec(
        "SELECT concat_ws(' ', actor, action, target, reason, login, application_name) FROM sealane.audit"
        " ORDER BY id DESC LIMIT 1");
  }

  ScratchDatabase database_;
  PgSession admin_{database_.url()};
  std::vector<std::string> logins_;
};

// ---- operators

TEST_F(PostgresRights, OperatorChangesNoTableByHand) {
  PgSession op(Login("op", "operator"));
  for (const std::string_view attack :
       {"UPDATE sealane.route SET paused = true", "UPDATE sealane.parked SET state = 'DISCARDED'",
        "UPDATE sealane.inbox_parked SET state = 'SKIPPED'", "UPDATE sealane.inbox SET state = 'SKIPPED'",
        "UPDATE sealane.task SET state = 'PENDING'", "UPDATE sealane.inbox_version SET version = 1",
        "INSERT INTO sealane.inbox_version (consumer, tenant, aggregate_type, aggregate_id, version)"
        " VALUES ('c', '', 't', 'i', 1)",
        "INSERT INTO sealane.tenant_rule (route, tenant) VALUES ('main', 'acme')",
        "UPDATE sealane.tenant_rule SET paused = true", "DELETE FROM sealane.tenant_rule",
        "SELECT sealane.inbox_wake('c', ARRAY['k'])", "SELECT sealane.task_discard(gen_random_uuid())"}) {
    EXPECT_EQ(op.Try(fmt::format("BEGIN; {}; ROLLBACK", attack)), kRefused) << attack;
    op.Exec("ROLLBACK");
  }
}

TEST_F(PostgresRights, OperatorCannotForgeOrEraseTheAuditTrail) {
  PgSession op(Login("op", "operator"));
  EXPECT_EQ(op.Try("INSERT INTO sealane.audit (actor, action, target, reason) VALUES ('ann', 'x', 'y', 'z')"),
            kRefused);
  EXPECT_EQ(op.Try("UPDATE sealane.audit SET actor = 'ann'"), kRefused);
  EXPECT_EQ(op.Try("DELETE FROM sealane.audit"), kRefused);
  EXPECT_EQ(op.Try("SELECT sealane.note_audit('x', 'y', 'ann', 'z')"), kRefused);
}

TEST_F(PostgresRights, AuditRecordNamesTheLoginWhateverTheActorSays) {
  const std::string url = Login("op", "operator");
  const auto letters = ValueOrThrow(postgres::OpenDeadLetters({.url = url, .application_name = "console"}));
  ValueOrThrow(letters->SetPaused("main", true, {"the auditor", "lunch"}));
  EXPECT_EQ(LastAudit(), fmt::format("the auditor route.pause main lunch {} console", NameOf("op")));
  EXPECT_EQ(admin_.Exec("SELECT paused FROM sealane.route WHERE name = 'main'"), "t");

  const auto records = ValueOrThrow(letters->Audit(1));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].actor, "the auditor");
  EXPECT_EQ(records[0].login, NameOf("op"));
  EXPECT_EQ(records[0].application, "console");
  // The tests' server is reached through loopback or a local socket, which has no address.
  EXPECT_THAT(records[0].client, AnyOf(IsEmpty(), StartsWith("127."), StartsWith("::1")));
}

TEST_F(PostgresRights, ForgettingOnceKeysIsRecorded) {
  admin_.Exec("SELECT sealane.ensure_once('payment', 'p-1')");
  PgSession op(Login("op", "operator"));
  EXPECT_EQ(op.Exec("SELECT sealane.once_prune('payment', now() + interval '1 hour', 10)"), "1");
  EXPECT_THAT(LastAudit(), StartsWith(fmt::format("{} once.prune payment 1 keys claimed before ", NameOf("op"))));
}

// ---- consumers

/// Every function that works for a consumer with the owner's rights, as a call that names `victim` and nothing else.
std::vector<std::pair<std::string, std::string>> CallsFor(PgSession& admin, const std::string& victim) {
  std::vector<std::pair<std::string, std::string>> calls;
  for (const auto& row :
       admin.Query("SELECT p.proname, p.pronargs FROM pg_proc p WHERE p.pronamespace = 'sealane'::regnamespace"
                   " AND p.prosecdef AND p.proargnames[1] = 'consumer'"
                   " AND has_function_privilege('sealane_consumer', p.oid, 'EXECUTE') ORDER BY 1")) {
    std::string call = fmt::format("SELECT sealane.{}('{}'", row[0], victim);
    for (int i = 1; i < std::stoi(row[1]); ++i) call += ", NULL";
    calls.emplace_back(row[0], call + ")");
  }
  return calls;
}

TEST_F(PostgresRights, AnotherConsumerIsOutOfReach) {
  const std::string billing = Login("billing", "consumer");
  const auto store = ValueOrThrow(postgres::OpenInboxStore({.url = billing}, "billing", InboxMode::kRecord));
  const std::vector<testing::Delivery> deliveries = {testing::DeliveryOf("k", 1)};
  const std::vector<Arrival> arrivals = testing::ArrivalsOf(deliveries);
  const std::vector<Outcome> outcomes = {testing::Died(1)};
  ValueOrThrow(ValueOrThrow(store->Open({.arrivals = arrivals}))->Finish(outcomes));

  PgSession thief(Login("thief", "consumer"));
  // With values that would work: reads a message, loses receipts, takes a partition over.
  EXPECT_EQ(thief.Try("SELECT * FROM sealane.inbox_prune('billing', now(), 1000)"), kRefused);
  EXPECT_EQ(thief.Try("SELECT * FROM sealane.inbox_attach('billing', ARRAY['orders'], ARRAY[0])"), kRefused);
  EXPECT_EQ(thief.Try("SELECT message_value FROM sealane.inbox_hold('billing', 1, 1, false)"), kRefused);
  EXPECT_EQ(thief.Try("SELECT sealane.inbox_unpark('billing', 1)"), kRefused);
  const auto calls = CallsFor(admin_, "billing");
  EXPECT_GE(calls.size(), 25U);
  for (const auto& [name, call] : calls) EXPECT_EQ(thief.Try(call), kRefused) << name;

  const auto stolen =
      postgres::OpenInboxStore({.url = database_.UrlAs(NameOf("thief"))}, "billing", InboxMode::kRecord);
  ASSERT_FALSE(stolen);
  EXPECT_EQ(stolen.error().code(), "not_permitted");
  EXPECT_THAT(stolen.error().ToString(), HasSubstr("sealane inbox grant --consumer billing --role"));

  EXPECT_EQ(ValueOrThrow(store->Count()).dead, 1) << "the consumer itself goes on";
}

TEST_F(PostgresRights, ConsumerIsGrantedToMoreRolesAndTakenBack) {
  const std::string first = Login("first", "consumer");
  const std::string second = Login("second", "consumer");
  ValueOrThrow(postgres::OpenInboxStore({.url = first}, "billing", InboxMode::kRecord));
  admin_.Exec(fmt::format("CREATE ROLE {0}; GRANT {0} TO {1}", NameOf("team"), NameOf("second")));
  logins_.push_back(NameOf("team"));

  const auto grants = ValueOrThrow(postgres::OpenConsumerGrants({.url = Login("op", "operator")}));
  EXPECT_TRUE(ValueOrThrow(grants->Grant("billing", NameOf("team"), {"ann", "two teams"})));
  EXPECT_FALSE(ValueOrThrow(grants->Grant("billing", NameOf("team"), {"ann", "two teams"})));
  EXPECT_THAT(LastAudit(),
              HasSubstr(fmt::format("ann consumer.grant {} on billing two teams {}", NameOf("team"), NameOf("op"))));
  EXPECT_EQ(ValueOrThrow(grants->List("billing")).size(), 2U);
  const auto store = ValueOrThrow(postgres::OpenInboxStore({.url = second}, "billing", InboxMode::kRecord));
  ValueOrThrow(store->Count());

  EXPECT_TRUE(ValueOrThrow(grants->Revoke("billing", NameOf("team"), {"ann", "one team"})));
  EXPECT_EQ(store->Count().error().code(), "not_permitted") << "also in a session that is open";
  EXPECT_EQ(grants->Grant("billing", "no_such_role", {"ann", "x"}).error().code(), "unknown_role");
}

TEST_F(PostgresRights, GrantBeforeTheFirstUseKeepsANameFromOthers) {
  const std::string owner = Login("owner", "consumer");
  const std::string squatter = Login("squatter", "consumer");
  admin_.Exec(
      fmt::format("SELECT sealane.operator_grant_consumer('billing', '{}', 'ann', 'planned')", NameOf("owner")));
  EXPECT_FALSE(postgres::OpenInboxStore({.url = squatter}, "billing", InboxMode::kRecord));
  EXPECT_TRUE(postgres::OpenInboxStore({.url = owner}, "billing", InboxMode::kRecord));
}

TEST(PostgresRightsUpgrade, KeepsTheNamesOfRolesAndTheConsumersThatWork) {
  const ScratchDatabase database;
  const postgres::Options options{.url = database.url()};
  std::vector<Migration> before = postgres::EmbeddedMigrations();
  std::erase_if(before, [](const Migration& migration) { return migration.number > 5; });
  // That program named roles after the schema alone.
  postgres::Options old = options;
  old.role_prefix = "sealane";
  ASSERT_TRUE(postgres::PostgresMigrator(ValueOrThrow(postgres::Connection::Open(old)), old, before).Up());
  PgSession admin(database.url());
  const std::string user = database.name() + "_billing";
  admin.Exec(fmt::format("CREATE ROLE {0} LOGIN; GRANT sealane_consumer TO {0}", user));
  PgSession consumer(database.UrlAs(user));
  consumer.Exec("SELECT sealane.inbox_add_consumer('billing', 'record')");
  admin.Exec("INSERT INTO sealane.audit (actor, action, target, reason) VALUES ('ann', 'x', 'y', 'z')");

  ASSERT_TRUE(ValueOrThrow(postgres::OpenMigrator(options))->Up());
  EXPECT_EQ(consumer.Try("SELECT * FROM sealane.inbox_count('billing', 1)"), "") << "nothing stops at an upgrade";
  EXPECT_EQ(consumer.Try("SELECT * FROM sealane.inbox_attach('billing', ARRAY['orders'], ARRAY[0])"), "")
      << "also where a function was made anew";
  EXPECT_EQ(consumer.Try("SELECT sealane.inbox_move('billing', 'orders', 0, 5, NULL, NULL)"), "")
      << "as programs from before call it";
  EXPECT_EQ(admin.Exec("SELECT role FROM sealane.consumer_grant WHERE consumer = 'billing'"), "sealane_consumer");
  EXPECT_EQ(admin.Exec("SELECT value FROM sealane.setting WHERE name = 'role_prefix'"), "sealane");
  EXPECT_EQ(admin.Exec("SELECT count(*) FROM sealane.audit WHERE login IS NULL"), "1") << "not known for older ones";
  admin.Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", user));
}

TEST(PostgresRightsNames, AreOfOneDatabaseAndNeedNoQuotes) {
  EXPECT_EQ(postgres::DefaultRolePrefix("sealane", "shop"), "sealane_shop");
  const std::string dashed = postgres::DefaultRolePrefix("sealane", "shop-eu");
  const std::string spaced = postgres::DefaultRolePrefix("sealane", "shop eu");
  EXPECT_THAT(dashed, StartsWith("sealane_shop_eu_"));
  EXPECT_NE(dashed, spaced) << "two databases never share roles";
  const std::string longest = postgres::DefaultRolePrefix(std::string(40, 's'), std::string(63, 'd'));
  EXPECT_LE(longest.size() + std::string_view("_dispatcher").size(), 63U);
  EXPECT_NE(longest, postgres::DefaultRolePrefix(std::string(40, 's'), std::string(62, 'd')));
}

TEST_F(PostgresRights, ConsumersDoNotGrantThemselves) {
  PgSession thief(Login("thief", "consumer"));
  EXPECT_EQ(thief.Try("INSERT INTO sealane.consumer_grant VALUES ('billing', session_user)"), kRefused);
  EXPECT_EQ(thief.Try("SELECT sealane.operator_grant_consumer('billing', session_user::text, 'x', 'y')"), kRefused);
  EXPECT_EQ(thief.Try("SELECT sealane.claim_consumer('billing')"), kRefused);
}

// ---- writers

TEST_F(PostgresRights, WriterOfOneDatabaseIsNoneOfAnother) {
  const ScratchDatabase mine;
  const ScratchDatabase other;
  for (const ScratchDatabase* database : {&mine, &other}) {
    ASSERT_TRUE(ValueOrThrow(postgres::OpenMigrator({.url = database->url()}))->Up());
  }
  const std::string prefix =
      PgSession(mine.url())
          .Exec("SELECT coalesce((SELECT value FROM sealane.setting WHERE name = 'role_prefix'), 'sealane')");
  const std::string login = mine.name() + "_shop";
  admin_.Exec(fmt::format("CREATE ROLE {0} LOGIN; GRANT {1}_writer TO {0}", login, prefix));
  const std::string emit = "SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')";
  EXPECT_EQ(PgSession(mine.UrlAs(login)).Try(emit), "");
  EXPECT_EQ(PgSession(other.UrlAs(login)).Try(emit), kRefused);
  admin_.Exec("DROP ROLE " + login);
}

TEST_F(PostgresRights, RolesOfAnOlderSchemaAreMovedByItsOwner) {
  // As a schema from before: the names are those that all databases share.
  const std::string shop = Login("shop", "writer");
  const std::string prefix = "sealane_" + database_.name();
  const std::string emit = "SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')";
  EXPECT_EQ(PgSession(shop).Try(fmt::format("SELECT sealane.move_roles('{}')", prefix)), kRefused);
  EXPECT_THAT(admin_.Exec(fmt::format("SELECT sealane.move_roles('{}')", prefix)), HasSubstr(NameOf("shop")));
  EXPECT_EQ(PgSession(shop).Try(emit), kRefused);
  admin_.Exec(fmt::format("GRANT {}_writer TO {}", prefix, NameOf("shop")));
  EXPECT_EQ(PgSession(shop).Try(emit), "");
  const std::string rights =
      "SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a WHERE c.relnamespace = 'sealane'::regnamespace"
      " AND a.grantee::regrole::text LIKE 'sealane\\_{}'";
  EXPECT_EQ(admin_.Exec(fmt::format(fmt::runtime(rights), "operator")), "0");
  EXPECT_NE(admin_.Exec(fmt::format(fmt::runtime(rights), database_.name() + "\\_operator")), "0");
  // Later migrations use the names that the schema has now.
  const auto migrator = ValueOrThrow(postgres::OpenMigrator({.url = database_.url()}));
  EXPECT_THAT(migrator->Render({.number = 9999, .name = "x", .script = "grant to {writer}"}),
              HasSubstr(fmt::format("grant to \"{}_writer\"", prefix)));
}

/// An append as a writer can call it, with one value that is not what the event has.
struct Append {
  std::string lane = "sealane.lane_hash('k')";
  std::string topic = "'t'";
  std::string key = "'k'";
  std::string type = "'T'";
  std::string tenant = "''";
  std::string content_type = "'text/plain'";
  std::string hash = "sha256('x')";
  std::string correlation_id = "null";

  std::string One() const {
    return fmt::format(
        "SELECT sealane.append_one(gen_random_uuid(), {}, {}, 'event', {}, {}, {}, 1, null, null, null, {}, null, "
        "null,"
        " null, null, null, {}, '{{}}', now(), null, 'x', {})",
        lane, tenant, topic, key, type, correlation_id, content_type, hash);
  }
  std::string Batch() const {
    return fmt::format(
        "SELECT * FROM sealane.append_batch(ARRAY[gen_random_uuid()], ARRAY[{}], ARRAY[{}], ARRAY['event'], "
        "ARRAY[{}],"
        " ARRAY[{}], ARRAY[{}], ARRAY[1], null, null, null, ARRAY[{}]::text[], null, null, null, null, null, "
        "ARRAY[{}],"
        " ARRAY['{{}}']::json[], ARRAY[now()], null, ARRAY['x']::bytea[], ARRAY[{}])",
        lane, tenant, topic, key, type, correlation_id, content_type, hash);
  }
};

TEST_F(PostgresRights, WriterStoresNoLaneHashOrTextThatTheEventDoesNotHave) {
  PgSession writer(Login("shop", "writer"));
  const auto refused = AnyOf("23514", "23502");
  const std::vector<std::pair<std::string, Append>> attacks = {
      {"a lane of another key", {.lane = "sealane.lane_hash('other')"}},
      {"a hash of other bytes", {.hash = "sha256('y')"}},
      {"a topic that no broker has", {.topic = "'no topic!'"}},
      {"a topic that is a path", {.topic = "'..'"}},
      {"a topic with a line break", {.topic = "E't\n'"}},
      {"a long topic", {.topic = "repeat('t', 250)"}},
      {"a long key", {.lane = "sealane.lane_hash(repeat('k', 1025))", .key = "repeat('k', 1025)"}},
      {"a long type", {.type = "repeat('T', 256)"}},
      {"a long tenant", {.tenant = "repeat('a', 256)"}},
      {"no content type", {.content_type = "''"}},
      {"a long correlation id", {.correlation_id = "repeat('c', 513)"}},
  };
  for (const auto& [what, append] : attacks) {
    EXPECT_THAT(writer.Try(append.One()), refused) << what;
    EXPECT_THAT(writer.Try(append.Batch()), refused) << what << ", in a batch";
  }
  EXPECT_EQ(admin_.Count("sealane.outbox"), 0);
  EXPECT_EQ(writer.Try(Append{}.One()), "");
  EXPECT_EQ(writer.Try(Append{}.Batch()), "");
  EXPECT_EQ(admin_.Count("sealane.outbox"), 2);
}

}  // namespace
}  // namespace sealane
