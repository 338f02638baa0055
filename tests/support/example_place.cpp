#include "support/example_place.hpp"

#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/kafka_cluster.hpp"
#include "support/pg_session.hpp"

namespace sealane::testing {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

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
      row.emplace_back(data == nullptr ? "" : data, static_cast<std::size_t>(sqlite3_column_bytes(statement, i)));
    }
  }
  EXPECT_EQ(sqlite3_finalize(statement), SQLITE_OK) << sql;
  return rows;
}

std::string Joined(const std::vector<std::vector<std::string>>& rows) {
  std::string all;
  for (const auto& row : rows) {
    for (const std::string& value : row) all += value + '\n';
  }
  return all;
}

}  // namespace

std::string SourcePath(const std::string& path) {
  return std::string(SEALANE_TEST_SOURCE_DIR) + "/" + path;
}

ExampleStore::ExampleStore(bool postgres, const std::string& script) {
  if (postgres) {
    database_ = std::make_unique<ScratchDatabase>(kMigrated);
  } else {
    file_.Migrate();
  }
  const std::string sql = ReadFile(SourcePath(script));
  EXPECT_FALSE(sql.empty()) << script;
  Execute(sql);
}

std::string ExampleStore::url() const {
  return database_ ? database_->url() : "sqlite:" + file_.path();
}

std::string ExampleStore::Table(const std::string& name) const {
  return (database_ ? "sealane." : "sealane_") + name;
}

void ExampleStore::Execute(const std::string& sql) const {
  if (database_) {
    PgSession(database_->url()).Exec(sql);
    return;
  }
  const SqliteHandle handle(file_.path());
  sqlite3_busy_timeout(handle.get(), 30'000);
  handle.Execute(sql);
}

std::vector<std::vector<std::string>> ExampleStore::Query(const std::string& sql) const {
  return database_ ? PgSession(database_->url()).Query(sql) : QuerySqlite(file_.path(), sql);
}

std::int64_t ExampleStore::Number(const std::string& sql) const {
  const auto rows = Query(sql);
  return rows.empty() ? -1 : std::stoll(rows.front().front());
}

std::string ExampleStore::Dump(const std::string& table) const {
  std::string all = Joined(Query("SELECT * FROM " + Table(table)));
  // Bytes come from PostgreSQL as hex digits, in which nobody finds a word.
  if (database_) all += Joined(Query(fmt::format("SELECT encode(payload, 'escape') FROM {}", Table(table))));
  return all;
}

ExamplePlace::ExamplePlace(const std::string& kind, const std::vector<std::string>& topics)
    : is_kafka_(kind == "postgres_kafka") {
  prefix_ = is_kafka_ ? FreshTopicName() + "-" : "here-";
  for (const std::string& topic : topics) {
    if (is_kafka_) CreateTopic(KafkaUrl(), Topic(topic), 2);
  }
}

std::string ExamplePlace::broker_url() const {
  return is_kafka_ ? KafkaUrl() : "journal:" + folder() + "/journal.db";
}

std::map<std::string, std::string> ExamplePlace::RelayVariables() const {
  return {{"SEALANE_ROUTE__MAIN__TOPIC", prefix_ + "${topic}"},
          {"SEALANE_RELAY__LEASE", "500ms"},
          {"SEALANE_RELAY__LISTEN", "off"},
          {"SEALANE_LOG__LEVEL", "warning"},
          {"SEALANE_BROKER__JOURNAL__PARTITIONS", "2"}};
}

CommandResult ExamplePlace::Relay(const ExampleStore& store) const {
  return RunSealane(
      {"relay", "--store", store.url(), "--broker", broker_url(), "--until", "drained", "--timeout", "120s"}, {},
      RelayVariables(), folder());
}

std::string ExamplePlace::Content(const std::string& topic) const {
  // A journal is a file: whatever is in it is in its bytes.
  if (!is_kafka_) return ReadFile(folder() + "/journal.db") + ReadFile(folder() + "/journal.db-wal");
  std::string all;
  for (const KafkaRecord& record : ReadTopic(KafkaUrl(), Topic(topic), CountRecords(KafkaUrl(), Topic(topic)))) {
    all += record.key + '\n' + record.value + '\n';
    for (const auto& [name, value] : record.headers) all += name + ": " + value + '\n';
  }
  return all;
}

}  // namespace sealane::testing
