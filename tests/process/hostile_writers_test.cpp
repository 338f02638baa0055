// Protects the exact cursor: sixteen writers that do everything a cursor on a sequence cannot stand (numbers drawn
// long before the commit, transactions that took their number early, rollbacks, savepoints, COPY, one that stays open
// for 20 s), three relays of which one is killed every two seconds, real PostgreSQL and real Kafka. Nothing may be
// lost, nothing may be invented, no key may be inverted, and the open transaction may delay its own event alone.
//
// Beside them runs the cursor that everybody writes first, `seq > c`. It must lose events, or the writers were not
// hostile enough and the test proves nothing.

#include <atomic>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/lane.hpp"
#include "support/child_process.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

constexpr int kWriters = 16;
constexpr int kKeys = 40;
constexpr seconds kDuration{60};
constexpr seconds kOpenFor{20};

/// One application that appends in its own transactions and counts, per key, in a row it locks first.
class Writer {
 public:
  Writer(const std::string& url, std::string topic, int number)
      : session_(url), topic_(std::move(topic)), dice_(static_cast<std::uint32_t>(number)), early_(number % 2 == 0) {}

  void Run(const std::atomic<bool>& stop) {
    while (!stop) Transact();
  }

 private:
  int Below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(dice_); }
  void Pause(int at_most_ms) { std::this_thread::sleep_for(milliseconds{Below(at_most_ms + 1)}); }

  void Transact() {
    session_.Exec("begin");
    if (early_) session_.Exec("select pg_current_xact_id()");
    if (early_) Pause(15);
    const std::string key = fmt::format("k{}", Below(kKeys));
    // The row lock that makes the events of a key follow each other.
    const int version =
        std::stoi(session_.Exec(fmt::format("update counter set n = n + 1 where key = '{}' returning n", key)));
    switch (Below(5)) {
      case 0:
        Copy(key, version);
        break;
      case 1:
        InsertRows(key, version);
        break;
      case 2:
        session_.Exec("savepoint a");
        Emit(key, version + 1'000'000);  // a ghost, unless the rollback is seen
        session_.Exec("rollback to a");
        Emit(key, version);
        break;
      default:
        Emit(key, version);
    }
    if (Below(3) == 0) Pause(20);
    session_.Exec(Below(8) == 0 ? "rollback" : "commit");
  }

  void Emit(const std::string& key, int version) {
    session_.Exec(fmt::format("select sealane.emit('{}', '{}', 'T', '{{\"n\":{}}}'::text)", topic_, key, version));
  }

  std::string Row(const std::string& key, int version) const {
    const std::string payload = fmt::format("{{\"n\":{}}}", version);
    return fmt::format("{}\tevent\t{}\t{}\tT\t1\tapplication/json\t{{}}\tnow\t{}\t{}\t\\\\x{}",
                       LaneOf(LaneHash(key), 64), topic_, key, payload.size(), payload, std::string(64, '0'));
  }

  // As a superuser can: past the functions, straight into the table.
  static constexpr const char* kColumns =
      "(lane, kind, topic, key, type, schema_version, content_type, headers, occurred_at, payload_size, payload, "
      "payload_hash, event_id, tenant)";

  void Copy(const std::string& key, int version) {
    const PGresult* begun =
        PQexec(session_.get(), fmt::format("copy sealane.outbox {} from stdin", kColumns).c_str());
    ASSERT_EQ(PQresultStatus(begun), PGRES_COPY_IN) << PQerrorMessage(session_.get());
    PQclear(const_cast<PGresult*>(begun));
    const std::string id = session_id();
    const std::string row = Row(key, version) + "\t" + id + "\t\n";
    PQputCopyData(session_.get(), row.c_str(), static_cast<int>(row.size()));
    PQputCopyEnd(session_.get(), nullptr);
    while (PGresult* result = PQgetResult(session_.get())) {
      EXPECT_EQ(PQresultStatus(result), PGRES_COMMAND_OK) << PQerrorMessage(session_.get());
      PQclear(result);
    }
  }

  // Two events of the key in one statement; the second takes the next version.
  void InsertRows(const std::string& key, int version) {
    session_.Exec(fmt::format("update counter set n = n + 1 where key = '{}'", key));
    session_.Exec(fmt::format(
        "insert into sealane.outbox {} select {}, 'event', '{}', '{}', 'T', 1, 'application/json', '{{}}', now(), "
        "octet_length(p), p, sha256(p), gen_random_uuid(), '' from (select convert_to('{{\"n\":' || g || '}}', "
        "'UTF8') as p "
        "from generate_series({}, {}) g) x",
        kColumns, LaneOf(LaneHash(key), 64), topic_, key, version, version + 1));
  }

  std::string session_id() {
    return fmt::format("{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", dice_(), dice_() & 0xffffU, dice_() & 0xfffU,
                       dice_() & 0xfffU, (static_cast<std::uint64_t>(dice_()) << 16U) & 0xffffffffffffULL);
  }

  PgSession session_;
  std::string topic_;
  std::mt19937 dice_;
  bool early_;
};

int NumberIn(const std::string& payload) {
  return std::stoi(payload.substr(payload.find(':') + 1));
}

