// The one table that turns PostgreSQL's codes into what the caller can do about them.

#include "postgres/sql_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/postgres_sql.hpp"

namespace sealane::postgres {
namespace {

struct Row {
  std::string state;
  ErrorKind kind;
  std::string code;
};

class SqlState : public ::testing::TestWithParam<Row> {};

TEST_P(SqlState, MapsToOneReaction) {
  const Error error = ErrorFromSqlState({.state = GetParam().state, .message = "words"});
  EXPECT_EQ(error.kind(), GetParam().kind);
  EXPECT_EQ(error.code(), GetParam().code);
  EXPECT_THAT(error.native(), ::testing::HasSubstr(GetParam().state));
}

INSTANTIATE_TEST_SUITE_P(Table, SqlState,
                         ::testing::Values(Row{"28P01", ErrorKind::kMisconfigured, "login_refused"},
                                           Row{"3D000", ErrorKind::kMisconfigured, "database_missing"},
                                           Row{"42P01", ErrorKind::kMisconfigured, "schema_missing"},
                                           Row{"42883", ErrorKind::kMisconfigured, "schema_missing"},
                                           Row{"3F000", ErrorKind::kMisconfigured, "schema_missing"},
                                           Row{"42501", ErrorKind::kMisconfigured, "not_permitted"},
                                           Row{"40001", ErrorKind::kConflict, "serialization_failure"},
                                           Row{"40P01", ErrorKind::kConflict, "deadlock"},
                                           Row{"55P03", ErrorKind::kConflict, "lock_timeout"},
                                           Row{"25006", ErrorKind::kMisconfigured, "store_read_only"},
                                           Row{"25P02", ErrorKind::kMisuse, "transaction_failed"},
                                           Row{"25P03", ErrorKind::kUnavailable, "connection_lost"},
                                           Row{"25P04", ErrorKind::kUnavailable, "connection_lost"},
                                           Row{"53100", ErrorKind::kUnavailable, "store_full"},
                                           Row{"53300", ErrorKind::kUnavailable, "too_many_connections"},
                                           Row{"53200", ErrorKind::kUnavailable, "store_out_of_resources"},
                                           Row{"57014", ErrorKind::kUnavailable, "statement_timeout"},
                                           Row{"57P01", ErrorKind::kUnavailable, "connection_lost"},
                                           Row{"08006", ErrorKind::kUnavailable, "connection_lost"},
                                           Row{"08P01", ErrorKind::kUnavailable, "connection_lost"},
                                           Row{"58030", ErrorKind::kUnavailable, "store_io_error"},
                                           Row{"XX001", ErrorKind::kCorrupt, "store_corrupt"},
                                           Row{"22021", ErrorKind::kRejected, "invalid_value"},
                                           Row{"23514", ErrorKind::kRejected, "constraint_violated"},
                                           Row{"54000", ErrorKind::kRejected, "too_large"},
                                           Row{"P0001", ErrorKind::kMisconfigured, "store_error"}),
                         [](const auto& param) { return param.param.state; });

TEST(SqlStateDetails, OurConstraintsCarryOurCodes) {
  const Error error = ErrorFromSqlState(
      {.state = "23505", .message = "event id exists", .constraint = "sealane_duplicate_event_id", .column = "id"});
  EXPECT_EQ(error.code(), "duplicate_event_id");
  EXPECT_EQ(error.kind(), ErrorKind::kRejected);
  EXPECT_EQ(error.field(), "id");
  EXPECT_EQ(ErrorFromServer("23505", "ERROR: exists\nDETAIL:  code: duplicate_version\n").code(),
            "duplicate_version");
  EXPECT_EQ(ErrorFromServer("23505", "ERROR:  exists\nDETAIL:  code: duplicate_version\n").message(), "exists");
  EXPECT_EQ(ErrorFromServer("23505", "ERROR: a business key").code(), "constraint_violated");
}

TEST(SqlStateDetails, TheWrongNumberOfValuesIsNoLostConnection) {
  const Error error =
      ErrorFromSqlState({.state = "08P01",
                         .message = "bind message supplies 1 parameters, but prepared statement \"\" requires 2",
                         .source = "exec_bind_message"});
  EXPECT_EQ(error.kind(), ErrorKind::kMisuse);
  EXPECT_EQ(error.code(), "parameters_differ");
}

TEST(SqlStateDetails, ConnectionTextsAreToldApart) {
  EXPECT_EQ(ErrorFromConnect("FATAL:  password authentication failed for user \"a\"", false, "s").code(),
            "login_refused");
  EXPECT_EQ(ErrorFromConnect("fe_sendauth: no password supplied", true, "s").code(), "login_refused");
  EXPECT_EQ(ErrorFromConnect("FATAL:  role \"x\" does not exist", false, "s").code(), "login_refused");
  EXPECT_EQ(ErrorFromConnect("FATAL:  database \"x\" does not exist", false, "s").code(), "database_missing");
  EXPECT_EQ(ErrorFromConnect("invalid port number: \"abc\"", false, "s").code(), "invalid_store_url");
  EXPECT_EQ(ErrorFromConnect("could not translate host name", false, "s").code(), "store_unreachable");
  EXPECT_EQ(ErrorFromConnect("Connection refused", false, "s").code(), "store_unreachable");
}

TEST(SqlStateDetails, AnErrorIsOneLine) {
  EXPECT_THAT(
      ErrorFromConnect("connection failed: Connection refused\n\tIs the server running?\n", false, "s").message(),
      ::testing::HasSubstr("refused Is the server running?"));
}

TEST(SqlStateDetails, ServerTextCannotDriveATerminal) {
  const Error error = ErrorFromSqlState({.state = "22021", .message = "\x1b[2Jgone\r\n"});
  EXPECT_EQ(error.message().find('\x1b'), std::string::npos);
  EXPECT_EQ(error.message().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace sealane::postgres
