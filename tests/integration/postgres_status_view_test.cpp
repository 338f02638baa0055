// The life cycle that sealane.outbox_status shows, state by state, with the relay's rows written by hand.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "outbox/outbox_store.hpp"
#include "postgres/postgres_store.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using testing::Migrate;
using testing::PgSession;
using testing::ScratchDatabase;

class PostgresStatusView : public ::testing::Test {
 protected:
  void SetUp() override { session_ = std::make_unique<PgSession>(database_.url()); }
  std::string Emit(const std::string& key) {
    return session_->Exec(
        fmt::format("SELECT sealane.emit(topic => 't', key => '{}', type => 'T', payload => '{{}}')", key));
  }
  std::string StatusOf(const std::string& id) {
    return session_->Exec(fmt::format("SELECT status FROM sealane.outbox_status WHERE event_id = '{}'", id));
  }
  std::string Get(const std::string& column, const std::string& id) {
    return session_->Query(
        fmt::format("SELECT {} FROM sealane.outbox_status WHERE event_id = '{}'", column, id))[0][0];
  }
  /// Gives every lane of main to a relay that lives.
  void Lease() const {
    session_->Exec(
        "INSERT INTO sealane.relay_member (route, owner, expires_at, lease) "
        "VALUES ('main', 'r1', clock_timestamp() + '1 minute', 7); "
        "UPDATE sealane.lane_state SET owner = 'r1', lease = 7 WHERE route = 'main'");
  }
  ScratchDatabase database_{testing::kMigrated};
  std::unique_ptr<PgSession> session_;
};

TEST_F(PostgresStatusView, WalksFromPendingOverPublishingToPublished) {
  const std::string id = Emit("k");
  EXPECT_EQ(StatusOf(id), "PENDING");
  EXPECT_EQ(Get("attempts", id), "0");

  Lease();
  session_->Exec("UPDATE sealane.lane_state SET window_snapshot = pg_current_snapshot()");
  EXPECT_EQ(StatusOf(id), "PUBLISHING");
  session_->Exec("UPDATE sealane.relay_member SET expires_at = clock_timestamp() - interval '1 s'");
  EXPECT_EQ(StatusOf(id), "PENDING") << "the window of a dead relay publishes nothing";

  session_->Exec(
      "UPDATE sealane.lane_state SET cursor_snapshot = window_snapshot, cursor_high = 1000, window_snapshot = NULL; "
      "INSERT INTO sealane.settlement (route, lanes, cursor_snapshot) "
      "SELECT route, ARRAY[lane], cursor_snapshot FROM sealane.lane_state");
  EXPECT_EQ(StatusOf(id), "PUBLISHED");
  EXPECT_EQ(Get("attempts", id), "1");
  EXPECT_NE(Get("published_at", id), "NULL");

  const std::string later = Emit("k");
  EXPECT_EQ(StatusOf(later), "PENDING");
  EXPECT_EQ(Get("published_at", later), "NULL");
}

TEST_F(PostgresStatusView, CountsAPartOfAnOpenWindowAsPublished) {
  const std::string first = Emit("k");
  const std::string second = Emit("k");
  Lease();
  session_->Exec(
      "UPDATE sealane.lane_state SET window_snapshot = pg_current_snapshot(), "
      "window_seq = (SELECT min(seq) FROM sealane.outbox)");
  EXPECT_EQ(StatusOf(first), "PUBLISHED");
  EXPECT_EQ(StatusOf(second), "PUBLISHING");
}

// The reason why the cursor is a snapshot: a transaction that was open when the cursor moved is not done, whatever
// its sequence numbers are.
TEST_F(PostgresStatusView, KeepsAnOpenTransactionPendingWhenTheCursorPassesIt) {
  PgSession slow(database_.url());
  slow.Exec("BEGIN");
  const std::string open =
      slow.Exec("SELECT sealane.emit(topic => 't', key => 'slow', type => 'T', payload => '{}')");
  const std::string fast = Emit("fast");
  session_->Exec("UPDATE sealane.lane_state SET cursor_snapshot = pg_current_snapshot(), cursor_high = 1000");
  slow.Exec("COMMIT");
  EXPECT_EQ(StatusOf(fast), "PUBLISHED");
  EXPECT_EQ(StatusOf(open), "PENDING");
  EXPECT_LT(std::stoi(Get("seq", open)), std::stoi(Get("seq", fast)));
}

