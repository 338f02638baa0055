#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <sqlite3.h>

#include "sealane/clock.hpp"
#include "sealane/result.hpp"

#include "base/file_id.hpp"

namespace sealane::journal {

/// The one place that translates SQLite's result codes for the journal. kConflict (`journal_busy`): somebody else
/// writes; kUnavailable: the disk; kMisconfigured and kCorrupt: a person has to look.
Error ErrorFromSqlite(int code, std::string_view message);

/// A prepared statement. Values are bound in order, then it is stepped; Reset() makes it ready for the next values.
/// Bound texts are not copied: they stay until the statement was stepped.
class Query {
 public:
  Query() = default;  ///< to be assigned
  Query& Bind(std::int64_t value);
  Query& Bind(std::string_view text);
  Query& Bind(Timestamp time) { return Bind(std::int64_t{time.time_since_epoch().count()}); }
  Query& BindBlob(std::string_view bytes);

  /// True when there is a row.
  Result<bool> Step();
  /// Steps to the end and resets.
  Status Run();
  void Reset();

  std::int64_t Int(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  bool IsNull(int column) const { return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL; }
  Timestamp Time(int column) const { return Timestamp{std::chrono::microseconds{Int(column)}}; }
  /// The bytes of a text or a blob.
  std::string Bytes(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  explicit Query(sqlite3_stmt* handle) : handle_(handle) {}
  Query& Note(int result);

  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int bound_ = 0;
  int bind_failure_ = SQLITE_OK;
};

/// A connection to a journal: its tables are there and of the format we know, WAL mode is on, commits are
/// synchronous. One owner, one thread.
class Database {
 public:
  enum class IfMissing : std::uint8_t { kFail, kMakeFile };
  /// Waits for others at most `patience`, here and in every statement later on, unless SetPatience() changes it.
  static Result<Database> Open(const std::string& path, IfMissing if_missing, std::chrono::milliseconds patience,
                               Clock& clock);

  Result<Query> Prepare(std::string_view sql) const;
  Status Execute(const char* sql) const;
  /// The number that a statement answers with.
  Result<std::int64_t> Number(std::string_view sql) const;
  void SetPatience(std::chrono::milliseconds patience) const;
  /// kUnavailable (`journal_replaced`) when the file was removed or replaced: what is written now, no reader will
  /// see.
  Status RequireCurrent() const;
  /// 32 hex digits that were drawn when this journal was made; a copy of the file has the same.
  const std::string& birth() const { return birth_; }

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };
  Database(sqlite3* handle, const std::string& path) : handle_(handle), path_(AbsolutePath(path)) {}
  Status UseWal(std::chrono::milliseconds patience) const;
  Status MakeTables(Timestamp now) const;
  Status CheckFormat() const;
  Status CheckWhole() const;
  Status ReadBirth();

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
  FileId file_;  // while it is open, no other file has its number
  std::string birth_;
};

/// A write transaction, rolled back unless it was committed.
class WriteTransaction {
 public:
  /// kUnavailable (`journal_replaced`) when the file is no longer the one behind its path.
  static Result<WriteTransaction> Begin(const Database& database);
  WriteTransaction(WriteTransaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  WriteTransaction& operator=(WriteTransaction&&) = delete;
  ~WriteTransaction();
  /// `journal_replaced` also when it was replaced during the commit: only the journal that is there now can tell
  /// whether it has what was written.
  Status Commit();

 private:
  explicit WriteTransaction(const Database& database) : database_(&database) {}
  const Database* database_;  // null: ended
};

}  // namespace sealane::journal
