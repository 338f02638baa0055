// The relay's side of a SQLite file, where it differs from other stores: events that came by plain SQL, looking that
// costs nothing while nothing happens, writers that are in the way, retention, and a file from before the relay.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.hpp"
#include "sqlite/embedded_migrations.hpp"
#include "sqlite/sqlite_migrator.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/log_fixture.hpp"
#include "support/sample_events.hpp"
#include "support/sqlite_file.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SqliteLog : public ::testing::Test {
 protected:
  SqliteLog() { file_.Migrate(); }
  std::unique_ptr<OutboxLog> Open(std::chrono::milliseconds busy_timeout = 60s) const {
    return ValueOrThrow(
        sqlite::OpenOutboxLog({.path = file_.path(), .busy_timeout = busy_timeout}, "main", "relay-1"));
  }
  void Append(const std::vector<NewEntry>& entries) const {
    AppendAndCommit(*ValueOrThrow(sqlite::OpenOutboxStore({.path = file_.path()})), entries);
  }
  static ReadOut ReadAll(OutboxLog& log, const Position& from = {.cursor = "0"}) {
    return ReadToEnd(log, {.lanes = {0}, .from = from});
  }
  const std::string& path() const { return file_.path(); }

 private:
  SqliteFile file_;
};

TEST_F(SqliteLog, ReadsEventsThatCameByPlainSql) {
  SqliteHandle(path()).Execute(
      "INSERT INTO sealane_emit (topic, key, type, payload) VALUES ('t', 'k', 'T', '{\"a\":1}')");
  const auto log = Open();
  const ReadOut out = ReadAll(*log);
  ASSERT_THAT(out.events, SizeIs(1));
  EXPECT_EQ(out.events[0].envelope.payload, "{\"a\":1}");
  EXPECT_EQ(out.events[0].envelope.payload_hash, Sha256("{\"a\":1}")) << "the row has none; the reader computes it";
}

TEST_F(SqliteLog, SeesAtOnceWhatAnotherConnectionCommits) {
  const auto log = Open();
  EXPECT_EQ(ValueOrThrow(log->Look()).cursor, "0");
  Append({SampleEntry()});
  EXPECT_EQ(ValueOrThrow(log->Look()).cursor, "1");
  EXPECT_EQ(ValueOrThrow(log->Look()).cursor, "1");
  Append({SampleEntry(), SampleEntry()});
  EXPECT_EQ(ValueOrThrow(log->Look()).seq_high, 3);
}

TEST_F(SqliteLog, ACursorBehindTheEndOfTheLogIsNotClaimed) {
  Append({SampleEntry()});
  SqliteHandle(path()).Execute("UPDATE sealane_cursor SET published_seq = 5");
  const auto log = Open();
  const auto claimed = log->Claim(1, 10s);
  ASSERT_FALSE(claimed);
  EXPECT_EQ(claimed.error().code(), "cursor_ahead_of_log");
  EXPECT_EQ(SqliteHandle(path()).Text("SELECT owner FROM sealane_cursor"), "<null>");
}

