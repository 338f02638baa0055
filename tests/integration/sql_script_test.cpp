// Protects what a script becomes: both databases take the numbered statements, read strings, casts and quotes in them
// as the author wrote them, and find the type of every parameter by themselves.

#include "inbox/sql_script.hpp"

#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include "base/sha256.hpp"
#include "base/time_text.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;

Envelope SampleEvent() {
  Envelope event;
  event.id = *EventId::Parse("018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f");
  event.type = "OrderPlaced";
  event.topic = "orders";
  event.key = "it's :key;";
  event.schema_version = 3;
  event.aggregate = {.type = "order", .id = "o-1", .version = 9'007'199'254'740'993};
  event.headers = {{"region", "eu"}};
  event.occurred_at = *ParseRfc3339("2024-05-06T07:08:09.123456Z");
  event.payload = R"({"amount": 10.50, "customer": "c-7"})";
  event.payload_hash = Sha256(event.payload);
  return event;
}

Envelope BinaryEvent() {
  Envelope event = SampleEvent();
  event.payload = std::string("\x00\xff'", 3);
  event.payload_hash = Sha256(event.payload);
  return event;
}

const MessageContext kContext{.topic = "orders", .partition = 3, .offset = 1234567890123, .consumer = "billing"};

// ---- PostgreSQL ----

// The rows of the last statement, columns joined by '|'; an error in the server's words.
std::string RunOn(PGconn* connection, const SqlScript& script, const Envelope& event) {
  std::string rows;
  for (const auto& statement : script.statements()) {
    const std::vector<SqlValue> values = Bind(statement, event, kContext);
    std::vector<std::string> texts(values.size());
    std::vector<const char*> data(values.size(), nullptr);
    std::vector<int> sizes(values.size(), 0);
    std::vector<int> formats(values.size(), 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::holds_alternative<std::monostate>(values[i])) continue;
      if (const auto* text = std::get_if<std::string>(&values[i])) texts[i] = *text;
      if (const auto* number = std::get_if<std::int64_t>(&values[i])) texts[i] = std::to_string(*number);
      if (const auto* bytes = std::get_if<SqlBytes>(&values[i])) {
        texts[i] = bytes->bytes;
        formats[i] = 1;
      }
      data[i] = texts[i].data();
      sizes[i] = static_cast<int>(texts[i].size());
    }
    PGresult* result = PQexecParams(connection, statement.text.c_str(), static_cast<int>(values.size()), nullptr,
                                    data.data(), sizes.data(), formats.data(), 0);
    const ExecStatusType status = PQresultStatus(result);
    rows = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK ? "" : PQresultErrorMessage(result);
    for (int row = 0; row < PQntuples(result); ++row) {
      for (int column = 0; column < PQnfields(result); ++column) {
        rows += column > 0 ? "|" : "";
        rows += PQgetisnull(result, row, column) != 0 ? "<null>" : PQgetvalue(result, row, column);
      }
      rows += "\n";
    }
    PQclear(result);
  }
  return rows;
}

class PostgresScript : public ::testing::Test {
 protected:
  std::string Run(std::string_view text, const Envelope& event = SampleEvent()) {
    const auto script = SqlScript::Parse(text, Placeholder::kDollar);
    return script ? RunOn(session_.get(), *script, event) : script.error().ToString();
  }

 private:
  ScratchDatabase database_;
  PgSession session_{database_.url()};
};

TEST_F(PostgresScript, FindsTheTypesOfItsParameters) {
  EXPECT_EQ(Run(R"(
    SET TIME ZONE 'UTC';
    CREATE TABLE t (id uuid, version int, big bigint, at timestamptz, at_text text, doc jsonb, bytes bytea, tenant text,
                    partition smallint, spot bigint, id_text text);
    INSERT INTO t VALUES (:event_id, :version, :aggregate_version, :occurred_at, :occurred_at, :payload, :payload_bytes,
                          :tenant, :partition, :offset, :event_id);
    SELECT id, version, big, at, at_text, doc->>'amount', length(bytes), tenant, partition, spot, id_text FROM t)"),
            "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f|3|9007199254740993|2024-05-06 07:08:09.123456+00|"
            "2024-05-06T07:08:09.123456Z|10.50|36|<null>|3|1234567890123|018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f\n");
}

TEST_F(PostgresScript, ReadsStringsCastsAndQuotesAsTheAuthorWroteThem) {
  EXPECT_EQ(Run(R"(SELECT ':key; ''x''', E'\':key;' || E'\\', $a$:key; '$a$, $$it's$$, 1 AS ":key;", '7'::int + 1,
                          :key::text, (:payload::jsonb)->>'customer', (ARRAY[1,2,3])[2:3], (ARRAY[1,2,3])[:version::int],
                          '{"a":1}'::jsonb ? 'a' /* :key /* nested ; */ ' */ -- :key; '
                   WHERE 'x' = 'x' AND:version::int = 3)"),
            ":key; 'x'|':key;\\|:key; '|it's|1|8|it's :key;|c-7|{2,3}|3|t\n");
}

