#include "bench_inbox/scene.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include "bench_inbox/feed.hpp"
#include "journal/journal_publisher.hpp"
#include "outbox/migration.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"

namespace sealane::bench {
namespace {

void Migrate(const Result<std::unique_ptr<Migrator>>& migrator) {
  if (!migrator) Fail(migrator.error().ToString());
  if (const auto applied = (*migrator)->Up(); !applied) Fail(applied.error().ToString());
}

constexpr const char* kEffectTable =
    "create table effect (id text primary key, events bigint not null, payload text)";

}  // namespace

PostgresScene::PostgresScene(const std::string& cluster_url, const std::string& name)
    : database_(cluster_url, name), session_(database_.url()) {
  Migrate(postgres::OpenMigrator({.url = database_.url()}));
  session_.Exec("set client_min_messages = warning");
}

void PostgresScene::Reset() {
  session_.Exec("drop table if exists effect");
  session_.Exec(kEffectTable);
  session_.Exec(
      "truncate sealane.inbox, sealane.inbox_recent, sealane.inbox_progress, sealane.inbox_consumer cascade");
  session_.Exec("checkpoint");
  AwaitEndOfSessions();
  rows_ = Rows();
  cpu_seconds_ = CpuOfEndedSessions();
  lsn_ = session_.Exec("select pg_current_wal_insert_lsn()");
}

PostgresScene::Written PostgresScene::Count() const {
  const double wal = session_.Number(fmt::format("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{}')", lsn_));
  AwaitEndOfSessions();
  return {.wal_bytes = wal, .rows = Rows() - rows_, .cpu_seconds = CpuOfEndedSessions() - cpu_seconds_};
}

double PostgresScene::CpuOfEndedSessions() const {
  // The server is on this machine; its first process has inherited what its children used.
  std::ifstream stat(fmt::format("/proc/{}/stat", session_.Exec("select split_part(pg_read_file('postmaster.pid'), "
                                                                "e'\\n', 1)")));
  std::string word;
  double ticks = 0;
  for (int field = 1; field <= 17 && stat >> word; ++field) {
    if (field >= 16) ticks += std::stod(word);  // cutime and cstime
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void PostgresScene::AwaitEndOfSessions() const {
  // A session reports when it ends, and its process may outlive the connection for a moment.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (session_.Number("select count(*) from pg_stat_activity where datname = current_database()"
                         " and backend_type = 'client backend' and pid <> pg_backend_pid()") > 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

double PostgresScene::Rows() const {
  session_.Exec("select pg_stat_clear_snapshot()");
  return session_.Number(
      "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) from pg_stat_user_tables"
      " where schemaname in ('sealane', 'public')");
}

void PostgresScene::Check(std::size_t events) const {
  const double effects = session_.Number("select coalesce(sum(events), 0) from effect");
  if (effects != static_cast<double>(events)) Fail(fmt::format("{} effects of {} events", effects, events));
}

SqliteScene::SqliteScene() {
  // Beside the program: a temporary directory may be in memory, where no commit costs anything.
  std::string name = std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/bench_inbox.XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) Fail("no directory could be made at " + name);
  folder_ = name;
  path_ = folder_ + "/store.db";
}

SqliteScene::~SqliteScene() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void SqliteScene::Reset() const {
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + suffix);
  Migrate(sqlite::OpenMigrator({.path = path_}));
  sqlite3* file = nullptr;
  if (sqlite3_open(path_.c_str(), &file) != SQLITE_OK ||
      sqlite3_exec(file, kEffectTable, nullptr, nullptr, nullptr) != SQLITE_OK) {
    Fail(sqlite3_errmsg(file));
  }
  sqlite3_close(file);
}

void SqliteScene::Check(std::size_t events) const {
  sqlite3* file = nullptr;
  sqlite3_stmt* sum = nullptr;
  if (sqlite3_open(path_.c_str(), &file) != SQLITE_OK ||
      sqlite3_prepare_v2(file, "SELECT sum(events) FROM effect", -1, &sum, nullptr) != SQLITE_OK ||
      sqlite3_step(sum) != SQLITE_ROW) {
    Fail(sqlite3_errmsg(file));
  }
  const auto effects = static_cast<std::size_t>(sqlite3_column_int64(sum, 0));
  sqlite3_finalize(sum);
  sqlite3_close(file);
  if (effects != events) Fail(fmt::format("{} effects of {} events", effects, events));
}

void SqliteScene::FillJournal(std::size_t events) const {
  auto publisher = OpenJournalPublisher({.path = folder_ + "/journal.db"}, SystemClock::Instance());
  if (!publisher) Fail(publisher.error().ToString());
  constexpr std::size_t kTogether = 1'000;
  Feed feed;
  std::vector<Delivery> deliveries;
  std::size_t written = 0;
  for (std::size_t i = 0; i < events; ++i) {
    const ReceivedMessage message = feed.Next();
    std::vector<HeaderView> headers;
    for (const auto& [name, value] : message.headers) headers.push_back({name, value});
    const OutgoingMessage outgoing{
        .token = i, .event_id = {}, .topic = kTopic, .key = message.key, .value = message.value, .headers = headers};
    if ((*publisher)->Submit(outgoing) != Submitted::kTaken) Fail("the journal takes no more");
    if ((i + 1) % kTogether != 0 && i + 1 != events) continue;
    while (written + deliveries.size() < i + 1) (*publisher)->Collect(deliveries, std::chrono::milliseconds{100});
    for (const Delivery& delivery : deliveries) {
      if (delivery.status != DeliveryStatus::kPersisted) Fail("the journal refused a message");
    }
    written += deliveries.size();
    deliveries.clear();
  }
}

}  // namespace sealane::bench
