// Protects events whose topic a real Kafka does not have, end to end with real PostgreSQL: they wait in order, other
// topics flow, nothing dies, and it heals when the topic is there, whether it was never made or was deleted.

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kafka/kafka_topics.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/running_relay.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class RelayTopicsKafka : public ::testing::Test {
 protected:
  void SetUp() override {
    SEALANE_REQUIRE_KAFKA();
    Migrate(database_.url());
    session_ = std::make_unique<PgSession>(database_.url());
  }

  std::unique_ptr<RunningRelay> StartRelay(std::map<std::string, std::string> variables = {}) {
    variables.insert({{"SEALANE_RELAY__LEASE", "2s"}, {"SEALANE_ROUTE__MAIN__PROFILE", "raw"}});
    folders_.push_back(std::make_unique<SqliteFile>());
    return std::make_unique<RunningRelay>(
        folders_.back()->folder(),
        std::vector<std::string>{"--store", database_.url(), "--broker", KafkaUrl(), "--listen", "127.0.0.1:0"},
        std::move(variables));
  }
  CommandResult Sealane(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), SEALANE_TEST_BINARY);
    arguments.insert(arguments.end(), {"--store", database_.url(), "-o", "json"});
    ChildProcess process(arguments, {{"USER", "tester"}}, folder_.folder());
    return process.Finish();
  }
  /// So many events for each of five keys, with the numbers from `first` on as values.
  void Append(const std::string& topic, int first, int count) {
    session_->Exec(
        fmt::format("select count(sealane.emit('{}', 'k' || k, 'T', n::text)) from generate_series({}, {}) n,"
                    " generate_series(0, 4) k",
                    topic, first, first + count - 1));
  }
  bool Published(const std::string& topic) {
    return session_->Exec(fmt::format(
               "select count(*) from sealane.outbox_status where topic = '{}' and status <> 'PUBLISHED'", topic)) ==
           "0";
  }
  std::string States(const std::string& topic) {
    return session_->Exec(fmt::format(
        "select string_agg(distinct status || ' ' || attempts, ',') from sealane.outbox_status where topic = '{}'",
        topic));
  }
  /// Complete and in order for every key, first deliveries only.
  static void ExpectInOrder(const std::string& topic, int count) {
    std::map<std::string, int> next;
    for (const KafkaRecord& record : ReadTopic(KafkaUrl(), topic, CountRecords(KafkaUrl(), topic), seconds{60})) {
      int& due = next[record.key];
      const int number = std::stoi(record.value);
      EXPECT_LE(number, due) << record.key << " was inverted";
      if (number == due) ++due;
    }
    for (int k = 0; k < 5; ++k) EXPECT_EQ(next[fmt::format("k{}", k)], count) << "k" << k;
  }
  static int CountLines(const std::string& log, const std::string& text) {
    int count = 0;
    for (std::size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
    return count;
  }

  ScratchDatabase database_;
  SqliteFile folder_;
  std::vector<std::unique_ptr<SqliteFile>> folders_;
  std::unique_ptr<PgSession> session_;
};

TEST_F(RelayTopicsKafka, ATopicThatIsMissingAtTheStartIsWaitedFor) {
  const std::string good = FreshTopic(KafkaUrl(), 2);
  const std::string missing = FreshTopicName();
  Append(missing, 0, 300);
  Append(good, 0, 100);
  const auto relay = StartRelay();
  const auto second = StartRelay();
  ASSERT_TRUE(Eventually([&] { return Published(good); }));
  ASSERT_TRUE(Eventually(
      [&] { return session_->Exec("select count(*) from sealane.parked where waits_for is not null") == "1500"; }));
  EXPECT_EQ(States(missing), "PENDING 0");
  EXPECT_TRUE(Eventually([&] {
    return relay->Readiness("default", "main").value("missing_topics", 0) +
               second->Readiness("default", "main").value("missing_topics", 0) ==
           2;
  }));
  EXPECT_THAT(relay->Readiness("default", "main").value("problem", ""), HasSubstr(missing));
  Append(good, 100, 100);  // others flow all the time
  Append(missing, 300, 100);
  ASSERT_TRUE(Eventually([&] { return Published(good); }));

  CreateTopic(KafkaUrl(), missing, 3);
  ASSERT_TRUE(Eventually([&] { return Published(missing); }));
  Append(missing, 400, 20);
  ASSERT_TRUE(Eventually([&] { return Published(missing); }));
  ExpectInOrder(missing, 420);
  ExpectInOrder(good, 200);
  EXPECT_EQ(session_->Exec("select count(*) from sealane.parked"), "0");
  for (const auto& one : {relay.get(), second.get()}) {
    EXPECT_EQ(one->Stop().code, 0);
    EXPECT_LE(CountLines(one->log(), "topic is missing"), 1) << one->log();
    EXPECT_EQ(CountLines(one->log(), "event failed"), 0);
  }
}

TEST_F(RelayTopicsKafka, ATopicThatIsDeletedUnderTheRelayIsWaitedFor) {
  const std::string good = FreshTopic(KafkaUrl(), 2);
  const std::string topic = FreshTopic(KafkaUrl(), 2);
  const auto relay = StartRelay();
  Append(topic, 0, 50);
  ASSERT_TRUE(Eventually([&] { return Published(topic); }));
  ASSERT_TRUE(DeleteKafkaTopics({.url = KafkaUrl()}, {topic}, seconds{30}));
  Append(topic, 0, 200);
  Append(good, 0, 100);
  ASSERT_TRUE(Eventually([&] { return Published(good); }));
  ASSERT_TRUE(Eventually(
      [&] { return session_->Exec("select count(*) from sealane.parked where waits_for is not null") == "1000"; },
      seconds{90}));
  EXPECT_EQ(session_->Exec("select count(*) from sealane.outbox_status where status in ('DEAD', 'FAILED')"), "0");
  Append(good, 100, 100);
  ASSERT_TRUE(Eventually([&] { return Published(good); }));

  CreateTopic(KafkaUrl(), topic, 2);
  ASSERT_TRUE(Eventually([&] { return Published(topic); }, seconds{60}));
  EXPECT_EQ(relay->Stop().code, 0);
  ExpectInOrder(topic, 200);
  ExpectInOrder(good, 200);
}

