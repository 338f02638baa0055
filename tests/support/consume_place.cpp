#include "support/consume_place.hpp"

#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/sha256.hpp"
#include "core/wire.hpp"
#include "journal/journal_publisher.hpp"
#include "kafka/kafka_publisher.hpp"
#include "support/courier.hpp"
#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"
#include "support/sample_events.hpp"

namespace sealane::testing {
namespace {

constexpr const char* kTables =
    "CREATE TABLE effects (consumer TEXT, key TEXT, version BIGINT, event_id TEXT, part BIGINT, place BIGINT,"
    " before BIGINT);"
    "CREATE TABLE counters (consumer TEXT, key TEXT, effects BIGINT, PRIMARY KEY (consumer, key));";

constexpr const char* kScript =
    "INSERT INTO effects (consumer, key, version, event_id, part, place, before)\n"
    "VALUES (:consumer, :key, :aggregate_version, :event_id, :partition, :offset,\n"
    "        coalesce((SELECT c.effects FROM counters c WHERE c.consumer = :consumer AND c.key = :key), 0));\n"
    "INSERT INTO counters (consumer, key, effects) VALUES (:consumer, :key, 1)\n"
    "ON CONFLICT (consumer, key) DO UPDATE SET effects = counters.effects + 1;\n";

std::vector<std::vector<std::string>> QuerySqlite(const std::string& path, const std::string& sql) {
  const SqliteHandle handle(path);
  sqlite3_busy_timeout(handle.get(), 30'000);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(handle.get(), sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
      << sql << ": " << sqlite3_errmsg(handle.get());
  std::vector<std::vector<std::string>> rows;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    auto& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const auto* const data = static_cast<const char*>(sqlite3_column_blob(statement, i));
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, i));
      const bool null = sqlite3_column_type(statement, i) == SQLITE_NULL;
      row.push_back(null ? "NULL" : std::string(data == nullptr ? "" : data, size));
    }
  }
  EXPECT_EQ(sqlite3_finalize(statement), SQLITE_OK) << sql;
  return rows;
}

}  // namespace

Envelope ChangeOf(const std::string& key, std::int64_t version) {
  Envelope event;
  event.id = FreshId();
  event.type = "OrderChanged";
  event.topic = "orders";
  event.key = key;
  event.aggregate = {.type = "order", .id = key, .version = version};
  event.correlation_id = "c-1";
  event.content_type = "application/json";
  event.occurred_at = SystemClock::Instance().Now();
  event.payload = fmt::format("{{\"version\":{}}}", version);
  event.payload_hash = Sha256(event.payload);
  return event;
}

std::vector<Envelope> ChangesOf(int keys, int versions) {
  std::vector<Envelope> events;
  for (int version = 1; version <= versions; ++version) {
    for (int key = 0; key < keys; ++key) events.push_back(ChangeOf(fmt::format("k{}", key), version));
  }
  return events;
}

ConsumePlace::ConsumePlace(const std::string& kind, int partitions) : partitions_(partitions) {
  if (kind == "postgres_kafka") {
    database_ = std::make_unique<ScratchDatabase>(kMigrated);
    topic_ = FreshTopic(KafkaUrl(), partitions);
    publisher_ = ValueOrThrow(OpenKafkaPublisher({.url = KafkaUrl()}, SystemClock::Instance()));
  } else {
    file_.Migrate();
    topic_ = "orders";
    publisher_ = ValueOrThrow(
        OpenJournalPublisher({.path = folder() + "/journal.db", .partitions = partitions}, SystemClock::Instance()));
  }
  Execute(kTables);
  WriteScript(kScript);
}

std::string ConsumePlace::store_url() const {
  return database_ ? database_->url() : "sqlite:" + file_.path();
}
std::string ConsumePlace::broker_url() const {
  return database_ ? KafkaUrl() : "journal:" + folder() + "/journal.db";
}

void ConsumePlace::Publish(const std::vector<Envelope>& events) {
  Courier courier(*publisher_);
  for (const Envelope& event : events) {
    const WireMessage message = ToWire(event, WireProfile::kEnvelope);
    courier.Send(topic_, message.key, message.value, message.headers);
  }
  courier.CollectAll();
}

void ConsumePlace::PublishBytes(const std::string& key, const std::string& value) {
  Courier courier(*publisher_);
  courier.Send(topic_, key, value);
  courier.CollectAll();
}

