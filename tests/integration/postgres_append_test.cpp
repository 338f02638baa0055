// Protects the promise of the whole product's first half: an event appended in an application's own libpq transaction
// exists exactly when that transaction committed, and a failing append writes nothing.

#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/outbox.hpp"
#include "sealane/versions.hpp"

#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using testing::Migrate;
using testing::PgSession;
using testing::ScratchDatabase;

Event Order(const std::string& key) {
  return {.topic = "orders", .key = key, .type = "OrderPlaced", .payload = R"({"id":1})"};
}

class PostgresAppend : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = std::make_unique<PgSession>(database_.url());
    session_->Exec("CREATE TABLE orders (id int PRIMARY KEY)");
  }
  ScratchDatabase database_{testing::kMigrated};
  std::unique_ptr<PgSession> session_;
  Outbox outbox_{{.producer = "shop"}};
};

TEST_F(PostgresAppend, CommitKeepsDataAndEventTogether) {
  session_->Exec("BEGIN; INSERT INTO orders VALUES (1)");
  const auto appended = outbox_.Append(session_->get(), Order("1"));
  ASSERT_TRUE(appended) << appended.error().ToString();
  PgSession other(database_.url());
  EXPECT_EQ(other.Count("sealane.outbox_status"), 0) << "seen before the commit";
  session_->Exec("COMMIT");
  EXPECT_EQ(other.Count("sealane.outbox_status WHERE status = 'PENDING'"), 1);
  EXPECT_EQ(other.Exec("SELECT event_id FROM sealane.outbox_status"), appended->id.ToString());
}

TEST_F(PostgresAppend, RollbackRemovesBoth) {
  session_->Exec("BEGIN; INSERT INTO orders VALUES (1)");
  ASSERT_TRUE(outbox_.Append(session_->get(), Order("1")));
  session_->Exec("ROLLBACK");
  EXPECT_EQ(session_->Count("sealane.outbox"), 0);
  EXPECT_EQ(session_->Count("orders"), 0);
}

TEST_F(PostgresAppend, RollbackToSavepointRemovesOnlyWhatCameAfterIt) {
  session_->Exec("BEGIN");
  ASSERT_TRUE(outbox_.Append(session_->get(), Order("kept")));
  session_->Exec("SAVEPOINT s");
  ASSERT_TRUE(outbox_.Append(session_->get(), Order("dropped")));
  session_->Exec("ROLLBACK TO s; COMMIT");
  EXPECT_EQ(session_->Exec("SELECT string_agg(key, ',') FROM sealane.outbox"), "kept");
  EXPECT_EQ(session_->Count("sealane.outbox WHERE xid::text::bigint > 0"), 1);
}

TEST_F(PostgresAppend, IsRefusedWithoutAnOpenTransaction) {
  const auto appended = outbox_.Append(session_->get(), Order("1"));
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code(), "no_transaction");
  EXPECT_EQ(appended.error().kind(), ErrorKind::kMisuse);
  EXPECT_EQ(outbox_.AppendAll(session_->get(), {}).error().code(), "no_transaction");
  EXPECT_EQ(session_->Count("sealane.outbox"), 0);
}

TEST_F(PostgresAppend, IsRefusedInAFailedTransaction) {
  session_->Exec("BEGIN");
  session_->Try("SELECT 1/0");
  EXPECT_EQ(outbox_.Append(session_->get(), Order("1")).error().code(), "transaction_failed");
}

TEST_F(PostgresAppend, DuplicateIdFailsOnlyTheCallersTransaction) {
  Event event = Order("1");
  event.id = EventIdGenerator::Instance().Next();
  session_->Exec("BEGIN");
  ASSERT_TRUE(outbox_.Append(session_->get(), event));
  session_->Exec("COMMIT");

  PgSession other(database_.url());
  other.Exec("BEGIN");
  ASSERT_TRUE(outbox_.Append(other.get(), Order("2")));
  session_->Exec("BEGIN; INSERT INTO orders VALUES (7)");
  const auto again = outbox_.Append(session_->get(), event);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), "duplicate_event_id");
  EXPECT_EQ(again.error().kind(), ErrorKind::kRejected);
  EXPECT_THAT(again.error().message(), ::testing::HasSubstr(event.id->ToString()));
  session_->Exec("ROLLBACK");
  other.Exec("COMMIT");
  EXPECT_EQ(session_->Exec("SELECT string_agg(key, ',' ORDER BY seq) FROM sealane.outbox"), "1,2");
  EXPECT_EQ(session_->Count("orders"), 0);
}

