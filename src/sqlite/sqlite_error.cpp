#include "sqlite/sqlite_error.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/text.hpp"
#include "outbox/migration.hpp"

namespace sealane::sqlite {
namespace {

constexpr int kPrimaryCodeMask = 0xff;

struct Row {
  int code;  // primary result code
  ErrorKind kind;
  std::string_view name;
  std::string_view hint;
};

constexpr std::array kRows = {
    Row{SQLITE_BUSY, ErrorKind::kConflict, "store_busy",
        "another transaction is writing to the file: roll back and try again, or begin with BEGIN IMMEDIATE"},
    Row{SQLITE_LOCKED, ErrorKind::kConflict, "store_busy",
        "another statement of this process holds the table: roll back and try again"},
    Row{SQLITE_PROTOCOL, ErrorKind::kConflict, "store_busy", "many processes open the file at once: try again"},
    Row{SQLITE_FULL, ErrorKind::kUnavailable, "store_full", "free space on the disk, or raise PRAGMA max_page_count"},
    Row{SQLITE_IOERR, ErrorKind::kUnavailable, "store_io_error", "look at the disk and the file's permissions"},
    Row{SQLITE_NOMEM, ErrorKind::kUnavailable, "out_of_memory", "free memory on this machine"},
    Row{SQLITE_READONLY, ErrorKind::kMisconfigured, "store_read_only",
        "make the file and its folder writable for this user, and open it for writing"},
    Row{SQLITE_CANTOPEN, ErrorKind::kMisconfigured, "store_unreachable",
        "check the path, and that this user may read and write the file and its folder"},
    Row{SQLITE_PERM, ErrorKind::kMisconfigured, "not_permitted", "check the permissions of the file and its folder"},
    Row{SQLITE_AUTH, ErrorKind::kMisconfigured, "not_permitted",
        "the connection's authorizer forbids this statement"},
    Row{SQLITE_NOLFS, ErrorKind::kMisconfigured, "store_error", "use a file system with large files"},
    Row{SQLITE_CORRUPT, ErrorKind::kCorrupt, "store_corrupt",
        "restore the file from a backup; PRAGMA integrity_check tells more"},
    Row{SQLITE_NOTADB, ErrorKind::kCorrupt, "store_corrupt", "check the path, or restore the file from a backup"},
    Row{SQLITE_TOOBIG, ErrorKind::kRejected, "too_large", "a value is larger than SQLite takes"},
    Row{SQLITE_CONSTRAINT, ErrorKind::kRejected, "constraint_violated", ""},
    Row{SQLITE_MISMATCH, ErrorKind::kRejected, "invalid_value", ""},
    Row{SQLITE_INTERRUPT, ErrorKind::kCancelled, "interrupted", ""},
    Row{SQLITE_SCHEMA, ErrorKind::kConflict, "schema_moved", "the tables changed meanwhile: try again"},
    Row{SQLITE_MISUSE, ErrorKind::kMisuse, "connection_misused",
        "the connection is closed, or another thread uses it"},
    Row{SQLITE_RANGE, ErrorKind::kMisuse, "connection_misused", ""},
};

/// Our own refusals, by the text of the trigger that makes them.
struct Refusal {
  std::string_view text;
  std::string_view name;
  std::string_view field;
};
constexpr std::array kRefusals = {
    Refusal{"sealane: duplicate event id", "duplicate_event_id", "id"},
    Refusal{"sealane: duplicate aggregate version", "duplicate_version", "aggregate_version"},
    Refusal{"sealane: outbox rows are immutable", "immutable", ""},
    Refusal{"sealane: headers", "invalid_headers", "headers"},
    Refusal{"sealane: task conflict", "task_conflict", "idempotency_key"},
};

constexpr std::string_view kCheckFailed = "CHECK constraint failed: sealane_";
constexpr std::string_view kNoSuchTable = "no such table: ";

std::optional<Error> OurRefusal(std::string_view message, const std::string& text) {
  if (message.starts_with(kCheckFailed)) {
    return Error(ErrorKind::kRejected, std::string(message.substr(kCheckFailed.size())), text);
  }
  const auto* const refusal =
      std::ranges::find_if(kRefusals, [&](const Refusal& r) { return message.starts_with(r.text); });
  if (refusal == kRefusals.end()) return std::nullopt;
  const ErrorKind kind = refusal->name == "task_conflict" ? ErrorKind::kConflict : ErrorKind::kRejected;
  return Error(kind, std::string(refusal->name), text).WithField(std::string(refusal->field));
}

bool IsMissingTable(int code, std::string_view message) {
  return code == SQLITE_ERROR && message.starts_with(kNoSuchTable) &&
         message.find("sealane_") != std::string_view::npos;
}

}  // namespace

Error ErrorFromSqlite(int code, std::string_view message) {
  const int primary = code & kPrimaryCodeMask;
  const std::string text = EscapeForTerminal(message);
  const std::string native = fmt::format("sqlite {}", code);
  if (IsMissingTable(primary, message)) return SchemaIsMissing("the SQLite file").WithNative(native);
  if (primary == SQLITE_CONSTRAINT) {
    if (auto refusal = OurRefusal(message, text)) return std::move(*refusal).WithNative(native);
  }
  const auto* const row = std::ranges::find_if(kRows, [&](const Row& r) { return r.code == primary; });
  if (row == kRows.end()) return Error(ErrorKind::kMisconfigured, "store_error", text).WithNative(native);
  return Error(row->kind, std::string(row->name), text).WithNative(native).WithHint(std::string(row->hint));
}

Error LastError(sqlite3* connection) {
  return ErrorFromSqlite(sqlite3_extended_errcode(connection), sqlite3_errmsg(connection));
}

}  // namespace sealane::sqlite