// The copy was made under the same lease, which is alive in it: owner, epoch and time fit, and the position does not.
TEST_F(SqliteLog, ALeaseThatCameBackWithAnEarlierCopyIsGivenUp) {
  const auto keeper = Open();
  Append({SampleEntry(), SampleEntry()});
  const auto grants = ValueOrThrow(keeper->Claim(1, 60s));
  ASSERT_THAT(grants, SizeIs(1));
  const std::string copy = path() + ".copy";
  SqliteHandle(path()).Execute("VACUUM INTO '" + copy + "'");
  SettleRequest published;
  published.progress.push_back({.lease = grants[0].lease, .positions = {.main = {.cursor = "2"}}});
  ASSERT_THAT(ValueOrThrow(keeper->Settle(published)).fenced, IsEmpty());

  for (const auto* ending : {"-wal", "-shm"}) std::filesystem::remove(path() + ending);
  std::filesystem::rename(copy, path());
  EXPECT_EQ(keeper->Look().error().code(), "file_replaced");
  EXPECT_EQ(keeper->Beat(60s).error().code(), "file_replaced");
  EXPECT_EQ(keeper->Settle(published).error().code(), "file_replaced");

  const auto again = Open();
  EXPECT_THAT(ValueOrThrow(again->Settle(published)).fenced, ElementsAre(0)) << "it is about the old file";
  EXPECT_THAT(ValueOrThrow(again->Beat(60s)).held, IsEmpty());
  const auto new_grants = ValueOrThrow(again->Claim(1, 60s));
  ASSERT_THAT(new_grants, SizeIs(1));
  EXPECT_GT(new_grants[0].lease.epoch, grants[0].lease.epoch);
  EXPECT_EQ(new_grants[0].positions.main.cursor, "0");
}

TEST_F(SqliteLog, AnEpochIsNeverGrantedTwiceToOneRelay) {
  const auto log = Open();
  const std::string copy = path() + ".copy";
  SqliteHandle(path()).Execute("VACUUM INTO '" + copy + "'");
  const auto first = ValueOrThrow(log->Claim(1, 60s));
  ASSERT_THAT(first, SizeIs(1));
  for (const auto* ending : {"-wal", "-shm"}) std::filesystem::remove(path() + ending);
  std::filesystem::rename(copy, path());
  const auto again = Open();
  const auto second = ValueOrThrow(again->Claim(1, 60s));
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_GT(second[0].lease.epoch, first[0].lease.epoch) << "the file has not seen the first";
}

TEST_F(SqliteLog, TheHorizonDoesNotGoBackWhenRetentionDeletesTheNewest) {
  const auto log = Open();
  Append({SampleEntry(), SampleEntry()});
  EXPECT_EQ(ValueOrThrow(log->Look()).cursor, "2");
  SqliteHandle(path()).Execute("DELETE FROM sealane_outbox");
  EXPECT_EQ(ValueOrThrow(log->Look()).cursor, "2");
  EXPECT_THAT(ReadAll(*log).events, IsEmpty());
  const NewEntry next = SampleEntry();
  Append({next});
  EXPECT_THAT(ReadAll(*log, {.cursor = "2"}).events, SizeIs(1));
}

