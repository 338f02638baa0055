// Protects the relay against a Kafka that asks who it is and what it may do: a wrong password holds its route and
// nothing else, a right that is missing sets aside the keys that need it and nothing else, and both heal without
// loss. Real PostgreSQL, real Kafka, the program as an operator runs it.

#include <csignal>
#include <fstream>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/journal_file.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_relay.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Values = std::map<std::string, std::vector<std::string>>;

constexpr const char* kRightPassword = "right-password";
// Nothing else would ever contain it.
constexpr const char* kWrongPassword = "wrong-Rumpelstilzchen";

class RelayKafkaSecured : public ::testing::Test {
 protected:
  void SetUp() override {
    SEALANE_REQUIRE_KAFKA();
    Migrate(database_.url());
    session_ = std::make_unique<PgSession>(database_.url());
  }

  std::string PathOf(const std::string& name) const { return place_.folder() + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(PathOf(name), std::ios::trunc) << text;
    return PathOf(name);
  }
  /// The default broker is the one that asks for a password, which stands in a file of its own. Everything is logged.
  std::string WriteConfig(const std::string& more) const {
    return Write("sealane.toml",
                 fmt::format("[store]\nurl = \"{}\"\n[broker]\nurl = \"{}\"\n[broker.kafka]\n"
                             "\"security.protocol\" = \"SASL_PLAINTEXT\"\n\"sasl.mechanism\" = \"PLAIN\"\n"
                             "\"sasl.username\" = \"relay\"\n\"sasl.password\" = \"${{file:{}}}\"\n"
                             "[relay]\nlisten = \"127.0.0.1:0\"\nlease = \"2s\"\ndrain_timeout = \"2s\"\n"
                             "[log]\nlevel = \"debug\"\n[route.main]\nprofile = \"raw\"\n{}",
                             database_.url(), KafkaSaslUrl(), PathOf("password"), more));
  }

  /// Appends the numbers first, first + 1, ... for each of these keys, a transaction per number.
  void Append(const std::string& topic, const std::vector<std::string>& keys, int first, int count) {
    for (int n = first; n < first + count; ++n) {
      session_->Exec(
          fmt::format("select count(sealane.emit('{}', k, 'T', '{}'::text)) from unnest('{{{}}}'::text[]) k", topic,
                      n, fmt::join(keys, ",")));
    }
  }
  /// What `Append` makes of the numbers 0, ..., count - 1: complete, in order, and each once.
  static Values Numbers(const std::vector<std::string>& keys, int count) {
    Values values;
    for (const std::string& key : keys) {
      for (int n = 0; n < count; ++n) values[key].push_back(std::to_string(n));
    }
    return values;
  }
  static Values ValuesOf(const std::string& topic) {
    Values values;
    for (const KafkaRecord& record : ReadTopic(KafkaUrl(), topic, CountRecords(KafkaUrl(), topic))) {
      values[record.key].push_back(record.value);
    }
    return values;
  }

  std::string CountEvents(const std::string& where) {
    return session_->Exec("select count(*) from sealane.outbox_status where " + where);
  }

  ScratchDatabase database_;
  SqliteFile place_;  // for a folder
  std::unique_ptr<PgSession> session_;
};