TEST_F(RelayTopicsKafka, ARelayThatIsKilledLeavesTheWaitingEventsToItsSuccessor) {
  const std::string missing = FreshTopicName();
  Append(missing, 0, 100);
  {
    const auto relay = StartRelay();
    ASSERT_TRUE(Eventually(
        [&] { return session_->Exec("select count(*) from sealane.parked where waits_for is not null") == "500"; }));
    relay->Signal(SIGKILL);
    relay->Finish();
  }
  Append(missing, 100, 50);
  CreateTopic(KafkaUrl(), missing, 2);
  const auto relay = StartRelay();
  ASSERT_TRUE(Eventually([&] { return Published(missing); }));
  ExpectInOrder(missing, 150);
  EXPECT_EQ(relay->Stop().code, 0);
}

TEST_F(RelayTopicsKafka, ATypoIsRepairedByAReroute) {
  const std::string right = FreshTopic(KafkaUrl(), 2);
  const std::string typo = FreshTopicName();
  const auto relay = StartRelay();
  Append(typo, 0, 500);
  ASSERT_TRUE(Eventually(
      [&] { return session_->Exec("select count(*) from sealane.parked where waits_for is not null") == "2500"; }));
  const std::vector<std::string> command = {"messages", "reroute", "--topic",  typo,
                                            "--to",     right,     "--reason", "typo in release 12"};
  std::vector<std::string> plan = command;
  plan.emplace_back("--dry-run");
  const CommandResult planned = Sealane(plan);
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(nlohmann::json::parse(planned.out)["would_change"], 2500);
  EXPECT_NE(Sealane(command).code, 0) << "not without --yes";
  std::vector<std::string> go = command;
  go.emplace_back("--yes");
  const CommandResult done = Sealane(go);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(nlohmann::json::parse(done.out)["changed"], 2500);
  ASSERT_TRUE(Eventually([&] { return Published(typo); }));
  ExpectInOrder(right, 500);
  EXPECT_EQ(
      session_->Exec("select count(*) from sealane.audit where action = 'messages.reroute' and actor = 'tester'"),
      "3")
      << "a batch of a thousand each";
  const std::string id = session_->Exec("select event_id from sealane.outbox order by seq limit 1");
  const CommandResult shown = Sealane({"messages", "get", id});
  EXPECT_EQ(nlohmann::json::parse(shown.out)["routes"][0]["rerouted_to"], right) << shown.out;
  EXPECT_EQ(session_->Exec(fmt::format("select rerouted_to from sealane.outbox_status where event_id = '{}'", id)),
            right);
  EXPECT_EQ(relay->Stop().code, 0);
}

TEST_F(RelayTopicsKafka, AnotherOrderOrNumberOfLanesIsRefusedAtTheStart) {
  const std::string narrow = FreshTopic(KafkaUrl(), 1, {{"max.message.bytes", "2000"}});
  session_->Exec(
      fmt::format("select sealane.emit('{}', 'b', 'T', '\"' || repeat(md5(random()::text), 200) || '\"')", narrow));
  {
    const auto relay = StartRelay();
    ASSERT_TRUE(Eventually([&] { return States(narrow) == "DEAD 1"; }));
    EXPECT_EQ(relay->Stop().code, 0);
  }
  const auto refused = StartRelay({{"SEALANE_ROUTE__MAIN__ORDER", "tenant"}});
  EXPECT_NE(refused->Finish().code, 0);
  EXPECT_THAT(refused->log(), HasSubstr("order"));
  EXPECT_THAT(refused->log(), HasSubstr("1 events are parked"));

  for (const char* const change : {"update sealane.setting set value = '32' where name = 'lanes'",
                                   "delete from sealane.setting where name = 'lanes'"}) {
    session_->Exec(
        fmt::format("do $$ begin {}; raise exception 'it was not refused';"
                    " exception when restrict_violation then null; end $$",
                    change));
  }
  session_->Exec("alter table sealane.setting disable trigger all");
  session_->Exec("update sealane.setting set value = '32' where name = 'lanes'");
  const auto lanes = StartRelay();
  EXPECT_NE(lanes->Finish().code, 0);
  EXPECT_THAT(lanes->log(), HasSubstr("the setting lanes says 32"));
}

TEST_F(RelayTopicsKafka, AMissingTopicIsMadeWhereThatIsAskedFor) {
  const std::string topic = FreshTopicName();
  const auto relay = StartRelay({{"SEALANE_BROKER__TOPICS__CREATE", "true"},
                                 {"SEALANE_BROKER__TOPICS__PARTITIONS", "5"},
                                 {"SEALANE_BROKER__TOPICS__CONFIG__MAX_MESSAGE_BYTES", "20000"}});
  Append(topic, 0, 50);
  ASSERT_TRUE(Eventually([&] { return Published(topic); })) << relay->log();
  EXPECT_THAT(relay->log(), HasSubstr("topic created"));
  ExpectInOrder(topic, 50);
  EXPECT_EQ(relay->Stop().code, 0);
}

}  // namespace
}  // namespace sealane::testing
