// What is special about tasks in SQLite: many dispatchers on one file with one writer, enqueueing in plain SQL, what
// a claim reads, and a file from before there were tasks. What every store promises is in the contract suite.

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sqlite/embedded_migrations.hpp"
#include "sqlite/sqlite_migrator.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/sample_events.hpp"
#include "support/sqlite_file.hpp"
#include "support/store_fixture.hpp"
#include "support/task_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class SqliteTasks : public ::testing::Test {
 protected:
  SqliteTasks() { file_.Migrate(); }

  sqlite::Options options() const { return {.path = file_.path(), .busy_timeout = seconds{60}}; }
  std::unique_ptr<TaskStore> Open() { return ValueOrThrow(sqlite::OpenTaskStore(options())); }
  SqliteHandle Handle() const { return SqliteHandle(file_.path()); }
  static std::vector<ClaimedTask> Claim(TaskStore& store, std::size_t limit = 100) {
    return ValueOrThrow(
        store.Claim({.owner = "host-1", .targets = {"billing"}, .limit = limit, .lease = seconds{60}}));
  }
  /// Tasks in the order of their numbers, which are their idempotency keys.
  void Fill(int count, const std::string& order_key = "NULL") {
    Handle().Execute(
        fmt::format("WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {})"
                    " INSERT INTO sealane_enqueue_task (target, operation, idempotency_key, request, order_key)"
                    " SELECT 'billing', '/charges', CAST(n AS TEXT), '{{}}', {} FROM n",
                    count, order_key));
  }

 private:
  SqliteFile file_;
};

TEST_F(SqliteTasks, DispatchersSideBySideNeverShareATask) {
  constexpr std::size_t kTasks = 1'000;
  Fill(kTasks);
  std::mutex mutex;
  std::multiset<std::string> taken;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const auto store = Open();
        while (true) {
          const std::vector<ClaimedTask> claimed = Claim(*store, 10 * (i + 1));
          if (claimed.empty()) return;
          const std::lock_guard lock(mutex);
          for (const ClaimedTask& task : claimed) taken.insert(task.task.idempotency_key);
        }
      });
    }
  }
  EXPECT_EQ(taken.size(), kTasks);
  EXPECT_EQ(std::set<std::string>(taken.begin(), taken.end()).size(), kTasks);
}

TEST_F(SqliteTasks, DispatchersSideBySideKeepEveryOrder) {
  constexpr int kTasks = 60;
  Fill(kTasks, "CAST(n % 7 AS TEXT)");
  std::mutex mutex;
  std::map<std::string, std::vector<int>> done;
  int left = kTasks;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const auto store = Open();
        while (true) {
          {
            const std::lock_guard lock(mutex);
            if (left == 0) return;
          }
          for (const ClaimedTask& task : Claim(*store, 2)) {
            {
              const std::lock_guard lock(mutex);
              done[task.task.order_key].push_back(std::stoi(task.task.idempotency_key));
              --left;
            }
            ValueOrThrow(store->Finish(task, SucceededReport(), Succeed()));
          }
        }
      });
    }
  }
  ASSERT_THAT(done, SizeIs(7));
  for (const auto& [key, numbers] : done) EXPECT_TRUE(std::ranges::is_sorted(numbers)) << "order " << key;
}

TEST_F(SqliteTasks, PlainSqlEnqueuesATask) {
  Handle().Execute(
      "INSERT INTO sealane_enqueue_task (target, operation, idempotency_key, request, tenant, headers, order_key,"
      " correlation_id, causation_id, traceparent, result_topic, result_key, not_before)"
      " VALUES ('billing', '/charges', 'k', '{\"amount\": 5}', 'acme', '{\"x-a\": \"1\"}', 'o', 'c', 'e', 't',"
      " 'charges', 'r', 1000000)");
  const auto store = Open();
  const ClaimedTask claimed = Claim(*store).at(0);
  EXPECT_EQ(claimed.task.request, "{\"amount\": 5}");
  EXPECT_EQ(claimed.task.tenant, "acme");
  EXPECT_EQ(claimed.task.headers, (Headers{{"x-a", "1"}}));
  EXPECT_EQ(claimed.task.order_key, "o");
  EXPECT_EQ(claimed.task.correlation_id, "c");
  EXPECT_EQ(claimed.task.causation_id, "e");
  EXPECT_EQ(claimed.task.traceparent, "t");
  EXPECT_EQ(claimed.task.result_topic, "charges");
  EXPECT_EQ(claimed.task.result_key, "r");
  EXPECT_EQ(claimed.task.content_type, "application/json");
  EXPECT_EQ(claimed.task.not_before, Timestamp{seconds{1}});
}

