#include "support/pg_session.hpp"

#include <gtest/gtest.h>

#include "postgres/postgres_store.hpp"

namespace sealane::testing {

PgSession::PgSession(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  EXPECT_EQ(PQstatus(connection_), CONNECTION_OK) << PQerrorMessage(connection_);
  PQclear(PQexec(connection_, "SET client_min_messages = error"));
}

PgSession::~PgSession() {
  PQfinish(connection_);
}

std::string PgSession::Exec(const std::string& sql) {
  PGresult* const result = PQexec(connection_, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  EXPECT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) << sql << ": " << PQerrorMessage(connection_);
  std::string value = PQntuples(result) > 0 && PQnfields(result) > 0 ? PQgetvalue(result, 0, 0) : "";
  PQclear(result);
  return value;
}

std::vector<std::vector<std::string>> PgSession::Query(const std::string& sql) {
  PGresult* const result = PQexec(connection_, sql.c_str());
  EXPECT_EQ(PQresultStatus(result), PGRES_TUPLES_OK) << sql << ": " << PQerrorMessage(connection_);
  std::vector<std::vector<std::string>> rows;
  for (int row = 0; row < PQntuples(result); ++row) {
    auto& values = rows.emplace_back();
    for (int column = 0; column < PQnfields(result); ++column) {
      values.emplace_back(PQgetisnull(result, row, column) != 0 ? "NULL" : PQgetvalue(result, row, column));
    }
  }
  PQclear(result);
  return rows;
}

std::string PgSession::Try(const std::string& sql, std::string* message) {
  PGresult* const result = PQexec(connection_, sql.c_str());
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  std::string text = state != nullptr ? state : "";
  if (message != nullptr) *message = PQresultErrorMessage(result);
  PQclear(result);
  return text;
}

void Migrate(const std::string& url, const std::string& schema) {
  auto migrator = postgres::OpenMigrator({.url = url, .schema = schema, .role_prefix = schema});
  ASSERT_TRUE(migrator) << migrator.error().ToString();
  const auto applied = (*migrator)->Up();
  ASSERT_TRUE(applied) << applied.error().ToString();
}

}  // namespace sealane::testing
