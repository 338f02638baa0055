#pragma once

#include <memory>
#include <string>

#include <sqlite3.h>

#include "sealane/result.hpp"

#include "base/file_id.hpp"
#include "sqlite/sqlite_store.hpp"

namespace sealane::sqlite {

/// kUnavailable (`file_replaced`) when the file that this connection has open was removed or replaced: what is read
/// is old, and what is written is lost with the connection. Costs one look at the file system. Also for connections
/// of applications; one without a file is always current.
Status RequireCurrent(sqlite3* connection);

/// A connection of our own: synchronous FULL, foreign keys on, the busy timeout of the options. One owner, one
/// thread.
class Connection {
 public:
  enum class IfMissing { kFail, kMakeFile };
  static Result<Connection> Open(const Options& options, IfMissing if_missing);

  sqlite3* get() const { return handle_.get(); }
  const std::string& path() const { return path_; }
  /// The file that is open, which keeps its number while this lives.
  const std::shared_ptr<const FilePin>& file() const { return file_; }
  /// As the function of this name, and the path may also lead to another file by a link.
  Status RequireCurrent() const;
  bool in_transaction() const { return sqlite3_get_autocommit(handle_.get()) == 0; }

  /// Puts the file in WAL mode, where it stays. Needs the file for itself for a moment, waits for it at most as long
  /// as the busy timeout, and does nothing when the mode is set or the file is read-only.
  Status UseWal();

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };
  Connection(sqlite3* handle, const Options& options)
      : handle_(handle), path_(AbsolutePath(options.path)), busy_timeout_(options.busy_timeout) {}

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
  std::shared_ptr<const FilePin> file_;
  std::chrono::milliseconds busy_timeout_;
};

}  // namespace sealane::sqlite
