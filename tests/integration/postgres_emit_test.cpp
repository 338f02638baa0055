// sealane.emit(): appending from any language that speaks SQL. Good defaults, exact bytes, errors that name the
// argument at fault, and the owner's rights for nothing but the append.

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/outbox.hpp"

#include "core/fingerprint.hpp"
#include "postgres/postgres_migrator.hpp"
#include "postgres/postgres_store.hpp"
#include "support/eventually.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using ::testing::HasSubstr;
using testing::Migrate;
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

// ---- the payload's type -------------------------------------------------------------------------------------------

TEST_F(PostgresEmit, TakesJsonAsItWasWrittenAndJsonbAsItsText) {
  const std::string head = "SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => ";
  const std::string stored = "SELECT convert_from(payload, 'UTF8') FROM sealane.outbox ORDER BY seq DESC LIMIT 1";
  session_->Exec(head + R"('{"b": 1,  "a":2.50, "a":3}'::json))");
  EXPECT_EQ(session_->Exec(stored), R"({"b": 1,  "a":2.50, "a":3})");
  session_->Exec(head + R"('{"b": 1,  "a":2.50}'::jsonb))");
  EXPECT_EQ(session_->Exec(stored), R"({"a": 2.50, "b": 1})");
  session_->Exec(head + "jsonb_build_object('total', 4200)" + ", tenant => 'acme', headers => '{\"a\":\"b\"}')");
  EXPECT_EQ(session_->Exec(stored), R"({"total": 4200})");
  session_->Exec(head + "'null'::jsonb)");
  EXPECT_EQ(session_->Exec(stored), "null") << "JSON's null is a payload, SQL's is none";
  session_->Exec(head + "to_json('a\u00e4'::text), content_type => 'text/plain')");
  EXPECT_EQ(session_->Count("sealane.outbox WHERE payload_hash = sha256(payload) AND payload_size = "
                            "octet_length(payload) AND lane = sealane.lane_hash(key) % 64"),
            5);
}

TEST_F(PostgresEmit, APayloadWithoutATypeIsText) {
  const std::string json = R"( {"b":1, "a":2})";
  const std::string sql = "SELECT sealane.emit(topic => $1, key => $2, type => $3, payload => $4)";
  const char* const values[] = {"t", "k", "T", json.c_str()};
  const auto expect_stored = [&](PGresult* result, const char* how) {
    EXPECT_EQ(PQresultStatus(result), PGRES_TUPLES_OK) << how << ": " << PQresultErrorMessage(result);
    PQclear(result);
    EXPECT_EQ(session_->Exec("SELECT convert_from(payload, 'UTF8') FROM sealane.outbox"), json) << how;
    session_->Exec("DELETE FROM sealane.outbox");
  };
  expect_stored(PQexecParams(session_->get(), sql.c_str(), 4, nullptr, values, nullptr, nullptr, 0),
                "parameters without types");
  PQclear(PQprepare(session_->get(), "untyped", sql.c_str(), 0, nullptr));
  expect_stored(PQexecPrepared(session_->get(), "untyped", 4, values, nullptr, nullptr, 0), "prepared");
  constexpr Oid kVarchar = 1043;  // what JDBC sends
  const Oid types[] = {kVarchar, kVarchar, kVarchar, kVarchar};
  expect_stored(PQexecParams(session_->get(), sql.c_str(), 4, types, values, nullptr, nullptr, 0), "varchar");
  expect_stored(PQexec(session_->get(), ("SELECT sealane.emit('t', 'k', 'T', '" + json + "')").c_str()), "a literal");
  expect_stored(PQexec(session_->get(), ("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '" +
                                         json + "', headers => '{}')")
                                            .c_str()),
                "a literal by name");

  constexpr Oid kJson = 114;
  constexpr Oid kJsonb = 3802;
  for (const Oid type : {kJson, kJsonb}) {  // what psycopg's Json and Jsonb send
    const Oid typed[] = {0, 0, 0, type};
    PGresult* const result = PQexecParams(session_->get(), sql.c_str(), 4, typed, values, nullptr, nullptr, 0);
    EXPECT_EQ(PQresultStatus(result), PGRES_TUPLES_OK) << PQresultErrorMessage(result);
    PQclear(result);
  }
  EXPECT_EQ(session_->Exec("SELECT string_agg(convert_from(payload, 'UTF8'), '|' ORDER BY seq) FROM sealane.outbox"),
            json + R"(|{"a": 2, "b": 1})");
}