TEST_F(RelayKafkaSecured, AWrongPasswordHoldsItsRouteUntilItIsCorrected) {
  const std::vector<std::string> keys = {"k0", "k1", "k2", "k3", "k4"};
  const std::string topic = FreshTopic(KafkaUrl());
  AllowWrite(KafkaUrl(), topic, true);
  Write("password", kWrongPassword);
  const std::string config = WriteConfig(
      fmt::format("[brokers.second]\nurl = \"journal:{}\"\n[route.copy]\nbroker = \"second\"\nprofile = \"raw\"\n",
                  PathOf("journal.db")));
  Append(topic, keys, 0, 20);
  const RunningRelay relay(place_.folder(), {"--config", config});

  // Held, with a reason by which a person can act.
  ASSERT_TRUE(Eventually([&] { return relay.Readiness("default", "main").value("code", "") == "login_refused"; }))
      << relay.Get("/readyz");
  const json held = relay.Readiness("default", "main");
  EXPECT_EQ(held["state"], "holding");
  EXPECT_THAT(held["problem"], HasSubstr("check sasl.username, the password and sasl.mechanism"));
  EXPECT_TRUE(relay.Says("state=holding"));
  EXPECT_THAT(relay.LineWith({"relay state", "route=main", "state=holding"}),
              HasSubstr("check sasl.username, the password and sasl.mechanism"));
  EXPECT_EQ(relay.Metric("sealane_relay_state{store=\"default\",route=\"main\",state=\"holding\"}"), "1");
  EXPECT_EQ(relay.Metric("sealane_degraded{store=\"default\",route=\"main\"}"), "1");
  EXPECT_THAT(relay.Get("/livez"), HasSubstr("\"alive\":true")) << "a restart would not correct the password";

  // The other route flows meanwhile, also with what comes now.
  Append(topic, keys, 20, 10);
  EXPECT_TRUE(Eventually([&] { return ReadJournal(PathOf("journal.db")) == Numbers(keys, 30); })) << relay.log();
  EXPECT_TRUE(Eventually([&] { return CountEvents("route = 'copy' and status = 'PUBLISHED'") == "150"; }));
  EXPECT_EQ(relay.Readiness("default", "copy")["state"], "running");
  EXPECT_FALSE(relay.Readiness("default", "copy").contains("problem"));
  EXPECT_EQ(relay.Metric("sealane_degraded{store=\"default\",route=\"copy\"}"), "0");

  // Nothing of the held one is set aside, failed or gone out.
  EXPECT_EQ(relay.Readiness("default", "main").value("code", ""), "login_refused") << "still";
  EXPECT_EQ(session_->Exec("select count(*) from sealane.parked"), "0");
  EXPECT_EQ(CountEvents("route = 'main' and status in ('PENDING', 'PUBLISHING')"), "150");
  EXPECT_EQ(CountRecords(KafkaUrl(), topic), 0U);
  for (const char* page : {"/readyz", "/metrics", "/livez"}) {
    EXPECT_THAT(relay.Get(page), Not(HasSubstr(kWrongPassword))) << page;
  }

  Write("password", kRightPassword);
  relay.Signal(SIGHUP);
  ASSERT_TRUE(relay.Says("configuration reloaded")) << relay.log();
  EXPECT_THAT(relay.LineWith({"configuration reloaded"}),
              AllOf(HasSubstr("restarted=default/main"), HasSubstr("unchanged=1")));
  ASSERT_TRUE(Eventually([&] { return CountRecords(KafkaUrl(), topic) >= 150; })) << relay.log();
  Append(topic, keys, 30, 1);
  EXPECT_TRUE(Eventually([&] { return CountEvents("status <> 'PUBLISHED'") == "0"; })) << relay.log();
  EXPECT_EQ(ValuesOf(topic), Numbers(keys, 31));
  EXPECT_EQ(ReadJournal(PathOf("journal.db")), Numbers(keys, 31));
  EXPECT_EQ(relay.Readiness("default", "main")["state"], "running");
  EXPECT_FALSE(relay.Readiness("default", "main").contains("problem"));
  EXPECT_EQ(relay.Metric("sealane_degraded{store=\"default\",route=\"main\"}"), "0");
  for (const char* page : {"/readyz", "/metrics"}) {
    EXPECT_THAT(relay.Get(page), Not(HasSubstr(kRightPassword))) << page;
  }
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
  EXPECT_THAT(relay.log(), AllOf(Not(HasSubstr(kWrongPassword)), Not(HasSubstr(kRightPassword))));
}