TEST_F(SqliteTasks, TheSameInPlainSqlIsOneAndAnotherRequestIsRefused) {
  const auto insert = [&](const std::string& request, const std::string& headers) {
    return fmt::format(
        "INSERT INTO sealane_enqueue_task (target, operation, idempotency_key, request, headers)"
        " VALUES ('billing', '/x', 'k', {}, '{}')",
        request, headers);
  };
  Handle().Execute(insert("'{}'", "{\"a\":\"1\"}"));
  Handle().Execute(insert("x'7b7d'", "{ \"a\" : \"1\" }"));
  EXPECT_THAT(Handle().ErrorOf(insert("'[]'", "{\"a\":\"1\"}")), HasSubstr("task conflict"));
  EXPECT_THAT(Handle().ErrorOf(insert("'{}'", "{}")), HasSubstr("task conflict"));
  EXPECT_EQ(Handle().Number("SELECT count(*) FROM sealane_task"), 1);
}

TEST_F(SqliteTasks, TheLibraryKnowsWhatPlainSqlEnqueued) {
  Handle().Execute(
      "INSERT INTO sealane_enqueue_task (target, operation, idempotency_key, request)"
      " VALUES ('billing', '/charges', 'charge-1', '{\"amount\":5}')");
  const auto outbox = ValueOrThrow(sqlite::OpenOutboxStore(options()));
  InTransaction(*outbox, [&](Transaction& transaction) -> Status {
    SEALANE_ASSIGN_OR_RETURN(const EnqueuedTask enqueued, transaction.EnqueueTask(SampleTask()));
    EXPECT_TRUE(enqueued.already_there);
    EXPECT_EQ(transaction.EnqueueTask(WithRequest(SampleTask(), "{}")).error().code(), "task_conflict");
    return Ok();
  });
}

TEST_F(SqliteTasks, PlainSqlRefusesWhatTheLibraryWouldRefuse) {
  for (const char* const values :
       {"'', '/x', 'k', '{}', '{}', NULL, NULL", "'billing', '', 'k', '{}', '{}', NULL, NULL",
        "'billing', '/x', '', '{}', '{}', NULL, NULL", "'billing', '/x', 'k', NULL, '{}', NULL, NULL",
        "'billing', '/x', 'k', '{}', '[]', NULL, NULL", "'billing', '/x', 'k', '{}', '{\"a\":1}', NULL, NULL",
        "'billing', '/x', 'k', '{}', '{\"a b\":\"1\"}', NULL, NULL",
        "'billing', '/x', 'k', '{}', '{\"a\":\"1\\r\\nb: 2\"}', NULL, NULL",
        "'billing', '/x', 'k' || char(10), '{}', '{}', NULL, NULL",
        "'billing', '/x', 'k', 'no json', '{}', NULL, NULL",
        "'billing', '/x', 'k', zeroblob(1048577), '{}', NULL, NULL",
        "'billing', '/x', 'k', '{}', '{}', 'not a topic', NULL", "'billing', '/x', 'k', '{}', '{}', NULL, -1"}) {
    EXPECT_THAT(Handle().ErrorOf(fmt::format("INSERT INTO sealane_enqueue_task (target, operation, idempotency_key,"
                                             " request, headers, result_topic, not_before) VALUES ({})",
                                             values)),
                HasSubstr("sealane: "))
        << values;
  }
  EXPECT_EQ(Handle().Number("SELECT count(*) FROM sealane_task"), 0);
}

/// How much work it is to find the task that is due, in steps of SQLite's machine. The look is the one of a claim.
int StepsOfALook(const SqliteHandle& handle) {
  sqlite3_stmt* statement = nullptr;
  const char* const sql =
      "SELECT place FROM sealane_task INDEXED BY sealane_task_due WHERE target = 'billing' AND NOT waits"
      " AND state IN ('PENDING', 'SENDING', 'FAILED') AND coalesce(claimed_until, due_at) <= 9e18"
      " ORDER BY coalesce(claimed_until, due_at), place LIMIT 1";
  EXPECT_EQ(sqlite3_prepare_v2(handle.get(), sql, -1, &statement, nullptr), SQLITE_OK);
  EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
  EXPECT_EQ(sqlite3_step(statement), SQLITE_DONE);
  EXPECT_EQ(sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_SORT, 0), 0);
  const int steps = sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 0);
  sqlite3_finalize(statement);
  return steps;
}

