// sealane.emit(): appending from any language that speaks SQL. Good defaults, exact bytes, and errors that name the
// argument at fault.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/postgres_store.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using ::testing::HasSubstr;
using testing::PgSession;
using testing::ScratchDatabase;

class PostgresEmit : public ::testing::Test {
 protected:
  void SetUp() override { session_ = std::make_unique<PgSession>(database_.url()); }
  std::string Emit(const std::string& extra = "") {
    return session_->Exec(
        "SELECT sealane.emit(topic => 'orders', key => 'o-1', type => 'OrderPlaced', payload => '{\"a\":1}'" + extra +
        ")");
  }
  /// The name of the field that the server blames, with the constraint that carries our code.
  void ExpectRefused(const std::string& arguments, const std::string& code, const std::string& field) {
    PGresult* const result = PQexec(session_->get(), ("SELECT sealane.emit(" + arguments + ")").c_str());
    const auto get = [&](int what) {
      const char* text = PQresultErrorField(result, what);
      return std::string(text != nullptr ? text : "");
    };
    EXPECT_EQ(get(PG_DIAG_CONSTRAINT_NAME), "sealane_" + code) << arguments << ": " << PQresultErrorMessage(result);
    EXPECT_EQ(get(PG_DIAG_COLUMN_NAME), field) << arguments;
    PQclear(result);
    EXPECT_EQ(session_->Count("sealane.outbox"), 0) << arguments;
  }
  ScratchDatabase database_{testing::kMigrated};
  std::unique_ptr<PgSession> session_;
};

TEST_F(PostgresEmit, NeedsFourArgumentsOnly) {
  const std::string id = Emit();
  auto store = postgres::OpenOutboxStore({.url = database_.url()});
  ASSERT_TRUE(store);
  const auto found = (*store)->FindMessage(*EventId::Parse(id));
  ASSERT_TRUE(found && *found);
  const Envelope& envelope = (*found)->envelope;
  EXPECT_EQ(envelope.topic, "orders");
  EXPECT_EQ(envelope.key, "o-1");
  EXPECT_EQ(envelope.type, "OrderPlaced");
  EXPECT_EQ(envelope.payload, R"({"a":1})");
  EXPECT_EQ(envelope.content_type, "application/json");
  EXPECT_EQ(envelope.kind, EventKind::kEvent);
  EXPECT_EQ(envelope.schema_version, 1);
  EXPECT_EQ(envelope.tenant, "");
  EXPECT_TRUE(envelope.headers.empty());
  EXPECT_TRUE(envelope.id.CreatedAt());
}

TEST_F(PostgresEmit, StoresEveryArgument) {
  const std::string id = Emit(
      ", tenant => 't1', aggregate_type => 'order', aggregate_id => 'o-1', aggregate_version => 3, "
      "headers => '{\"region\":\"eu\",\"note\":\"a\\\"b\"}', available_at => '2030-01-02T03:04:05.000006Z', "
      "dedup_key => 'once', event_id => '0190163d-8694-739b-aea5-966c26f8ad91', kind => 'command', schema_version => "
      "4, "
      "content_type => 'application/vnd.shop+json', correlation_id => 'c', causation_id => 'ca', traceparent => "
      "'tp', "
      "tracestate => 'ts', occurred_at => '2020-01-01T00:00:00Z', producer => 'shop', schema_id => 's-1'");
  EXPECT_EQ(id, "0190163d-8694-739b-aea5-966c26f8ad91");
  auto store = postgres::OpenOutboxStore({.url = database_.url()});
  ASSERT_TRUE(store);
  const auto found = (*store)->FindMessage(*EventId::Parse(id));
  ASSERT_TRUE(found && *found) << "an own id is found although it carries another time";
  const Envelope& envelope = (*found)->envelope;
  EXPECT_EQ(envelope.tenant, "t1");
  EXPECT_EQ(envelope.aggregate, (Aggregate{"order", "o-1", 3}));
  EXPECT_EQ(envelope.headers, (Headers{{"region", "eu"}, {"note", "a\"b"}}));
  EXPECT_EQ(envelope.kind, EventKind::kCommand);
  EXPECT_EQ(envelope.schema_version, 4);
  EXPECT_EQ(envelope.content_type, "application/vnd.shop+json");
  EXPECT_EQ(envelope.correlation_id, "c");
  EXPECT_EQ(envelope.causation_id, "ca");
  EXPECT_EQ(envelope.traceparent, "tp");
  EXPECT_EQ(envelope.tracestate, "ts");
  EXPECT_EQ(envelope.producer, "shop");
  EXPECT_EQ(envelope.schema_id, "s-1");
  ASSERT_TRUE(envelope.available_at);
  EXPECT_EQ(envelope.available_at->time_since_epoch().count() % 1'000'000, 6);
}

TEST_F(PostgresEmit, TakesBytesAsTheyAre) {
  session_->Exec(
      "SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '\\x00ff00'::bytea, "
      "content_type => 'application/octet-stream')");
  EXPECT_EQ(session_->Exec("SELECT payload = '\\x00ff00' AND payload_hash = sha256('\\x00ff00') FROM sealane.outbox"),
            "t");
}

TEST_F(PostgresEmit, KeepsJsonTextToTheLastByte) {
  const std::string json = R"( {"b":1,"a":123456789012345678901234567890,"a":2, "s":"\ud800"} )";
  session_->Exec("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => $$" + json + "$$)");
  EXPECT_EQ(session_->Exec("SELECT convert_from(payload, 'UTF8') FROM sealane.outbox"), json);
}