TEST_F(PostgresStatusView, ShowsFailuresWithTheirCause) {
  for (const std::string state : {"FAILED", "DEAD", "DISCARDED"}) {
    const std::string id = Emit("k-" + state);
    session_->Exec(fmt::format(
        "INSERT INTO sealane.parked (route, lane, seq, event_id, unit, key, state, attempts, "
        "next_attempt_at, error_code, error_message) SELECT 'main', lane, seq, event_id, key, key, '{}', 3, "
        "clock_timestamp() + '1 minute', 'too_large', 'message of 2 MB' FROM sealane.outbox "
        "WHERE event_id = '{}'",
        state, id));
    session_->Exec("UPDATE sealane.lane_state SET cursor_snapshot = pg_current_snapshot(), cursor_high = 1000");
    EXPECT_EQ(StatusOf(id), state);
    EXPECT_EQ(Get("attempts", id), "3");
    EXPECT_EQ(Get("last_error_code", id), "too_large");
    EXPECT_EQ(Get("published_at", id), "NULL");
  }
}

TEST_F(PostgresStatusView, HoldsFollowersOfAFailedKeyAsPending) {
  const std::string id = Emit("k");
  session_->Exec(
      "INSERT INTO sealane.parked (route, lane, seq, event_id, unit, key, state) "
      "SELECT 'main', lane, seq, event_id, key, key, 'WAITING' FROM sealane.outbox; "
      "UPDATE sealane.lane_state SET cursor_snapshot = pg_current_snapshot(), cursor_high = 1000");
  EXPECT_EQ(StatusOf(id), "PENDING");
}

TEST_F(PostgresStatusView, TellsEveryRouteApartAndTheStoreReportsThem) {
  session_->Exec("SELECT sealane.add_route('webhook')");
  const std::string id = Emit("k");
  session_->Exec(
      "UPDATE sealane.lane_state SET cursor_snapshot = pg_current_snapshot(), cursor_high = 1000 WHERE route = "
      "'main'");
  auto store = postgres::OpenOutboxStore({.url = database_.url()});
  ASSERT_TRUE(store) << store.error().ToString();
  const auto found = (*store)->FindMessage(*EventId::Parse(id));
  ASSERT_TRUE(found && *found);
  ASSERT_EQ((*found)->routes.size(), 2U);
  EXPECT_EQ((*found)->routes[0].route, "main");
  EXPECT_EQ((*found)->routes[0].state, DeliveryState::kPublished);
  EXPECT_EQ((*found)->routes[1].state, DeliveryState::kPending);

  MessageFilter pending;
  pending.state = DeliveryState::kPending;
  pending.route = "main";
  EXPECT_EQ((*store)->ListMessages(pending)->size(), 0U);
  pending.route = "webhook";
  EXPECT_EQ((*store)->ListMessages(pending)->size(), 1U);
}

// Bounds must not depend on how the caller's session reads and writes times.
TEST_F(PostgresStatusView, PartitionsHaveTheSameBoundsInEverySession) {
  session_->Exec(
      "UPDATE sealane.setting SET value = '20' WHERE name = 'partition_days_ahead'; "
      "SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Kolkata'");
  EXPECT_EQ(session_->Exec("SELECT sealane.ensure_partitions()"), "6");
  session_->Exec(
      "UPDATE sealane.setting SET value = '25' WHERE name = 'partition_days_ahead'; "
      "SET datestyle = 'ISO'; SET timezone = 'UTC'");
  EXPECT_EQ(session_->Exec("SELECT sealane.ensure_partitions()"), "5");
  for (const auto& row : session_->Query("SELECT relname, pg_get_expr(relpartbound, oid) FROM pg_class "
                                         "WHERE relname LIKE 'outbox\\_p%' AND relispartition AND relkind = 'r'")) {
    const std::string day = row[0].substr(8, 4) + "-" + row[0].substr(12, 2) + "-" + row[0].substr(14, 2);
    EXPECT_THAT(row[1], ::testing::HasSubstr("FROM ('" + day + " 00:00:00+00')")) << row[0];
  }
}

TEST_F(PostgresStatusView, MigratingAgainKeepsPartitionsReady) {
  session_->Exec("UPDATE sealane.setting SET value = '16' WHERE name = 'partition_days_ahead'");
  Migrate(database_.url());
  EXPECT_EQ(session_->Exec("SELECT sealane.ensure_partitions()"), "0");
}

TEST_F(PostgresStatusView, PartitionsAreDailyAndRetentionIsDroppingOne) {
  EXPECT_EQ(session_->Exec("SELECT sealane.ensure_partitions()"), "0") << "already there";
  const std::string today = session_->Exec("SELECT 'outbox_p' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')");
  Emit("k");
  EXPECT_EQ(session_->Count("sealane." + today), 1);
  EXPECT_EQ(session_->Count("sealane.outbox_default"), 0);
  session_->Exec("DROP TABLE sealane." + today);
  EXPECT_EQ(session_->Count("sealane.outbox_status"), 0);
  Emit("k2");
  EXPECT_EQ(session_->Count("sealane.outbox_default"), 1) << "nothing is refused when a partition is missing";
  EXPECT_EQ(session_->Exec("SELECT sealane.ensure_partitions()"), "0") << "a day with rows elsewhere is left alone";
}

}  // namespace
}  // namespace sealane
