// What is special about tasks in PostgreSQL: dispatchers and writers that meet, what a claim reads, enqueueing in
// SQL, and a schema that comes from before there were tasks. What every store promises is in the contract suite.

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "support/eventually.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"
#include "support/task_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PostgresTasks : public ::testing::Test {
 protected:
  PostgresTasks() { admin_ = std::make_unique<PgSession>(database_.url()); }

  std::unique_ptr<TaskStore> Open() { return ValueOrThrow(postgres::OpenTaskStore({.url = database_.url()})); }
  const std::string& url() const { return database_.url(); }
  PgSession& admin() { return *admin_; }
  static std::vector<ClaimedTask> Claim(TaskStore& store, std::size_t limit = 100) {
    return ValueOrThrow(
        store.Claim({.owner = "host-1", .targets = {"billing"}, .limit = limit, .lease = seconds{60}}));
  }
  /// Tasks in the order of their numbers, which are their idempotency keys.
  void Fill(int count, const std::string& order_key = "null") {
    admin().Exec(
        fmt::format("SELECT count(sealane.enqueue_task('billing', '/charges', n::text, '{{}}'::text,"
                    " order_key => {})) FROM generate_series(1, {}) n",
                    order_key, count));
  }
  /// What `act` returns, which must not wait for any lock: whoever does is cancelled.
  template <class Act>
  auto InTime(Act act) {
    std::jthread watch([this](const std::stop_token& stop) {
      PgSession session(url());
      while (!stop.stop_requested()) {
        session.Exec(
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()");
        std::this_thread::sleep_for(milliseconds{20});
      }
    });
    return act();
  }
  /// Waits until a statement of somebody else waits for a lock.
  void AwaitWaiter() {
    ASSERT_TRUE(Eventually([&] { return admin().Count("pg_locks WHERE NOT granted") > 0; }));
  }

 private:
  ScratchDatabase database_{kMigrated};
  std::unique_ptr<PgSession> admin_;
};

// ---- dispatchers side by side

TEST_F(PostgresTasks, DispatchersSideBySideNeverShareATask) {
  constexpr int kTasks = 1'000;
  constexpr int kThreads = 8;
  Fill(kTasks);
  std::mutex mutex;
  std::multiset<std::string> taken;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const auto store = Open();
        const auto size = static_cast<std::size_t>(1 + i);
        // Others may hold the last ones for a moment, so nothing found once is not the end.
        while (true) {
          std::vector<ClaimedTask> claimed = Claim(*store, size);
          const std::lock_guard lock(mutex);
          for (const ClaimedTask& task : claimed) taken.insert(task.task.idempotency_key);
          if (claimed.empty() && taken.size() >= kTasks) return;
        }
      });
    }
  }
  EXPECT_EQ(taken.size(), std::size_t{kTasks});
  EXPECT_EQ(std::set<std::string>(taken.begin(), taken.end()).size(), std::size_t{kTasks});
  EXPECT_EQ(admin().Count("sealane.task_attempt"), kTasks);
}

TEST_F(PostgresTasks, DispatchersSideBySideKeepEveryOrder) {
  constexpr int kTasks = 300;
  Fill(kTasks, "(n % 7)::text");
  std::mutex mutex;
  std::map<std::string, std::vector<int>> done;
  std::set<std::string> under_way;
  std::atomic<int> left = kTasks;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const auto store = Open();
        while (left > 0) {
          for (const ClaimedTask& task : Claim(*store, 2)) {
            {
              const std::lock_guard lock(mutex);
              EXPECT_TRUE(under_way.insert(task.task.order_key).second) << "two of one order at once";
              done[task.task.order_key].push_back(std::stoi(task.task.idempotency_key));
              under_way.erase(task.task.order_key);
            }
            ValueOrThrow(store->Finish(task, SucceededReport(), Succeed()));
            --left;
          }
        }
      });
    }
  }
  ASSERT_THAT(done, SizeIs(7));
  for (const auto& [key, numbers] : done) EXPECT_TRUE(std::ranges::is_sorted(numbers)) << "order " << key;
}

