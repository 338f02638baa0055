// Every result code of SQLite that a store can meet becomes an error that says what to do.

#include "sqlite/sqlite_error.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

namespace sealane::sqlite {
namespace {

using ::testing::HasSubstr;

struct Row {
  int code;
  std::string message;
  ErrorKind kind;
  std::string name;
};

class ErrorFromSqliteTest : public ::testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(
    Codes, ErrorFromSqliteTest,
    ::testing::Values(
        Row{SQLITE_BUSY, "database is locked", ErrorKind::kConflict, "store_busy"},
        Row{SQLITE_BUSY_SNAPSHOT, "database is locked", ErrorKind::kConflict, "store_busy"},
        Row{SQLITE_LOCKED, "database table is locked", ErrorKind::kConflict, "store_busy"},
        Row{SQLITE_PROTOCOL, "locking protocol", ErrorKind::kConflict, "store_busy"},
        Row{SQLITE_SCHEMA, "database schema has changed", ErrorKind::kConflict, "schema_moved"},
        Row{SQLITE_FULL, "database or disk is full", ErrorKind::kUnavailable, "store_full"},
        Row{SQLITE_IOERR_WRITE, "disk I/O error", ErrorKind::kUnavailable, "store_io_error"},
        Row{SQLITE_IOERR_FSYNC, "disk I/O error", ErrorKind::kUnavailable, "store_io_error"},
        Row{SQLITE_NOMEM, "out of memory", ErrorKind::kUnavailable, "out_of_memory"},
        Row{SQLITE_READONLY, "attempt to write a readonly database", ErrorKind::kMisconfigured, "store_read_only"},
        Row{SQLITE_READONLY_DIRECTORY, "attempt to write", ErrorKind::kMisconfigured, "store_read_only"},
        Row{SQLITE_CANTOPEN, "unable to open database file", ErrorKind::kMisconfigured, "store_unreachable"},
        Row{SQLITE_CANTOPEN_ISDIR, "unable to open database file", ErrorKind::kMisconfigured, "store_unreachable"},
        Row{SQLITE_PERM, "access permission denied", ErrorKind::kMisconfigured, "not_permitted"},
        Row{SQLITE_AUTH, "not authorized", ErrorKind::kMisconfigured, "not_permitted"},
        Row{SQLITE_CORRUPT, "database disk image is malformed", ErrorKind::kCorrupt, "store_corrupt"},
        Row{SQLITE_CORRUPT_INDEX, "database disk image is malformed", ErrorKind::kCorrupt, "store_corrupt"},
        Row{SQLITE_NOTADB, "file is not a database", ErrorKind::kCorrupt, "store_corrupt"},
        Row{SQLITE_TOOBIG, "string or blob too big", ErrorKind::kRejected, "too_large"},
        Row{SQLITE_MISMATCH, "datatype mismatch", ErrorKind::kRejected, "invalid_value"},
        Row{SQLITE_CONSTRAINT_UNIQUE, "UNIQUE constraint failed: orders.id", ErrorKind::kRejected,
            "constraint_violated"},
        Row{SQLITE_CONSTRAINT_CHECK, "CHECK constraint failed: sealane_invalid_topic", ErrorKind::kRejected,
            "invalid_topic"},
        Row{SQLITE_CONSTRAINT_CHECK, "CHECK constraint failed: sealane_payload_too_large", ErrorKind::kRejected,
            "payload_too_large"},
        Row{SQLITE_CONSTRAINT_CHECK, "CHECK constraint failed: orders_positive", ErrorKind::kRejected,
            "constraint_violated"},
        Row{SQLITE_CONSTRAINT_TRIGGER, "sealane: duplicate event id, it exists already", ErrorKind::kRejected,
            "duplicate_event_id"},
        Row{SQLITE_CONSTRAINT_TRIGGER, "sealane: duplicate aggregate version, there is", ErrorKind::kRejected,
            "duplicate_version"},
        Row{SQLITE_CONSTRAINT_TRIGGER, "sealane: outbox rows are immutable, append", ErrorKind::kRejected,
            "immutable"},
        Row{SQLITE_CONSTRAINT_TRIGGER, "sealane: headers are a JSON object of texts", ErrorKind::kRejected,
            "invalid_headers"},
        Row{SQLITE_CONSTRAINT_TRIGGER, "a trigger of the application", ErrorKind::kRejected, "constraint_violated"},
        Row{SQLITE_INTERRUPT, "interrupted", ErrorKind::kCancelled, "interrupted"},
        Row{SQLITE_MISUSE, "bad parameter or other API misuse", ErrorKind::kMisuse, "connection_misused"},
        Row{SQLITE_ERROR, "no such table: sealane_outbox", ErrorKind::kMisconfigured, "schema_missing"},
        Row{SQLITE_ERROR, "no such table: main.sealane_outbox", ErrorKind::kMisconfigured, "schema_missing"},
        Row{SQLITE_ERROR, "no such table: orders", ErrorKind::kMisconfigured, "store_error"},
        Row{SQLITE_ERROR, "near \"SELEC\": syntax error", ErrorKind::kMisconfigured, "store_error"}));

TEST_P(ErrorFromSqliteTest, HasItsKindAndCode) {
  const Row& row = GetParam();
  const Error error = ErrorFromSqlite(row.code, row.message);
  EXPECT_EQ(error.kind(), row.kind) << row.message;
  EXPECT_EQ(error.code(), row.name) << row.message;
  EXPECT_EQ(error.native(), "sqlite " + std::to_string(row.code));
}

TEST(ErrorFromSqlite, CannotDriveATerminal) {
  EXPECT_THAT(ErrorFromSqlite(SQLITE_ERROR, "no such table: \x1b[31m").message(), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace sealane::sqlite
