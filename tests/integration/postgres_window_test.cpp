// Protects the exactness of windows on PostgreSQL where it is hardest: transactions that are open while a snapshot is
// taken, read in stretches so small that every bound counts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/postgres_store.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using testing::PgSession;
using testing::ScratchDatabase;

class PostgresWindow : public ::testing::Test {
 protected:
  void SetUp() override {
    log_ = ValueOrThrow(postgres::OpenOutboxLog({.url = database_.url()}, "main", "relay-1"));
    ValueOrThrow(log_->Beat(std::chrono::minutes{10}));
    for (const LaneGrant& grant : ValueOrThrow(log_->Claim(1000, std::chrono::minutes{10}))) {
      lanes_.push_back(grant.lease.lane);
      at_ = grant.positions.main;
    }
  }

  static void Emit(PgSession& session, const std::string& value) {
    session.Exec("select sealane.emit('t', 'k', 'T', '" + value + "'::text)");
  }
  /// Moves to the newest horizon in pages of at most `entries_max` events, and returns what was read.
  std::vector<std::string> ReadAll(std::size_t entries_max) {
    std::vector<std::string> read;
    const Horizon horizon = ValueOrThrow(log_->Look());
    for (bool caught_up = false; !caught_up;) {
      const Page page =
          ValueOrThrow(log_->Read({.lanes = lanes_, .from = &at_, .horizon = &horizon, .entries_max = entries_max}));
      for (const LogEntry& entry : page.entries) read.emplace_back(entry.event.payload);
      at_ = page.next;
      caught_up = page.caught_up;
    }
    return read;
  }

  ScratchDatabase database_{testing::kMigrated};
  std::unique_ptr<OutboxLog> log_;
  std::vector<Lane> lanes_;
  Position at_;
};

// The newest transaction of all is not listed as running by a snapshot: it lies behind its end.
TEST_F(PostgresWindow, FindsTheNewestTransactionThatWasOpenAtItsBeginning) {
  PgSession writer(database_.url());
  Emit(writer, "0");
  EXPECT_THAT(ReadAll(1), ::testing::ElementsAre("0"));
  writer.Exec("begin");
  Emit(writer, "1");
  Emit(writer, "2");
  EXPECT_THAT(ReadAll(1), ::testing::IsEmpty());
  EXPECT_THAT(ReadAll(1), ::testing::IsEmpty());
  Emit(writer, "3");
  writer.Exec("commit");
  EXPECT_THAT(ReadAll(1), ::testing::ElementsAre("1", "2", "3"));
}

// A commit with synchronous_commit = off is seen before it is on disk. Were it published then, a crash of the server
// could undo what consumers have seen.
TEST_F(PostgresWindow, HandsOutNothingThatIsNotOnDisk) {
  PgSession writer(database_.url());
  writer.Exec("set synchronous_commit = off");
  int not_on_disk = 0;
  for (int i = 0; i < 20; ++i) {
    Emit(writer, std::to_string(i));
    const std::string written = writer.Exec("select pg_current_wal_insert_lsn()");
    not_on_disk += writer.Exec("select '" + written + "'::pg_lsn > pg_current_wal_flush_lsn()") == "t" ? 1 : 0;
    EXPECT_THAT(ReadAll(1), ::testing::ElementsAre(std::to_string(i)));
    EXPECT_EQ(writer.Exec("select '" + written + "'::pg_lsn <= pg_current_wal_flush_lsn()"), "t") << i;
  }
  EXPECT_GT(not_on_disk, 5) << "the server was too quick for this test to say anything";
}

// After a crash the numbers of transactions that were not on disk are handed out again. A position that knew them
// would take the events of others for its own past.
TEST_F(PostgresWindow, MovesToNothingThatIsNotOnDisk) {
  PgSession writer(database_.url());
  writer.Exec("create table t (n int)");
  writer.Exec("set synchronous_commit = off");
  ReadAll(1000);
  int stayed = 0;
  for (int i = 0; i < 20; ++i) {
    writer.Exec("insert into t values (1)");
    const std::string written = writer.Exec("select pg_current_wal_insert_lsn()");
    const Horizon horizon = ValueOrThrow(log_->Look());
    const Page page = ValueOrThrow(log_->Read({.lanes = lanes_, .from = &at_, .horizon = &horizon}));
    EXPECT_TRUE(page.caught_up);
    if (page.next == at_) {
      ++stayed;
    } else {
      EXPECT_EQ(writer.Exec("select '" + written + "'::pg_lsn <= pg_current_wal_flush_lsn()"), "t") << i;
    }
    at_ = page.next;
  }
  EXPECT_GT(stayed, 5) << "the server was too quick for this test to say anything";
}

// Its rows lie below the window's lower bound, between others that were read long ago, and come in many pages.
TEST_F(PostgresWindow, ReadsALargeOldTransactionInPages) {
  PgSession old(database_.url());
  PgSession writer(database_.url());
  std::vector<std::string> expected;
  old.Exec("begin");
  for (int i = 0; i < 60; ++i) {
    Emit(old, std::to_string(i));
    expected.push_back(std::to_string(i));
    if (i % 20 < 3) Emit(writer, "-1");
  }
  ReadAll(1000);
  Emit(old, "60");
  expected.emplace_back("60");
  EXPECT_THAT(ReadAll(1000), ::testing::IsEmpty());
  Emit(writer, "-2");
  ReadAll(1000);
  old.Exec("commit");
  EXPECT_EQ(ReadAll(3), expected);
}

TEST_F(PostgresWindow, FindsAnOldTransactionAmongNewOnes) {
  PgSession old(database_.url());
  PgSession writer(database_.url());
  old.Exec("begin");
  Emit(old, "99");
  for (const char* value : {"1", "2", "3"}) Emit(writer, value);
  EXPECT_THAT(ReadAll(1), ::testing::ElementsAre("1", "2", "3"));
  Emit(writer, "4");
  old.Exec("commit");
  Emit(writer, "5");
  EXPECT_THAT(ReadAll(1), ::testing::UnorderedElementsAre("99", "4", "5"));
}

TEST_F(PostgresWindow, NeverShowsWhatWasRolledBack) {
  PgSession writer(database_.url());
  writer.Exec("begin");
  Emit(writer, "99");
  EXPECT_THAT(ReadAll(1), ::testing::IsEmpty());
  writer.Exec("rollback");
  Emit(writer, "1");
  EXPECT_THAT(ReadAll(1), ::testing::ElementsAre("1"));
}

TEST_F(PostgresWindow, ReadsAHugeTransactionInPieces) {
  PgSession writer(database_.url());
  writer.Exec("select count(sealane.emit('t', 'k', 'T', g::text)) from generate_series(1, 3000) g");
  const std::vector<std::string> read = ReadAll(50);
  ASSERT_EQ(read.size(), 3'000U);
  for (std::size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], std::to_string(i + 1));
}

}  // namespace
}  // namespace sealane