TEST_F(PostgresEmit, RefusesAMissingPayloadOfEveryType) {
  for (const std::string type : {"", "::text", "::bytea", "::json", "::jsonb"}) {
    ExpectRefused("topic => 't', key => 'k', type => 'T', payload => null" + type, "field_missing", "payload");
  }
}

// ---- what is refused, and how -------------------------------------------------------------------------------------

struct Refusal {
  std::string sqlstate, message, detail, hint, constraint, column;
  bool operator==(const Refusal&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
  return out << refusal.sqlstate << " " << refusal.message << " (" << refusal.constraint << ", " << refusal.column
             << ") detail: " << refusal.detail << " hint: " << refusal.hint;
}

/// Installs Sealane as it was before emit() was written anew.
void MigrateToBefore(const postgres::Options& options) {
  std::vector<Migration> before = postgres::EmbeddedMigrations();
  while (!before.empty() && before.back().name != "cheap_append") before.pop_back();
  ASSERT_FALSE(before.empty());
  before.pop_back();
  const auto made =
      postgres::PostgresMigrator(ValueOrThrow(postgres::Connection::Open(options)), options, before).Up();
  ASSERT_TRUE(made) << made.error().ToString();
}

/// What becomes of a call: nothing when it is taken. Leaves no trace of it.
std::optional<Refusal> RefusalOf(PgSession& session, const std::string& call) {
  session.Exec("BEGIN");
  PGresult* const result = PQexec(session.get(), call.c_str());
  std::optional<Refusal> refusal;
  if (PQresultStatus(result) != PGRES_TUPLES_OK) {
    const auto get = [&](int field) {
      const char* const text = PQresultErrorField(result, field);
      return std::string(text != nullptr ? text : "");
    };
    refusal = Refusal{get(PG_DIAG_SQLSTATE),     get(PG_DIAG_MESSAGE_PRIMARY), get(PG_DIAG_MESSAGE_DETAIL),
                      get(PG_DIAG_MESSAGE_HINT), get(PG_DIAG_CONSTRAINT_NAME), get(PG_DIAG_COLUMN_NAME)};
  }
  PQclear(result);
  session.Exec("ROLLBACK");
  return refusal;
}

struct Argument {
  std::string name, value;
};

// Every argument with every value that is refused, and at its limits with values that are taken.
const std::vector<Argument>& OddArguments() {
  static const std::vector<Argument> odd = {
      {"topic", "''"},
      {"topic", "null"},
      {"topic", "'a b'"},
      {"topic", "'.'"},
      {"topic", "'..'"},
      {"topic", "E't\n'"},
      {"topic", "repeat('t', 249)"},
      {"topic", "repeat('t', 250)"},
      {"key", "''"},
      {"key", "null"},
      {"key", "repeat('k', 1024)"},
      {"key", "repeat('\u00e4', 513)"},
      {"type", "''"},
      {"type", "null"},
      {"type", "repeat('T', 256)"},
      {"payload", "null::text"},
      {"payload", "'{'"},
      {"payload", "''"},
      {"payload", "'\xff'::bytea"},
      {"payload", "'{\"a\":1}'::bytea"},
      {"payload", "'\"' || repeat('x', 921598) || '\"'"},
      {"payload", "'\"' || repeat('x', 921599) || '\"'"},
      {"tenant", "null"},
      {"tenant", "repeat('a', 255)"},
      {"tenant", "repeat('a', 256)"},
      {"kind", "null"},
      {"kind", "''"},
      {"kind", "'wish'"},
      {"kind", "'command'"},
      {"schema_version", "0"},
      {"schema_version", "null"},
      {"content_type", "''"},
      {"content_type", "null"},
      {"content_type", "'text/plain'"},
      {"content_type", "'Application/JSON ; charset=utf-8'"},
      {"content_type", "'application/problem+json'"},
      {"content_type", "repeat('c', 256)"},
      {"aggregate_type", "'order'"},
      {"aggregate_type", "''"},
      {"aggregate_type", "repeat('o', 256)"},
      {"aggregate_id", "'1'"},
      {"aggregate_id", "''"},
      {"aggregate_id", "repeat('o', 1025)"},
      {"aggregate_version", "0"},
      {"aggregate_version", "1"},
      {"headers", "null"},
      {"headers", "'[]'"},
      {"headers", "'null'"},
      {"headers", "'{\"a\":\"b\"}'"},
      {"headers", "'{\"a\":1}'"},
      {"headers", "'{\"a\":null}'"},
      {"headers", "'{\"\":\"b\"}'"},
      {"headers", "'{\"x\":\"1\",\"b\":{\"c\":2},\"c\":3}'"},
      {"headers", "'{\"a\":\"1\",\"a\":\"2\"}'"},
      {"headers", "'{\"a\":\"\\ud800\"}'"},
      {"headers", "'{\"a\":\"\\u0000\"}'"},
      {"headers", "'{\"a\":{\"b\":\"\\u0000\"}}'"},
      {"headers", "'{\"\\u0000\":\"b\"}'"},
      {"headers", "(SELECT json_object_agg(g, 'x') FROM generate_series(1, 64) g)"},
      {"headers", "(SELECT json_object_agg(g, 'x') FROM generate_series(1, 65) g)"},
      {"headers", "json_build_object('a', repeat('x', 16383))"},
      {"headers", "json_build_object('a', repeat('x', 16384))"},
      {"headers", "json_build_object('a', repeat('x', 32768))"},
      {"event_id", "'00000000-0000-0000-0000-000000000000'"},
      {"event_id", "'0190163d-8694-739b-aea5-966c26f8ad91'"},
      {"event_id", "'0190163d-8694-739b-aea5-966c26f8ad92'"},
      {"occurred_at", "'-infinity'"},
      {"occurred_at", "'1969-12-31T23:59:59Z'"},
      {"available_at", "'infinity'"},
      {"available_at", "'10000-01-01T00:00:00Z'"},
      {"dedup_key", "''"},
      {"dedup_key", "'used'"},
      {"dedup_key", "repeat('d', 1025)"},
      {"producer", "repeat('p', 256)"},
      {"producer", "''"},
      {"schema_id", "repeat('s', 256)"},
      {"correlation_id", "repeat('c', 513)"},
      {"causation_id", "repeat('c', 513)"},
      {"traceparent", "repeat('t', 513)"},
      {"tracestate", "repeat('t', 513)"},
      {"tracestate", "repeat('t', 512)"},
  };
  return odd;
}

std::string CallWith(const std::string& schema, const std::vector<Argument>& arguments) {
  std::vector<Argument> all = {{"topic", "'t'"}, {"key", "'k'"}, {"type", "'T'"}, {"payload", "'{}'"}};
  for (const Argument& argument : arguments) {
    const auto at = std::ranges::find(all, argument.name, &Argument::name);
    at == all.end() ? all.push_back(argument) : void(at->value = argument.value);
  }
  std::string list;
  for (const Argument& argument : all) {
    list += fmt::format("{}{} => {}", list.empty() ? "" : ", ", argument.name, argument.value);
  }
  return fmt::format("SELECT {}.emit({})", schema, list);
}

// emit() was written anew to be as cheap as an INSERT. Beside it stands the one from before, in a schema of its own:
// both must refuse the same calls with the same words, alone and when two arguments are odd at once.
TEST_F(PostgresEmit, RefusesWhatItAlwaysRefusedInTheSameWords) {
  MigrateToBefore({.url = database_.url(), .schema = "before", .create_roles = false});
  for (const std::string schema : {"before", "sealane"}) {
    session_->Exec(CallWith(schema, {{"dedup_key", "'used'"}}));
    session_->Exec(CallWith(schema, {{"event_id", "'0190163d-8694-739b-aea5-966c26f8ad92'"}}));
    session_->Exec(
        CallWith(schema, {{"aggregate_type", "'order'"}, {"aggregate_id", "'1'"}, {"aggregate_version", "1"}}));
  }

  std::vector<std::vector<Argument>> calls;
  const std::vector<Argument>& odd = OddArguments();
  for (const Argument& argument : odd) calls.push_back({argument});
  // Pairs: the first value of one argument and the last of another, so that what is said first stays the same.
  for (std::size_t i = 0; i < odd.size(); ++i) {
    if (i > 0 && odd[i - 1].name == odd[i].name) continue;
    for (std::size_t j = 0; j < odd.size(); ++j) {
      const bool last = j + 1 == odd.size() || odd[j + 1].name != odd[j].name;
      if (last && odd[i].name != odd[j].name) calls.push_back({odd[i], odd[j]});
    }
  }
  calls.push_back({{"aggregate_type", "'order'"}, {"aggregate_id", "'1'"}, {"aggregate_version", "1"}});
  calls.push_back({{"aggregate_type", "'order'"},
                   {"aggregate_id", "'1'"},
                   {"aggregate_version", "1"},
                   {"event_id", "'0190163d-8694-739b-aea5-966c26f8ad91'"}});
  std::size_t refused = 0;
  std::size_t taken = 0;
  for (const std::vector<Argument>& call : calls) {
    const auto expected = RefusalOf(*session_, CallWith("before", call));
    const auto found = RefusalOf(*session_, CallWith("sealane", call));
    ASSERT_EQ(found, expected) << CallWith("sealane", call);
    ++(expected ? refused : taken);
  }
  EXPECT_GT(refused, 300U);
  EXPECT_GT(taken, 20U);

  // json and jsonb cannot be broken JSON; everything else about them is refused in the same words.
  for (const Argument& argument : odd) {
    if (argument.name == "payload") continue;
    for (const std::string type : {"json", "jsonb", "bytea"}) {
      const auto expected = RefusalOf(*session_, CallWith("before", {argument}));
      const auto found = RefusalOf(*session_, CallWith("sealane", {argument, {"payload", "'{}'::" + type}}));
      EXPECT_EQ(found, expected) << argument.name << " => " << argument.value << ", a payload of type " << type;
    }
  }
}

TEST_F(PostgresEmit, StoresTheSameRowAsBefore) {
  MigrateToBefore({.url = database_.url(), .schema = "before", .create_roles = false});
  const std::vector<Argument> same = {{"event_id", "'0190163d-8694-739b-aea5-966c26f8ad91'"},
                                      {"occurred_at", "'2026-01-02T03:04:05.678901Z'"}};
  const std::string row =
      "SELECT jsonb_build_object('row', to_jsonb(o) - 'seq' - 'xid' - 'appended_at', 'unique', "
      "(SELECT jsonb_object_agg(u.kind, u.fingerprint) FROM {0}.outbox_unique u))::text FROM {0}.outbox o";
  for (const Argument& argument : OddArguments()) {
    std::vector<Argument> call = same;
    call.push_back(argument);
    if (argument.name == "aggregate_version" || argument.name == "aggregate_type") {
      call.insert(call.end(), {{"aggregate_id", "'o-1'"}, {"aggregate_type", "'order'"}});
    }
    if (RefusalOf(*session_, CallWith("before", call))) continue;
    std::string rows[2];
    for (const int version : {0, 1}) {
      const std::string schema = version == 0 ? "before" : "sealane";
      session_->Exec("BEGIN");
      session_->Exec(CallWith(schema, call));
      rows[version] = session_->Exec(fmt::format(fmt::runtime(row), schema));
      session_->Exec("ROLLBACK");
    }
    EXPECT_EQ(rows[1], rows[0]) << argument.name << " => " << argument.value;
  }
}

TEST_F(PostgresEmit, TheLargestPayloadIsASettingThatCountsAtOnce) {
  PgSession other(database_.url());
  Emit();  // both sessions have planned the function
  other.Exec("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}'::jsonb)");
  session_->Exec("UPDATE sealane.setting SET value = '7' WHERE name = 'payload_max_bytes'");
  Emit();
  std::string message;
  EXPECT_EQ(
      other.Try("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{\"a\":12}')", &message),
      "23514");
  EXPECT_THAT(message, HasSubstr("8 bytes, at most 7"));
  EXPECT_EQ(session_->Try("UPDATE sealane.setting SET value = 'many' WHERE name = 'payload_max_bytes'"), "22P02")
      << "refused when it is set, not at the next append";
  session_->Exec("UPDATE sealane.setting SET value = '8' WHERE name = 'payload_max_bytes'");
  EXPECT_EQ(other.Try("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{\"a\":12}')"), "");
}

// ---- a transaction has its number before its first event has a seq -----------------------------------------------

constexpr const char* kDirectInsert =
    "INSERT INTO sealane.outbox (event_id, lane, tenant, kind, topic, key, type, schema_version, content_type, "
    "headers, occurred_at, payload_size, payload, payload_hash) SELECT gen_random_uuid(), 1, '', 'event', 't', 'k', "
    "'T', 1, 'application/json', '{}', now(), 2, '{}', sha256('{}')";

// A lock keeps every seq from being drawn, so each writer stands where it draws its first one.
TEST_F(PostgresEmit, EveryWayOfAppendingTakesItsTransactionNumberBeforeItsSeq) {
  const auto emit = [](const std::string& type) {
    return [type](PgSession& writer) {
      writer.Exec("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}'::" + type + ")");
    };
  };
  const auto append = [](std::size_t count) {
    return [count](PgSession& writer) {
      writer.Exec("BEGIN");
      const std::vector<Event> events(count, Event{.topic = "t", .key = "k", .type = "T", .payload = "{}"});
      EXPECT_TRUE(Outbox().AppendAll(writer.get(), events));
      writer.Exec("COMMIT");
    };
  };
  const std::vector<std::pair<std::string, std::function<void(PgSession&)>>> ways = {
      {"emit with text", emit("text")},
      {"emit with bytes", emit("bytea")},
      {"emit with json", emit("json")},
      {"emit with jsonb", emit("jsonb")},
      {"append_one", append(1)},
      {"append_batch", append(3)},
      {"an INSERT of the owner's", [](PgSession& writer) { writer.Exec(kDirectInsert); }},
  };
  for (const auto& [name, way] : ways) {
    PgSession holder(database_.url());
    holder.Exec("BEGIN; ALTER SEQUENCE sealane.outbox_seq_seq CACHE 1");
    PgSession writer(database_.url());
    const int pid = PQbackendPID(writer.get());
    std::thread appending([&] { way(writer); });
    EXPECT_TRUE(testing::Eventually([&] {
      return session_->Count(fmt::format("pg_locks WHERE pid = {} AND NOT granted AND relation = "
                                         "'sealane.outbox_seq_seq'::regclass",
                                         pid)) == 1;
    })) << name;
    EXPECT_EQ(session_->Count(fmt::format("pg_stat_activity WHERE pid = {} AND backend_xid IS NOT NULL", pid)), 1)
        << name << " draws a seq while its transaction has no number";
    holder.Exec("ROLLBACK");
    appending.join();
  }
  EXPECT_EQ(session_->Count("sealane.outbox"), 9);
}

// What the relay's windows rest on: who gets a transaction number from now on draws seqs above all that are drawn
// now.
TEST_F(PostgresEmit, ALaterTransactionNumberNeverHasASeqThatWasDrawnBefore) {
  constexpr int kWriters = 4;
  constexpr int kEvents = 250;
  std::atomic<int> running = kWriters;
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&] {
      PgSession writer(database_.url());
      writer.Exec("PREPARE emit AS SELECT sealane.emit('t', 'k', 'T', '{}'::text)");
      for (int n = 0; n < kEvents; ++n) writer.Exec("EXECUTE emit");
      --running;
    });
  }
  std::string seen;  // the highest seq, and a transaction number that was given after it was read
  while (running > 0) {
    const std::string high =
        session_->Exec("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM sealane.outbox_seq_seq");
    seen += fmt::format("{}({}, '{}'::xid8)", seen.empty() ? "" : ",", high,
                        session_->Exec("SELECT pg_current_xact_id()"));
  }
  for (std::thread& writer : writers) writer.join();
  ASSERT_EQ(session_->Count("sealane.outbox"), kWriters * kEvents);
  EXPECT_EQ(session_->Count("(VALUES " + seen +
                            ") s(high, xid) WHERE EXISTS (SELECT FROM sealane.outbox o WHERE o.xid > s.xid AND "
                            "o.seq <= s.high)"),
            0);
}

