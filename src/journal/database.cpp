#include "journal/database.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include "base/opened_files.hpp"
#include "base/private_file.hpp"
#include "base/text.hpp"
#include "journal/schema.hpp"

namespace sealane::journal {
namespace {

constexpr std::chrono::milliseconds kBusyRetry{5};

struct Row {
  int code;  // primary result code
  ErrorKind kind;
  std::string_view name;
  std::string_view hint;
};
constexpr std::array kRows = {
    Row{SQLITE_BUSY, ErrorKind::kConflict, "journal_busy", "another process holds the journal: find out which"},
    Row{SQLITE_LOCKED, ErrorKind::kConflict, "journal_busy", "another statement of this process holds the table"},
    Row{SQLITE_PROTOCOL, ErrorKind::kConflict, "journal_busy", "many processes open the journal at once: try again"},
    Row{SQLITE_FULL, ErrorKind::kUnavailable, "journal_full", "free space on the disk, or shorten the retention"},
    Row{SQLITE_IOERR, ErrorKind::kUnavailable, "journal_io_error", "look at the disk and the file's permissions"},
    Row{SQLITE_NOMEM, ErrorKind::kUnavailable, "out_of_memory", "free memory on this machine"},
    Row{SQLITE_READONLY, ErrorKind::kMisconfigured, "journal_read_only",
        "make the journal and its folder writable for this user"},
    Row{SQLITE_CANTOPEN, ErrorKind::kMisconfigured, "journal_unreachable",
        "check the path, and that this user may read and write the file and its folder"},
    Row{SQLITE_PERM, ErrorKind::kMisconfigured, "journal_unreachable",
        "check the permissions of the file and its folder"},
    Row{SQLITE_NOTADB, ErrorKind::kMisconfigured, "not_a_journal", "give another path: this file is something else"},
    Row{SQLITE_CORRUPT, ErrorKind::kCorrupt, "journal_corrupt",
        "restore the file from a backup; PRAGMA integrity_check tells more"},
    Row{SQLITE_TOOBIG, ErrorKind::kRejected, "message_too_large", "a value is larger than SQLite takes"},
    Row{SQLITE_INTERRUPT, ErrorKind::kCancelled, "interrupted", ""},
};

/// SQLite gives some names a meaning (":memory:", "", "file:..."); a path in front makes them plain files.
std::string PlainFile(const std::string& path) {
  return path.starts_with('/') ? path : "./" + path;
}

Status RequirePath(const std::string& path, Database::IfMissing if_missing) {
  if (path.empty()) {
    return Error(ErrorKind::kMisconfigured, "journal_unreachable", "the journal has no path")
        .WithHint("write it as journal:PATH");
  }
  std::error_code ignored;
  if (if_missing == Database::IfMissing::kMakeFile || std::filesystem::exists(path, ignored)) return Ok();
  return Error(ErrorKind::kMisconfigured, "journal_missing",
               fmt::format("there is no journal {}", EscapeForTerminal(path)))
      .WithHint("check the path; the first message published to a journal makes it");
}

Error ForeignLog(const std::string& path) {
  const std::string shown = EscapeForTerminal(path);
  return Error(
             ErrorKind::kMisconfigured, "foreign_wal",
             fmt::format("{0} was replaced, and {0}-wal beside it belongs to the file that was there before", shown))
      .WithHint(fmt::format(
          "stop what writes to it, remove {0}-wal and {0}-shm, and put the copy in its place once more", shown));
}

}  // namespace

Error ErrorFromSqlite(int code, std::string_view message) {
  constexpr int kPrimaryCodeMask = 0xff;
  const std::string text = EscapeForTerminal(message);
  const std::string native = fmt::format("sqlite {}", code);
  const auto* const row =
      std::ranges::find_if(kRows, [&](const Row& r) { return r.code == (code & kPrimaryCodeMask); });
  if (row == kRows.end()) return Error(ErrorKind::kMisconfigured, "journal_error", text).WithNative(native);
  return Error(row->kind, std::string(row->name), text).WithNative(native).WithHint(std::string(row->hint));
}

Query& Query::Note(int result) {
  if (result != SQLITE_OK && bind_failure_ == SQLITE_OK) bind_failure_ = result;
  return *this;
}

Query& Query::Bind(std::int64_t value) {
  return Note(sqlite3_bind_int64(handle_.get(), ++bound_, value));
}

Query& Query::Bind(std::string_view text) {
  // A null pointer would bind SQL's null.
  const char* const data = text.empty() ? "" : text.data();
  return Note(sqlite3_bind_text64(handle_.get(), ++bound_, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

Query& Query::BindBlob(std::string_view bytes) {
  const char* const data = bytes.empty() ? "" : bytes.data();
  return Note(sqlite3_bind_blob64(handle_.get(), ++bound_, data, bytes.size(), SQLITE_STATIC));
}

Result<bool> Query::Step() {
  if (bind_failure_ != SQLITE_OK) return ErrorFromSqlite(bind_failure_, sqlite3_errstr(bind_failure_));
  const int stepped = sqlite3_step(handle_.get());
  if (stepped == SQLITE_ROW) return true;
  if (stepped == SQLITE_DONE) return false;
  sqlite3* const connection = sqlite3_db_handle(handle_.get());
  Error error = ErrorFromSqlite(sqlite3_extended_errcode(connection), sqlite3_errmsg(connection));
  Reset();
  return error;
}

Status Query::Run() {
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) break;
  }
  Reset();
  return Ok();
}

void Query::Reset() {
  sqlite3_reset(handle_.get());  // repeats the error of the last step, which its caller has seen
  sqlite3_clear_bindings(handle_.get());
  bound_ = 0;
  bind_failure_ = SQLITE_OK;
}

std::string Query::Bytes(int column) const {
  const void* const data = sqlite3_column_blob(handle_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

Result<Database> Database::Open(const std::string& path, IfMissing if_missing, std::chrono::milliseconds patience,
                                Clock& clock) {
  SEALANE_RETURN_IF_ERROR(RequirePath(path, if_missing));
  const FileChange change = ChangeOf(path);
  if (change.foreign_log) return ForeignLog(path);
  const int make = if_missing == IfMissing::kMakeFile ? SQLITE_OPEN_CREATE : 0;
  if (make != 0) MakePrivateFile(PlainFile(path));
  sqlite3* handle = nullptr;
  const int opened =
      sqlite3_open_v2(PlainFile(path).c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | make, nullptr);
  Database database(handle, path);  // also a failed open leaves a handle to close
  const std::string note = fmt::format("in journal {}", EscapeForTerminal(path));
  if (opened != SQLITE_OK) {
    return ErrorFromSqlite(opened, handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(opened))
        .WithContext(note);
  }
  sqlite3_extended_result_codes(handle, 1);
  database.SetPatience(patience);
  const auto prepare = [&]() -> Status {
    // One snapshot for the check: another process may be making the tables at this moment.
    SEALANE_RETURN_IF_ERROR(database.Execute("BEGIN"));
    const Status is_journal = database.CheckFormat();
    SEALANE_RETURN_IF_ERROR(database.Execute("COMMIT"));
    if (!is_journal) return is_journal;
    // Incremental vacuum can only be chosen before the first table; it lets retention give space back to the disk.
    SEALANE_RETURN_IF_ERROR(database.Execute("PRAGMA synchronous=FULL; PRAGMA auto_vacuum=INCREMENTAL"));
    SEALANE_RETURN_IF_ERROR(database.UseWal(patience));
    // Compared with what is open: the path may have been given to another file in between.
    database.file_ = FileId::At(database.path_).value_or(FileId{});
    SEALANE_RETURN_IF_ERROR(database.RequireCurrent());
    SEALANE_RETURN_IF_ERROR(database.MakeTables(clock.Now()));
    if (change.replaced) SEALANE_RETURN_IF_ERROR(database.CheckWhole());
    SEALANE_RETURN_IF_ERROR(database.ReadBirth());
    NoteOpened(path);
    return database.RequireCurrent();
  };
  if (auto ready = prepare(); !ready) return std::move(ready).error().WithContext(note);
  return database;
}

Status Database::UseWal(std::chrono::milliseconds patience) const {
  if (sqlite3_db_readonly(handle_.get(), "main") == 1) {
    return ErrorFromSqlite(SQLITE_READONLY, "the journal is read-only");
  }
  // SQLite does not call its busy handler in every case here, so waiting is done by hand, and in real time: who is in
  // the way is real, whatever clock the caller lives by.
  Clock& clock = SystemClock::Instance();
  const BootTime deadline = clock.SinceBoot() + patience;
  while (true) {
    const Status done = Execute("PRAGMA journal_mode=WAL");
    if (done || done.error().kind() != ErrorKind::kConflict || clock.SinceBoot() >= deadline) return done;
    clock.SleepFor(kBusyRetry, std::stop_token{});
  }
}

// A file is a journal when it says so in its header; a file without tables becomes one.
Status Database::CheckFormat() const {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t application, Number("PRAGMA application_id"));
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t format, Number("PRAGMA user_version"));
  if (application == kApplicationId) {
    if (format == kFormat) return Ok();
    return Error(ErrorKind::kMisconfigured, "journal_format_unsupported",
                 fmt::format("the journal has format {}; this program knows {}", format, kFormat))
        .WithHint("upgrade this program, or give another path");
  }
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t tables, Number("SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && tables == 0) return Ok();
  return Error(ErrorKind::kMisconfigured, "not_a_journal", "this SQLite file belongs to another program")
      .WithHint("give another path: a journal has a file of its own");
}

// In one transaction, so that several processes can open a new journal at once and none finds half of it.
Status Database::MakeTables(Timestamp now) const {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t made, Number("PRAGMA application_id"));
  if (made == kApplicationId) return Ok();
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(*this));
  SEALANE_RETURN_IF_ERROR(CheckFormat());
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t made_meanwhile, Number("PRAGMA application_id"));
  if (made_meanwhile == kApplicationId) return Ok();
  SEALANE_RETURN_IF_ERROR(Execute(kSchemaSql));
  SEALANE_RETURN_IF_ERROR(Execute(kMakeIdentitySql));
  SEALANE_ASSIGN_OR_RETURN(Query meta, Prepare("INSERT INTO journal_meta (made_at) VALUES (?)"));
  SEALANE_RETURN_IF_ERROR(meta.Bind(now).Run());
  SEALANE_RETURN_IF_ERROR(
      Execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplicationId, kFormat).c_str()));
  return transaction.Commit();
}