/// What is wrong with a delivery of 1, 2, ... `count` per key; empty when first deliveries are complete and in order.
std::string Complaint(const std::vector<std::pair<std::string, int>>& delivered,
                      const std::map<std::string, int>& counts) {
  std::map<std::string, int> next;
  for (const auto& [key, number] : delivered) {
    int& due = next.try_emplace(key, 1).first->second;
    const auto count = counts.find(key);
    if (count == counts.end() || number > count->second) return fmt::format("ghost: {} {}", key, number);
    if (number > due) return fmt::format("inverted: {} {} came before {}", key, number, due);
    if (number == due) ++due;
  }
  for (const auto& [key, count] : counts) {
    const auto found = next.find(key);
    const int had = found == next.end() ? 0 : found->second - 1;
    if (had != count) return fmt::format("lost: {} has {} of {}", key, had, count);
  }
  return {};
}

class HostileWriters : public ::testing::Test {
 protected:
  std::unique_ptr<ChildProcess> StartRelay(const std::string& topic, std::vector<std::string> more = {}) {
    std::vector<std::string> command = {SEALANE_TEST_BINARY, "relay",    "--store", database_.url(), "--broker",
                                        KafkaUrl(),          "--listen", "off",     "--log-level",   "error"};
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<ChildProcess>(command,
                                          std::map<std::string, std::string>{{"SEALANE_RELAY__LEASE", "1s"},
                                                                             {"SEALANE_ROUTE__MAIN__PROFILE", "raw"},
                                                                             {"SEALANE_ROUTE__MAIN__TOPIC", topic}},
                                          place_.folder());
  }

  ScratchDatabase database_;
  SqliteFile place_;  // for a folder
};

TEST_F(HostileWriters, LoseNothingAndInvertNothing) {
  SEALANE_REQUIRE_KAFKA();
  Migrate(database_.url());
  PgSession session(database_.url());
  session.Exec("create table counter (key text primary key, n int not null default 0) with (fillfactor = 50)");
  session.Exec(fmt::format("insert into counter select 'k' || g from generate_series(0, {}) g", kKeys - 1));
  session.Exec("insert into counter values ('patient')");
  const std::string topic = FreshTopic(KafkaUrl(), 6);

  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([&, i] { Writer(database_.url(), topic, i).Run(stop); });
  }
  // The transaction that stays open.
  std::atomic<std::size_t> published_while_open{0};
  threads.emplace_back([&] {
    PgSession open(database_.url());
    open.Exec("begin");
    open.Exec("update counter set n = n + 1 where key = 'patient'");
    open.Exec(fmt::format("select sealane.emit('{}', 'patient', 'T', '{{\"n\":1}}'::text)", topic));
    const std::size_t before = CountRecords(KafkaUrl(), topic);
    std::this_thread::sleep_for(kOpenFor);
    published_while_open = CountRecords(KafkaUrl(), topic) - before;
    open.Exec("commit");
  });
  // The naive cursor.
  std::set<std::pair<std::string, int>> naive;
  threads.emplace_back([&] {
    PgSession reader(database_.url());
    std::string cursor = "0";
    for (bool last = false; !last;) {
      last = stop;
      for (const auto& row : reader.Query(fmt::format(
               "select seq, key, convert_from(payload, 'UTF8') from sealane.outbox where seq > {} order by seq",
               cursor))) {
        cursor = row[0];
        naive.emplace(row[1], NumberIn(row[2]));
      }
      std::this_thread::sleep_for(milliseconds{5});
    }
  });

  std::array<std::unique_ptr<ChildProcess>, 3> relays;
  for (auto& relay : relays) relay = StartRelay(topic);
  const auto end = Steady::now() + kDuration;
  int kills = 0;
  while (Steady::now() < end) {
    std::this_thread::sleep_for(seconds{2});
    auto& victim = relays.at(static_cast<std::size_t>(kills++) % relays.size());
    victim->Signal(SIGKILL);
    victim = StartRelay(topic);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (auto& relay : relays) {
    relay->Signal(SIGTERM);
    relay->Finish();
  }
  const CommandResult drained = StartRelay(topic, {"--until", "drained", "--timeout", "60s"})->Finish();
  ASSERT_EQ(drained.code, 0) << drained.err;

  std::map<std::string, int> counts;
  std::size_t events = 0;
  for (const auto& row : session.Query("select key, n from counter")) {
    counts[row[0]] = std::stoi(row[1]);
    events += static_cast<std::size_t>(std::stoi(row[1]));
  }
  const std::size_t records = CountRecords(KafkaUrl(), topic);
  std::vector<std::pair<std::string, int>> delivered;
  for (const KafkaRecord& record : ReadTopic(KafkaUrl(), topic, records, seconds{60})) {
    delivered.emplace_back(record.key, NumberIn(record.value));
  }
  EXPECT_EQ(Complaint(delivered, counts), "");
  EXPECT_GT(published_while_open.load(), 100U) << "an open transaction held up the others";
  EXPECT_GE(kills, 20);

  std::size_t lost_by_naive = 0;
  for (const auto& [key, count] : counts) {
    for (int n = 1; n <= count; ++n) lost_by_naive += naive.count({key, n}) == 0 ? 1 : 0;
  }
  EXPECT_GT(lost_by_naive, 0U) << "the canary is alive: these writers would not hurt anybody";
  std::cout << fmt::format("{} events, {} records ({} repeated), {} kills, naive cursor lost {}\n", events,
                           delivered.size(), delivered.size() - std::min(events, delivered.size()), kills,
                           lost_by_naive);
}

}  // namespace
}  // namespace sealane::testing
