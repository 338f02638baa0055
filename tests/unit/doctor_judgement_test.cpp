// Protects the doctor's judgement about topics, disks and what was set aside: each fact that hurts is named once,
// with what to do, and a healthy one is not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/backlog.hpp"
#include "doctor/disk.hpp"
#include "doctor/judgement.hpp"
#include "doctor/topics.hpp"
#include "doctor/transport.hpp"
#include "support/command_run.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::cli {
namespace {

using sealane::testing::CommandRunner;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Level = Finding::Level;

constexpr std::size_t kPayloadMax = 900 * 1024;

/// The findings that are not fine, each of which must say what to do.
std::vector<Finding> Problems(const std::vector<Finding>& findings) {
  std::vector<Finding> problems;
  for (const Finding& finding : findings) {
    if (finding.level == Level::kGood) continue;
    EXPECT_FALSE(finding.next.empty()) << finding.code;
    EXPECT_FALSE(finding.evidence.empty()) << finding.code;
    problems.push_back(finding);
  }
  return problems;
}

// ---- topics -------------------------------------------------------------------------------------------------------

TopicReport HealthyTopic() {
  return {.name = "orders",
          .is_there = true,
          .partitions = 12,
          .replicas = 3,
          .message_bytes_max = 1'048'588,
          .insync_min = 2};
}

BrokerReport Cluster(const TopicReport& topic) {
  return {.library_version = "2.11.0",
          .cluster_id = "c",
          .brokers = {{1, "b1:9092"}, {2, "b2:9092"}, {3, "b3:9092"}},
          .topics = {topic}};
}

struct TopicIllness {
  const char* code;
  Level level;
  void (*infect)(TopicReport&);
};

TEST(JudgeTopics, NamesEveryIllness) {
  EXPECT_THAT(Problems(JudgeTopics("broker a", Cluster(HealthyTopic()), kPayloadMax)), IsEmpty());
  const TopicIllness illnesses[] = {
      {"topic_missing", Level::kWrong, [](auto& topic) { topic = {.name = "orders"}; }},
      {"partition_without_leader", Level::kWrong, [](auto& topic) { topic.without_leader = 1; }},
      {"insync_exceeds_replicas", Level::kWrong, [](auto& topic) { topic.insync_min = 4; }},
      {"under_replicated", Level::kNotice, [](auto& topic) { topic.under_replicated = 2; }},
      {"single_replica", Level::kNotice,
       [](auto& topic) {
         topic.replicas = 1;
         topic.insync_min = 1;
       }},
      {"insync_one", Level::kNotice, [](auto& topic) { topic.insync_min = 1; }},
      {"insync_all", Level::kNotice, [](auto& topic) { topic.insync_min = 3; }},
      {"topic_limit_below_payload", Level::kNotice, [](auto& topic) { topic.message_bytes_max = kPayloadMax; }},
  };
  for (const TopicIllness& illness : illnesses) {
    TopicReport topic = HealthyTopic();
    illness.infect(topic);
    const auto problems = Problems(JudgeTopics("broker a", Cluster(topic), kPayloadMax));
    ASSERT_EQ(problems.size(), 1U) << illness.code;
    EXPECT_EQ(problems[0].code, illness.code);
    EXPECT_EQ(problems[0].level, illness.level) << illness.code;
    EXPECT_THAT(problems[0].symptom, HasSubstr("orders"));
  }
}

TEST(JudgeTopics, LetsBrokersMakeMissingTopics) {
  BrokerReport report = Cluster({.name = "orders"});
  report.makes_topics = true;
  EXPECT_EQ(Problems(JudgeTopics("broker a", report, kPayloadMax))[0].level, Level::kNotice);
  report.makes_topics = false;
  EXPECT_EQ(Problems(JudgeTopics("broker a", report, kPayloadMax))[0].level, Level::kWrong);
}

TEST(JudgeTopics, AsksNoMoreOfASingleBrokerThanItCan) {
  TopicReport topic = HealthyTopic();
  topic.replicas = 1;
  topic.insync_min = 1;
  BrokerReport report = Cluster(topic);
  report.brokers.resize(1);
  EXPECT_THAT(Problems(JudgeTopics("broker a", report, kPayloadMax)), IsEmpty());
}

TEST(JudgeTopics, AsksNothingThatNobodyMayKnow) {
  TopicReport topic = HealthyTopic();
  topic.message_bytes_max.reset();
  topic.insync_min.reset();
  EXPECT_THAT(Problems(JudgeTopics("broker a", Cluster(topic), kPayloadMax)), IsEmpty());
}

TEST(JudgeTopics, SaysWhenNobodyListedThem) {
  BrokerReport report = Cluster(HealthyTopic());
  report.topics.clear();
  report.topics_unanswered = true;
  EXPECT_EQ(Problems(JudgeTopics("broker a", report, kPayloadMax)).at(0).code, "topics_not_listed");
}

TEST(ExpectedTopics, AreThoseOfTheConfigurationAndOfTheNewestEvents) {
  const sealane::testing::SqliteFile file;
  file.Migrate();
  CommandRunner runner;
  runner.variables = {{"SEALANE_STORE__URL", "sqlite:" + file.path()}};
  for (const char* topic : {"orders", "refunds"}) {
    ASSERT_EQ(runner.Run({"emit", "--topic", topic, "--key", "k", "--type", "T", "--payload", "{}"}).code, 0);
  }
  const auto topics = [&](std::map<std::string, std::string> more) {
    more["SEALANE_STORE__URL"] = "sqlite:" + file.path();
    more["SEALANE_BROKER__URL"] = "kafka://b1:9092";
    ConfigSources sources;
    sources.variables = more;
    const Config config = ValueOrThrow(LoadConfig(sources));
    return ExpectedTopics(config, "default", {"default"});
  };
  EXPECT_THAT(topics({}), ElementsAre("orders", "refunds"));
  EXPECT_THAT(topics({{"SEALANE_ROUTE__MAIN__DEAD_LETTER_TOPIC", "dead"}}), ElementsAre("dead", "orders", "refunds"));
  EXPECT_THAT(topics({{"SEALANE_ROUTE__MAIN__FILTER__TOPICS", "orders,coming,any*"}}),
              ElementsAre("coming", "orders"));
  EXPECT_THAT(topics({{"SEALANE_ROUTE__MAIN__TOPIC", "shop.${topic}"}}), ElementsAre("shop.orders", "shop.refunds"));
  EXPECT_THAT(topics({{"SEALANE_ROUTE__MAIN__TOPIC", "everything"}}), ElementsAre("everything"));
}

TEST(JudgeLag, NoticesConsumersThatAreFarBehind) {
  EXPECT_THAT(Problems(JudgeLag("broker a", {{.group = "billing", .messages = 10, .partitions = 3}})), IsEmpty());
  const auto problems = Problems(JudgeLag("broker a", {{.group = "billing", .messages = 50'000, .partitions = 3}}));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "consumer_lag");
  EXPECT_THAT(problems[0].evidence, HasSubstr("50000 messages in 3 partitions"));
}

// ---- disks --------------------------------------------------------------------------------------------------------

TEST(JudgeDisk, WantsRoomOnADiskOfThisMachine) {
  constexpr std::uintmax_t kMiB = 1U << 20U;
  const auto codes = [](const DiskFacts& facts) {
    std::vector<std::string> found;
    for (const Finding& finding : Problems(JudgeDisk("store a", facts))) found.push_back(finding.code);
    return found;
  };
  const DiskFacts roomy{.folder = "/data", .free_bytes = 4096 * kMiB};
  EXPECT_THAT(codes(roomy), IsEmpty());
  EXPECT_THAT(codes({.folder = "/data", .free_bytes = 500 * kMiB}), ElementsAre("disk_space_scarce"));
  EXPECT_THAT(codes({.folder = "/data", .free_bytes = 10 * kMiB}), ElementsAre("disk_nearly_full"));
  EXPECT_THAT(codes({.folder = "/data", .free_bytes = 4096 * kMiB, .wal_bytes = 300 * kMiB}),
              ElementsAre("wal_large"));
  EXPECT_THAT(codes({.folder = "/data", .free_bytes = 4096 * kMiB, .over_network = true}),
              ElementsAre("network_file_system"));
}

TEST(ReadDisk, LooksBelowAFileThatNeedNotExist) {
  const sealane::testing::SqliteFile file;
  const auto facts = ReadDisk(file.path());
  ASSERT_TRUE(facts) << facts.error().ToString();
  EXPECT_EQ(facts->folder, file.folder());
  EXPECT_GT(facts->free_bytes, 0U);
  EXPECT_FALSE(ReadDisk(file.folder() + "/no/such/file.db"));
}

// ---- what was set aside -------------------------------------------------------------------------------------------

TEST(JudgeDeadLetters, TellsDeadFromFailed) {
  DeadLetter letter;
  letter.error_code = "unknown_topic";
  letter.state = ParkedState::kFailed;
  EXPECT_THAT(Problems(JudgeDeadLetters("store a", {})), IsEmpty());
  EXPECT_EQ(Problems(JudgeDeadLetters("store a", {letter})).at(0).code, "failed_events");
  DeadLetter dead = letter;
  dead.state = ParkedState::kDead;
  const auto problems = Problems(JudgeDeadLetters("store a", {letter, dead}));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "dead_letters");
  EXPECT_EQ(problems[0].level, Level::kWrong);
  EXPECT_THAT(problems[0].evidence, HasSubstr("unknown_topic"));
  dead.skipped = true;
  EXPECT_THAT(Problems(JudgeDeadLetters("store a", {dead})), IsEmpty()) << "somebody has decided";
}

TEST(JudgeInbox, LooksAtEveryConsumer) {
  const Timestamp now{std::chrono::hours{24 * 365 * 50}};
  InboxSummary busy{.consumer = "busy"};
  busy.waiting.parked = 2;
  busy.oldest_parked_at = now - std::chrono::seconds{5};
  InboxSummary late = busy;
  late.oldest_parked_at = now - std::chrono::hours{1};
  InboxSummary gap = busy;
  gap.waiting.gaps = 1;
  InboxSummary dead = gap;
  dead.waiting.dead = 1;
  EXPECT_THAT(Problems(JudgeInbox("store a", {{.consumer = "idle"}}, now)), IsEmpty());
  const auto young = Problems(JudgeInbox("store a", {busy}, now));
  ASSERT_EQ(young.size(), 1U) << "what was set aside just now may be a mistake of the handler";
  EXPECT_EQ(young[0].code, "inbox_parked");
  const auto problems = Problems(JudgeInbox("store a", {late, gap, dead}, now));
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_EQ(problems[0].code, "inbox_parked");
  EXPECT_EQ(problems[1].code, "inbox_gaps");
  EXPECT_EQ(problems[2].code, "inbox_dead");
  EXPECT_EQ(problems[2].level, Level::kWrong);
}

TEST(JudgeInbox, NamesEveryStoppedPartitionWithWhatResumesIt) {
  const Timestamp now{std::chrono::hours{24 * 365 * 50}};
  InboxSummary stopped{.consumer = "billing"};
  stopped.partitions.push_back({.partition = {"orders", 2}, .next_offset = 7});
  stopped.partitions.push_back(
      {.partition = {"orders", 3}, .stop = PartitionStop{"topic_recreated", "another topic"}});
  const auto findings = JudgeInbox("store a", {stopped}, now);
  ASSERT_EQ(findings.size(), 1U) << "nothing says that all is well";
  EXPECT_EQ(findings[0].level, Level::kWrong);
  EXPECT_EQ(findings[0].code, "partition_stopped");
  EXPECT_THAT(findings[0].symptom, HasSubstr("consumer billing does not read partition 3 of topic orders"));
  EXPECT_EQ(findings[0].evidence, "topic_recreated: another topic");
  EXPECT_THAT(findings[0].next,
              HasSubstr("sealane inbox resume --consumer billing --topic orders --partition 3 --from"));

  for (int number = 4; number < 40; ++number) {
    stopped.partitions.push_back({.partition = {"orders", number}, .stop = PartitionStop{"topic_recreated", "x"}});
  }
  stopped.waiting.dead = 1;
  const auto many = Problems(JudgeInbox("store a", {stopped}, now));
  ASSERT_EQ(many.size(), 11U) << "ten of them, and what else is wrong";
  EXPECT_THAT(many[9].symptom, HasSubstr("and 27 others"));
  EXPECT_EQ(many[10].code, "inbox_dead");
}

TEST(JudgeTargets, NamesThoseThatAreDownOrPaused) {
  TargetSummary fine;
  fine.target = "mail";
  TargetSummary down;
  down.target = "billing";
  down.down = TargetDown{.dispatchers = 1, .error_code = "timeout", .error_message = "no answer"};
  TargetSummary paused = down;
  paused.target = "shipping";
  paused.pause = TargetPause{.actor = "ann", .reason = "maintenance"};
  EXPECT_THAT(JudgeTargets("store a", {fine}), IsEmpty());
  const auto found = JudgeTargets("store a", {down, fine, paused});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].code, "target_down");
  EXPECT_EQ(found[0].level, Finding::Level::kWrong);
  EXPECT_EQ(found[1].code, "target_paused");
  EXPECT_EQ(found[1].level, Finding::Level::kNotice);
}

TEST(JudgeTasks, NamesDeadOnes) {
  EXPECT_THAT(JudgeTasks("store a", {}), IsEmpty());
  TaskSummary task;
  task.target = "billing";
  const auto problems = Problems(JudgeTasks("store a", {task}));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].code, "dead_tasks");
  EXPECT_THAT(problems[0].evidence, HasSubstr("billing"));
}