// A copy of a file that was in use is often torn. Found out before anything is built on it.
Status Database::CheckWhole() const {
  SEALANE_ASSIGN_OR_RETURN(Query check, Prepare("PRAGMA quick_check(1)"));
  SEALANE_ASSIGN_OR_RETURN(const bool row, check.Step());
  const std::string result = row ? check.Bytes(0) : "";
  if (result == "ok") return Ok();
  return Error(ErrorKind::kCorrupt, "journal_corrupt",
               "the journal was replaced by a file that is damaged: " + EscapeForTerminal(result))
      .WithHint("restore it from another backup, made with: sqlite3 FILE \".backup COPY\"");
}

Status Database::ReadBirth() {
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t has_table,
                           Number("SELECT count(*) FROM sqlite_schema WHERE name = 'journal_identity'"));
  if (has_table == 0) {
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(*this));
    SEALANE_RETURN_IF_ERROR(Execute(kMakeIdentitySql));
    SEALANE_RETURN_IF_ERROR(transaction.Commit());
  }
  SEALANE_ASSIGN_OR_RETURN(Query select, Prepare("SELECT value FROM journal_identity WHERE name = 'birth'"));
  SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) return Error(ErrorKind::kCorrupt, "journal_corrupt", "the journal has lost its identity");
  birth_ = select.Bytes(0);
  return Ok();
}

