#include "sqlite/write_transaction.hpp"

#include <utility>

#include <fmt/format.h>

#include "sqlite/connection.hpp"
#include "sqlite/sqlite_error.hpp"
#include "sqlite/statement.hpp"

namespace sealane::sqlite {

Status CommittedIn(sqlite3* connection) {
  auto current = RequireCurrent(connection);
  if (current) return Ok();
  return Error(ErrorKind::kInDoubt, current.error().code(), current.error().message() + ", during a commit")
      .WithHint("open the file again and look there whether the work was done before doing it again");
}

Result<WriteTransaction> WriteTransaction::Begin(sqlite3* connection) {
  SEALANE_RETURN_IF_ERROR(RequireCurrent(connection));
  SEALANE_RETURN_IF_ERROR(Execute(connection, "BEGIN IMMEDIATE"));
  return WriteTransaction(connection);
}

WriteTransaction::WriteTransaction(WriteTransaction&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)) {}

WriteTransaction::~WriteTransaction() {
  // SQLite itself has rolled back after some errors; then there is nothing left to do.
  if (connection_ != nullptr && sqlite3_get_autocommit(connection_) == 0) {
    static_cast<void>(Execute(connection_, "ROLLBACK"));
  }
}

Status WriteTransaction::Commit() {
  SEALANE_RETURN_IF_ERROR(RequireCurrent(connection_));
  if (sqlite3_exec(connection_, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK) {
    sqlite3* const connection = std::exchange(connection_, nullptr);
    return CommittedIn(connection);
  }
  const int code = sqlite3_extended_errcode(connection_);
  if (code == SQLITE_IOERR_FSYNC) {
    return Error(ErrorKind::kInDoubt, "commit_in_doubt", "the disk failed while the commit was under way")
        .WithNative(fmt::format("sqlite {}", code))
        .WithHint("look at the disk; what was written may or may not be there");
  }
  return LastError(connection_);
}

}  // namespace sealane::sqlite