TEST_F(SqliteTasks, AClaimDoesNotReadWhatIsOverOrHeldUp) {
  Fill(1);
  const SqliteHandle handle = Handle();
  const int before = StepsOfALook(handle);
  handle.Execute(
      "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)"
      " INSERT INTO sealane_task (id, target, operation, idempotency_key, request, due_at, ended_at, state, "
      "order_key,"
      " waits) SELECT 'over-' || n, 'billing', '/x', 'over-' || n, x'', 0, 0, 'SUCCEEDED', NULL, 0 FROM n"
      " UNION ALL SELECT 'held-' || n, 'billing', '/x', 'held-' || n, x'', 0, NULL,"
      " CASE n WHEN 1 THEN 'DEAD' ELSE 'PENDING' END, 'o', n > 1 FROM n");
  EXPECT_LE(StepsOfALook(handle), 2 * before);
}

/// Writes down what every connection that is opened meanwhile runs.
class Eavesdropper {
 public:
  Eavesdropper() {
    heard().clear();
    sqlite3_auto_extension(kEntry);
  }
  ~Eavesdropper() { sqlite3_cancel_auto_extension(kEntry); }
  Eavesdropper(const Eavesdropper&) = delete;
  Eavesdropper& operator=(const Eavesdropper&) = delete;

  /// Selects from the table of tasks, with their values.
  static std::vector<std::string> Looks() {
    std::vector<std::string> looks = heard();
    std::erase_if(looks, [](const std::string& sql) {
      return !sql.starts_with("SELECT") || sql.find("sealane_task ") == std::string::npos;
    });
    return looks;
  }

 private:
  static std::vector<std::string>& heard() {
    static std::vector<std::string> heard;
    return heard;
  }
  static int Note(unsigned, void*, void* statement, void*) {
    char* const sql = sqlite3_expanded_sql(static_cast<sqlite3_stmt*>(statement));
    heard().emplace_back(sql);
    sqlite3_free(sql);
    return 0;
  }
  static int Listen(sqlite3* connection, char**, const void*) {
    return sqlite3_trace_v2(connection, SQLITE_TRACE_STMT, Note, nullptr);
  }
  // The type that SQLite wants is that of every extension's entry point.
  static inline void (*const kEntry)() = reinterpret_cast<void (*)()>(Listen);
};

TEST_F(SqliteTasks, CountingAndLookingForWhatIsNotOverReadsNothingElse) {
  const Eavesdropper eavesdropper;
  ValueOrThrow(Open()->Count());
  TaskFilter dead;
  dead.state = TaskState::kDead;
  const auto desk = ValueOrThrow(sqlite::OpenTaskDesk(options()));
  ValueOrThrow(desk->List(dead));
  ValueOrThrow(desk->Retry(dead, {"ann", "again"}));
  const std::vector<std::string> looks = Eavesdropper::Looks();
  EXPECT_THAT(looks, SizeIs(8)) << "four states, the oldest of two, a list, a choice";
  for (const std::string& sql : looks) {
    sqlite3_stmt* statement = nullptr;
    const SqliteHandle handle = Handle();
    ASSERT_EQ(sqlite3_prepare_v2(handle.get(), ("EXPLAIN QUERY PLAN " + sql).c_str(), -1, &statement, nullptr),
              SQLITE_OK);
    std::string plan;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      plan += reinterpret_cast<const char*>(sqlite3_column_text(statement, 3));
    }
    sqlite3_finalize(statement);
    EXPECT_THAT(plan, HasSubstr("sealane_task_open (state=?")) << sql;
  }
}

TEST_F(SqliteTasks, AFileFromBeforeTasksKeepsItsData) {
  const SqliteFile file;
  std::vector<Migration> older = sqlite::EmbeddedMigrations();
  while (older.back().number > 3) older.pop_back();
  ASSERT_EQ(older.back().number, 3);
  ValueOrThrow(sqlite::SqliteMigrator({.path = file.path()}, older).Up());
  SqliteHandle(file.path())
      .Execute("INSERT INTO sealane_emit (topic, key, type, payload) VALUES ('t', 'k', 'T', '{}')");
  EXPECT_EQ(sqlite::OpenTaskStore({.path = file.path()}).error().code(), "schema_older");
  file.Migrate();
  EXPECT_EQ(SqliteHandle(file.path()).Number("SELECT count(*) FROM sealane_outbox"), 1);
  SqliteHandle(file.path())
      .Execute(
          "INSERT INTO sealane_enqueue_task (target, operation, idempotency_key, request)"
          " VALUES ('billing', '/x', 'k', '{}')");
  EXPECT_THAT(Claim(*ValueOrThrow(sqlite::OpenTaskStore({.path = file.path()}))), SizeIs(1));
}

}  // namespace
}  // namespace sealane