TEST_F(PostgresEmit, RefusesWhatAnAppendWouldRefuseAndNamesTheArgument) {
  const std::string rest = ", type => 'T', payload => '{}'";
  ExpectRefused("topic => '', key => 'k'" + rest, "field_missing", "topic");
  ExpectRefused("topic => 't', key => null" + rest, "field_missing", "key");
  ExpectRefused("topic => 't', key => 'k', type => '', payload => '{}'", "field_missing", "type");
  ExpectRefused("topic => 't', key => 'k', type => 'T', payload => null::text", "field_missing", "payload");
  ExpectRefused("topic => 'a b', key => 'k'" + rest, "invalid_topic", "topic");
  ExpectRefused("topic => 't', key => repeat('k', 1025)" + rest, "field_too_long", "key");
  ExpectRefused("topic => 't', key => 'k', type => 'T', payload => '{'", "invalid_json", "payload");
  ExpectRefused("topic => 't', key => 'k', type => 'T', payload => '\\xff'::bytea", "invalid_json", "payload");
  ExpectRefused("topic => 't', key => 'k', type => 'T', payload => '\"' || repeat('x', 921600) || '\"'",
                "payload_too_large", "payload");
  const std::string head = "topic => 't', key => 'k'" + rest;
  ExpectRefused(head + ", kind => 'wish'", "invalid_kind", "kind");
  ExpectRefused(head + ", schema_version => 0", "invalid_version", "schema_version");
  ExpectRefused(head + ", aggregate_type => 'o', aggregate_id => '1', aggregate_version => -1", "invalid_version",
                "aggregate_version");
  ExpectRefused(head + ", aggregate_version => 1", "field_missing", "aggregate_id");
  ExpectRefused(head + ", aggregate_type => 'o'", "field_missing", "aggregate_id");
  ExpectRefused(head + ", headers => '[]'", "invalid_headers", "headers");
  ExpectRefused(head + ", headers => '{\"a\":1}'", "invalid_headers", "headers");
  ExpectRefused(head + ", headers => '{\"a\":\"1\",\"a\":\"2\"}'", "duplicate_header", "headers");
  ExpectRefused(head + ", headers => (SELECT json_object_agg(g, 'x') FROM generate_series(1, 65) g)",
                "too_many_headers", "headers");
  ExpectRefused(head + ", event_id => '00000000-0000-0000-0000-000000000000'", "nil_event_id", "event_id");
  ExpectRefused(head + ", available_at => 'infinity'", "invalid_time", "available_at");
  ExpectRefused(head + ", occurred_at => '-infinity'", "invalid_time", "occurred_at");
  ExpectRefused(head + ", headers => '{\"a\":\"\\ud800\"}'", "invalid_headers", "headers");
  ExpectRefused(head + ", headers => '{\"a\":\"\\u0000\"}'", "invalid_headers", "headers");
  ExpectRefused(head + ", dedup_key => ''", "field_missing", "dedup_key");
}

TEST_F(PostgresEmit, HostileTextIsDataAndNothingElse) {
  const std::string hostile = R"('); DROP TABLE sealane.outbox; --"$$\')";
  const char* const values[] = {hostile.c_str()};
  PGresult* const result = PQexecParams(
      session_->get(), "SELECT sealane.emit(topic => 't', key => $1, type => $1, payload => '{}', tenant => $1)", 1,
      nullptr, values, nullptr, nullptr, 0);
  EXPECT_EQ(PQresultStatus(result), PGRES_TUPLES_OK) << PQresultErrorMessage(result);
  PQclear(result);
  EXPECT_EQ(session_->Exec("SELECT key FROM sealane.outbox"), hostile);
}

TEST_F(PostgresEmit, DuplicatesAreRefusedByNameAndDedupKeysAreANoOp) {
  const std::string aggregate = ", aggregate_type => 'order', aggregate_id => 'o-1', aggregate_version => 3";
  Emit(aggregate);
  std::string message;
  const std::string head =
      "SELECT sealane.emit(topic => 'orders', key => 'o-1', type => 'OrderPlaced', payload => '{}'";
  EXPECT_EQ(session_->Try(head + aggregate + ")", &message), "23505");
  EXPECT_THAT(message, HasSubstr("order o-1 version 3"));
  EXPECT_EQ(session_->Try(head + aggregate + ", unique_version => false)"), "");
  EXPECT_EQ(session_->Try(head + aggregate + ", tenant => 'other')"), "") << "tenants do not collide";

  const std::string first = Emit(", dedup_key => 'once'");
  EXPECT_EQ(Emit(", dedup_key => 'once'"), first);
  EXPECT_EQ(session_->Count("sealane.outbox"), 4);
}

TEST_F(PostgresEmit, NullMeansNotGiven) {
  const std::string nulls =
      ", tenant => null, headers => null, kind => null, schema_version => null, content_type => null, "
      "unique_version => null, aggregate_type => 'o', aggregate_id => '1', aggregate_version => 1";
  Emit(nulls);
  EXPECT_EQ(session_->Exec("SELECT concat_ws(' ', kind, schema_version, content_type, headers) FROM sealane.outbox"),
            "event 1 application/json {}");
  EXPECT_EQ(
      session_->Try("SELECT sealane.emit(topic => 'orders', key => 'o-1', type => 'OrderPlaced', payload => '{}'" +
                    nulls + ")"),
      "23505")
      << "the version is watched unless somebody says no";
}

TEST_F(PostgresEmit, RollsBackWithItsTransaction) {
  session_->Exec("BEGIN");
  Emit(", dedup_key => 'once'");
  session_->Exec("ROLLBACK");
  EXPECT_EQ(session_->Count("sealane.outbox"), 0);
  EXPECT_EQ(session_->Count("sealane.outbox_unique"), 0);
}

}  // namespace
}  // namespace sealane
