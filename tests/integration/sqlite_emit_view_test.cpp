// Plain SQL appends events on SQLite: INSERT INTO sealane_emit, with good defaults, the library's checks and the
// library's idea of what comes twice.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/sample_events.hpp"
#include "support/sqlite_file.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SqliteEmitView : public ::testing::Test {
 protected:
  SqliteEmitView() { file_.Migrate(); }

  const SqliteHandle& sql() {
    if (!sql_) sql_ = std::make_unique<SqliteHandle>(file_.path());
    return *sql_;
  }
  OutboxStore& store() {
    if (!store_) store_ = ValueOrThrow(sqlite::OpenOutboxStore({.path = file_.path()}));
    return *store_;
  }
  static std::string Insert(const std::string& more_columns = "", const std::string& more_values = "") {
    return fmt::format(
        "INSERT INTO sealane_emit (topic, key, type, payload{}) VALUES ('orders', 'o-1', 'Placed', '{{}}'{})",
        more_columns, more_values);
  }
  /// An INSERT with one more column.
  static std::string InsertWith(const std::string& column, const std::string& value) {
    return Insert(", " + column, ", " + value);
  }
  std::int64_t Count() { return sql().Number("SELECT count(*) FROM sealane_outbox"); }
  StoredMessage Newest() {
    MessageFilter filter;
    filter.with_payload = true;
    return ValueOrThrow(store().ListMessages(filter)).at(0);
  }

 private:
  SqliteFile file_;
  std::unique_ptr<SqliteHandle> sql_;
  std::unique_ptr<OutboxStore> store_;
};

TEST_F(SqliteEmitView, NeedsOnlyFourColumns) {
  const Timestamp before = SystemClock::Instance().Now() - std::chrono::milliseconds{1};
  sql().Execute(
      "INSERT INTO sealane_emit (topic, key, type, payload) VALUES ('orders', 'o-1', 'Placed', '{\"id\":1}')");
  const Timestamp after = SystemClock::Instance().Now();

  const StoredMessage message = Newest();
  const Envelope& envelope = message.envelope;
  EXPECT_EQ(envelope.topic, "orders");
  EXPECT_EQ(envelope.key, "o-1");
  EXPECT_EQ(envelope.type, "Placed");
  EXPECT_EQ(envelope.payload, "{\"id\":1}");
  EXPECT_EQ(envelope.payload_hash, Sha256("{\"id\":1}"));
  EXPECT_EQ(envelope.kind, EventKind::kEvent);
  EXPECT_EQ(envelope.schema_version, 1);
  EXPECT_EQ(envelope.content_type, "application/json");
  EXPECT_EQ(envelope.tenant + envelope.correlation_id + envelope.producer + envelope.aggregate.type, "");
  EXPECT_TRUE(envelope.headers.empty());
  EXPECT_GE(envelope.occurred_at, before);
  EXPECT_LE(envelope.occurred_at, after);
  EXPECT_FALSE(envelope.available_at.has_value());
  ASSERT_TRUE(envelope.id.CreatedAt().has_value()) << "a version 7 id";
  EXPECT_GE(*envelope.id.CreatedAt(), before);
  EXPECT_LE(*envelope.id.CreatedAt(), after);
  EXPECT_EQ(envelope.id.bytes()[8] >> 6U, 2) << "the variant of RFC 9562";
  EXPECT_EQ(message.routes.at(0).state, DeliveryState::kPending);
}

TEST_F(SqliteEmitView, MakesADifferentIdForEveryEvent) {
  sql().Execute(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
      "INSERT INTO sealane_emit (topic, key, type, payload) SELECT 'orders', 'k' || i, 'T', i FROM n");
  EXPECT_EQ(sql().Number("SELECT count(DISTINCT event_id) FROM sealane_outbox"), 1000);
}

TEST_F(SqliteEmitView, TakesEveryColumn) {
  const NewEntry entry = FullEntry();
  const Envelope& wanted = entry.envelope;
  sql().Execute(fmt::format(
      "INSERT INTO sealane_emit (event_id, tenant, kind, topic, key, type, schema_version, aggregate_type, "
      "aggregate_id,"
      " aggregate_version, content_type, headers, correlation_id, causation_id, traceparent, tracestate, producer,"
      " schema_id, occurred_at, available_at, payload, dedup_key, unique_version) VALUES"
      " ('{}', 'tenant-1', 'command', 'mails', 'key-7', 'SendApprovalEmail', 3, 'order', 'o-7', 42,"
      " 'application/vnd.shop+json', '{{\"zebra\":\"1\",\"alpha\":\"2\"}}', 'correlation-1', 'causation-1', '{}',"
      " 'vendor=value', 'shop', 'schema-9', {}, {}, '{}', 'dedup-1', 1)",
      wanted.id.ToString(), wanted.traceparent, wanted.occurred_at.time_since_epoch().count(),
      wanted.available_at->time_since_epoch().count(), wanted.payload));

  Envelope expected = wanted;
  expected.headers = {{"zebra", "1"}, {"alpha", "2"}};
  EXPECT_EQ(Newest().envelope, expected);
}