// The clean-up of old dedup keys runs beside writers. It must never make an append say "already there" and then leave
// the caller with neither the old event nor a new one.
TEST_F(PostgresAppend, AForgottenDedupKeyNeverSwallowsAnEvent) {
  Event once = Order("once");
  once.dedup_key = "once";
  session_->Exec("BEGIN");
  ASSERT_TRUE(outbox_.Append(session_->get(), once));
  session_->Exec("COMMIT; UPDATE sealane.outbox_unique SET created_at = created_at - interval '31 days'");

  // The batch finds the key used, then waits for another transaction that holds its second event's id.
  Event own = Order("own");
  own.id = EventIdGenerator::Instance().Next();
  PgSession holder(database_.url());
  holder.Exec("BEGIN");
  ASSERT_TRUE(outbox_.Append(holder.get(), own));
  session_->Exec("BEGIN");
  std::optional<Result<std::vector<Appended>>> appended;
  std::thread batch([&] { appended = outbox_.AppendAll(session_->get(), std::vector<Event>{once, own}); });
  PgSession sweeper(database_.url());
  while (sweeper.Count("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0)
    std::this_thread::yield();
  EXPECT_EQ(sweeper.Exec("SELECT unique_forgotten FROM sealane.forget_expired(100)"), "0") << "the key is in use";
  holder.Exec("ROLLBACK");
  batch.join();
  ASSERT_TRUE(*appended) << appended->error().ToString();
  EXPECT_TRUE((**appended)[0].already_there);
  session_->Exec("COMMIT");
  EXPECT_EQ(session_->Exec("SELECT string_agg(key, ',' ORDER BY seq) FROM sealane.outbox"), "once,own");
}

TEST_F(PostgresAppend, ADuplicateInABatchIsNamedByItsPlace) {
  Event own = Order("own");
  own.id = EventIdGenerator::Instance().Next();
  session_->Exec("BEGIN");
  ASSERT_TRUE(outbox_.Append(session_->get(), own));
  const auto again = outbox_.AppendAll(session_->get(), std::vector<Event>{Order("1"), Order("2"), own});
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().ToString(), ::testing::HasSubstr("in event 3 of the batch"));
}

TEST_F(PostgresAppend, MisusedConnectionsAreNamed) {
  EXPECT_EQ(outbox_.Append(static_cast<PGconn*>(nullptr), Order("1")).error().code(), "no_connection");
  session_->Exec("BEGIN");
  ASSERT_EQ(PQenterPipelineMode(session_->get()), 1);
  EXPECT_EQ(outbox_.Append(session_->get(), Order("1")).error().code(), "pipeline_mode");
  ASSERT_EQ(PQexitPipelineMode(session_->get()), 1);
  EXPECT_TRUE(outbox_.Append(session_->get(), Order("1")));
}

TEST_F(PostgresAppend, BatchIsOneStatementAndKeepsItsOrder) {
  std::vector<Event> events;
  for (int i = 0; i < 1'000; ++i) events.push_back(Order(std::to_string(i)));
  session_->Exec("BEGIN");
  const auto appended = outbox_.AppendAll(session_->get(), events);
  ASSERT_TRUE(appended) << appended.error().ToString();
  // One statement means one command id for all rows.
  EXPECT_EQ(session_->Exec("SELECT count(DISTINCT cmin::text) FROM sealane.outbox"), "1");
  session_->Exec("COMMIT");
  const auto rows = session_->Query("SELECT key, event_id FROM sealane.outbox ORDER BY seq");
  ASSERT_EQ(rows.size(), events.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i][0], events[i].key);
    EXPECT_EQ(rows[i][1], (*appended)[i].id.ToString());
  }
}

TEST_F(PostgresAppend, WritesToTheSchemaItIsGiven) {
  Migrate(database_.url(), "billing_events");
  session_->Exec("BEGIN");
  ASSERT_TRUE(outbox_.Append({session_->get(), "billing_events"}, Order("1")));
  session_->Exec("COMMIT");
  EXPECT_EQ(session_->Count("billing_events.outbox"), 1);
  EXPECT_EQ(session_->Count("sealane.outbox"), 0);
}

TEST_F(PostgresAppend, HostileSchemaNamesNeverReachTheServer) {
  session_->Exec("BEGIN");
  for (const std::string name : {"", "a b", "x\"; DROP TABLE orders; --", "Sealane", "pg_catalog", "1a", "ä",
                                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a;b", "a.b", "'"}) {
    const auto appended = outbox_.Append({session_->get(), name}, Order("1"));
    ASSERT_FALSE(appended) << name;
    EXPECT_EQ(appended.error().code(), "invalid_schema_name") << name;
  }
  EXPECT_EQ(PQtransactionStatus(session_->get()), PQTRANS_INTRANS) << "the transaction is still usable";
}

TEST_F(PostgresAppend, MissingSchemaSaysHowToMakeIt) {
  session_->Exec("DROP SCHEMA sealane CASCADE; BEGIN");
  const auto appended = outbox_.Append(session_->get(), Order("1"));
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code(), "schema_missing");
  EXPECT_THAT(appended.error().hint(), ::testing::HasSubstr("sealane migrate up"));
}