TEST_F(PostgresEmit, TheSequenceKeepsItsPlaceAndItsRightsWhenItIsMadeAgain) {
  const ScratchDatabase database;
  MigrateToBefore({.url = database.url(), .role_prefix = "sealane"});
  PgSession admin(database.url());
  const std::string user = database.name() + "_reader";
  admin.Exec(
      fmt::format("CREATE ROLE {0}; GRANT USAGE, SELECT ON SEQUENCE sealane.outbox_seq_seq TO {0}; "
                  "GRANT EXECUTE ON FUNCTION sealane.emit(text, text, text, text, text, text, text, bigint, "
                  "json, timestamptz, text, uuid, text, integer, text, text, text, text, text, timestamptz, "
                  "text, text, boolean) TO {0}; SELECT setval('sealane.outbox_seq_seq', 41)",
                  user));
  const std::string rights =
      "SELECT string_agg(a.grantee::regrole || ' ' || a.privilege_type, ', ' ORDER BY a.grantee, a.privilege_type) "
      "FROM pg_class c, "
      "aclexplode(c.relacl) a WHERE c.oid = 'sealane.outbox_seq_seq'::regclass AND a.grantee <> c.relowner";
  const std::string rights_before = admin.Exec(rights);
  EXPECT_THAT(rights_before, HasSubstr(user));
  Migrate(database.url());
  EXPECT_EQ(admin.Exec(rights), rights_before);
  admin.Exec("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')");
  EXPECT_EQ(admin.Exec("SELECT seq FROM sealane.outbox"), "42");
  EXPECT_EQ(admin.Exec("SELECT pg_get_serial_sequence('sealane.outbox', 'seq')"), "sealane.outbox_seq_seq");
  EXPECT_EQ(admin.Exec(fmt::format("SELECT count(*) FROM pg_proc p WHERE p.proname = 'emit' AND "
                                   "has_function_privilege('{}', p.oid, 'EXECUTE')",
                                   user)),
            "3")
      << "granted with text by hand, so with json and jsonb as well";
  admin.Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", user));
}

