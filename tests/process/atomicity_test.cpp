// Atomicity under kill -9: a process is killed at every counted system call between the business write and the end of
// the commit, before and after the call. Afterwards the business row and its event exist both or neither.

#include <array>
#include <filesystem>
#include <map>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sqlite/sqlite_store.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

extern char** environ;

namespace sealane {
namespace {

using testing::Migrate;
using testing::PgSession;
using testing::ScratchDatabase;

/// Runs the victim; true when it was killed by the switch, false when it finished the transaction.
bool RunVictim(const std::string& store, const std::string& target, int order, long deadly, bool before) {
  const std::array<std::string, 6> words = {
      SEALANE_TEST_VICTIM, store, target, std::to_string(order), std::to_string(deadly), before ? "before" : "after"};
  std::array<char*, 7> argv{};
  for (std::size_t i = 0; i < words.size(); ++i) argv[i] = const_cast<char*>(words[i].c_str());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    return true;
  }
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the victim failed by itself at call " << deadly;
  return false;
}

/// Walks over the kill points, again and again, until `kills` processes have died. Calls `check` after each victim
/// with the order number and whether it was killed.
template <class Check>
int KillMany(const std::string& store, const std::string& target, int kills, Check check) {
  int order = 0;
  int killed = 0;
  int points = 0;
  while (killed < kills && !::testing::Test::HasFailure()) {
    for (const bool before : {true, false}) {
      for (long deadly = 1; killed < kills; ++deadly) {
        const bool died = RunVictim(store, target, ++order, deadly, before);
        check(order, died);
        if (!died) break;  // past the last call: the whole transaction is walked through
        ++killed;
        points = std::max(points, static_cast<int>(deadly));
      }
    }
  }
  ::testing::Test::RecordProperty("kills", killed);
  ::testing::Test::RecordProperty("kill_points", points);
  fmt::print("{} kills at {} different calls\n", killed, points * 2);
  return points;
}

TEST(Atomicity, HoldsOnPostgresUnderTwoHundredKills) {
  ScratchDatabase database;
  Migrate(database.url());
  PgSession session(database.url());
  session.Exec("CREATE TABLE orders (id int PRIMARY KEY)");
  std::map<std::string, int> outcomes;
  const int points = KillMany("postgres", database.url(), 200, [&](int order, bool died) {
    // The server may still be working on what a dead client sent last; wait until its session is gone.
    session.Exec(
        "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()) LOOP PERFORM pg_sleep(0.002); "
        "PERFORM pg_stat_clear_snapshot(); END LOOP; END $$");
    const int rows = session.Count(fmt::format("orders WHERE id = {}", order));
    const int events = session.Count(fmt::format("sealane.outbox WHERE key = '{}'", order));
    ASSERT_EQ(rows, events) << "order " << order;
    if (!died) {
      ASSERT_EQ(rows, 1);
    }
    ++outcomes[died ? (rows == 1 ? "killed, committed" : "killed, rolled back") : "finished"];
  });
  EXPECT_GE(points, 8) << "BEGIN, INSERT, append, UPDATE, COMMIT each send and receive";
  EXPECT_GT(outcomes["killed, committed"], 0) << "no kill came after the commit: the walk is not complete";
  EXPECT_GT(outcomes["killed, rolled back"], 0);
}

TEST(Atomicity, HoldsOnSqliteUnderAThousandKills) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("sealane-atomicity-{}.db", getpid());
  const auto remove = [&] {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
  };
  remove();
  {
    auto migrator = sqlite::OpenMigrator({.path = path.string()});
    ASSERT_TRUE(migrator) << migrator.error().ToString();
    ASSERT_TRUE((*migrator)->Up());
  }
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(connection, "CREATE TABLE orders (id INTEGER PRIMARY KEY)", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(connection);
  const auto count = [&](sqlite3* open, const std::string& from) {
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(open, ("SELECT count(*) FROM " + from).c_str(), -1, &statement, nullptr), SQLITE_OK)
        << sqlite3_errmsg(open);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW) << sqlite3_errmsg(open);
    const int value = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return value;
  };
  std::map<std::string, int> outcomes;
  const int points = KillMany("sqlite", path.string(), 1'000, [&](int order, bool died) {
    // A fresh connection recovers what the dead process left behind, as the next user would.
    sqlite3* reader = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &reader), SQLITE_OK);
    const int rows = count(reader, fmt::format("orders WHERE id = {}", order));
    const int events = count(reader, fmt::format("sealane_outbox WHERE key = '{}'", order));
    sqlite3_close(reader);
    ASSERT_EQ(rows, events) << "order " << order;
    if (!died) {
      ASSERT_EQ(rows, 1);
    }
    ++outcomes[died ? (rows == 1 ? "killed, committed" : "killed, rolled back") : "finished"];
  });
  EXPECT_GE(points, 4);
  EXPECT_GT(outcomes["killed, committed"], 0) << "no kill came after the commit: the walk is not complete";
  EXPECT_GT(outcomes["killed, rolled back"], 0);
  remove();
}

}  // namespace
}  // namespace sealane