TEST_F(PostgresAppend, AnotherClientEncodingIsRefusedBeforeItDamagesText) {
  session_->Exec("SET client_encoding TO 'LATIN1'; BEGIN");
  const auto appended = outbox_.Append(session_->get(), Order("ä"));
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code(), "client_encoding");
  session_->Exec("SET client_encoding TO 'UTF8'");
  EXPECT_TRUE(outbox_.Append(session_->get(), Order("ä")));
}

TEST_F(PostgresAppend, ReadOnlyTransactionIsNamed) {
  session_->Exec("BEGIN READ ONLY");
  EXPECT_EQ(outbox_.Append(session_->get(), Order("1")).error().code(), "store_read_only");
}

TEST_F(PostgresAppend, LostConnectionWritesNothing) {
  session_->Exec("BEGIN; INSERT INTO orders VALUES (1)");
  PgSession admin(database_.url());
  const std::string pid = std::to_string(PQbackendPID(session_->get()));
  admin.Exec("SELECT pg_terminate_backend(" + pid + ")");
  const auto appended = outbox_.Append(session_->get(), Order("1"));
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code(), "connection_lost");
  EXPECT_EQ(appended.error().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(admin.Count("sealane.outbox"), 0);
  EXPECT_EQ(admin.Count("orders"), 0);
}

TEST_F(PostgresAppend, RowsCannotBeChangedAfterwards) {
  session_->Exec("BEGIN");
  ASSERT_TRUE(outbox_.Append(session_->get(), Order("1")));
  session_->Exec("COMMIT");
  EXPECT_EQ(session_->Try("UPDATE sealane.outbox SET key = 'x'"), "23001");
  const std::string today = session_->Exec("SELECT tableoid::regclass FROM sealane.outbox");
  EXPECT_EQ(session_->Try("UPDATE " + today + " SET key = 'x'"), "23001") << "a partition by its own name";
  EXPECT_EQ(session_->Exec("SELECT key FROM sealane.outbox"), "1");
}

TEST_F(PostgresAppend, SixteenWritersGetGaplessVersions) {
  constexpr int kWriters = 16;
  constexpr int kEvents = 10'000;
  constexpr int kAggregates = 8;
  std::vector<std::thread> writers;
  std::vector<std::string> problems(kWriters);
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      PgSession session(database_.url());
      for (int done = 0; done < kEvents; done += 50) {
        session.Exec("BEGIN");
        const std::string id = "o-" + std::to_string((writer + done / 50) % kAggregates);
        std::vector<Event> events;
        for (int i = 0; i < 50; ++i) {
          const auto version = NextVersion(session.get(), {.tenant = "t", .type = "order", .id = id});
          if (!version) {
            problems[static_cast<std::size_t>(writer)] = version.error().ToString();
            return;
          }
          Event event = Order(id);
          event.tenant = "t";
          event.aggregate = {"order", id, *version};
          events.push_back(std::move(event));
        }
        if (const auto appended = outbox_.AppendAll(session.get(), events); !appended) {
          problems[static_cast<std::size_t>(writer)] = appended.error().ToString();
          return;
        }
        session.Exec("COMMIT");
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");

  EXPECT_EQ(session_->Count("sealane.outbox_status WHERE status = 'PENDING'"), kWriters * kEvents);
  EXPECT_EQ(session_->Exec("SELECT count(DISTINCT event_id) FROM sealane.outbox"),
            std::to_string(kWriters * kEvents));
  const auto rows = session_->Query(
      "SELECT aggregate_id, min(aggregate_version), max(aggregate_version), count(DISTINCT aggregate_version), "
      "count(*) "
      "FROM sealane.outbox GROUP BY 1");
  EXPECT_EQ(rows.size(), static_cast<std::size_t>(kAggregates));
  for (const auto& row : rows) {
    EXPECT_EQ(row[1], "1");
    EXPECT_EQ(row[2], row[3]) << "a gap in the versions of " << row[0];
    EXPECT_EQ(row[3], row[4]) << "a version twice in " << row[0];
  }
  // Versions and sequence numbers are drawn under the same lock, so they agree per aggregate.
  EXPECT_EQ(
      session_->Exec("SELECT count(*) FROM (SELECT aggregate_version < lag(aggregate_version) OVER "
                     "(PARTITION BY aggregate_id ORDER BY seq) AS inverted FROM sealane.outbox) s WHERE inverted"),
      "0");
}

}  // namespace
}  // namespace sealane
