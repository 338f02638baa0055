#pragma once

#include <cstdint>
#include <string>

#include <sqlite3.h>

namespace sealane::testing {

/// A path for one test, in a folder of its own that is removed at the end. No file is there yet.
class SqliteFile {
 public:
  SqliteFile();
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }
  /// Makes the file with Sealane's tables in it.
  void Migrate() const;

 private:
  std::string folder_;
  std::string path_;
};

/// A plain SQLite connection, as an application or the sqlite3 shell would have it. Its methods fail the test when a
/// statement fails that was not expected to.
class SqliteHandle {
 public:
  explicit SqliteHandle(const std::string& path, int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  ~SqliteHandle();
  SqliteHandle(const SqliteHandle&) = delete;
  SqliteHandle& operator=(const SqliteHandle&) = delete;

  sqlite3* get() const { return handle_; }
  void Execute(const std::string& sql) const;
  /// The message of a statement that must fail; empty when it did not.
  std::string ErrorOf(const std::string& sql) const;
  /// First column of the first row; `<null>` for null, `<no row>` when there is none.
  std::string Text(const std::string& sql) const;
  /// The same, for those who can try again: std::runtime_error when it cannot be read.
  std::string TextOrThrow(const std::string& sql) const;
  std::int64_t Number(const std::string& sql) const;

 private:
  sqlite3* handle_ = nullptr;
};

}  // namespace sealane::testing