// ---- a writer's own schema, operators, types and settings ---------------------------------------------------------

TEST_F(PostgresEmit, RunsNothingThatAWriterPutsInItsWay) {
  const std::string user = database_.name() + "_attacker";
  session_->Exec(
      fmt::format("CREATE ROLE {0} LOGIN; GRANT sealane_writer TO {0}; GRANT CREATE, TEMPORARY ON DATABASE {1} "
                  "TO {0}",
                  user, database_.name()));
  {
    PgSession attacker(database_.UrlAs(user));
    // Every function and operator of the function's body that could be shadowed, and every table and type.
    attacker.Exec(
        "CREATE SCHEMA evil;"
        "CREATE FUNCTION evil.trap() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trap as %', "
        "current_user; END $$;"
        "CREATE FUNCTION evil.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT evil.trap()::text::bytea';"
        "CREATE FUNCTION evil.convert_to(text, name) RETURNS bytea LANGUAGE sql AS 'SELECT evil.trap()::text::bytea';"
        "CREATE FUNCTION evil.octet_length(text) RETURNS integer LANGUAGE sql AS 'SELECT evil.trap()::integer';"
        "CREATE FUNCTION evil.octet_length(bytea) RETURNS integer LANGUAGE sql AS 'SELECT evil.trap()::integer';"
        "CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT CASE WHEN evil.trap() "
        "THEN now() END $$;"
        "CREATE FUNCTION evil.gen_random_uuid() RETURNS uuid LANGUAGE sql AS $$ SELECT CASE WHEN evil.trap() THEN "
        "pg_catalog.gen_random_uuid() END $$;"
        "CREATE FUNCTION evil.get_byte(bytea, integer) RETURNS integer LANGUAGE sql AS 'SELECT evil.trap()::integer';"
        "CREATE FUNCTION evil.payload_max() RETURNS integer LANGUAGE sql AS 'SELECT evil.trap()::integer';"
        "CREATE FUNCTION evil.text_trap(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.trap()';"
        "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.text_trap);"
        "CREATE OPERATOR evil.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.text_trap);"
        "CREATE OPERATOR evil.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.text_trap);"
        "CREATE OPERATOR evil.!~ (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.text_trap);"
        "CREATE OPERATOR evil.~* (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.text_trap);"
        "CREATE TEMP TABLE outbox (x int); CREATE TEMP TABLE outbox_unique (x int); CREATE TEMP TABLE setting (x "
        "int);"
        "CREATE TEMP TABLE text (x int); CREATE TEMP TABLE uuid (x int); CREATE TEMP TABLE bytea (x int);"
        "CREATE TEMP TABLE json (x int);"
        "SET search_path = evil, pg_temp, pg_catalog; SET standard_conforming_strings = off; "
        "SET escape_string_warning = off; SET bytea_output = escape");
    std::string message;
    EXPECT_EQ(attacker.Try("SELECT 'a'::pg_catalog.text = 'b'::pg_catalog.text", &message), "P0001")
        << "the trap is set";
    int calls = 0;
    for (const std::string type : {"text", "bytea", "json", "jsonb"}) {
      for (const std::string& more : std::vector<std::string>{
               "", ", headers => '{\"a\":\"b\"}'", ", tenant => null, content_type => 'a/b+json; c=d'",
               ", dedup_key => 'd" + type + "'", ", event_id => pg_catalog.gen_random_uuid()",
               ", aggregate_type => 'o" + type + "', aggregate_id => 'o', aggregate_version => 1"}) {
        EXPECT_EQ(attacker.Try(fmt::format("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => "
                                           "'{{}}'::pg_catalog.{}{})",
                                           type, more),
                               &message),
                  "")
            << type << more << ": " << message;
        ++calls;
      }
      EXPECT_EQ(
          attacker.Try("SELECT sealane.emit(topic => 'a b', key => 'k', type => 'T', payload => '{}'::pg_catalog." +
                       type + ")"),
          "23514");
    }
    EXPECT_EQ(attacker.Try("BEGIN"), "");
    EXPECT_TRUE(Outbox().AppendAll(attacker.get(),
                                   std::vector<Event>(2, {.topic = "t", .key = "k", .type = "T", .payload = "{}"})));
    EXPECT_TRUE(Outbox().Append(attacker.get(), {.topic = "t", .key = "k", .type = "T", .payload = "{}"}));
    EXPECT_EQ(attacker.Try("COMMIT"), "");
    EXPECT_EQ(session_->Count("sealane.outbox WHERE payload = '{}' AND payload_hash = sha256('{}') AND lane = "
                              "sealane.lane_hash('k') % 64 AND event_id::text ~ '^........-....-[47]'"),
              calls + 3);
    for (const std::string helper : {"sealane.payload_max()", "sealane.check_headers('{}')",
                                     "sealane.claim_event(null, null, null, null, null, null, null, null)"}) {
      EXPECT_EQ(attacker.Try("SELECT " + helper), "42501") << helper;
    }
  }
  session_->Exec(fmt::format("DROP OWNED BY {0} CASCADE; DROP ROLE {0}", user));
}

