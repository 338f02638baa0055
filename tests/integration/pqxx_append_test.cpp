// libpqxx users get the same promises through sealane/pqxx.hpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/idempotency.hpp"
#include "sealane/once.hpp"
#include "sealane/outbox.hpp"
#include "sealane/pqxx.hpp"
#include "sealane/tasks.hpp"
#include "sealane/versions.hpp"

#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

class PqxxAppend : public ::testing::Test {
 protected:
  void SetUp() override { connection_ = std::make_unique<pqxx::connection>(database_.url()); }
  long CountEvents() {
    pqxx::nontransaction reader(*connection_);
    return reader.exec("SELECT count(*) FROM sealane.outbox")[0][0].as<long>();
  }
  Event Order(std::string key) {
    return {.topic = "orders", .key = std::move(key), .type = "OrderPlaced", .payload = R"({"a":"'\\\"\u00e4"})"};
  }
  testing::ScratchDatabase database_{testing::kMigrated};
  std::unique_ptr<pqxx::connection> connection_;
  Outbox outbox_;
};

TEST_F(PqxxAppend, CommitsAndRollsBackWithTheTransaction) {
  {
    pqxx::work tx(*connection_);
    ASSERT_TRUE(outbox_.Append(PqxxTransaction(tx), Order("kept")));
    tx.commit();
  }
  EXPECT_EQ(CountEvents(), 1);
  {
    pqxx::work tx(*connection_);
    ASSERT_TRUE(outbox_.Append(PqxxTransaction(tx), Order("gone")));
    tx.abort();
  }
  EXPECT_EQ(CountEvents(), 1);
}

TEST_F(PqxxAppend, BytesAndHostileTextArriveUnchanged) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  Event event = Order(R"(o'"\; {a,"b"} NULL $1)");
  event.payload = bytes;
  event.content_type = "application/octet-stream";
  event.headers = {{"note", R"({"x":"\"\\"})"}};
  event.available_at = Timestamp{std::chrono::microseconds{1'900'000'000'123'456}};
  const std::vector<Event> events = {event, Order("plain")};
  {
    pqxx::work tx(*connection_);
    const auto appended = outbox_.AppendAll(PqxxTransaction(tx), events);
    ASSERT_TRUE(appended) << appended.error().ToString();
    tx.commit();
  }
  testing::PgSession session(database_.url());
  EXPECT_EQ(session.Exec("SELECT sha256(payload) = payload_hash AND octet_length(payload) = 256 FROM sealane.outbox "
                         "ORDER BY seq LIMIT 1"),
            "t");
  EXPECT_EQ(session.Exec("SELECT key FROM sealane.outbox ORDER BY seq LIMIT 1"), event.key);
  EXPECT_EQ(session.Exec("SELECT headers->>'note' FROM sealane.outbox ORDER BY seq LIMIT 1"), event.headers[0].value);
  EXPECT_EQ(session.Exec("SELECT key FROM sealane.outbox ORDER BY seq DESC LIMIT 1"), "plain");
}

TEST_F(PqxxAppend, DuplicatesAndDedupKeysWorkAsWithLibpq) {
  Event own = Order("1");
  own.id = EventIdGenerator::Instance().Next();
  Event once = Order("2");
  once.dedup_key = "once";
  EventId first;
  {
    pqxx::work tx(*connection_);
    ASSERT_TRUE(outbox_.Append(PqxxTransaction(tx), own));
    first = outbox_.Append(PqxxTransaction(tx), once)->id;
    tx.commit();
  }
  {
    pqxx::work tx(*connection_);
    EXPECT_EQ(*outbox_.Append(PqxxTransaction(tx), once), (Appended{first, true}));
    const auto again = outbox_.Append(PqxxTransaction(tx), own);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code(), "duplicate_event_id");
  }
  EXPECT_EQ(CountEvents(), 2);
}

TEST_F(PqxxAppend, VersionsAndIdempotencyWorkToo) {
  const IdempotencyClaim claim{.tenant = "t", .key = "k", .request_hash = "h"};
  pqxx::work tx(*connection_);
  EXPECT_EQ(*NextVersion(PqxxTransaction(tx), {"t", "order", "o"}), 1);
  EXPECT_EQ(*AdvanceVersion(PqxxTransaction(tx), {"t", "order", "o"}, 1), 2);
  EXPECT_EQ(AdvanceVersion(PqxxTransaction(tx), {"t", "order", "o"}, 1).error().code(), "version_conflict");
  const Idempotency idempotency;
  EXPECT_EQ(idempotency.Begin(PqxxTransaction(tx), claim)->state, IdempotencyState::kNew);
  ASSERT_TRUE(idempotency.Complete(PqxxTransaction(tx), claim, {200, std::string("a\0b", 3)}));
  const auto replay = idempotency.Begin(PqxxTransaction(tx), claim);
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->response, (StoredResponse{200, std::string("a\0b", 3)}));
}

TEST_F(PqxxAppend, TasksAndKeysThatAreTakenOnceCommitWithTheTransaction) {
  const Tasks tasks;
  const Task charge{.target = "billing",
                    .operation = "/charges",
                    .idempotency_key = "it's o-1",
                    .request = std::string("a\0\xff", 3),
                    .content_type = "application/octet-stream",
                    .order_key = "o-1"};
  {
    pqxx::work tx(*connection_);
    ValueOrThrow(tasks.Enqueue(PqxxTransaction(tx), charge));
    EXPECT_TRUE(*EnsureOnce(PqxxTransaction(tx), "payment", "p-1"));
  }
  EXPECT_EQ(testing::PgSession(database_.url()).Count("sealane.task"), 0) << "rolled back";
  EventId first;
  {
    pqxx::work tx(*connection_);
    first = tasks.Enqueue(PqxxTransaction(tx), charge)->id;
    EXPECT_TRUE(*EnsureOnce(PqxxTransaction(tx), "payment", "p-1"));
    tx.commit();
  }
  pqxx::work tx(*connection_);
  EXPECT_EQ(*tasks.Enqueue(PqxxTransaction(tx), charge), (EnqueuedTask{first, true}));
  EXPECT_FALSE(*EnsureOnce(PqxxTransaction(tx), "payment", "p-1"));
  testing::PgSession session(database_.url());
  EXPECT_EQ(session.Exec("SELECT encode(request, 'hex') FROM sealane.task"), "6100ff");
  EXPECT_EQ(session.Exec("SELECT idempotency_key FROM sealane.task"), charge.idempotency_key);
}

TEST_F(PqxxAppend, AnEndedTransactionIsRefusedAndNothingIsWritten) {
  pqxx::work tx(*connection_);
  tx.commit();
  const auto appended = outbox_.Append(PqxxTransaction(tx), Order("late"));
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().kind(), ErrorKind::kMisuse);
  testing::PgSession session(database_.url());
  EXPECT_EQ(session.Count("sealane.outbox"), 0);
}

// A pqxx::nontransaction commits every statement by itself, so it must not be taken for a transaction.
static_assert(!std::is_constructible_v<PqxxTransaction, pqxx::nontransaction&>);
static_assert(std::is_constructible_v<PqxxTransaction, pqxx::work&>);

}  // namespace
}  // namespace sealane