TEST_F(PostgresTasks, WhoeverClaimsDoesNotWaitForOthers) {
  Fill(2);
  PgSession other(url());
  other.Exec("BEGIN; SELECT place FROM sealane.task WHERE idempotency_key = '1' FOR UPDATE");
  const auto store = Open();
  const std::vector<ClaimedTask> claimed = Claim(*store);
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].task.idempotency_key, "2");
}

// ---- writers that meet

TEST_F(PostgresTasks, OfTwoThatBeginAnOrderTheSecondFollows) {
  PgSession first(url());
  first.Exec("BEGIN; SELECT sealane.enqueue_task('billing', '/x', '1', '{}'::text, order_key => 'o')");
  std::jthread second([&] {
    PgSession(url()).Exec("SELECT sealane.enqueue_task('billing', '/x', '2', '{}'::text, order_key => 'o')");
  });
  AwaitWaiter();
  first.Exec("COMMIT");
  second.join();
  const auto store = Open();
  const std::vector<ClaimedTask> claimed = Claim(*store);
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_EQ(claimed[0].task.idempotency_key, "1");
}

TEST_F(PostgresTasks, OneThatIsEnqueuedWhileTheOneBeforeEndsIsNotForgotten) {
  Fill(1, "'o'");
  const auto store = Open();
  const ClaimedTask claimed = Claim(*store).at(0);
  PgSession writer(url());
  writer.Exec("BEGIN; SELECT sealane.enqueue_task('billing', '/x', '2', '{}'::text, order_key => 'o')");
  // The writer saw the first one not over; whether there is a second is known when the writer has ended.
  ValueOrThrow(store->Finish(claimed, SucceededReport(), Succeed()));
  EXPECT_THAT(Claim(*store), IsEmpty());
  writer.Exec("COMMIT");
  const std::vector<ClaimedTask> next = Claim(*store);
  ASSERT_THAT(next, SizeIs(1));
  EXPECT_EQ(next[0].task.idempotency_key, "2");
}

TEST_F(PostgresTasks, AnOpenWriterBehindATaskDoesNotKeepItsEndFromBeingWritten) {
  Fill(1, "'o'");
  const auto store = Open();
  const ClaimedTask claimed =
      ValueOrThrow(store->Claim({.owner = "host-1", .targets = {"billing"}, .limit = 1, .lease = seconds{60}})).at(0);
  PgSession writer(url());
  writer.Exec("BEGIN; SELECT sealane.enqueue_task('billing', '/x', '2', '{}'::text, order_key => 'o')");
  const Status finished = InTime([&] { return store->Finish(claimed, SucceededReport(), Succeed()); });
  EXPECT_TRUE(finished) << finished.error().ToString();
  EXPECT_EQ(admin().Count("sealane.task WHERE state = 'SUCCEEDED'"), 1);
  admin().Exec("UPDATE sealane.task SET claimed_until = claimed_until - interval '1 hour'");
  const auto other = Open();
  EXPECT_THAT(Claim(*other), IsEmpty()) << "what succeeded is not sent again";
  writer.Exec("COMMIT");
}

TEST_F(PostgresTasks, BehindOneThatEndedUnderAnOpenWriterTheOrderIsKept) {
  Fill(1, "'o'");
  const auto store = Open();
  const ClaimedTask first = Claim(*store).at(0);
  PgSession writer(url());
  writer.Exec("BEGIN; SELECT sealane.enqueue_task('billing', '/x', '2', '{}'::text, order_key => 'o')");
  ValueOrThrow(store->Finish(first, SucceededReport(), Succeed()));
  // Comes later and commits before.
  admin().Exec("SELECT sealane.enqueue_task('billing', '/x', '3', '{}'::text, order_key => 'o')");
  EXPECT_THAT(Claim(*store), IsEmpty()) << "an earlier one is on its way";
  EXPECT_EQ(
      ValueOrThrow(store->Prune(std::vector<std::string>{"billing", "mail"}, std::chrono::milliseconds{0}, 100)), 0)
      << "who forgot the first would forget the others";
  writer.Exec("COMMIT");
  const std::vector<ClaimedTask> second = Claim(*store);
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].task.idempotency_key, "2");
  ValueOrThrow(store->Finish(second[0], SucceededReport(), Succeed()));
  EXPECT_EQ(Claim(*store).at(0).task.idempotency_key, "3");
  EXPECT_EQ(admin().Count("sealane.task WHERE blocks"), 1);
}

