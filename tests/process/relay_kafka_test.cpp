// Protects the relay against what brokers and backlogs do to it, end to end with real PostgreSQL and real Kafka: a
// broker that goes away and comes back, one of three that dies under load, events it refuses, a million rows to catch
// up with, one tenant who fills the log in front of another.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sanitized.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

constexpr int kKeys = 20;

/// How long the broker stays away. What a minute shows and 20 s do not is only patience, so it is asked for.
seconds OutageLength() {
  return std::getenv("SEALANE_TEST_LONG") != nullptr ? seconds{60} : seconds{20};
}

/// Records per second of those with numbers in [first, end), by the broker's clock.
double RateOf(const std::vector<KafkaRecord>& records, int first, int end) {
  std::int64_t begin_ms = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ms = 0;
  std::size_t count = 0;
  for (const KafkaRecord& record : records) {
    if (const int number = std::stoi(record.value); number < first || number >= end) continue;
    begin_ms = std::min(begin_ms, record.timestamp_ms);
    end_ms = std::max(end_ms, record.timestamp_ms);
    ++count;
  }
  return static_cast<double>(count) * 1000.0 / static_cast<double>(std::max<std::int64_t>(end_ms - begin_ms, 1));
}

class RelayKafka : public ::testing::Test {
 protected:
  void SetUp() override {
    SEALANE_REQUIRE_KAFKA();
    Migrate(database_.url());
    session_ = std::make_unique<PgSession>(database_.url());
  }

  std::unique_ptr<ChildProcess> StartRelay(const std::string& broker, const std::string& topic = {},
                                           const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {SEALANE_TEST_BINARY, "relay", "--store",  database_.url(),
                                        "--broker",          broker,  "--listen", "off",
                                        "--log-level",       "error"};
    command.insert(command.end(), more.begin(), more.end());
    std::map<std::string, std::string> variables = {{"SEALANE_RELAY__LEASE", "2s"},
                                                    {"SEALANE_ROUTE__MAIN__PROFILE", "raw"}};
    if (!topic.empty()) variables["SEALANE_ROUTE__MAIN__TOPIC"] = topic;
    return std::make_unique<ChildProcess>(command, variables, place_.folder());
  }

  /// Appends the numbers first, first + 1, ... for every key.
  void Append(int first, int count) {
    for (int n = first; n < first + count; ++n) {
      session_->Exec(
          fmt::format("select count(sealane.emit('orders', 'k' || g, 'T', '{}'::text)) from generate_series(0, {}) g",
                      n, kKeys - 1));
    }
  }
  /// The same as one transaction, for numbers that make a backlog worth measuring.
  void AppendAtOnce(int first, int count, const std::string& topic) {
    Fill(count * kKeys, topic, fmt::format("'k' || g % {}", kKeys), "''",
         fmt::format("{} + (g - 1) / {}", first, kKeys));
  }
  /// By the relay's own books. The records at the broker cannot say it: those that came again count there too.
  bool AllPublished() {
    return session_->Exec("select count(*) from sealane.outbox_status where status <> 'PUBLISHED'") == "0";
  }
  /// Complete and in order, first deliveries only. Returns how many came again.
  static std::size_t CheckTopic(const std::string& url, const std::string& topic, int count) {
    return CheckRecords(ReadTopic(url, topic, CountRecords(url, topic), seconds{60}), count);
  }
  static std::size_t CheckRecords(const std::vector<KafkaRecord>& records, int count) {
    std::map<std::string, int> next;
    for (const KafkaRecord& record : records) {
      int& due = next[record.key];
      const int number = std::stoi(record.value);
      EXPECT_LE(number, due) << record.key << " was inverted";
      if (number == due) ++due;
    }
    for (int k = 0; k < kKeys; ++k) EXPECT_EQ(next[fmt::format("k{}", k)], count) << "k" << k;
    return records.size() - static_cast<std::size_t>(count) * kKeys;
  }
  /// Many events at once, in one transaction; keys, tenants and payloads by SQL expressions of g = 1, 2, ...
  void Fill(int count, const std::string& topic, const std::string& key, const std::string& tenant,
            const std::string& payload = "g") {
    session_->Exec(
        fmt::format("insert into sealane.outbox (lane, kind, topic, key, type, schema_version, content_type, "
                    "headers, occurred_at, "
                    "payload_size, payload, payload_hash, event_id, tenant) "
                    "select sealane.lane_hash(k) % 64, 'event', '{}', k, 'T', 1, 'application/json', '{{}}', now(), "
                    "octet_length(p), p, "
                    "sha256(p), gen_random_uuid(), {} from (select g, {} as k, convert_to(({})::text, 'UTF8') as p "
                    "from generate_series(1, {}) g) x",
                    topic, tenant, key, payload, count));
  }

