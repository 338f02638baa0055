// Protects the doctor's eyes: each illness is caused for real, in a store or a Kafka, and the doctor must name it.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/child_process.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

/// The finding with this code in what `doctor -o json` wrote; null when there is none.
json FindingIn(const CommandResult& result, const std::string& code) {
  const json document = json::parse(result.out, nullptr, false);
  if (document.is_discarded()) return {};
  for (const json& finding : document["findings"]) {
    if (finding["code"] == code) return finding;
  }
  return {};
}

class Doctor : public ::testing::Test {
 protected:
  CommandResult Run(Words words) const {
    words.insert(words.end(), {"--store", "sqlite:" + file_.path(), "--log-level", "error"});
    return RunSealane(words, {}, {}, file_.folder());
  }
  CommandResult Examine(const std::string& broker) const {
    return Run({"doctor", "--broker", broker, "-o", "json", "--timeout", "60s"});
  }
  void Emit(const std::string& topic) const {
    const CommandResult emitted = Run({"emit", "--topic", topic, "--key", "k", "--type", "T", "--payload", "{}"});
    ASSERT_EQ(emitted.code, 0) << emitted.err;
  }
  std::string Journal() const { return "journal:" + file_.folder() + "/journal.db"; }

  SqliteFile file_;
};

TEST_F(Doctor, NamesAMissingTopicWhoseEventsWait) {
  SEALANE_REQUIRE_KAFKA();
  file_.Migrate();
  const std::string topic = FreshTopicName();
  Emit(topic);
  const CommandResult before = Examine(KafkaUrl());
  const json missing = FindingIn(before, "topic_missing");
  ASSERT_FALSE(missing.is_null()) << before.out << before.err;
  EXPECT_THAT(missing["symptom"], ::testing::HasSubstr(topic));
  EXPECT_THAT(missing["next"], ::testing::HasSubstr("kafka-topics.sh --create --topic " + topic));
  EXPECT_EQ(before.code, 3);

  const CommandResult held = Run({"relay", "--broker", KafkaUrl(), "--until", "drained", "--timeout", "5s"});
  EXPECT_NE(held.code, 0) << "an event that waits for its topic is pending";
  EXPECT_THAT(held.err, ::testing::HasSubstr(topic));
  const CommandResult after = Examine(KafkaUrl());
  EXPECT_TRUE(FindingIn(after, "dead_letters").is_null()) << after.out << after.err;
  EXPECT_FALSE(FindingIn(after, "topic_missing").is_null()) << "to look does not make the topic";
}

TEST_F(Doctor, ReadsTheSettingsOfTopics) {
  SEALANE_REQUIRE_KAFKA();
  file_.Migrate();
  const std::string fine = FreshTopic(KafkaUrl(), 4);
  Emit(fine);
  const CommandResult healthy = Examine(KafkaUrl());
  const json ready = FindingIn(healthy, "topic");
  ASSERT_FALSE(ready.is_null()) << healthy.out << healthy.err;
  EXPECT_THAT(ready["evidence"], ::testing::HasSubstr("4 partitions, replication factor 1"));
  EXPECT_EQ(healthy.code, 0) << healthy.out;

  Emit(FreshTopic(KafkaUrl(), 1, {{"max.message.bytes", "1000"}}));
  Emit(FreshTopic(KafkaUrl(), 1, {{"min.insync.replicas", "2"}}));
  const CommandResult ill = Examine(KafkaUrl());
  EXPECT_FALSE(FindingIn(ill, "topic_limit_below_payload").is_null()) << ill.out;
  EXPECT_FALSE(FindingIn(ill, "insync_exceeds_replicas").is_null()) << ill.out;
  EXPECT_EQ(ill.code, 3);
}