TEST_F(SqliteEmitView, TakesBytesAsABlob) {
  sql().Execute(
      "INSERT INTO sealane_emit (topic, key, type, payload, content_type)"
      " VALUES ('orders', 'o-1', 'T', x'00ff41', 'application/octet-stream')");
  EXPECT_EQ(Newest().envelope.payload, std::string("\0\xff"
                                                   "A",
                                                   3));
  EXPECT_EQ(Newest().envelope.payload_hash, Sha256(std::string("\0\xff"
                                                               "A",
                                                               3)));
  // A listing without payloads knows the hash all the same.
  EXPECT_EQ(ValueOrThrow(store().ListMessages({})).at(0).envelope.payload_hash, Newest().envelope.payload_hash);
}

TEST_F(SqliteEmitView, CommitsWithTheBusinessChange) {
  sql().Execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
  sql().Execute("BEGIN; INSERT INTO orders VALUES (1);" + Insert() + "; ROLLBACK");
  EXPECT_EQ(Count(), 0);
  sql().Execute("BEGIN; INSERT INTO orders VALUES (1);" + Insert() + "; COMMIT");
  EXPECT_EQ(Count(), 1);
  EXPECT_EQ(sql().Number("SELECT count(*) FROM orders"), 1);
}

TEST_F(SqliteEmitView, ReadsAsEmpty) {
  sql().Execute(Insert());
  EXPECT_EQ(sql().Number("SELECT count(*) FROM sealane_emit"), 0);
}

// --- What comes twice
// -----------------------------------------------------------------------------------------------

TEST_F(SqliteEmitView, RefusesAnEventIdThatExists) {
  const std::string id = FreshId().ToString();
  sql().Execute(InsertWith("event_id", "upper('" + id + "')"));
  EXPECT_EQ(sql().Text("SELECT event_id FROM sealane_outbox"), id);
  EXPECT_THAT(sql().ErrorOf(InsertWith("event_id", "'" + id + "'")), StartsWith("sealane: duplicate event id"));
  sql().Execute("DELETE FROM sealane_outbox");
  EXPECT_THAT(sql().ErrorOf(InsertWith("event_id", "'" + id + "'")), StartsWith("sealane: duplicate event id"))
      << "remembered after retention has taken the event";
}

TEST_F(SqliteEmitView, ADuplicateLeavesTheTransactionUsable) {
  const std::string id = FreshId().ToString();
  sql().Execute("BEGIN;" + InsertWith("event_id", "'" + id + "'"));
  EXPECT_NE(sql().ErrorOf(InsertWith("event_id", "'" + id + "'")), "");
  sql().Execute(Insert() + "; COMMIT");
  EXPECT_EQ(Count(), 2);
}

TEST_F(SqliteEmitView, RefusesASecondEventOfATypeForAVersion) {
  const std::string columns = ", aggregate_type, aggregate_id, aggregate_version";
  sql().Execute(Insert(columns, ", 'order', 'o-1', 3"));
  EXPECT_THAT(sql().ErrorOf(Insert(columns, ", 'order', 'o-1', 3")),
              StartsWith("sealane: duplicate aggregate version"));
  EXPECT_THAT(sql().ErrorOf(Insert(columns, ", 'order', 'o-1', '3'")),
              StartsWith("sealane: duplicate aggregate version"));
  sql().Execute(Insert(columns, ", 'order', 'o-1', 4"));
  sql().Execute(Insert(columns + ", tenant", ", 'order', 'o-1', 3, 't2'"));
  sql().Execute(Insert(columns + ", unique_version", ", 'order', 'o-1', 3, 0"));
  EXPECT_EQ(Count(), 4);
}

TEST_F(SqliteEmitView, DoesNothingForARepeatedDedupKey) {
  sql().Execute(InsertWith("dedup_key", "'d-1'"));
  sql().Execute(InsertWith("dedup_key", "'d-1'"));
  EXPECT_EQ(Count(), 1);
  sql().Execute(Insert(", dedup_key, tenant", ", 'd-1', 't2'"));
  EXPECT_EQ(Count(), 2);
}