TEST_F(PostgresScript, ContinuesAnEscapedStringOnTheNextLine) {
  EXPECT_EQ(Run("SELECT E'a'\n '\\':key', :type::text"), "a':key|OrderPlaced\n");
}

TEST_F(PostgresScript, RunsABlockWithItsOwnSemicolons) {
  EXPECT_EQ(Run("CREATE TABLE t (a int); DO $$ BEGIN INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); END $$;"
                "SELECT sum(a) FROM t WHERE a < :version::int"),
            "3\n");
}

TEST_F(PostgresScript, KeepsBytesThatAreNoText) {
  EXPECT_EQ(Run("CREATE TABLE t (a bytea, b bytea); INSERT INTO t VALUES (:payload, :payload_bytes);"
                "SELECT a, a = b FROM t",
                BinaryEvent()),
            "\\x00ff27|t\n");
}

// ---- SQLite ----

std::string RunOn(sqlite3* connection, const SqlScript& script, const Envelope& event) {
  std::string rows;
  for (const auto& statement : script.statements()) {
    rows.clear();
    sqlite3_stmt* prepared = nullptr;
    const char* rest = nullptr;
    if (sqlite3_prepare_v2(connection, statement.text.c_str(), -1, &prepared, &rest) != SQLITE_OK) {
      return sqlite3_errmsg(connection);
    }
    EXPECT_EQ(std::string(rest), "") << "the script was split where the database does not";
    const std::vector<SqlValue> values = Bind(statement, event, kContext);
    EXPECT_EQ(sqlite3_bind_parameter_count(prepared), static_cast<int>(values.size())) << statement.text;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int number = static_cast<int>(i) + 1;
      if (const auto* text = std::get_if<std::string>(&values[i])) {
        sqlite3_bind_text(prepared, number, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
      } else if (const auto* integer = std::get_if<std::int64_t>(&values[i])) {
        sqlite3_bind_int64(prepared, number, *integer);
      } else if (const auto* bytes = std::get_if<SqlBytes>(&values[i])) {
        sqlite3_bind_blob(prepared, number, bytes->bytes.data(), static_cast<int>(bytes->bytes.size()),
                          SQLITE_TRANSIENT);
      }
    }
    int code = sqlite3_step(prepared);
    for (; code == SQLITE_ROW; code = sqlite3_step(prepared)) {
      for (int column = 0; column < sqlite3_column_count(prepared); ++column) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(prepared, column));
        rows += column > 0 ? "|" : "";
        rows += text != nullptr ? text : "<null>";
      }
      rows += "\n";
    }
    if (code != SQLITE_DONE) rows = sqlite3_errmsg(connection);
    sqlite3_finalize(prepared);
  }
  return rows;
}

class SqliteScript : public ::testing::Test {
 protected:
  std::string Run(std::string_view text, const Envelope& event = SampleEvent()) {
    const auto script = SqlScript::Parse(text, Placeholder::kQuestion);
    return script ? RunOn(handle_.get(), *script, event) : script.error().ToString();
  }

 private:
  SqliteFile file_;
  SqliteHandle handle_{file_.path()};
};

TEST_F(SqliteScript, FindsTheTypesOfItsParameters) {
  EXPECT_EQ(Run(R"(
    CREATE TABLE t (id TEXT, big INTEGER, bytes BLOB, tenant TEXT, amount REAL);
    INSERT INTO t VALUES (:event_id, :aggregate_version, :payload_bytes, :tenant, :payload ->> '$.amount');
    SELECT id, big, length(bytes), typeof(bytes), tenant, amount, json_extract(:headers, '$.region') FROM t)"),
            "018f4e2a-1b2c-7d3e-8f40-5a6b7c8d9e0f|9007199254740993|36|blob|<null>|10.5|eu\n");
}

TEST_F(SqliteScript, ReadsStringsAndQuotesAsTheAuthorWroteThem) {
  EXPECT_EQ(
      Run(R"(SELECT ':key; ''x''', 'back\', 1 AS [:key;'], 2 AS `:key;"`, 3 AS ":key;", CAST('7' AS INTEGER) + 1,
                          :key /* :key /* ; */ -- :key; '
                   WHERE 1 AND:version = 3)"),
      ":key; 'x'|back\\|1|2|3|8|it's :key;\n");
}

TEST_F(SqliteScript, KeepsBytesThatAreNoText) {
  EXPECT_EQ(Run("CREATE TABLE t (a, b); INSERT INTO t VALUES (:payload, :payload_bytes);"
                "SELECT hex(a), a = b, typeof(a) FROM t",
                BinaryEvent()),
            "00FF27|1|blob\n");
}

}  // namespace
}  // namespace sealane
