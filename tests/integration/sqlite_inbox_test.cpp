// What is special about the inbox in a SQLite file: handlers share the one transaction with it, and what it keeps can
// be read with the sqlite3 shell.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "sqlite/sqlite_store.hpp"
#include "support/inbox_fixture.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;

class SqliteInbox : public ::testing::Test {
 protected:
  SqliteInbox() {
    file_.Migrate();
    shell_ = std::make_unique<SqliteHandle>(file_.path());
    shell_->Execute("CREATE TABLE effect (what TEXT NOT NULL) STRICT");
    store_ = Open();
  }
  std::unique_ptr<InboxStore> Open(std::chrono::milliseconds busy_timeout = 60s) const {
    return ValueOrThrow(
        sqlite::OpenInboxStore({.path = file_.path(), .busy_timeout = busy_timeout}, "billing", InboxMode::kRecord));
  }
  std::unique_ptr<InboxBatch> Begin() {
    arrivals_ = {event_.arrival()};
    return ValueOrThrow(store_->Open({.arrivals = arrivals_}));
  }
  const SqliteHandle& shell() const { return *shell_; }
  std::string path() const { return file_.path(); }
  const Delivery& event() const { return event_; }

 private:
  SqliteFile file_;
  std::unique_ptr<SqliteHandle> shell_;
  std::unique_ptr<InboxStore> store_;
  Delivery event_ = VersionOf("a", 3, 7);
  std::vector<Arrival> arrivals_;
};