TEST_F(Doctor, CountsWhatAConsumerHasNotRead) {
  SEALANE_REQUIRE_KAFKA();
  file_.Migrate();
  SqliteHandle(file_.path()).Execute("CREATE TABLE bills (id TEXT)");
  std::ofstream(file_.folder() + "/bill.sql") << "INSERT INTO bills VALUES (:key);";
  const std::string topic = FreshTopic(KafkaUrl(), 1);
  const auto deliver = [&] {
    Emit(topic);
    ASSERT_EQ(Run({"relay", "--broker", KafkaUrl(), "--until", "drained"}).code, 0);
  };
  deliver();
  const std::string consumer = "doctor-" + topic;
  const CommandResult consumed = Run({"consume", "--consumer", consumer, "--topic", topic, "--sql", "bill.sql",
                                      "--broker", KafkaUrl(), "--until", "caught-up"});
  ASSERT_EQ(consumed.code, 0) << consumed.err;
  deliver();
  deliver();
  const CommandResult examined = Examine(KafkaUrl());
  const json lag = FindingIn(examined, "consumer_lag");
  ASSERT_FALSE(lag.is_null()) << examined.out << examined.err;
  EXPECT_EQ(lag["evidence"], "2 messages in 1 partitions");
}

TEST_F(Doctor, NamesEventsThatAConsumerGaveUp) {
  file_.Migrate();
  SqliteHandle(file_.path()).Execute("CREATE TABLE bills (id TEXT CHECK (id = 'never'))");
  std::ofstream(file_.folder() + "/bill.sql") << "INSERT INTO bills VALUES (:key);";
  Emit("orders");
  ASSERT_EQ(Run({"relay", "--broker", Journal(), "--until", "drained"}).code, 0);
  const CommandResult consumed = Run({"consume", "--consumer", "billing", "--topic", "orders", "--sql", "bill.sql",
                                      "--broker", Journal(), "--until", "caught-up"});
  ASSERT_EQ(consumed.code, 0) << consumed.err;
  const CommandResult ill = Examine(Journal());
  const json dead = FindingIn(ill, "inbox_dead");
  ASSERT_FALSE(dead.is_null()) << ill.out << ill.err;
  EXPECT_EQ(dead["next"], "sealane inbox parked --consumer billing --store sqlite:" + file_.path());
  EXPECT_EQ(ill.code, 3);
}

TEST_F(Doctor, NamesTasksThatWereGivenUp) {
  file_.Migrate();
  ASSERT_EQ(
      Run({"tasks", "enqueue", "--target", "billing", "--operation", "/x", "--key", "k", "--request", "{}"}).code, 0);
  SqliteHandle(file_.path()).Execute("UPDATE sealane_task SET state = 'DEAD', code = 'refused'");
  const CommandResult ill = Examine(Journal());
  ASSERT_FALSE(FindingIn(ill, "dead_tasks").is_null()) << ill.out << ill.err;
  EXPECT_EQ(ill.code, 3);
}

TEST_F(Doctor, LooksWithTheRightsOfARelay) {
  const ScratchDatabase database;
  Migrate(database.url());
  const std::string user = database.name() + "_relay";
  PgSession admin(database.url());
  admin.Exec("CREATE ROLE " + user + " LOGIN IN ROLE sealane_relay");
  const CommandResult relay =
      RunSealane({"doctor", "--store", database.UrlAs(user), "--broker", "null:", "-o", "json"});
  for (const json& finding : json::parse(relay.out)["findings"]) {
    // The tests' server does not sync, and the doctor is right to say so.
    if (finding["code"] == "fsync_off") continue;
    EXPECT_NE(finding["level"], "wrong") << finding;
  }
  EXPECT_TRUE(FindingIn(relay, "too_many_rights").is_null());
  EXPECT_TRUE(FindingIn(relay, "not_permitted").is_null()) << relay.out;
  const CommandResult super = RunSealane({"doctor", "--store", database.url(), "--broker", "null:", "-o", "json"});
  EXPECT_FALSE(FindingIn(super, "too_many_rights").is_null()) << super.out;
  admin.Exec("DROP OWNED BY " + user + "; DROP ROLE " + user);
}

}  // namespace
}  // namespace sealane::testing