TEST_F(SqliteEmitView, AgreesWithTheLibraryAboutWhatComesTwice) {
  const std::string text = "caf\xc3\xa9 1:x";  // more bytes than characters, and a colon
  NewEntry entry = OfTenant(WithDedupKey(AboutVersion(WithOwnId(SampleEntry(), FreshId()), text, 7), text), text);
  AppendAndCommit(store(), {entry});
  const std::string version_columns = ", tenant, aggregate_type, aggregate_id, aggregate_version";
  const std::string version_values = fmt::format(", '{0}', 'order', '{0}', 7", text);
  const auto insert = [&](const std::string& columns, const std::string& values) {
    return fmt::format(
        "INSERT INTO sealane_emit (topic, key, type, payload{}) VALUES ('t', 'k', 'OrderPlaced', '1'{})", columns,
        values);
  };
  sql().Execute(insert(", tenant, dedup_key", fmt::format(", '{0}', '{0}'", text)));
  EXPECT_EQ(Count(), 1);
  EXPECT_THAT(sql().ErrorOf(insert(version_columns, version_values)), HasSubstr("duplicate aggregate version"));
  EXPECT_THAT(sql().ErrorOf(insert(", event_id", fmt::format(", '{}'", entry.envelope.id.ToString()))),
              HasSubstr("duplicate event id"));

  // And the other way round.
  const std::string id = FreshId().ToString();
  sql().Execute(
      fmt::format("INSERT INTO sealane_emit (topic, key, type, payload, event_id, tenant, aggregate_type,"
                  " aggregate_id, aggregate_version, dedup_key)"
                  " VALUES ('t', 'k', 'OrderPlaced', '1', '{0}', '{1}', 'order', '{1}', 8, '{1}2')",
                  id, text));
  const auto again = AppendAndCommit(store(), {OfTenant(WithDedupKey(SampleEntry(), text + "2"), text)});
  EXPECT_EQ(again.front(), (Appended{*EventId::Parse(id), true}));
  for (NewEntry twice :
       {OfTenant(AboutVersion(SampleEntry(), text, 8), text), WithOwnId(SampleEntry(), *EventId::Parse(id))}) {
    EXPECT_FALSE(ValueOrThrow(store().Begin())->Append({&twice, 1}).has_value());
  }
}

// --- What is refused
// ------------------------------------------------------------------------------------------------