// ---- what must not come twice
// --------------------------------------------------------------------------------------

TEST_F(PostgresEmit, ADedupKeyThatIsUsedReturnsItsEventAlsoWhenTheIdIsTheSame) {
  const std::string own = ", event_id => '0190163d-8694-739b-aea5-966c26f8ad91', dedup_key => 'once'";
  EXPECT_EQ(Emit(own), "0190163d-8694-739b-aea5-966c26f8ad91");
  EXPECT_EQ(Emit(own), "0190163d-8694-739b-aea5-966c26f8ad91");
  EXPECT_EQ(session_->Count("sealane.outbox"), 1);
}

TEST_F(PostgresEmit, RemembersTheFingerprintsThatTheLibraryHas) {
  const std::string id = Emit(
      ", tenant => 't\u00e4', aggregate_type => 'order', aggregate_id => 'o', aggregate_version => 12, "
      "event_id => '0190163d-8694-739b-aea5-966c26f8ad91', dedup_key => 'once'");
  Envelope envelope;
  envelope.id = *EventId::Parse(id);
  envelope.tenant = "t\u00e4";
  envelope.type = "OrderPlaced";
  envelope.aggregate = {"order", "o", 12};
  const auto stored = [&](const std::string& kind) {
    return session_->Exec("SELECT fingerprint FROM sealane.outbox_unique WHERE kind = '" + kind + "'");
  };
  EXPECT_EQ(stored("i"), EventId(FingerprintOfId(envelope.id)).ToString());
  EXPECT_EQ(stored("v"), EventId(FingerprintOfVersion(envelope)).ToString());
  EXPECT_EQ(stored("d"), EventId(FingerprintOfDedupKey(envelope.tenant, "once")).ToString());
}

}  // namespace
}  // namespace sealane
