#include "sqlite/connection.hpp"

#include <filesystem>
#include <stop_token>
#include <utility>

#include <fmt/format.h>

#include "sealane/clock.hpp"

#include "base/private_file.hpp"
#include "base/text.hpp"
#include "sqlite/sqlite_error.hpp"
#include "sqlite/statement.hpp"

namespace sealane::sqlite {
namespace {

constexpr std::chrono::milliseconds kWalRetry{5};

/// SQLite gives some names a meaning (":memory:", "", "file:..."); a path in front makes them plain files.
std::string PlainFile(const std::string& path) {
  return path.starts_with('/') ? path : "./" + path;
}

Error FileReplaced(const std::string& path) {
  const std::string shown = EscapeForTerminal(path);
  const bool is_there = FileId::At(path).has_value();
  return Error(ErrorKind::kUnavailable, "file_replaced",
               is_there ? fmt::format("{} was replaced by another file while it was open", shown)
                        : fmt::format("{} was removed while it was open", shown))
      .WithHint(
          "close the connection, open the file again and repeat the work; relays and consumers do so themselves");
}

Status RequireFile(const Options& options) {
  std::error_code ignored;
  if (!options.path.empty() && std::filesystem::exists(options.path, ignored)) return Ok();
  return Error(ErrorKind::kMisconfigured, "database_missing",
               fmt::format("there is no SQLite file {}", EscapeForTerminal(options.path)))
      .WithHint("check the path, or create the file with: sealane migrate up");
}

Result<std::string> SetWal(sqlite3* connection) {
  SEALANE_ASSIGN_OR_RETURN(Statement pragma, Statement::Prepare(connection, "PRAGMA journal_mode=WAL"));
  SEALANE_RETURN_IF_ERROR(pragma.Step());
  return pragma.Text(0);
}

}  // namespace

Status RequireCurrent(sqlite3* connection) {
  int moved = 0;
  const int asked = sqlite3_file_control(connection, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (asked != SQLITE_OK || moved == 0) return Ok();
  return FileReplaced(sqlite3_db_filename(connection, "main"));
}

Status Connection::RequireCurrent() const {
  SEALANE_RETURN_IF_ERROR(sqlite::RequireCurrent(get()));
  if (FileId::At(path_) != file_->id()) return FileReplaced(path_);
  return Ok();
}

Result<Connection> Connection::Open(const Options& options, IfMissing if_missing) {
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  if (if_missing == IfMissing::kMakeFile) {
    flags |= SQLITE_OPEN_CREATE;
    MakePrivateFile(PlainFile(options.path));
  } else {
    SEALANE_RETURN_IF_ERROR(RequireFile(options));
  }
  const std::string note = fmt::format("in SQLite file {}", EscapeForTerminal(options.path));

  sqlite3* handle = nullptr;
  const int opened = sqlite3_open_v2(PlainFile(options.path).c_str(), &handle, flags, nullptr);
  Connection connection(handle, options);  // also a failed open leaves a handle to close
  if (opened != SQLITE_OK) {
    return ErrorFromSqlite(opened, handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(opened))
        .WithContext(note);
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, static_cast<int>(options.busy_timeout.count()));
  // The schema is read here, so that a file that is no database is found out now and not at the first append.
  auto ready =
      Execute(handle, "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; SELECT 1 FROM sqlite_schema LIMIT 1");
  if (!ready) return std::move(ready).error().WithContext(note);
  // Pinned after it was opened, and compared with what is open: the path may have been given to another file between.
  connection.file_ = FilePin::Of(connection.path());
  if (connection.file_ == nullptr) return FileReplaced(options.path);
  SEALANE_RETURN_IF_ERROR(connection.RequireCurrent());
  return connection;
}

Status Connection::UseWal() {
  if (sqlite3_db_readonly(get(), "main") == 1) return Ok();
  // SQLite does not call its busy handler in every case here, so waiting is done by hand.
  Clock& clock = SystemClock::Instance();
  const BootTime deadline = clock.SinceBoot() + busy_timeout_;
  auto mode = SetWal(get());
  while (!mode && mode.error().kind() == ErrorKind::kConflict && clock.SinceBoot() < deadline) {
    clock.SleepFor(kWalRetry, std::stop_token{});
    mode = SetWal(get());
  }
  if (!mode) return std::move(mode).error().WithContext("while switching the file to WAL mode");
  if (*mode == "wal") return Ok();
  return Error(ErrorKind::kMisconfigured, "store_error", fmt::format("SQLite keeps journal mode {} here", *mode))
      .WithHint("put the file on a local file system, where WAL mode works");
}

}  // namespace sealane::sqlite
