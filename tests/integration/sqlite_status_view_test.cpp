// The life of an event on SQLite, told by log, cursor and parked rows that are written here by hand, as the relay
// will.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sqlite/sqlite_store.hpp"
#include "support/sample_events.hpp"
#include "support/sqlite_file.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using enum DeliveryState;
using ::testing::ElementsAre;

/// Five events, seq 1 to 5.
class SqliteStatusView : public ::testing::Test {
 protected:
  SqliteStatusView() {
    file_.Migrate();
    store_ = ValueOrThrow(sqlite::OpenOutboxStore({.path = file_.path()}));
    std::vector<NewEntry> entries;
    for (int i = 1; i <= 5; ++i) entries.push_back(SampleEntry("k" + std::to_string(i)));
    AppendAndCommit(*store_, entries);
  }

  void Execute(const std::string& sql) const { SqliteHandle(file_.path()).Execute(sql); }
  void MoveCursor(int published_seq, int window_seq, const std::string& expires_at) const {
    Execute(
        fmt::format("UPDATE sealane_cursor SET owner = 'relay-1', epoch = epoch + 1, expires_at = {},"
                    " published_seq = {}, window_seq = {} WHERE route = 'main'",
                    expires_at, published_seq, window_seq));
  }
  void Park(int seq, const std::string& state, const std::string& more_columns = "",
            const std::string& more_values = "") const {
    Execute(
        fmt::format("INSERT INTO sealane_parked (route, seq, event_id, key, state{2}) SELECT 'main', seq, event_id,"
                    " key, '{1}'{3} FROM sealane_outbox WHERE seq = {0}",
                    seq, state, more_columns, more_values));
  }
  RouteStatus StatusOf(std::int64_t seq, const std::string& route = "main") const {
    for (const StoredMessage& message : ValueOrThrow(store_->ListMessages({}))) {
      if (message.seq != seq) continue;
      for (const RouteStatus& status : message.routes) {
        if (status.route == route) return status;
      }
    }
    ADD_FAILURE() << "event " << seq << " has no status on route " << route;
    return {};
  }
  std::vector<DeliveryState> States() const {
    std::vector<DeliveryState> states;
    for (int seq = 1; seq <= 5; ++seq) states.push_back(StatusOf(seq).state);
    return states;
  }
  std::vector<std::int64_t> SeqsIn(DeliveryState state) const {
    MessageFilter filter;
    filter.state = state;
    std::vector<std::int64_t> seqs;
    for (const StoredMessage& message : ValueOrThrow(store_->ListMessages(filter))) seqs.push_back(message.seq);
    return seqs;
  }

  static constexpr const char* kNever = "0";
  static constexpr const char* kFarFuture = "253402300799999999";

  const SqliteFile& file() const { return file_; }

 private:
  SqliteFile file_;
  std::unique_ptr<OutboxStore> store_;
};

TEST_F(SqliteStatusView, StartsPending) {
  EXPECT_THAT(States(), ElementsAre(kPending, kPending, kPending, kPending, kPending));
  EXPECT_EQ(StatusOf(1).attempts, 0);
}

TEST_F(SqliteStatusView, IsPublishingInsideTheWindowOfALiveLease) {
  MoveCursor(1, 3, kFarFuture);
  EXPECT_THAT(States(), ElementsAre(kPublished, kPublishing, kPublishing, kPending, kPending));
  EXPECT_THAT(SeqsIn(kPublishing), ElementsAre(3, 2));
}

TEST_F(SqliteStatusView, IsPendingAgainWhenTheLeaseHasExpired) {
  MoveCursor(1, 3, kNever);
  EXPECT_THAT(States(), ElementsAre(kPublished, kPending, kPending, kPending, kPending));
}

TEST_F(SqliteStatusView, IsPublishedUpToTheCursor) {
  MoveCursor(4, 4, kNever);
  Execute(
      "INSERT INTO sealane_settlement (route, seq_to, at) VALUES ('main', 2, 1000000), ('main', 4, 2000000),"
      " ('main', 4, 3000000)");
  EXPECT_THAT(States(), ElementsAre(kPublished, kPublished, kPublished, kPublished, kPending));
  const auto second = [](int n) { return std::optional(Timestamp{std::chrono::seconds{n}}); };
  EXPECT_EQ(StatusOf(1).published_at, second(1));
  EXPECT_EQ(StatusOf(2).published_at, second(1));
  EXPECT_EQ(StatusOf(3).published_at, second(2));
  EXPECT_EQ(StatusOf(4).published_at, second(2));
  EXPECT_FALSE(StatusOf(5).published_at.has_value());
  EXPECT_EQ(StatusOf(1).attempts, 1);
  EXPECT_EQ(StatusOf(5).attempts, 0);
}

TEST_F(SqliteStatusView, ParkedEventsShowTheirFailure) {
  MoveCursor(5, 5, kFarFuture);
  Execute("INSERT INTO sealane_settlement (route, seq_to, at) VALUES ('main', 5, 1000000)");
  Park(1, "FAILED", ", attempts, next_attempt_at, error_code, error_message", ", 3, 7000000, 'broker_refused', 'no'");
  Park(2, "WAITING");
  Park(3, "DEAD", ", attempts", ", 10");
  Park(4, "DISCARDED");
  EXPECT_THAT(States(), ElementsAre(kFailed, kPending, kDead, kDiscarded, kPublished));

  const RouteStatus failed = StatusOf(1);
  EXPECT_EQ(failed.attempts, 3);
  EXPECT_EQ(failed.next_attempt_at, Timestamp{std::chrono::seconds{7}});
  EXPECT_EQ(failed.last_error_code, "broker_refused");
  EXPECT_EQ(failed.last_error_message, "no");
  for (const int seq : {1, 2, 3, 4}) EXPECT_FALSE(StatusOf(seq).published_at.has_value()) << seq;
  EXPECT_THAT(SeqsIn(kFailed), ElementsAre(1));
  EXPECT_THAT(SeqsIn(kPending), ElementsAre(2));
  EXPECT_THAT(SeqsIn(kDead), ElementsAre(3));
  EXPECT_THAT(SeqsIn(kDiscarded), ElementsAre(4));
  EXPECT_THAT(SeqsIn(kPublished), ElementsAre(5));

  Execute("DELETE FROM sealane_parked WHERE seq = 1");  // the retry succeeded
  EXPECT_EQ(StatusOf(1).state, kPublished);
}

TEST_F(SqliteStatusView, EveryRouteHasItsOwnProgress) {
  Execute("INSERT INTO sealane_route (name) VALUES ('hooks'); INSERT INTO sealane_cursor (route) VALUES ('hooks')");
  MoveCursor(3, 3, kNever);
  EXPECT_EQ(StatusOf(3, "main").state, kPublished);
  EXPECT_EQ(StatusOf(3, "hooks").state, kPending);
  EXPECT_EQ(SqliteHandle(file().path()).Number("SELECT count(*) FROM sealane_outbox_status"), 10);
  EXPECT_THAT(SeqsIn(kPending), ElementsAre(5, 4, 3, 2, 1)) << "pending on one of the routes";
}

TEST_F(SqliteStatusView, KeepsPayloadsOut) {
  const SqliteHandle sql(file().path());
  EXPECT_THAT(sql.ErrorOf("SELECT payload FROM sealane_outbox_status"), ::testing::HasSubstr("no such column"));
  EXPECT_EQ(sql.Text("SELECT topic || ' ' || key || ' ' || type || ' ' || payload_size FROM sealane_outbox_status"
                     " WHERE seq = 1"),
            "orders k1 OrderPlaced 8");
}

}  // namespace
}  // namespace sealane
