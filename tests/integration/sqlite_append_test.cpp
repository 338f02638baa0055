// An application lends its own sqlite3 connection: its rows and its events commit together, and whatever goes wrong
// leaves no half.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "sealane/idempotency.hpp"
#include "sealane/outbox.hpp"
#include "sealane/versions.hpp"

#include "support/sample_events.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using ::testing::HasSubstr;

Event SampleEvent(std::string payload = R"({"id":1})") {
  return {.topic = "orders", .key = "o-1", .type = "OrderPlaced", .payload = std::move(payload)};
}

class SqliteAppend : public ::testing::Test {
 protected:
  SqliteAppend() {
    file_.Migrate();
    SqliteHandle(file_.path()).Execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)");
  }
  const SqliteFile& file() const { return file_; }
  const Outbox& outbox() const { return outbox_; }
  /// As another connection sees it.
  std::int64_t CommittedOrders() const { return SqliteHandle(file_.path()).Number("SELECT count(*) FROM orders"); }
  std::int64_t CommittedEvents() const {
    return SqliteHandle(file_.path()).Number("SELECT count(*) FROM sealane_outbox");
  }

 private:
  SqliteFile file_;
  Outbox outbox_{OutboxOptions{.producer = "shop"}};
};

TEST_F(SqliteAppend, CommitsWithTheBusinessRow) {
  const SqliteHandle sql(file().path());
  sql.Execute("BEGIN; INSERT INTO orders VALUES (1, 'placed')");
  const Appended appended = ValueOrThrow(outbox().Append(sql.get(), SampleEvent()));
  EXPECT_EQ(CommittedEvents(), 0);
  sql.Execute("COMMIT");
  EXPECT_EQ(CommittedOrders(), 1);
  EXPECT_EQ(sql.Text("SELECT event_id FROM sealane_outbox"), appended.id.ToString());
  EXPECT_EQ(sql.Text("SELECT producer FROM sealane_outbox"), "shop");
}

TEST_F(SqliteAppend, RollsBackWithTheBusinessRow) {
  const SqliteHandle sql(file().path());
  sql.Execute("BEGIN; INSERT INTO orders VALUES (1, 'placed')");
  ValueOrThrow(outbox().Append(sql.get(), SampleEvent()));
  sql.Execute("ROLLBACK");
  EXPECT_EQ(CommittedOrders(), 0);
  EXPECT_EQ(CommittedEvents(), 0);
}

TEST_F(SqliteAppend, FollowsTheCallersSavepoints) {
  const SqliteHandle sql(file().path());
  sql.Execute("BEGIN; SAVEPOINT mine");
  ValueOrThrow(outbox().Append(sql.get(), SampleEvent()));
  sql.Execute("ROLLBACK TO mine");
  ValueOrThrow(outbox().Append(sql.get(), SampleEvent()));
  sql.Execute("RELEASE mine; COMMIT");
  EXPECT_EQ(CommittedEvents(), 1);
}

TEST_F(SqliteAppend, IsRefusedWithoutATransaction) {
  const SqliteHandle sql(file().path());
  const std::vector<Event> none;
  const IdempotencyClaim claim{"", "k", "hash"};
  const std::vector<Error> errors = {
      outbox().Append(sql.get(), SampleEvent()).error(),  outbox().AppendAll(sql.get(), none).error(),
      NextVersion(sql.get(), {"", "order", "1"}).error(), AdvanceVersion(sql.get(), {"", "order", "1"}, 0).error(),
      Idempotency().Begin(sql.get(), claim).error(),      Idempotency().Complete(sql.get(), claim, {}).error()};
  for (const Error& error : errors) {
    EXPECT_EQ(error.kind(), ErrorKind::kMisuse);
    EXPECT_EQ(error.code(), "no_transaction");
    EXPECT_THAT(error.hint(), HasSubstr("BEGIN"));
  }
  EXPECT_EQ(CommittedEvents(), 0);
  EXPECT_EQ(sql.Number("SELECT count(*) FROM sealane_aggregate_version"), 0);
  EXPECT_EQ(sql.Number("SELECT count(*) FROM sealane_idempotency"), 0);
}

TEST_F(SqliteAppend, IsRefusedWithoutAConnection) {
  sqlite3* const nothing = nullptr;
  EXPECT_EQ(outbox().Append(nothing, SampleEvent()).error().code(), "no_connection");
}