// ---- librdkafka ---------------------------------------------------------------------------------------------------

TEST(JudgeKafka, WarnsOfKerberosWithAnOldLibrary) {
  const BrokerReport old{.library_version = "2.0.2", .cluster_id = "c", .brokers = {{1, "b1:9092"}}};
  EXPECT_EQ(Problems(JudgeKafka("broker a", old, "GSSAPI"))[0].code, "kerberos_with_old_library");
}

TEST(JudgeTransport, TellsOfConnectionsToOtherMachinesThatAreNotVerified) {
  for (const char* const hosts : {"", "/run/postgresql", "localhost", "127.0.0.1", "::1", "127.0.0.1,localhost"}) {
    EXPECT_THAT(JudgePostgresTransport("store a", hosts, "disable"), IsEmpty()) << hosts;
  }
  EXPECT_THAT(JudgePostgresTransport("store a", "db.example", "verify-full"), IsEmpty());
  for (const char* const mode : {"", "disable", "allow", "prefer", "require", "verify-ca"}) {
    const auto problems = Problems(JudgePostgresTransport("store a", "localhost,db.example", mode));
    ASSERT_EQ(problems.size(), 1U) << mode;
    EXPECT_EQ(problems[0].code, "store_not_verified");
    EXPECT_THAT(problems[0].evidence, HasSubstr("db.example"));
  }
  const auto kafka = [](const char* url, const char* protocol, const char* verify = "", const char* host = "") {
    const auto problems = Problems(JudgeKafkaTransport("broker a", url, protocol, verify, host));
    return problems.empty() ? std::string() : problems[0].code;
  };
  EXPECT_EQ(kafka("kafka://127.0.0.1:9092,[::1]:9092,localhost", ""), "");
  EXPECT_EQ(kafka("kafka://127.0.0.1:9092,b2:9092", ""), "kafka_without_tls");
  EXPECT_EQ(kafka("kafka://b1", "SASL_PLAINTEXT"), "kafka_without_tls");
  EXPECT_EQ(kafka("kafka://[2001:db8::1]:9092", "plaintext"), "kafka_without_tls");
  EXPECT_EQ(kafka("kafka://b1:9092", "sasl_ssl"), "");
  EXPECT_EQ(kafka("kafka://b1:9092", "SSL", "false"), "broker_not_verified");
  EXPECT_EQ(kafka("kafka://b1:9092", "SSL", "", "none"), "broker_not_verified");
}

}  // namespace
}  // namespace sealane::cli