TEST_F(PostgresTasks, AWriterThatRollsBackBehindOneThatEndedLeavesNothingBehind) {
  Fill(1, "'o'");
  const auto store = Open();
  const ClaimedTask first = Claim(*store).at(0);
  PgSession writer(url());
  writer.Exec("BEGIN; SELECT sealane.enqueue_task('billing', '/x', '2', '{}'::text, order_key => 'o')");
  ValueOrThrow(store->Finish(first, SucceededReport(), Succeed()));
  writer.Exec("ROLLBACK");
  EXPECT_THAT(Claim(*store), IsEmpty());
  admin().Exec("SELECT sealane.enqueue_task('billing', '/x', '3', '{}'::text, order_key => 'o')");
  EXPECT_EQ(Claim(*store).at(0).task.idempotency_key, "3");
}

TEST_F(PostgresTasks, OneIsGivenUpWhileSomebodyEnqueuesBehindIt) {
  Fill(2, "'o'");
  const auto store = Open();
  const auto desk = ValueOrThrow(postgres::OpenTaskDesk({.url = url()}));
  const ClaimedTask first = Claim(*store).at(0);
  TaskFilter filter;
  filter.idempotency_key = "2";
  const EventId second = ValueOrThrow(desk->List(filter)).at(0).id;
  PgSession writer(url());
  writer.Exec("BEGIN; SELECT sealane.enqueue_task('billing', '/x', '3', '{}'::text, order_key => 'o')");
  EXPECT_EQ(InTime([&] { return ValueOrThrow(desk->Discard(second, {"ann", "wrong"})); }), 1);
  ValueOrThrow(store->Finish(first, SucceededReport(), Succeed()));
  EXPECT_THAT(Claim(*store), IsEmpty());
  writer.Exec("COMMIT");
  const std::vector<ClaimedTask> third = Claim(*store);
  ASSERT_THAT(third, SizeIs(1));
  EXPECT_EQ(third[0].task.idempotency_key, "3");
}

TEST_F(PostgresTasks, AnOpenWriterDoesNotKeepTheOneBeforeFromBeingClaimedOrFailing) {
  Fill(1, "'o'");
  PgSession writer(url());
  writer.Exec("BEGIN; SELECT sealane.enqueue_task('billing', '/x', '2', '{}'::text, order_key => 'o')");
  const auto store = Open();
  const std::vector<ClaimedTask> claimed = Claim(*store);
  ASSERT_THAT(claimed, SizeIs(1));
  EXPECT_TRUE(store->Finish(claimed[0], RetryReport(), TryAgainAfter(milliseconds{0})));
}

TEST_F(PostgresTasks, AWriterThatRollsBackLeavesTheOrderToTheNext) {
  PgSession first(url());
  first.Exec("BEGIN; SELECT sealane.enqueue_task('billing', '/x', '1', '{}'::text, order_key => 'o')");
  std::jthread second([&] {
    PgSession(url()).Exec("SELECT sealane.enqueue_task('billing', '/x', '2', '{}'::text, order_key => 'o')");
  });
  AwaitWaiter();
  first.Exec("ROLLBACK");
  second.join();
  const auto store = Open();
  EXPECT_EQ(Claim(*store).at(0).task.idempotency_key, "2");
}