  ScratchDatabase database_;
  SqliteFile place_;  // for a folder
  std::unique_ptr<PgSession> session_;
};

// With SEALANE_TEST_LONG the broker is away for a minute.
//
// Both backlogs meet a broker that was killed and started again a moment before: a server that has just begun is
// slower than one that is warm, and what is compared is the relay. The first restart keeps nobody waiting, the second
// ends an outage.
TEST_F(RelayKafka, ABrokerThatGoesAwayCostsTimeAndNothingElse) {
  constexpr int kRounds = 2'500;  // per backlog, for each key
  const PrivateKafka kafka(1);
  const std::string topic = FreshTopic(kafka.url(), 4, {{"message.timestamp.type", "LogAppendTime"}});
  kafka.StopNode(1);
  kafka.StartNode(1);
  const auto relay = StartRelay(kafka.url());
  AppendAtOnce(0, kRounds, topic);
  ASSERT_TRUE(Eventually([&] { return AllPublished(); }));
  const auto outage_end = Steady::now() + OutageLength();
  kafka.StopNode(1);
  AppendAtOnce(kRounds, kRounds, topic);
  std::this_thread::sleep_until(outage_end);  // the outage itself
  EXPECT_EQ(session_->Exec("select count(*) from sealane.parked"), "0");
  kafka.StartNode(1);
  const auto back = Steady::now();
  ASSERT_TRUE(Eventually([&] { return AllPublished(); }));
  const auto drained = std::chrono::duration_cast<milliseconds>(Steady::now() - back);
  relay->Signal(SIGTERM);
  EXPECT_EQ(relay->Finish().code, 0);
  EXPECT_EQ(session_->Exec("select count(*) from sealane.parked"), "0");

  const auto records = ReadTopic(kafka.url(), topic, CountRecords(kafka.url(), topic), seconds{60});
  const std::size_t repeated = CheckRecords(records, 2 * kRounds);
  const double before = RateOf(records, 0, kRounds);
  const double after = RateOf(records, kRounds, 2 * kRounds);
  std::cout << fmt::format(
      "{:.0f} events/s before an outage of {} s and {:.0f}/s after it, drained {} ms after the broker was back, {} "
      "repeated\n",
      before, OutageLength().count(), after, drained.count(), repeated);
  // Full speed, measured roughly: a machine that does other things too is no reason to fail.
  EXPECT_GT(after, before / 3);
}

TEST_F(RelayKafka, OneOfThreeBrokersMayDieUnderLoad) {
  const PrivateKafka kafka(3);
  const std::string topic = FreshTopic(kafka.url(), 6);
  const auto relay = StartRelay(kafka.url(), topic);
  constexpr int kRounds = 300;
  std::thread writer([&] { Append(0, kRounds); });
  EXPECT_TRUE(Eventually([&] { return CountRecords(kafka.url(), topic) > 200; }));
  kafka.StopNode(2);
  writer.join();
  EXPECT_TRUE(Eventually([&] { return AllPublished(); }, seconds{120}));
  relay->Signal(SIGTERM);
  EXPECT_EQ(relay->Finish().code, 0);
  std::cout << CheckTopic(kafka.url(), topic, kRounds) << " repeated\n";
}