TEST_F(SqliteLog, ARareTenantInALongBacklogIsFoundInBoundedSteps) {
  SqliteHandle(path()).Execute(
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)"
      " INSERT INTO sealane_outbox (event_id, tenant, topic, key, type, occurred_at, payload)"
      " SELECT printf('00000000-0000-7000-8000-%012x', i), iif(i = 240000, 'rare', 'busy'), 't', 'k', 'T', 0, x'7b7d'"
      " FROM n");
  const auto log = Open();
  const Horizon horizon = ValueOrThrow(log->Look());
  const std::vector<Lane> lanes = {0};
  const std::vector<std::string> tenants = {"rare"};
  Position at{.cursor = "0"};
  std::vector<std::int64_t> found;
  int pages = 0;
  for (bool caught_up = false; !caught_up; ++pages) {
    ASSERT_LT(pages, 10);
    const Position from = at;
    const Page page = ValueOrThrow(
        log->Read({.lanes = lanes, .tenants = tenants, .all_but = false, .from = &from, .horizon = &horizon}));
    for (const LogEntry& entry : page.entries) found.push_back(entry.seq);
    at = page.next;
    caught_up = page.caught_up;
  }
  EXPECT_THAT(found, ElementsAre(240'000));
  EXPECT_EQ(pages, 3) << "a page may be empty and still move the position";
}

TEST_F(SqliteLog, AWriterInTheWayIsAConflictAndReadingGoesOn) {
  Append({SampleEntry()});
  const auto log = Open(0ms);
  const auto grants = TakeAll(*log);
  const SqliteHandle writer(path());
  writer.Execute("BEGIN IMMEDIATE");
  EXPECT_THAT(ReadAll(*log).events, SizeIs(1));
  const auto beat = log->Beat(kLongLease);
  ASSERT_FALSE(beat.has_value());
  EXPECT_EQ(beat.error().kind(), ErrorKind::kConflict);
  EXPECT_EQ(beat.error().code(), "store_busy");
  writer.Execute("COMMIT");
  EXPECT_THAT(ValueOrThrow(log->Beat(kLongLease)).held, ElementsAre(grants.front().lease));
}

TEST_F(SqliteLog, ReadingHoldsUpNoCheckpoint) {
  const auto log = Open();
  Append({SampleEntry(), SampleEntry()});
  ReadAll(*log);
  const SqliteHandle other(path());
  EXPECT_EQ(other.Text("PRAGMA wal_checkpoint(TRUNCATE)"), "0") << "not busy";
  EXPECT_EQ(std::filesystem::file_size(path() + "-wal"), 0U);
}

TEST_F(SqliteLog, RefusesPositionsOfOtherStores) {
  const auto log = Open();
  const Horizon horizon = ValueOrThrow(log->Look());
  const std::vector<Lane> lanes = {0};
  for (const char* cursor : {"", "1:1:", "-1", "1x"}) {
    const Position from{.cursor = cursor};
    const auto page = log->Read({.lanes = lanes, .from = &from, .horizon = &horizon});
    ASSERT_FALSE(page.has_value()) << cursor;
    EXPECT_EQ(page.error().code(), "invalid_position");
  }
}

TEST_F(SqliteLog, RefusesARouteWithABadName) {
  for (const char* route : {"", "Main", "a b", "1st", "a'b"}) {
    const auto log = sqlite::OpenOutboxLog({.path = path()}, route, "relay-1");
    ASSERT_FALSE(log.has_value()) << route;
    EXPECT_EQ(log.error().code(), "invalid_route_name");
    EXPECT_EQ(log.error().kind(), ErrorKind::kMisconfigured);
  }
}

TEST_F(SqliteLog, NeedsAFileWithTheRelaysTables) {
  const SqliteFile old;
  const std::vector<Migration> first = {sqlite::EmbeddedMigrations().front()};
  ValueOrThrow(sqlite::SqliteMigrator({.path = old.path()}, first).Up());
  EXPECT_EQ(sqlite::OpenOutboxLog({.path = old.path()}, "main", "r").error().code(), "schema_older");
  EXPECT_EQ(sqlite::OpenDeadLetters({.path = old.path()}).error().code(), "schema_older");
  EXPECT_EQ(sqlite::OpenOutboxLog({.path = old.path() + "x"}, "main", "r").error().code(), "database_missing");
}

TEST_F(SqliteLog, AFileFromBeforeTheRelayKeepsWhatWasSetAside) {
  const SqliteFile old;
  const std::vector<Migration> first = {sqlite::EmbeddedMigrations().front()};
  ValueOrThrow(sqlite::SqliteMigrator({.path = old.path()}, first).Up());
  SqliteHandle(old.path())
      .Execute(
          "INSERT INTO sealane_emit (topic, key, type, payload) VALUES ('t', 'k', 'T', '{}');"
          "INSERT INTO sealane_parked (route, seq, event_id, key, state)"
          " SELECT 'main', seq, event_id, key, 'DEAD' FROM sealane_outbox");
  old.Migrate();
  const auto letters = ValueOrThrow(ValueOrThrow(sqlite::OpenDeadLetters({.path = old.path()}))->List({}));
  ASSERT_THAT(letters, SizeIs(1));
  EXPECT_EQ(letters[0].unit, "t/k");
  EXPECT_EQ(letters[0].type, "T");
}

}  // namespace
}  // namespace sealane