// The first retry of what is forbidden comes after 15 to 30 s, which is most of what this test takes.
TEST_F(RelayKafkaSecured, AMissingRightSetsItsKeysAsideUntilItIsGiven) {
  const std::vector<std::string> free_keys = {"free0", "free1", "free2"};
  const std::vector<std::string> denied_keys = {"denied0", "denied1", "denied2"};
  const std::vector<std::string> revoked_keys = {"revoked0", "revoked1", "revoked2"};
  const std::string open = FreshTopic(KafkaUrl());
  const std::string denied = FreshTopic(KafkaUrl());
  const std::string revoked = FreshTopic(KafkaUrl());
  for (const std::string& topic : {open, revoked}) AllowWrite(KafkaUrl(), topic, true);
  Write("password", kRightPassword);
  const RunningRelay relay(place_.folder(), {"--config", WriteConfig("")});

  // One topic was open at first.
  Append(revoked, revoked_keys, 0, 5);
  ASSERT_TRUE(Eventually([&] { return CountEvents("status = 'PUBLISHED'") == "15"; })) << relay.log();
  AllowWrite(KafkaUrl(), revoked, false);
  // A key that goes to both sorts of topic waits in the one that is closed alone.
  Append(denied, {"both"}, 0, 1);
  ASSERT_TRUE(Eventually([&] { return CountEvents("key = 'both' and status = 'FAILED'") == "1"; })) << relay.log();
  for (int n = 0; n < 10; ++n) {
    Append(denied, denied_keys, n, 1);
    Append(revoked, revoked_keys, 5 + n, 1);
    Append(open, free_keys, n, 1);
  }
  Append(open, {"both"}, 0, 1);

  // 30 of each sort, and one for the key of both.
  ASSERT_TRUE(Eventually([&] { return CountEvents("key like 'free%' and status = 'PUBLISHED'") == "30"; }))
      << relay.log();
  ASSERT_TRUE(Eventually([&] { return session_->Exec("select count(*) from sealane.parked") == "61"; }))
      << session_->Exec("select count(*) from sealane.parked") << '\n'
      << relay.log();
  Values flowing = Numbers(free_keys, 10);
  flowing["both"] = {"0"};
  EXPECT_TRUE(Eventually([&] { return ValuesOf(open) == flowing; })) << relay.log();
  EXPECT_EQ(CountRecords(KafkaUrl(), denied), 0U);
  EXPECT_EQ(ValuesOf(revoked), Numbers(revoked_keys, 5));

  // The first of each key failed and will be tried again; those that were on their way behind it came back the same
  // way, the others wait. None is dead.
  const auto first = session_->Query(
      "select distinct on (key) key, status, last_error_code, attempts from sealane.outbox_status "
      "where status <> 'PUBLISHED' order by key, seq");
  ASSERT_EQ(first.size(), 7U);
  for (const auto& row : first) EXPECT_THAT(row, ElementsAre(row[0], "FAILED", "topic_forbidden", "1"));
  EXPECT_EQ(CountEvents("status in ('FAILED', 'PENDING')"), "61");

  // The route itself is well, and says what it could not do.
  EXPECT_EQ(relay.Readiness("default", "main")["state"], "running");
  EXPECT_FALSE(relay.Readiness("default", "main").contains("problem"));
  EXPECT_EQ(relay.Metric("sealane_degraded{store=\"default\",route=\"main\"}"), "0");
  EXPECT_NE(
      relay.Metric("sealane_publish_failures_total{store=\"default\",route=\"main\",reason=\"topic_forbidden\"}"),
      "");
  EXPECT_EQ(relay.Metric("sealane_dead_lettered_messages_total{store=\"default\",route=\"main\"}"), "0");
  EXPECT_TRUE(Eventually([&] {
    return relay.Metric("sealane_parked_messages{store=\"default\",route=\"main\"}") == "61";
  })) << relay.Get("/metrics");
  for (const std::string& topic : {denied, revoked}) {
    EXPECT_NE(relay.LineWith({"event failed", "class=forbidden", "error=topic_forbidden", topic}), "") << topic;
  }

  // While it lasts: who may flows on, who may not joins the end of the queue.
  Append(open, free_keys, 10, 1);
  Append(denied, denied_keys, 10, 1);
  EXPECT_TRUE(Eventually([&] { return CountRecords(KafkaUrl(), open) == 34; })) << relay.log();
  EXPECT_TRUE(Eventually([&] { return session_->Exec("select count(*) from sealane.parked") == "64"; }));

  AllowWrite(KafkaUrl(), denied, true);
  AllowWrite(KafkaUrl(), revoked, true);
  EXPECT_TRUE(Eventually([&] { return CountEvents("status <> 'PUBLISHED'") == "0"; }, seconds{100})) << relay.log();
  EXPECT_EQ(session_->Exec("select count(*) from sealane.parked"), "0");
  Values expected = Numbers(denied_keys, 11);
  expected["both"] = {"0"};
  EXPECT_EQ(ValuesOf(denied), expected);
  EXPECT_EQ(ValuesOf(revoked), Numbers(revoked_keys, 15));
  expected = Numbers(free_keys, 11);
  expected["both"] = {"0"};
  EXPECT_EQ(ValuesOf(open), expected);
  EXPECT_EQ(relay.Stop().code, 0) << relay.log();
}

}  // namespace
}  // namespace sealane::testing