TEST_F(SqliteInbox, AReplacedFileIsAnotherLife) {
  const auto store = Open();
  const std::vector<Partition> one = {{"orders", 0}};
  const AttachedPartition owner = ValueOrThrow(store->Attach(one, 0)).at(0);
  ValueOrThrow(store->Place(owner, 5, "topic-1"));
  shell().Execute("VACUUM INTO '" + path() + ".copy'");
  const std::vector<PositionSave> first = {{owner.partition, owner.epoch, 5, 6}};
  EXPECT_THAT(ValueOrThrow(store->SavePositions(first)), ::testing::IsEmpty());
  for (const auto* const ending : {"-wal", "-shm"}) std::filesystem::remove(path() + ending);
  std::filesystem::rename(path() + ".copy", path());

  const std::vector<PositionSave> next = {{owner.partition, owner.epoch, 6, 6}};
  EXPECT_EQ(store->SavePositions(next).error().kind(), ErrorKind::kUnavailable) << "also when nothing is written";
  EXPECT_EQ(store->Open({}).error().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(store->OpenRetry("a", false, 1s).error().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(store->Attach(one, 0).error().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(store->Place(owner, 7, "").error().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(store->Stop(owner, {"topic_replaced", ""}).error().kind(), ErrorKind::kUnavailable);
  const auto later = Open();
  EXPECT_NE(later->life(), store->life());
  EXPECT_THAT(ValueOrThrow(later->SavePositions(next)), ::testing::ElementsAre(0)) << "what was written last is lost";
  EXPECT_EQ(ValueOrThrow(later->Attach(one, 0)).at(0).next_offset, 5);
}

TEST_F(SqliteInbox, ARestoreIntoTheOpenFileIsAnotherLife) {
  const auto store = Open();
  const auto beside = Open();
  EXPECT_EQ(store->life(), beside->life());
  shell().Execute("VACUUM INTO '" + path() + ".copy'");
  const std::vector<Outcome> done = {{.kind = Outcome::Kind::kProcessed}};
  ValueOrThrow(Begin()->Finish(done));
  {
    // As `.restore` does it: one transaction, the same file.
    const SqliteHandle copy(path() + ".copy");
    sqlite3_backup* const backup = sqlite3_backup_init(shell().get(), "main", copy.get(), "main");
    ASSERT_NE(backup, nullptr);
    EXPECT_EQ(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    EXPECT_EQ(sqlite3_backup_finish(backup), SQLITE_OK);
  }
  EXPECT_EQ(store->Open({}).error().code(), "store_changed");
  EXPECT_EQ(beside->Open({}).error().code(), "store_changed") << "for every connection from before";
  const auto later = Open();
  EXPECT_NE(later->life(), store->life());
  EXPECT_TRUE(later->Open({}));
}

TEST_F(SqliteInbox, AHandlerThatCommitsRollsBackInstead) {
  for (const char* const end : {"COMMIT", "END", "ROLLBACK"}) {
    const auto batch = Begin();
    ValueOrThrow(batch->Execute("INSERT INTO effect VALUES ('paid')"));
    const auto ended = batch->Execute(end);
    ASSERT_FALSE(ended.has_value()) << end;
    EXPECT_EQ(ended.error().code(), "transaction_ended");
    EXPECT_EQ(batch->Finish(std::vector{Processed()}).error().code(), "transaction_ended");
    EXPECT_EQ(shell().Number("SELECT count(*) FROM effect"), 0) << end;
  }
  EXPECT_EQ(shell().Number("SELECT count(*) FROM sealane_inbox"), 0);
}

TEST_F(SqliteInbox, TheConnectionIsThereForHandlersThatKnowIt) {
  const auto batch = Begin();
  EXPECT_EQ(batch->native().postgres, nullptr);
  ASSERT_NE(batch->native().lite, nullptr);
  EXPECT_EQ(sqlite3_exec(batch->native().lite, "INSERT INTO effect VALUES ('paid')", nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_NE(sqlite3_exec(batch->native().lite, "COMMIT; BEGIN", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(shell().Number("SELECT count(*) FROM effect"), 0);
}

TEST_F(SqliteInbox, AStatementIsOneStatementWithItsValues) {
  const std::vector<SqlValue> one = {std::string("paid")};
  EXPECT_EQ(Begin()->Execute("INSERT INTO effect VALUES ('a'); INSERT INTO effect VALUES ('b')").error().code(),
            "one_statement");
  EXPECT_EQ(Begin()->Execute("-- nothing").error().code(), "one_statement");
  EXPECT_EQ(Begin()->Execute("INSERT INTO effect VALUES ('a')", one).error().code(), "parameters_differ");
  EXPECT_EQ(Begin()->Execute("INSERT INTO effect VALUES (?1)").error().code(), "parameters_differ");
  EXPECT_TRUE(Begin()->Execute("INSERT INTO effect VALUES (?1); ", one).has_value());
}

TEST_F(SqliteInbox, BytesStayBytes) {
  const auto batch = Begin();
  ValueOrThrow(batch->Execute("CREATE TABLE bytes (value BLOB) STRICT"));
  const std::vector<SqlValue> values = {SqlBytes{std::string("\x00\xff", 2)}};
  ValueOrThrow(batch->Execute("INSERT INTO bytes VALUES (?1)", values));
  ValueOrThrow(batch->Finish(std::vector{Processed()}));
  EXPECT_EQ(shell().Text("SELECT hex(value) FROM bytes"), "00FF");
}

TEST_F(SqliteInbox, OneBatchIsOpenAtATime) {
  const auto batch = Begin();
  const auto other = Open(0ms);
  const auto busy = other->Open({});
  ASSERT_FALSE(busy.has_value());
  EXPECT_EQ(busy.error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(busy.error().code(), "store_busy");
}

TEST_F(SqliteInbox, AReceiptTellsEverythingButThePayload) {
  const auto batch = Begin();
  ValueOrThrow(batch->Finish(std::vector{Ignored("no_handler")}));
  EXPECT_EQ(shell().Text("SELECT consumer || ' ' || event_id || ' ' || state || ' ' || code || ' ' || type || ' ' ||"
                         " schema_version || ' ' || aggregate_type || ' ' || aggregate_id || ' ' || aggregate_version"
                         " || ' ' || topic || ' ' || partition || ' ' || \"offset\" FROM sealane_inbox"),
            "billing " + event().id.ToString() + " IGNORED no_handler OrderPlaced 1 order a 3 orders 0 7");
  EXPECT_EQ(shell().Number("SELECT filed_at FROM sealane_inbox"), event().filed_at.time_since_epoch().count());
  EXPECT_EQ(shell().Number("SELECT finished_at >= received_at FROM sealane_inbox"), 1);
}

TEST_F(SqliteInbox, AParkedMessageTellsWhatWentWrong) {
  const auto batch = Begin();
  ValueOrThrow(batch->Finish(std::vector{Failed(4, 1h)}));
  EXPECT_EQ(shell().Text("SELECT state || ' ' || attempts || ' ' || error_code || ' ' || error_message"
                         " FROM sealane_inbox_parked"),
            "FAILED 4 handler_failed it said no");
  EXPECT_EQ(shell().Number("SELECT next_attempt_at - parked_at FROM sealane_inbox_parked"), 3'600'000'000);
  EXPECT_EQ(shell().Text("SELECT state || ' ' || code FROM sealane_inbox"), "FAILED handler_failed");
}

/// Somebody else takes the file as soon as the next transaction of a store has committed, which is when a retry has
/// counted its attempt.
class Intruder {
 public:
  Intruder(const std::string& path, sqlite3* store) : handle_(path) {
    sqlite3_wal_hook(
        store,
        [](void* self, sqlite3*, const char*, int) {
          static_cast<Intruder*>(self)->Enter();
          return SQLITE_OK;
        },
        this);
  }
  /// He goes when the store has found the file busy for the first time.
  void LeaveWhenNoticed(sqlite3* store) {
    sqlite3_busy_handler(
        store,
        [](void* self, int) {
          static_cast<Intruder*>(self)->Leave();
          return 0;
        },
        this);
  }
  void Leave() {
    if (std::exchange(is_in_, false)) handle_.Execute("ROLLBACK");
  }

 private:
  void Enter() {
    if (std::exchange(came_, true)) return;
    handle_.Execute("BEGIN IMMEDIATE");
    is_in_ = true;
  }

  SqliteHandle handle_;
  bool came_ = false;
  bool is_in_ = false;
};

TEST_F(SqliteInbox, ARetryThatFindsTheFileBusyWaitsForIt) {
  const auto store = Open(0ms);
  ValueOrThrow(Begin()->Finish(std::vector{Failed(1, 0ms)}));
  sqlite3* const connection = ValueOrThrow(store->Open({}))->native().lite;
  Intruder intruder(path(), connection);
  intruder.LeaveWhenNoticed(connection);
  const auto retry = ValueOrThrow(store->OpenRetry("a", false, 60s));
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->attempts, 2);
}

TEST_F(SqliteInbox, AnAttemptThatWasNotMadeIsGivenBack) {
  const auto store = Open(0ms);
  ValueOrThrow(Begin()->Finish(std::vector{Failed(1, 0ms)}));
  Intruder intruder(path(), ValueOrThrow(store->Open({}))->native().lite);
  for (int i = 0; i < 2; ++i) {
    const auto busy = store->OpenRetry("a", false, 10ms);
    ASSERT_FALSE(busy.has_value());
    EXPECT_EQ(busy.error().code(), "store_busy");
  }
  intruder.Leave();
  const auto retry = ValueOrThrow(store->OpenRetry("a", false, 60s));
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->attempts, 2);
}

TEST_F(SqliteInbox, ManyBehindADeadOneDoNotMakeLookingForWorkSlow) {
  ValueOrThrow(Begin()->Finish(std::vector{Died(1)}));
  shell().Execute(
      "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 20000)"
      " INSERT INTO sealane_inbox_parked (consumer, event_id, unit, state, parked_at, tenant, aggregate_type,"
      " aggregate_id, aggregate_version, filed_at, payload_hash, topic, partition, \"offset\", published_at, key, "
      "value,"
      " headers) SELECT p.consumer, 'follower-' || n, p.unit, 'RECEIVED', p.parked_at, p.tenant, p.aggregate_type,"
      " p.aggregate_id, p.aggregate_version + n, p.filed_at, p.payload_hash, p.topic, p.partition, p.\"offset\" + n,"
      " p.published_at, p.key, p.value, p.headers FROM sealane_inbox_parked p, number");
  const auto store = Open();
  sqlite3* const connection = ValueOrThrow(store->Open({}))->native().lite;
  int steps = 0;
  sqlite3_progress_handler(
      connection, 1, [](void* count) { return ++*static_cast<int*>(count), 0; }, &steps);
  for (const bool by_version : {false, true}) {
    steps = 0;
    EXPECT_TRUE(ValueOrThrow(store->DueUnits(by_version, 100)).empty());
    EXPECT_GT(steps, 0);
    EXPECT_LT(steps, 1000) << "of SQLite's machine, with 20,000 that wait";
  }
  sqlite3_progress_handler(connection, 0, nullptr, nullptr);
}

}  // namespace
}  // namespace sealane