TEST_F(PostgresTasks, EnqueueingAndEndingSideBySideForgetsNobody) {
  constexpr int kTasks = 200;
  std::atomic<int> done = 0;
  {
    std::vector<std::jthread> threads;
    for (int writer = 0; writer < 2; ++writer) {
      threads.emplace_back([&, writer] {
        PgSession session(url());
        for (int i = 0; i < kTasks / 2; ++i) {
          session.Exec(
              fmt::format("SELECT sealane.enqueue_task('billing', '/x', '{}-{}', '{{}}'::text,"
                          " order_key => '{}')",
                          writer, i, i % 2));
        }
      });
    }
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        const auto store = Open();
        ASSERT_TRUE(Eventually([&] {
          for (const ClaimedTask& task : Claim(*store)) {
            ValueOrThrow(store->Finish(task, SucceededReport(), Succeed()));
            ++done;
          }
          return done == kTasks;
        }));
      });
    }
  }
  EXPECT_EQ(admin().Count("sealane.task WHERE state = 'SUCCEEDED'"), kTasks);
}

// ---- what a claim reads

/// Pages that a claim of one task touches.
int PagesOfAClaim(PgSession& session) {
  // Once before, so that the catalogue is read and the plan is made.
  session.Exec("BEGIN; SELECT * FROM sealane.task_claim('x', '{billing}', '{1}', 1, 60000); ROLLBACK");
  session.Exec("BEGIN");
  const auto rows = session.Query(
      "EXPLAIN (ANALYZE, BUFFERS, TIMING off, SUMMARY off) SELECT * FROM sealane.task_claim('x', '{billing}', '{1}', "
      "1,"
      " 60000)");
  session.Exec("ROLLBACK");
  for (const auto& row : rows) {
    const std::size_t at = row[0].find("shared hit=");
    if (at != std::string::npos) return std::stoi(row[0].substr(at + 11));
  }
  ADD_FAILURE() << "EXPLAIN says nothing about buffers";
  return 0;
}

TEST_F(PostgresTasks, AClaimDoesNotReadWhatIsOverOrHeldUp) {
  Fill(1);
  const int before = PagesOfAClaim(admin());
  // As many over as a store keeps, and many behind one that is dead.
  admin().Exec(
      "INSERT INTO sealane.task (id, tenant, target, operation, idempotency_key, request, request_hash, content_type,"
      " headers, created_at, due_at, ended_at, state, order_key, waits, blocks)"
      " SELECT gen_random_uuid(), '', 'billing', '/x', 'over-' || n, ''::bytea, '', 'text/plain', '{}'::json, now(),"
      " now() - interval '1 day', now(), 'SUCCEEDED', null, false, false FROM generate_series(1, 20000) n"
      " UNION ALL SELECT gen_random_uuid(), '', 'billing', '/x', 'held-' || n, ''::bytea, '', 'text/plain', "
      "'{}'::json, now(),"
      " now() - interval '1 day', null, CASE n WHEN 1 THEN 'DEAD' ELSE 'PENDING' END, 'o', n > 1, true"
      " FROM generate_series(1, 20000) n");
  EXPECT_LE(PagesOfAClaim(admin()), 2 * before + 20) << "before statistics";
  admin().Exec("ANALYZE sealane.task");
  PgSession fresh(url());
  EXPECT_LE(PagesOfAClaim(fresh), 2 * before + 20) << "with statistics";
}

TEST_F(PostgresTasks, AClaimDoesNotReadWhatIsDueLaterOrForOthers) {
  Fill(1);
  const int before = PagesOfAClaim(admin());
  admin().Exec(
      "INSERT INTO sealane.task (id, tenant, target, operation, idempotency_key, request, request_hash, content_type,"
      " headers, created_at, due_at)"
      " SELECT gen_random_uuid(), '', CASE n % 2 WHEN 0 THEN 'billing' ELSE 'mail' END, '/x', 'later-' || n, "
      "''::bytea,"
      " '', 'text/plain', '{}'::json, now(), now() + CASE n % 2 WHEN 0 THEN interval '1 day' ELSE interval '-1 day' "
      "END"
      " FROM generate_series(1, 40000) n");
  EXPECT_LE(PagesOfAClaim(admin()), 2 * before + 20) << "before statistics";
  admin().Exec("ANALYZE sealane.task");
  PgSession fresh(url());
  EXPECT_LE(PagesOfAClaim(fresh), 2 * before + 20) << "with statistics";
}