Result<Query> Database::Prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &statement, nullptr) != SQLITE_OK) {
    return ErrorFromSqlite(sqlite3_extended_errcode(handle_.get()), sqlite3_errmsg(handle_.get()));
  }
  return Query(statement);
}

Status Database::Execute(const char* sql) const {
  if (sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) return Ok();
  return ErrorFromSqlite(sqlite3_extended_errcode(handle_.get()), sqlite3_errmsg(handle_.get()));
}

Result<std::int64_t> Database::Number(std::string_view sql) const {
  SEALANE_ASSIGN_OR_RETURN(Query query, Prepare(sql));
  SEALANE_ASSIGN_OR_RETURN(const bool row, query.Step());
  return row ? query.Int(0) : 0;
}

void Database::SetPatience(std::chrono::milliseconds patience) const {
  sqlite3_busy_timeout(handle_.get(), static_cast<int>(patience.count()));
}

Status Database::RequireCurrent() const {
  int moved = 0;
  sqlite3_file_control(handle_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  // The path may also lead to another file by a link.
  const auto there = FileId::At(path_);
  if (moved == 0 && there == file_) return Ok();
  return Error(ErrorKind::kUnavailable, "journal_replaced",
               there ? fmt::format("journal {} was replaced by another file while it was open",
                                   EscapeForTerminal(path_))
                     : fmt::format("journal {} was removed while it was open", EscapeForTerminal(path_)))
      .WithHint("open it again; relays and consumers do so themselves");
}

Result<WriteTransaction> WriteTransaction::Begin(const Database& database) {
  SEALANE_RETURN_IF_ERROR(database.RequireCurrent());
  SEALANE_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  return WriteTransaction(database);
}

WriteTransaction::~WriteTransaction() {
  // Some errors have ended the transaction already, and then there is nothing to roll back.
  if (database_ != nullptr) static_cast<void>(database_->Execute("ROLLBACK"));
}

Status WriteTransaction::Commit() {
  SEALANE_RETURN_IF_ERROR(database_->Execute("COMMIT"));
  return std::exchange(database_, nullptr)->RequireCurrent();
}

}  // namespace sealane::journal