TEST_F(SqliteAppend, SaysWhichEventOfABatchIsAtFault) {
  const SqliteHandle sql(file().path());
  Event twice = SampleEvent();
  twice.id = FreshId();
  sql.Execute("BEGIN; INSERT INTO orders VALUES (1, 'placed')");
  const std::vector<Event> events = {SampleEvent(), twice, twice};
  const Error error = outbox().AppendAll(sql.get(), events).error();
  EXPECT_EQ(error.code(), "duplicate_event_id");
  EXPECT_THAT(error.ToString(), HasSubstr("event 3 of 3"));
  sql.Execute("COMMIT");
  EXPECT_EQ(CommittedOrders(), 1) << "the caller's own work is untouched";
  EXPECT_EQ(CommittedEvents(), 0);
}

TEST_F(SqliteAppend, LeavesTheCallersOpenQueryRunning) {
  const SqliteHandle sql(file().path());
  sql.Execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c'); BEGIN");
  sqlite3_stmt* query = nullptr;
  ASSERT_EQ(sqlite3_prepare_v2(sql.get(), "SELECT id FROM orders", -1, &query, nullptr), SQLITE_OK);
  Event event = SampleEvent();
  event.id = FreshId();
  int rows = 0;
  while (sqlite3_step(query) == SQLITE_ROW) {
    ++rows;
    EXPECT_EQ(outbox().Append(sql.get(), event).has_value(), rows == 1) << "the id comes again";
  }
  sqlite3_finalize(query);
  EXPECT_EQ(rows, 3);
  sql.Execute("COMMIT");
  EXPECT_EQ(CommittedEvents(), 1);
}

TEST_F(SqliteAppend, AnotherWriterIsAConflict) {
  const SqliteHandle writer(file().path());
  writer.Execute("BEGIN IMMEDIATE");
  const SqliteHandle sql(file().path());
  sql.Execute("BEGIN; SELECT count(*) FROM orders");
  const Error error = outbox().Append(sql.get(), SampleEvent()).error();
  EXPECT_EQ(error.kind(), ErrorKind::kConflict);
  EXPECT_EQ(error.code(), "store_busy");
  EXPECT_THAT(error.hint(), HasSubstr("BEGIN IMMEDIATE"));
  sql.Execute("ROLLBACK");
  writer.Execute("ROLLBACK");
}

TEST_F(SqliteAppend, MissingTablesSayHowToMakeThem) {
  const SqliteFile bare;
  const SqliteHandle sql(bare.path());
  sql.Execute("CREATE TABLE orders (id INTEGER); BEGIN; INSERT INTO orders VALUES (1)");
  const Error error = outbox().Append(sql.get(), SampleEvent()).error();
  EXPECT_EQ(error.code(), "schema_missing");
  EXPECT_THAT(error.hint(), HasSubstr("sealane migrate up"));
  sql.Execute("COMMIT");
  EXPECT_EQ(sql.Number("SELECT count(*) FROM orders"), 1);
}

TEST_F(SqliteAppend, AReadOnlyConnectionIsSaidSo) {
  const SqliteHandle keeps_wal_open(file().path());
  keeps_wal_open.Execute("SELECT 1 FROM orders");
  const SqliteHandle sql(file().path(), SQLITE_OPEN_READONLY);
  sql.Execute("BEGIN");
  const Error error = outbox().Append(sql.get(), SampleEvent()).error();
  EXPECT_EQ(error.kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(error.code(), "store_read_only");
  sql.Execute("ROLLBACK");
}

// The disk is as full as PRAGMA max_page_count says. Whether SQLite keeps the transaction is its choice; either way
// nothing of the event is there, and the error tells which way it went.
TEST_F(SqliteAppend, AFullDiskLeavesNothingOfTheEvent) {
  const SqliteHandle sql(file().path());
  const std::int64_t pages = sql.Number("PRAGMA page_count");
  sql.Execute("PRAGMA max_page_count = " + std::to_string(pages + 4));
  sql.Execute("BEGIN; INSERT INTO orders VALUES (1, 'placed')");
  const Error error = outbox().Append(sql.get(), SampleEvent("\"" + std::string(500'000, 'x') + "\"")).error();
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(error.code(), "store_full");

  const bool still_open = sqlite3_get_autocommit(sql.get()) == 0;
  EXPECT_EQ(error.ToString().find("rolled the whole transaction back") == std::string::npos, still_open);
  if (still_open) sql.Execute("COMMIT");
  EXPECT_EQ(CommittedOrders(), still_open ? 1 : 0);
  EXPECT_EQ(CommittedEvents(), 0);

  sql.Execute("PRAGMA max_page_count = 1000000; BEGIN; INSERT INTO orders VALUES (2, 'placed')");
  ValueOrThrow(outbox().Append(sql.get(), SampleEvent("\"" + std::string(500'000, 'x') + "\"")));
  sql.Execute("COMMIT");
  EXPECT_EQ(CommittedEvents(), 1);
}

}  // namespace
}  // namespace sealane