TEST_F(RelayKafka, RefusedEventsWaitAndTheRestFlows) {
  const std::string good = FreshTopic(KafkaUrl(), 2);
  const std::string narrow = FreshTopic(KafkaUrl(), 2, {{"max.message.bytes", "2000"}});
  const std::string missing = FreshTopicName();
  session_->Exec(fmt::format("select sealane.emit('{}', 'a', 'T', '1'::text)", good));
  session_->Exec(
      fmt::format("select sealane.emit('{}', 'b', 'T', '\"' || repeat(md5(random()::text), 200) || '\"')", narrow));
  session_->Exec(fmt::format("select sealane.emit('{}', 'b', 'T', '2'::text)", narrow));
  session_->Exec(fmt::format("select sealane.emit('{}', 'c', 'T', '3'::text)", missing));
  session_->Exec(fmt::format("select sealane.emit('{}', 'd', 'T', '4'::text)", good));
  const auto relay = StartRelay(KafkaUrl(), {}, {"--until", "drained", "--timeout", "15s"});
  EXPECT_EQ(relay->Finish().code, 11) << "the event without a topic is pending";
  EXPECT_EQ(CountRecords(KafkaUrl(), good), 2U);
  EXPECT_EQ(CountRecords(KafkaUrl(), narrow), 0U);
  const auto states = session_->Query(
      "select key, status, coalesce(last_error_code, '-') from sealane.outbox_status where route = 'main' order by "
      "seq");
  ASSERT_EQ(states.size(), 5U);
  EXPECT_THAT(states[0], ::testing::ElementsAre("a", "PUBLISHED", "-"));
  EXPECT_THAT(states[1], ::testing::ElementsAre("b", "DEAD", "message_too_large"));
  EXPECT_THAT(states[2], ::testing::ElementsAre("b", "PENDING", "-"));
  EXPECT_THAT(states[3], ::testing::ElementsAre("c", "PENDING", "unknown_topic"));
  EXPECT_THAT(states[4], ::testing::ElementsAre("d", "PUBLISHED", "-"));
}

// Memory is counted by the kernel: the highest resident size of the relay's process.
TEST_F(RelayKafka, AMillionRowsDrainInFlatMemory) {
  const std::string topic = FreshTopic(KafkaUrl(), 6);
  Fill(1'000'000, topic, "'k' || g % 5000", "''");
  const auto relay = StartRelay(KafkaUrl());
  std::size_t peak = 0;
  const auto look = [&] {
    std::ifstream status(fmt::format("/proc/{}/status", relay->pid()));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) peak = std::stoul(line.substr(6));
    }
    return CountRecords(KafkaUrl(), topic) >= 1'000'000;
  };
  EXPECT_TRUE(Eventually(look, seconds{240}));
  relay->Signal(SIGTERM);
  EXPECT_EQ(relay->Finish().code, 0);
  EXPECT_EQ(CountRecords(KafkaUrl(), topic), 1'000'000U);
  if (!kSanitized) {
    EXPECT_LE(peak, 64U * 1024U) << "KiB";
  }
  EXPECT_TRUE(AllPublished());
  std::cout << "peak " << peak / 1024 << " MiB\n";
}

TEST_F(RelayKafka, ATenantWithAMillionEventsDoesNotHoldUpAnother) {
  const std::string topic = FreshTopic(KafkaUrl(), 6);
  const std::string other = FreshTopic(KafkaUrl(), 1);
  Fill(1'000'000, topic, "'k' || g % 5000", "'big'");
  const auto relay = StartRelay(KafkaUrl());
  ASSERT_TRUE(Eventually([&] { return CountRecords(KafkaUrl(), topic) > 20'000; }));
  // Counted from the commit until the broker has it, by how much of the million has left in the meantime.
  session_->Exec(fmt::format("select sealane.emit('{}', 'x', 'T', '1'::text, tenant => 'small')", other));
  const auto committed = Steady::now();
  ASSERT_TRUE(Eventually([&] { return CountRecords(KafkaUrl(), other) == 1; }));
  const auto waited = std::chrono::duration_cast<milliseconds>(Steady::now() - committed);
  EXPECT_LT(CountRecords(KafkaUrl(), topic), 900'000U) << "it left behind the backlog, not before it";
  std::cout << "the other tenant's event left after " << waited.count() << " ms\n";
  relay->Signal(SIGTERM);
  EXPECT_EQ(relay->Finish().code, 0);
}

}  // namespace
}  // namespace sealane::testing