std::vector<std::string> ConsumePlace::Arguments(const std::string& consumer,
                                                 const std::vector<std::string>& more) const {
  std::vector<std::string> arguments = {
      "consume", "--consumer", consumer,   "--topic",   topic_, "--sql", folder() + "/effect.sql",
      "--store", store_url(),  "--broker", broker_url()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

CommandResult ConsumePlace::CatchUp(const std::string& consumer, const std::vector<std::string>& more) const {
  std::vector<std::string> arguments =
      Arguments(consumer, {"--until", "caught-up", "--timeout", "90s", "-o", "json"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunSealane(arguments, {}, {}, folder());
}

std::unique_ptr<ChildProcess> ConsumePlace::Start(const std::string& name, const std::string& consumer,
                                                  const std::vector<std::string>& more) const {
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" 2>\"$LOG\"", "sh", SEALANE_TEST_BINARY};
  const std::vector<std::string> arguments = Arguments(consumer, more);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return std::make_unique<ChildProcess>(command, std::map<std::string, std::string>{{"LOG", LogOf(name)}}, folder());
}

std::string ConsumePlace::ReadLog(const std::string& name) const {
  std::ifstream file(LogOf(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

void ConsumePlace::WriteScript(const std::string& text) const {
  std::ofstream(folder() + "/effect.sql") << text;
}

void ConsumePlace::AddToScript(const std::string& text) const {
  WriteScript(kScript + text);
}

std::string ConsumePlace::Table(const std::string& name) const {
  return (database_ ? "sealane." : "sealane_") + name;
}

void ConsumePlace::Execute(const std::string& sql) const {
  if (database_) {
    PgSession(database_->url()).Exec(sql);
    return;
  }
  const SqliteHandle handle(file_.path());
  sqlite3_busy_timeout(handle.get(), 30'000);
  handle.Execute(sql);
}

std::vector<std::vector<std::string>> ConsumePlace::Query(const std::string& sql) const {
  return database_ ? PgSession(database_->url()).Query(sql) : QuerySqlite(file_.path(), sql);
}

std::int64_t ConsumePlace::Number(const std::string& sql) const {
  const auto rows = Query(sql);
  return rows.empty() ? -1 : std::stoll(rows.front().front());
}

std::int64_t ConsumePlace::CountEffects(const std::string& consumer) const {
  return Number(fmt::format("SELECT count(*) FROM effects WHERE consumer = '{}'", consumer));
}

std::string ConsumePlace::Complaint(const std::string& consumer, const std::vector<Envelope>& events,
                                    bool record) const {
  std::set<std::string> wanted;
  std::map<std::string, std::int64_t> lowest;  // version of each key, which need not be 1
  for (const Envelope& event : events) {
    wanted.insert(event.id.ToString());
    const auto [known, fresh] = lowest.emplace(event.key, *event.aggregate.version);
    if (!fresh) known->second = std::min(known->second, *event.aggregate.version);
  }
  std::set<std::string> had;
  for (const auto& row : Query(fmt::format(
           "SELECT event_id, key, version, before FROM effects WHERE consumer = '{}' ORDER BY key, before",
           consumer))) {
    if (!wanted.contains(row[0])) return fmt::format("an effect of {}, which nobody published", row[0]);
    if (!had.insert(row[0]).second) return fmt::format("{} version {} took effect twice", row[1], row[2]);
    if (std::stoll(row[2]) != std::stoll(row[3]) + lowest[row[1]]) {
      return fmt::format("{} version {} took effect after {} others", row[1], row[2], row[3]);
    }
  }
  if (had.size() != wanted.size()) return fmt::format("{} of {} took effect", had.size(), wanted.size());
  const auto parked =
      Number(fmt::format("SELECT count(*) FROM {} WHERE consumer = '{}'", Table("inbox_parked"), consumer));
  if (parked != 0) return fmt::format("{} are set aside", parked);
  if (!record) return {};
  std::set<std::string> receipts;
  for (const auto& row :
       Query(fmt::format("SELECT event_id, state FROM {} WHERE consumer = '{}'", Table("inbox"), consumer))) {
    if (row[1] != "PROCESSED") return fmt::format("the receipt of {} says {}", row[0], row[1]);
    receipts.insert(row[0]);
  }
  if (receipts != had) return fmt::format("{} receipts, {} effects", receipts.size(), had.size());
  return {};
}

std::string ConsumePlace::AheadComplaint(const std::string& consumer) const {
  // The position first: what happens meanwhile only adds effects.
  for (const auto& [partition, offset] : Committed(consumer)) {
    const auto effects =
        Number(fmt::format("SELECT count(*) FROM effects WHERE consumer = '{}' AND part = {} AND place < {}",
                           consumer, partition, offset));
    const auto parked = Number(fmt::format(
        "SELECT count(*) FROM {} WHERE consumer = '{}' AND topic = '{}' AND partition = {} AND \"offset\" < {}",
        Table("inbox_parked"), consumer, topic_, partition, offset));
    if (effects + parked < offset) {
      return fmt::format("partition {} stands at {} with {} effects and {} set aside", partition, offset, effects,
                         parked);
    }
  }
  return {};
}

std::map<std::int32_t, std::int64_t> ConsumePlace::Committed(const std::string& group) const {
  if (database_) return CommittedOffsets(KafkaUrl(), group, topic_, partitions_);
  std::map<std::int32_t, std::int64_t> offsets;
  for (const auto& row : QuerySqlite(
           folder() + "/journal.db",
           fmt::format("SELECT p.partition, g.next_offset FROM journal_group_offsets g JOIN journal_partitions p "
                       "USING (partition_id) WHERE g.group_name = '{}'",
                       group))) {
    offsets[std::stoi(row[0])] = std::stoll(row[1]);
  }
  return offsets;
}

}  // namespace sealane::testing