TEST_F(SqliteEmitView, NamesTheColumnThatIsAtFault) {
  const auto row = [](const std::string& topic, const std::string& key, const std::string& type,
                      const std::string& payload) {
    return fmt::format("INSERT INTO sealane_emit (topic, key, type, payload) VALUES ({}, {}, {}, {})", topic, key,
                       type, payload);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {row("NULL", "'k'", "'t'", "'1'"), "topic"},
      {row("''", "'k'", "'t'", "'1'"), "topic"},
      {row("'a b'", "'k'", "'t'", "'1'"), "topic"},
      {row("'..'", "'k'", "'t'", "'1'"), "topic"},
      {row("printf('%.250c', 'a')", "'k'", "'t'", "'1'"), "topic"},
      {row("'t'", "''", "'t'", "'1'"), "key"},
      {row("'t'", "printf('%.1025c', 'a')", "'t'", "'1'"), "key"},
      {row("'t'", "'a' || char(0)", "'t'", "'1'"), "key"},
      {row("'t' || char(0) || '!'", "'k'", "'t'", "'1'"), "topic"},
      {row("'t'", "'k'", "'t' || char(0)", "'1'"), "type"},
      {row("'t'", "'k'", "CAST(x'e961' AS TEXT)", "'1'"), "type"},
      {row("'t'", "'k'", "printf('%.256c', 'a')", "'1'"), "type"},
      {row("'t'", "x'6b'", "'t'", "'1'"), "key"},
      {InsertWith("tenant", "'a' || char(0)"), "tenant"},
      {InsertWith("tenant", "CAST(x'e961' AS TEXT)"), "tenant"},
      {InsertWith("tenant", "x'61'"), "tenant"},
      {row("'t'", "CAST(x'e961' AS TEXT)", "'t'", "'1'"), "key"},
      {row("'t'", "'k'", "NULL", "'1'"), "type"},
      {row("'t'", "'k'", "'t'", "NULL"), "payload"},
      {row("'t'", "'k'", "'t'", "'{'"), "payload is not JSON"},
      {row("'t'", "'k'", "'t'", "''"), "payload is not JSON"},
      {row("'t'", "'k'", "'t'", "zeroblob(921601)"), "payload is larger"},
      {Insert(", content_type, payload_hash", ", 'x', x'00'"), "payload_hash"},
      {InsertWith("tenant", "printf('%.256c', 'a')"), "tenant"},
      {InsertWith("dedup_key", "''"), "dedup_key"},
      {InsertWith("kind", "'wish'"), "kind"},
      {InsertWith("schema_version", "0"), "schema_version"},
      {InsertWith("aggregate_type", "'order'"), "aggregate_type and aggregate_id"},
      {InsertWith("aggregate_version", "1"), "aggregate_version"},
      {Insert(", aggregate_type, aggregate_id, aggregate_version", ", 'a', 'b', 0"), "aggregate_version"},
      {InsertWith("occurred_at", "-1"), "occurred_at"},
      {InsertWith("occurred_at", "'2024-01-01'"), "occurred_at"},
      {InsertWith("available_at", "253402300800000000"), "available_at"},
      {InsertWith("event_id", "'42'"), "event_id"},
      {InsertWith("event_id", "'00000000-0000-0000-0000-000000000000'"), "event_id"},
      {InsertWith("headers", "'{'"), "headers"},
      {InsertWith("headers", "'[]'"), "headers"},
      {InsertWith("headers", "'{\"a\":1}'"), "headers"},
      {InsertWith("headers", "'{\"a\":null}'"), "headers"},
      {InsertWith("headers", "'{\"\":\"x\"}'"), "headers"},
      {InsertWith("headers", "'{\"a\":\"x\",\"a\":\"y\"}'"), "headers"},
      {InsertWith("headers", "'{\"a\":\"\\ud800\"}'"), "headers"},
      {InsertWith("headers", "'{\"a\":\"x\\u0000y\"}'"), "headers"},
      {InsertWith("headers",
                  "(SELECT json_group_object('h' || value, 'x') FROM json_each('[' || "
                  "rtrim(replace(printf('%.65c', 'a'), 'a', '1,'), ',') || ']'))"),
       "headers"},
  };
  for (const auto& [statement, word] : cases) {
    EXPECT_THAT(sql().ErrorOf(statement), HasSubstr(word)) << statement;
  }
  EXPECT_EQ(Count(), 0);
  EXPECT_EQ(sql().Number("SELECT count(*) FROM sealane_outbox_unique"), 0);
}

TEST_F(SqliteEmitView, RefusesJsonThatIsNotUtf8OrGoesOnAfterANul) {
  for (const char* payload : {"x'7b7d00ff'", "x'22ff22'", "x'7b7d0041'", "'{}' || char(0) || 'A'"}) {
    EXPECT_THAT(sql().ErrorOf(fmt::format(
                    "INSERT INTO sealane_emit (topic, key, type, payload) VALUES ('t', 'k', 't', {})", payload)),
                HasSubstr("not JSON"))
        << payload;
  }
}

TEST_F(SqliteEmitView, ChecksJsonOnlyWhereTheContentTypeSaysJson) {
  const auto insert = [](const std::string& content_type) {
    return fmt::format(
        "INSERT INTO sealane_emit (topic, key, type, payload, content_type) VALUES ('t', 'k', 't', 'no json', '{}')",
        content_type);
  };
  for (const char* json : {"application/json", "Application/JSON; charset=utf-8", "application/json ;v=1",
                           "application/cloudevents+json", "application/x+json;q=1"}) {
    EXPECT_THAT(sql().ErrorOf(insert(json)), HasSubstr("not JSON")) << json;
  }
  for (const char* other :
       {"text/plain", "application/jsonl", "text/plain; note=+json", "application/octet-stream"}) {
    EXPECT_EQ(sql().ErrorOf(insert(other)), "") << other;
  }
}

TEST_F(SqliteEmitView, TheLargestPayloadIsASetting) {
  const std::string insert =
      "INSERT INTO sealane_emit (topic, key, type, payload, content_type) VALUES ('t', 'k', 't', zeroblob(11), "
      "'a/b')";
  sql().Execute("UPDATE sealane_setting SET value = '10' WHERE name = 'payload_max_bytes'");
  EXPECT_THAT(sql().ErrorOf(insert), HasSubstr("payload_max_bytes"));
  sql().Execute("UPDATE sealane_setting SET value = '11' WHERE name = 'payload_max_bytes'");
  EXPECT_EQ(sql().ErrorOf(insert), "");
}

}  // namespace
}  // namespace sealane