TEST_F(PostgresTasks, ADispatcherThatFindsNothingWritesNothing) {
  admin().Exec(
      "SELECT sealane.enqueue_task('billing', '/x', 'later', '{}'::text, not_before => now() + interval '1 day')");
  // A transaction that writes has a number.
  admin().Exec(
      "BEGIN; SELECT * FROM sealane.task_outlook('{billing}'); SELECT * FROM sealane.task_count(100);"
      " SELECT * FROM sealane.task_claim('x', '{billing}', '{8}', 8, 60000);"
      " SELECT sealane.task_prune('{billing}', now(), 100)");
  EXPECT_EQ(admin().Exec("SELECT pg_current_xact_id_if_assigned() IS NULL"), "t");
  admin().Exec("ROLLBACK");
}

TEST_F(PostgresTasks, AClaimOutOfManyReadsFew) {
  Fill(1);
  const int before = PagesOfAClaim(admin());
  admin().Exec("DELETE FROM sealane.task");
  Fill(5'000);
  admin().Exec("ANALYZE sealane.task");
  PgSession fresh(url());
  EXPECT_LE(PagesOfAClaim(fresh), 2 * before + 20);
}

// ---- in SQL

TEST_F(PostgresTasks, SqlEnqueuesWithNamedParameters) {
  const std::string id = admin().Exec(
      "SELECT sealane.enqueue_task(target => 'billing', operation => '/charges', idempotency_key => 'k',"
      " request => '{\"amount\": 5}'::text, tenant => 'acme', headers => '{\"x-a\": \"1\"}', order_key => 'o',"
      " correlation_id => 'c', causation_id => 'e', traceparent => 't', result_topic => 'charges',"
      " result_key => 'r', not_before => '2020-01-01T00:00:00Z')");
  const auto store = Open();
  const ClaimedTask claimed = Claim(*store).at(0);
  EXPECT_EQ(claimed.id.ToString(), id);
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
  EXPECT_TRUE(claimed.task.not_before.has_value());
}

TEST_F(PostgresTasks, TheSameInSqlIsOneAndAnotherRequestIsRefused) {
  const std::string call =
      "SELECT sealane.enqueue_task('billing', '/x', 'k', '{}'::text, headers => '{\"a\":\"1\"}')";
  EXPECT_EQ(admin().Exec(call), admin().Exec("SELECT sealane.enqueue_task('billing', '/x', 'k', '\\x7b7d'::bytea,"
                                             " headers => '{ \"a\" : \"1\" }')"));
  std::string message;
  EXPECT_EQ(admin().Try("SELECT sealane.enqueue_task('billing', '/x', 'k', '[]'::text)", &message), "23505");
  EXPECT_THAT(message, HasSubstr("another request"));
  EXPECT_EQ(admin().Try("SELECT sealane.enqueue_task('billing', '/x', 'k', '{}'::text)", &message), "23505")
      << "other headers";
  EXPECT_EQ(admin().Count("sealane.task"), 1);
}

TEST_F(PostgresTasks, SqlHashesARequestAsTheLibraryDoes) {
  // Part by part with its length before it: target, operation, content type, number of headers, these, request.
  const std::string parts =
      "7:billing"
      "6:/sp\xc3\xa4t"
      "10:text/plain"
      "1:2"
      "3:x-a"
      "1:1"
      "3:x-b"
      "2:\xc3\xa4"
      "2:hi";
  admin().Exec(
      "SELECT sealane.enqueue_task('billing', '/spät', 'k', 'hi'::text, content_type => 'text/plain',"
      " headers => '{\"x-a\": \"1\", \"x-b\": \"ä\"}')");
  EXPECT_EQ(admin().Exec("SELECT request_hash FROM sealane.task"), ToHex(Sha256(parts)));
  admin().Exec("SELECT sealane.enqueue_task('billing', '/x', 'k', '{}'::text)");
  EXPECT_EQ(admin().Exec("SELECT request_hash FROM sealane.task WHERE operation = '/x'"),
            ToHex(Sha256("7:billing2:/x16:application/json1:02:{}")));
}

TEST_F(PostgresTasks, TheLibraryKnowsWhatSqlEnqueued) {
  admin().Exec("SELECT sealane.enqueue_task('billing', '/charges', 'charge-1', '{\"amount\":5}'::text)");
  const auto outbox = ValueOrThrow(postgres::OpenOutboxStore({.url = url()}));
  InTransaction(*outbox, [&](Transaction& transaction) -> Status {
    SEALANE_ASSIGN_OR_RETURN(const EnqueuedTask enqueued, transaction.EnqueueTask(SampleTask()));
    EXPECT_TRUE(enqueued.already_there);
    return Ok();
  });
}

TEST_F(PostgresTasks, SqlRefusesWhatTheLibraryWouldRefuse) {
  for (const char* const arguments :
       {"'', '/x', 'k', '{}'::text", "'billing', '', 'k', '{}'::text", "'billing', '/x', '', '{}'::text",
        "'billing', '/x', 'k', null::text", "repeat('x', 256), '/x', 'k', '{}'::text",
        "'billing', '/x', repeat('x', 1025), '{}'::text", "'billing', '/x', 'k', repeat('x', 1048577)",
        "'billing', '/x', 'k', '{}'::text, headers => '[]'",
        "'billing', '/x', 'k', '{}'::text, headers => '{\"a\":1}'",
        "'billing', '/x', 'k', '{}'::text, headers => '{\"a b\":\"1\"}'",
        "'billing', '/x', 'k', '{}'::text, headers => '{\"a\":\"1\\r\\nb: 2\"}'",
        "'billing', '/x', E'k\\n', '{}'::text", "'billing', '/x', 'k', 'no json'::text",
        "'billing', '/x', 'k', '{}'::text, result_topic => 'not a topic'",
        "'billing', '/x', 'k', '{}'::text, not_before => 'infinity'"}) {
    EXPECT_EQ(admin().Try(fmt::format("SELECT sealane.enqueue_task({})", arguments)), "23514") << arguments;
  }
  EXPECT_EQ(admin().Count("sealane.task"), 0);
}

TEST_F(PostgresTasks, AConflictLeavesTheTransactionUsable) {
  PgSession session(url());
  session.Exec("BEGIN");
  TransactionRef reference(session.get());
  ValueOrThrow(reference->EnqueueTask(SampleTask()));
  EXPECT_EQ(reference->EnqueueTask(WithRequest(SampleTask(), "{}")).error().code(), "task_conflict");
  ValueOrThrow(reference->EnqueueTask(SampleTask("charge-2")));
  session.Exec("COMMIT");
  EXPECT_EQ(admin().Count("sealane.task"), 2);
}

// ---- from before

TEST_F(PostgresTasks, ASchemaFromBeforeTasksKeepsItsData) {
  const ScratchDatabase database;
  const postgres::Options options{.url = database.url()};
  std::vector<Migration> older = postgres::EmbeddedMigrations();
  while (older.back().number > 3) older.pop_back();
  ASSERT_EQ(older.back().number, 3);
  ValueOrThrow(postgres::PostgresMigrator(ValueOrThrow(postgres::Connection::Open(options)), options, older).Up());
  PgSession session(database.url());
  session.Exec("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')");
  session.Exec("SELECT sealane.inbox_add_consumer('billing', 'record')");
  EXPECT_EQ(postgres::OpenTaskStore(options).error().code(), "schema_older");
  Migrate(database.url());
  EXPECT_EQ(session.Count("sealane.outbox"), 1);
  EXPECT_EQ(session.Count("sealane.inbox_consumer"), 1);
  session.Exec("SELECT sealane.enqueue_task('billing', '/x', 'k', '{}'::text)");
  EXPECT_THAT(Claim(*ValueOrThrow(postgres::OpenTaskStore(options))), SizeIs(1));
}

}  // namespace
}  // namespace sealane
